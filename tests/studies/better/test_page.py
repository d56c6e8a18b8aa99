"""docs/better/README.md says what the committed results say, and the results keep what the page says of them."""

import json
import shlex
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from headgate.analysis import comparison as compared
from headgate.analysis.pages import words
from headgate.experiment import load
from studies.better.page import FRONT, PAGE, REGRET, RESPONSE
from studies.better.studies import NAMES, study

DOCS = Path(__file__).parents[3] / "docs" / "better"
FOUND = {name: json.loads(page.read_text("utf-8")) for name in NAMES if (page := DOCS / f"{name}.json").is_file()}


def test_the_page_is_up_to_date(tmp_path, studies):
    """Nothing is run: every comparison has its numbers beside the page."""
    pages = copytree(DOCS, tmp_path / "pages", ignore=ignore_patterns("*.svg", PAGE))
    studies("reproduce", "better", "--quiet", "--out", tmp_path / "out", "--pages", pages)
    assert not (tmp_path / "out").exists()
    made = (pages / PAGE).read_text("utf-8")
    assert made == (DOCS / PAGE).read_text("utf-8"), "run python -m studies reproduce better --pages docs/better"
    assert (pages / FRONT).stat().st_size > 5000
    assert (DOCS / FRONT).is_file()
    assert (pages / RESPONSE).stat().st_size > 5000
    assert (DOCS / RESPONSE).is_file()


@pytest.mark.parametrize("name", FOUND)
def test_the_recipe_of_a_study_is_the_one_that_was_run(name):
    own, rows = study(name), FOUND[name]["rows"]
    recipe = own.points[0][1]
    assert list(dict.fromkeys(row["policy"] for row in rows)) == list(recipe.policies)
    assert {row["seeds"] + row["diverged"] for row in rows} == {len(recipe.seeds)}
    assert {row["rounds"] for row in rows} == {recipe.rounds}
    assert {row["budget"] for row in rows} == {experiment.system.budget for _, experiment in own.points}


@pytest.mark.parametrize("name", FOUND)
def test_the_command_of_a_study_is_the_one_on_its_page(name):
    command = study(name).command
    assert FOUND[name]["command"] == command
    _, purpose, setting_and_more = (DOCS / f"{name}.md").read_text("utf-8").split("\n\n", 2)
    assert purpose == words(compared.__file__)["comparison"]["purpose"]
    assert f"`{command}`" in setting_and_more
    assert load(shlex.split(command)[2]).name == name


@pytest.mark.parametrize("name", FOUND)
def test_headgate_kept_both_limits_in_every_run_and_round(name):
    for row in (row for row in FOUND[name]["rows"] if row["policy"] == "headgate"):
        assert row["kept_limits"]
        assert row["overspent_runs"] == 0
        # a LeNet may break down on the few samples that eight rounds' budgets buy at a peak of the price
        assert row["diverged"] == (2 if name == "ercot-lenet" else 0)
        assert row["worst_spend"] <= row["budget"] * (1 + 1e-9)
        assert row["worst_excess"] <= 0


def test_the_surrogate_stays_near_what_is_possible():
    rows = json.loads((DOCS / REGRET).read_text("utf-8"))
    ratio = {(row["prices"], row["policy"]): row["ratio"] for row in rows}
    drifting = ("markov", "seasonal", "drift up", "drift down")
    for policy, even, drift in (("headgate, early 0.25", 1.1, 1.2), ("headgate", 1.13, 1.29)):
        assert ratio["uniform", policy] <= even
        assert max(ratio[name, policy] for name in drifting) <= drift
    assert all(ratio[name, "headgate"] <= ratio[name, "constant"] for name, _ in ratio)
    assert all(row["overspending_runs"] == 0 and row["peak_excess"] <= 0 for row in rows if row["policy"] == "headgate")


def test_a_trial_of_the_whole_chain(tmp_path, studies):
    out, err = studies("reproduce", "better", "--quick", "--quiet", "--out", tmp_path)
    pages = tmp_path / "better"
    assert out.split() == [str(pages / PAGE), str(pages / FRONT), str(pages / RESPONSE)]
    assert "a trial run" in err
    text = (pages / PAGE).read_text("utf-8")
    assert "A trial run" in text
    assert "nan" not in text
    for name in NAMES:
        assert json.loads((pages / f"{name}.json").read_text("utf-8"))["quick"]
    _, err = studies("reproduce", "better", "--quiet", "--out", tmp_path, code=4)
    assert "real results would be mixed" in err
