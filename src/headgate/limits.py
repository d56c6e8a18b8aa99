"""Limits on the size of input. Each limit is stated here once, and for users in
docs/reference/recipes.md.

Sizes are checked before memory is allocated. The environment variable HEADGATE_MEMORY,
in GiB, sets how much may be used.
"""

import os

from headgate.errors import SettingError
from headgate.escaping import shown

NUMBER = 1e15
"""the largest number of a setting: whole numbers are exact as floats, and squares and
products stay finite
"""
TINY = 1e-100
"""the smallest number of a setting that must be above zero: its square and its inverse
stay finite and above zero
"""
CLIENTS = 10_000_000
ROUNDS = 1_000_000
"""the most rounds of a run, and the largest value of any setting in rounds"""
SEEDS = 10_000
SAMPLES = 10**9
"""the most places of a client's buffer"""
LEVELS = 1_000
"""the most levels of prices that jump between levels"""
POINTS = 10_000
"""the most points of a sweep"""
PRICES = 10_000_000
"""the most prices of a trace"""
PURCHASES = 20_000
"""the most rows of a file that is replayed, and the largest product of its times and
clients
"""
CONCEPTS = 256
"""the most concepts between which a world changes"""
WINDOW = 1_000
"""the most samples that a client can choose from for each label that it buys"""
COLUMNS = 100_000
"""the most columns of a user's own table of data"""
CLASSES = 1_000
"""the most classes of the label of such a table"""

LARGEST = 2**53
"""the largest whole number in a message or a count"""
LINE = 200
"""the most characters of a line of text in accounts and messages"""
LISTED = 2**16
"""the most rounds that one answer may report"""
RUNS = 100_000
"""the most runs, policies times seeds, of a run folder"""
JSON = 8 * 2**20
"""the most bytes of a JSON file in a run folder"""
TABLE = 128 * 2**20
"""the most bytes of one table of a run that is listed or shown on the page"""

RECIPE = 32 * 2**20
"""the most bytes of a recipe"""
DEPTH = 20
"""the deepest nesting of keys in an override"""
TEXT = 10_000
"""the most characters of a text in a user's own table of data"""

MEMORY = 2.0
"""the GiB of memory that a rehearsal or a file may take, unless HEADGATE_MEMORY is set
"""


def memory() -> float:
    """Return the bytes of memory that may be taken."""
    stated = os.environ.get("HEADGATE_MEMORY", "")
    try:
        gib = float(stated) if stated else MEMORY
    except ValueError:
        gib = -1.0
    if not 0 < gib <= 2**20:
        raise SettingError(
            f"HEADGATE_MEMORY = {shown(stated)}: must be a number of GiB"
        )
    return gib * 2**30


def check_memory(what: str, wanted: float) -> None:
    """Raise SettingError if so many bytes may not be taken; `what` names the setting,
    its value and what needs the memory.
    """
    if wanted > memory():
        raise SettingError(
            f"{what} about {wanted / 2**30:,.1f} GiB of memory; at most"
            f" {memory() / 2**30:g} (HEADGATE_MEMORY)"
        )
