"""The version of the installed package, and the folder that holds it."""

from importlib.metadata import version
from pathlib import Path

__version__ = version("headgate")
PACKAGE = Path(__file__).parent
