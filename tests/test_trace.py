"""One run builds each thing once and reads nothing back that it holds: counted in a
process of its own.
"""

import re
from pathlib import Path

TOOL = Path(__file__).parents[1] / "tools" / "trace.py"
MOST = {"Simulation built": 1, "Experiment built": 1, "tables opened": 2}


def test_a_run_takes_one_path(python):
    found = {
        name: int(number)
        for name, number in re.findall(r"^([\w ]+): (\d+)$", python(TOOL)[0], re.M)
    }
    assert {
        name: found[name] for name in MOST if not 0 < found[name] <= MOST[name]
    } == {}
