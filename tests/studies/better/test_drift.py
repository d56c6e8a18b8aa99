"""What stands in the results of worlds that move."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from studies.better.drift import MOVING

DOCS = Path(__file__).parents[3] / "docs" / "better"


@pytest.mark.parametrize("name", MOVING)
def test_means_over_seeds_are_those_of_the_seeds(name):
    for row in json.loads((DOCS / f"{name}.json").read_text("utf-8"))["rows"]:
        for key in ("daily", "depth", "length", "money"):
            assert row[key][0] == pytest.approx(np.mean(row[f"{key}_by_seed"]), abs=1e-5)


def test_p_is_corrected_for_the_number_of_worlds():
    """How long dips last beside `headgate`: p as the page has it, against Holm's rule written out."""
    own = {}
    for name in MOVING:
        rows = {row["policy"]: row for row in json.loads((DOCS / f"{name}.json").read_text("utf-8"))["rows"]}
        own[name] = stats.ttest_rel(rows["alert"]["length_by_seed"], rows["headgate"]["length_by_seed"]).pvalue
    smaller = {name: [p for p in own.values() if p <= own[name]] for name in own}
    corrected = [min(1.0, max((len(own) - k) * p for k, p in enumerate(sorted(smaller[name])))) for name in MOVING]
    lines = [
        line
        for line in (DOCS / "drift.md").read_text("utf-8").splitlines()
        if "| `headgate` | " in line and " money (p" in line
    ]
    said = [re.search(r"rounds \(p (?:=|<) ([^)]+)\)", line)[1].replace("−", "-") for line in lines]
    assert [float(p) for p in said] == pytest.approx(corrected, rel=0.06, abs=1e-12)


def test_the_headline_says_where_alert_ends_lower_too():
    lower = 0
    for name in MOVING:
        rows = {row["policy"]: row for row in json.loads((DOCS / f"{name}.json").read_text("utf-8"))["rows"]}
        gap = stats.ttest_rel(rows["alert"]["last_by_seed"], rows["headgate"]["last_by_seed"])
        lower += gap.confidence_interval(0.95).high < 0
    page = (DOCS / "drift.md").read_text("utf-8")
    headline = re.search(
        r"^\*\*Of .*ends higher and ends lower:\*\* beside `headgate` (\d+), (\d+), (\d+) and (\d+);", page, re.M
    )
    assert int(headline[4]) == lower > int(headline[3])
