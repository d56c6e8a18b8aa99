"""One run builds each thing once and reads nothing back that it holds: counted in a
process of its own.
"""

import re
from pathlib import Path

TOOL = Path(__file__).parents[1] / "tools" / "trace.py"
MOST = {
    "functions": 430,
    "files": 67,
    "Simulation built": 1,
    "Experiment built": 1,
    "tables opened": 2,
}
"""the checks of a system at the border are six functions of 430"""


def test_a_run_takes_one_path(python):
    found = {
        name: int(number)
        for name, number in re.findall(r"^([\w ]+): (\d+)$", python(TOOL)[0], re.M)
    }
    assert found.keys() == MOST.keys()
    assert {
        name: number for name, number in found.items() if not 0 < number <= MOST[name]
    } == {}
