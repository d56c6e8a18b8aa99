"""docs/better/savings.md says what the committed results beside it say, and they are of the recipes that come with headgate."""

import json
from pathlib import Path
from shutil import copy

import pytest

from headgate.analysis.savings import savings
from studies.better.savings import BUDGETS, PAGE, SAVINGS, conclude_savings, judged, places
from studies.better.studies import study

DOCS = Path(__file__).parents[3] / "docs" / "better"
FOUND = {name: json.loads((DOCS / f"{name}.json").read_text("utf-8")) for name in SAVINGS}


def test_the_page_is_that_of_the_committed_results(tmp_path):
    for name in SAVINGS:
        copy(DOCS / f"{name}.json", tmp_path)
    (page,) = conclude_savings(tmp_path, quick=False)
    assert page.read_text("utf-8") == (DOCS / PAGE).read_text("utf-8"), (
        "python -m studies reproduce savings --pages docs/better"
    )
    assert (tmp_path / "savings.svg").is_file()


@pytest.mark.parametrize("name", SAVINGS)
def test_the_recipe_is_the_one_that_was_run(name):
    rows, points = FOUND[name]["rows"], study(name).points
    asked = {(e.system.budget, policy) for _, e in points for policy in e.policies}
    assert {(row["budget"], row["policy"]) for row in rows} == asked
    assert len({e.system.budget for _, e in points}) >= 5
    assert BUDGETS[name] in {e.system.budget for _, e in points}
    first = points[0][1]
    seeds = set(first.seeds.tolist())
    assert min(seeds) == 5000  # no other study has any of them
    assert all(set(row["learnt"]) <= seeds and row["seeds"] + row["diverged"] == len(seeds) for row in rows)
    assert all(row["kept_limits"] for row in rows)  # everybody is held to the money and the buffers


def test_one_row_for_each_model_and_kind_of_price():
    found = places({name: FOUND[name]["rows"] for name in SAVINGS})
    text = (DOCS / PAGE).read_text("utf-8")
    first = text.split("\n\n")[1]
    assert len(found) == len({(each.study, each.prices) for each in found}) >= 20
    assert sum(line.startswith(f"| {each.called} |") for each in found[:1] for line in text.splitlines()) >= 3
    saves = [each for each in found if judged(each.at_main_budget("constant")) == "saves"]
    assert f"in {len(saves)} of {len(found)} rows" in " ".join(first.split())
    still = [each for each in found if each.called == "never move"]
    assert still
    assert not set(still) & set(saves)


def test_a_row_is_what_the_savings_of_its_runs_say():
    (place,) = (each for each in places({"savings-night": FOUND["savings-night"]["rows"]}))
    (one,) = (one for one in savings(place.rows, "even") if (one.policy, one.budget) == ("headgate", BUDGETS["savings-night"]))
    assert place.at_main_budget("even") == one
    assert place.at_main_budget("nobody") is None
