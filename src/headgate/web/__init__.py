"""The page: a server that shows run folders while they are written, and plans runs.

It writes no files. Its modules are imported one by one.
"""

__all__ = [
    "answers",
    "api",
    "compare",
    "metrics",
    "planning",
    "runs",
    "security",
    "serving",
    "starts",
]
