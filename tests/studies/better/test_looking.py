"""docs/better/looking.md says what the committed results say; rules are put beside lots, and all paid for their looks."""

import json
import shlex
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from headgate.cli import main
from headgate.experiment import load
from headgate.studies.better.looking import BUYING, LOOKING, PAGE, gaps_beside_lots
from headgate.studies.better.studies import study

DOCS = Path(__file__).parents[3] / "docs" / "better"
FOUND = {name: json.loads(page.read_text("utf-8")) for name in LOOKING if (page := DOCS / f"{name}.json").is_file()}


def headgate(monkeypatch, capsys, *words, code=0):
    monkeypatch.setattr(sys, "argv", ["headgate", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert (end.value.code or 0) == code, err
    return out, err


def test_rules_are_put_beside_lots_seed_by_seed_and_p_is_corrected():
    noisy = [0.81, 0.79, 0.80, 0.82]
    rows = [{"policy": name, "learnt": [1, 2, 3, 4], "best_by_seed": noisy} for name in ("random", *BUYING[1:])]
    rows.append({"policy": BUYING[0], "learnt": [2, 3, 4, 5], "best_by_seed": [0.80, 0.82, 0.83, 0.1]})
    gaps = gaps_beside_lots(rows, "headgate", "best")
    assert list(gaps) == list(BUYING)
    assert (round(gaps[BUYING[0]].mean, 6), gaps[BUYING[0]].runs) == (1.333333, 3)
    assert all(gaps[rule].mean == 0 for rule in BUYING[1:])


def test_a_trial_of_the_whole_chain(tmp_path, monkeypatch, capsys):
    out, err = headgate(monkeypatch, capsys, "reproduce", "looking", "--quick", "--quiet", "--out", tmp_path)
    page = tmp_path / "better" / PAGE
    assert out.split() == [str(page)]
    assert "a trial run" in err
    text = page.read_text("utf-8")
    assert "A trial run" in text
    assert "nan" not in text
    _, err = headgate(monkeypatch, capsys, "reproduce", "looking", "--quiet", "--out", tmp_path, code=4)
    assert "real results would be mixed" in err


@pytest.mark.skipif(len(FOUND) < len(LOOKING), reason="not run yet")
def test_the_page_is_up_to_date(tmp_path, monkeypatch, capsys):
    """Nothing is run: every comparison has its numbers beside the page."""
    pages = copytree(DOCS, tmp_path / "pages", ignore=ignore_patterns("*.svg", PAGE))
    headgate(monkeypatch, capsys, "reproduce", "looking", "--quiet", "--out", tmp_path / "out", "--pages", pages)
    assert not (tmp_path / "out").exists()
    made = (pages / PAGE).read_text("utf-8")
    assert made == (DOCS / PAGE).read_text("utf-8"), "run headgate reproduce looking --pages docs/better"


@pytest.mark.parametrize("name", FOUND)
def test_the_recipe_is_the_one_that_was_run(name):
    own, rows = study(name), FOUND[name]["rows"]
    recipe = own.points[0][1]
    assert FOUND[name]["command"] == own.command
    assert load(shlex.split(own.command)[2]).name == name
    assert [row["policy"] for row in rows] == list(recipe.policies)
    assert {row["seeds"] + row["diverged"] for row in rows} == {len(recipe.seeds)}
    assert {row["rounds"] for row in rows} == {recipe.rounds}


@pytest.mark.parametrize("name", FOUND)
def test_all_but_references_kept_both_limits_and_looks_are_in_what_was_spent(name):
    for row in (row for row in FOUND[name]["rows"] if row["policy"] not in ("oracle", "constant")):
        assert row["kept_limits"], row["policy"]
        assert row["worst_spend"] <= row["budget"] * (1 + 1e-9)
    price = {row["policy"]: row["price_offered"] for row in FOUND[name]["rows"]}
    assert price["margin"] == pytest.approx(price["random"] + 0.4, abs=1e-6)  # four looks at 0.1 for each label
