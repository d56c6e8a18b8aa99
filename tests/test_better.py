"""docs/better/README.md says what the committed results say, and the results keep what the page says of them."""

import json
import runpy
from pathlib import Path

import pytest

from headgate.experiment import load

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "better.py"))
FOUND = TOOL["load"]()


def test_the_page_is_up_to_date():
    assert TOOL["PAGE"].read_text("utf-8") == TOOL["page"](), "run python tools/better.py"
    assert TOOL["FRONT"].is_file()


@pytest.mark.parametrize("name", TOOL["STUDIES"])
def test_the_recipe_beside_a_study_is_the_one_that_was_run(name):
    recipe = load(str(ROOT / "docs" / "better" / f"{name}.toml"))
    assert list(dict.fromkeys(row["policy"] for row in FOUND[name])) == list(recipe.policies)
    assert {row["seeds"] + row["diverged"] for row in FOUND[name]} == {len(recipe.seeds)}
    assert {row["rounds"] for row in FOUND[name]} == {recipe.rounds}
    assert recipe.system.budget in {row["budget"] for row in FOUND[name]}


@pytest.mark.parametrize("name", TOOL["STUDIES"])
def test_headgate_kept_both_limits_in_every_run_and_round(name):
    for row in (row for row in FOUND[name] if row["policy"] == "headgate"):
        assert row["kept_limits"]
        assert (row["overspent_runs"], row["diverged"]) == (0, 0)
        assert row["worst_spend"] <= row["budget"] * (1 + 1e-9)
        assert row["worst_excess"] <= 0


def test_the_surrogate_stays_near_what_is_possible():
    rows = json.loads((ROOT / "docs" / "better" / "regret.json").read_text("utf-8"))
    ratio = {(row["prices"], row["policy"]): row["ratio"] for row in rows}
    assert ratio["uniform", "headgate"] <= 1.1
    assert max(ratio[name, "headgate"] for name in ("markov", "seasonal", "drift up", "drift down")) <= 1.2
    assert all(ratio[name, "headgate"] <= ratio[name, "constant"] for name, _ in ratio)
    assert all(row["overspending_runs"] == 0 and row["peak_excess"] <= 0 for row in rows if row["policy"] == "headgate")
