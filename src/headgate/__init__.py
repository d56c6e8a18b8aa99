"""headgate: adaptive data admission and retention for streaming federated learning."""

from importlib.metadata import version

__version__ = version("headgate")
