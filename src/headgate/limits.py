"""How large input may be. Each limit is stated here once, and for users in docs/reference/recipes.md.

Sizes are checked before memory is taken. Who has more memory to give says so: HEADGATE_MEMORY, in GiB.
"""

import os

from headgate.errors import SettingError
from headgate.escaping import shown

NUMBER = 1e15
"""the largest number of a setting: whole numbers are exact as floats, and squares and products stay finite"""
TINY = 1e-100
"""the least one of those that must be above zero: its square and its inverse are numbers still"""
CLIENTS = 10_000_000
ROUNDS = 1_000_000
"""of a run, and of whatever is counted in rounds"""
SEEDS = 10_000
SAMPLES = 10**9
"""places of a client"""
LEVELS = 1_000
"""of prices that jump between levels"""
POINTS = 10_000
"""of a sweep"""
PRICES = 10_000_000
"""of a trace"""
PURCHASES = 20_000
"""of a file that is replayed: rows, and times multiplied by clients"""
CONCEPTS = 256
"""between which a world changes"""
WINDOW = 1_000
"""samples that a client has before it for each label that it buys"""
COLUMNS = 100_000
"""of a table of one's own"""
CLASSES = 1_000
"""of its label"""

RUNS = 100_000
"""policies times seeds of a run folder"""
JSON = 8 * 2**20
"""bytes of a state, or of another file of JSON in a run folder"""
TABLE = 128 * 2**20
"""bytes of one table of a run that is listed or shown on the page"""

RECIPE = 32 * 2**20
"""bytes of a recipe"""
DEPTH = 20
"""keys within one another that an override names"""
TEXT = 10_000
"""characters of a text in a table of one's own"""

MEMORY = 2.0
"""GiB that a rehearsal or a file may take, where HEADGATE_MEMORY says nothing else"""


def memory() -> float:
    """Bytes that may be taken."""
    said = os.environ.get("HEADGATE_MEMORY", "")
    try:
        gib = float(said) if said else MEMORY
    except ValueError:
        gib = -1.0
    if not 0 < gib <= 2**20:
        raise SettingError(f"HEADGATE_MEMORY = {shown(said)}: must be a number of GiB")
    return gib * 2**30


def check_memory(what: str, wanted: float) -> None:
    """That this many bytes may be taken; `what` says the setting, its value and what takes them."""
    if wanted > memory():
        raise SettingError(f"{what} about {wanted / 2**30:,.1f} GiB of memory; at most {memory() / 2**30:g} (HEADGATE_MEMORY)")
