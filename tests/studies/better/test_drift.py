"""What stands in the results of worlds that move."""

import json
from pathlib import Path

import numpy as np
import pytest

from headgate.studies.better.drift import MOVING

DOCS = Path(__file__).parents[3] / "docs" / "better"


@pytest.mark.parametrize("name", MOVING)
def test_means_over_seeds_are_those_of_the_seeds(name):
    for row in json.loads((DOCS / f"{name}.json").read_text("utf-8"))["rows"]:
        for key in ("daily", "depth", "length", "money"):
            assert row[key][0] == pytest.approx(np.mean(row[f"{key}_by_seed"]), abs=1e-5)
