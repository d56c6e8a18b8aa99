"""docs/better/drift.md says what the committed results say, and all that could be used kept their limits."""

import json
import shlex
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import numpy as np
import pytest

from headgate.cli import main
from headgate.experiment import load
from headgate.studies.better.drift import DRIFT, MOVING, PAGE, paired
from headgate.studies.better.studies import study

DOCS = Path(__file__).parents[3] / "docs" / "better"
FOUND = {name: json.loads((DOCS / f"{name}.json").read_text("utf-8")) for name in DRIFT}


def headgate(monkeypatch, capsys, *words, code=0):
    monkeypatch.setattr(sys, "argv", ["headgate", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert (end.value.code or 0) == code, err
    return out, err


def test_a_difference_is_taken_seed_by_seed_over_those_that_both_have():
    one = {"policy": "one", "learnt": [1, 2, 3, 4], "length_by_seed": [5.0, 7.0, 9.0, None]}
    other = {"policy": "other", "learnt": [2, 3, 4, 5], "length_by_seed": [6.0, 5.0, 1.0, 1.0]}
    gap = paired(one, other, "length")
    assert (gap.mean, gap.runs) == (2.5, 2)
    daily = paired({**one, "daily_by_seed": [0.5] * 4}, {**other, "daily_by_seed": [0.4, 0.45, 0.5, 0.1]}, "daily")
    assert (round(daily.mean, 9), daily.runs) == (5.0, 3)


def test_a_trial_of_the_whole_chain(tmp_path, monkeypatch, capsys):
    out, err = headgate(monkeypatch, capsys, "reproduce", "drift", "--quick", "--quiet", "--out", tmp_path)
    page = tmp_path / "better" / PAGE
    assert out.split() == [str(page)]
    assert "a trial run" in err
    text = page.read_text("utf-8")
    assert "A trial run" in text
    assert "nan" not in text
    for name in DRIFT:
        rows = json.loads((page.parent / f"{name}.json").read_text("utf-8"))["rows"]
        assert all(("daily_by_seed" in row) == (name != "drift-calm") for row in rows)
    _, err = headgate(monkeypatch, capsys, "reproduce", "drift", "--quiet", "--out", tmp_path, code=4)
    assert "real results would be mixed" in err


def test_what_would_be_run_is_said(monkeypatch, capsys):
    out, _ = headgate(monkeypatch, capsys, "reproduce", "drift", "--list")
    assert out.splitlines() == [study(name).command for name in DRIFT]


def test_the_page_is_up_to_date(tmp_path, monkeypatch, capsys):
    """Nothing is run: every comparison has its numbers beside the page."""
    pages = copytree(DOCS, tmp_path / "pages", ignore=ignore_patterns("*.svg", PAGE))
    headgate(monkeypatch, capsys, "reproduce", "drift", "--quiet", "--out", tmp_path / "out", "--pages", pages)
    assert not (tmp_path / "out").exists()
    made = (pages / PAGE).read_text("utf-8")
    assert made == (DOCS / PAGE).read_text("utf-8"), "run headgate reproduce drift --pages docs/better"


@pytest.mark.parametrize("name", DRIFT)
def test_the_recipe_is_the_one_that_was_run(name):
    own, rows = study(name), FOUND[name]["rows"]
    recipe = own.points[0][1]
    assert FOUND[name]["command"] == own.command
    assert load(shlex.split(own.command)[2]).name == name
    assert [row["policy"] for row in rows] == list(recipe.policies)
    assert {row["seeds"] + row["diverged"] for row in rows} == {len(recipe.seeds)}
    assert {row["rounds"] for row in rows} == {recipe.rounds}


@pytest.mark.parametrize("name", DRIFT)
def test_all_but_the_oracle_kept_both_limits_in_every_run_and_round(name):
    for row in (row for row in FOUND[name]["rows"] if not row["reference"]):
        assert row["kept_limits"], row["policy"]
        assert row["worst_spend"] <= row["budget"] * (1 + 1e-9)


@pytest.mark.parametrize("name", MOVING)
def test_means_over_seeds_are_those_of_the_seeds(name):
    for row in FOUND[name]["rows"]:
        for key in ("daily", "depth", "length", "money"):
            assert row[key][0] == pytest.approx(np.mean(row[f"{key}_by_seed"]), abs=1e-5)
