"""The paper's equations that the package uses, as pure functions of numbers.

The equations that only studies use are in `studies.paper.theory`.
"""

__all__ = ["bound", "comparison", "labels", "reuse"]
