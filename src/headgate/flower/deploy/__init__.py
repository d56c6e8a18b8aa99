"""Deployments of Flower behind nginx: their files (certificates, configuration, units),
and a local one to try them.
"""

__all__ = ["certificates", "deployment"]
