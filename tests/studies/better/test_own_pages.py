"""docs/better/drift.md and looking.md say what the committed results beside them say."""

import json
import shlex
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from headgate.analysis import comparison as compared
from headgate.analysis.pages import words
from headgate.experiment import load
from studies.better import drift, looking
from studies.better.seed_by_seed import paired, with_p
from studies.better.studies import study

DOCS = Path(__file__).parents[3] / "docs" / "better"
PAGES = {"drift": (drift.PAGE, drift.DRIFT), "looking": (looking.PAGE, looking.LOOKING)}
NAMES = [name for name in (*drift.DRIFT, *looking.LOOKING) if (DOCS / f"{name}.json").is_file()]
"""those that were run; some take a GPU"""
FOUND = {name: json.loads((DOCS / f"{name}.json").read_text("utf-8")) for name in NAMES}
NO_PURSE = {"drift": ("oracle",), "looking": ("oracle", "constant")}


def test_a_difference_is_taken_seed_by_seed_over_those_that_both_have():
    one = {"policy": "one", "learnt": [1, 2, 3, 4], "length_by_seed": [5.0, 7.0, 9.0, None]}
    other = {"policy": "other", "learnt": [2, 3, 4, 5], "length_by_seed": [6.0, 5.0, 1.0, 1.0]}
    gap = paired(one, other, "length", 1.0)
    assert (gap.mean, gap.runs) == (2.5, 2)
    daily = paired({**one, "daily_by_seed": [0.5] * 4}, {**other, "daily_by_seed": [0.4, 0.45, 0.5, 0.1]}, "daily")
    assert (round(daily.mean, 9), daily.runs) == (5.0, 3)
    assert with_p(gap, 1, "rounds").startswith("+2.5 ± ")
    assert " rounds (p = " in with_p(gap, 1, "rounds")


@pytest.mark.parametrize("what", PAGES)
def test_a_trial_of_the_whole_chain(what, tmp_path, studies):
    out, err = studies("reproduce", what, "--quick", "--quiet", "--out", tmp_path)
    page, names = PAGES[what]
    made = tmp_path / "better" / page
    assert out.split() == [str(made)]
    assert "a trial run" in err
    text = made.read_text("utf-8")
    assert "A trial run" in text
    assert "nan" not in text
    for name in names:
        rows = json.loads((made.parent / f"{name}.json").read_text("utf-8"))["rows"]
        assert all(("daily_by_seed" in row) == ("calm" not in name) for row in rows)
        assert words(compared.__file__)["comparison"]["purpose"] in (made.parent / f"{name}.md").read_text("utf-8").split(
            "\n\n"
        )
    _, err = studies("reproduce", what, "--quiet", "--out", tmp_path, code=4)
    assert "real results would be mixed" in err


@pytest.mark.parametrize("what", PAGES)
def test_what_would_be_run_is_said(what, studies):
    out, _ = studies("reproduce", what, "--list")
    assert out.splitlines() == [study(name).command for name in PAGES[what][1]]


@pytest.mark.parametrize("what", PAGES)
def test_the_page_is_up_to_date(what, tmp_path, studies):
    """Nothing is run: every comparison has its numbers beside the page."""
    page, _ = PAGES[what]
    pages = copytree(DOCS, tmp_path / "pages", ignore=ignore_patterns("*.svg", page))
    studies("reproduce", what, "--quiet", "--out", tmp_path / "out", "--pages", pages)
    assert not (tmp_path / "out").exists()
    made = (pages / page).read_text("utf-8")
    assert made == (DOCS / page).read_text("utf-8"), f"run python -m studies reproduce {what} --pages docs/better"


@pytest.mark.parametrize("name", NAMES)
def test_the_recipe_is_the_one_that_was_run(name):
    own, rows = study(name), FOUND[name]["rows"]
    recipe = own.points[0][1]
    assert FOUND[name]["command"] == own.command
    assert load(shlex.split(own.command)[2]).name == name
    assert [row["policy"] for row in rows] == list(recipe.policies)
    assert {row["seeds"] + row["diverged"] for row in rows} == {len(recipe.seeds)}
    assert {row["rounds"] for row in rows} == {recipe.rounds}


@pytest.mark.parametrize("name", NAMES)
def test_whoever_has_a_purse_kept_both_limits_in_every_run_and_round(name):
    without = NO_PURSE[name.partition("-")[0]]
    for row in (row for row in FOUND[name]["rows"] if row["policy"] not in without):
        assert row["kept_limits"], row["policy"]
        assert row["worst_spend"] <= row["budget"] * (1 + 1e-9)
