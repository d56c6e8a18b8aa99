"""Who is ranked, in which order, and a policy of one's own beside the others by one command."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from headgate.cli.commands import app as library
from headgate.errors import DataError, SettingError
from studies import HOME
from studies.__main__ import app
from studies.leaderboard import boards, ranked, read_results

RESULTS = HOME / "results" / "better"
NOISE = np.random.default_rng(0).normal(0.0, 0.01, 12)
TINY = """base = "digits"
[study]
title = "Digits, tried"
[run]
rounds = 6
seeds = 3
policies = ["headgate", "oracle", "constant", "random"]
[sweep]
system.budget = [20.0, 55.0]
"""
MINE = '''from dataclasses import dataclass

import numpy as np

from headgate.control.policies import BudgetedPolicy, Headgate


@dataclass(frozen=True, eq=False, kw_only=True)
class Below(BudgetedPolicy):
    low: float = 2.0

    def wanted(self, view, memory):
        return np.where(view.price <= self.low, 1.0, 0.0), memory


class Twin(Headgate):
    """headgate by another name"""
'''


def call(*words, app=app):
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a recipe that was compared, and policies of one's own beside it."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.toml").write_text(TINY)
    (folder / "for_the_board.py").write_text(MINE)
    words = ("--budgets", "recipe", "--policies", "recipe", "--quiet", "--processes", 1)
    call("compare", folder / "tiny.toml", *words, "--out", folder / "compared", "--pages", folder / "results", app=library)
    return folder


def add(folder, kind, *more):
    here = ("--on", folder / "tiny.toml", "--results", folder / "results", "--out", folder / "board")
    return call("leaderboard", "--add", kind, *here, "--quiet", "--processes", 1, *more)


def result(policy, last, *, kept=True, reference=False, gain=0.0):
    values = (last + NOISE + gain).tolist()
    limits = {"kept_limits": kept, "reference": reference, "learnt": list(range(12))}
    return {"policy": policy, "last": [float(np.mean(values)), None, None], "last_by_seed": values, **limits}


def test_the_order_is_that_of_the_means_within_the_limits():
    wobble = np.random.default_rng(1).normal(0.0, 0.02, 12)
    rows = [
        result("poor", 0.5, gain=wobble * 0.1),
        result("spender", 0.9, kept=False),
        result("good", 0.7),
        result("level", 0.699, gain=wobble - wobble.mean()),
        result("oracle", 0.95, reference=True),
    ]
    found = ranked({row["policy"]: row for row in rows}, "last")
    assert found.names == ["good", "level", "poor"]
    assert found.others == ["spender", "oracle"]
    assert found.level() == 1
    assert found.gaps["poor"].mean == pytest.approx(100 * (-0.2 + 0.1 * wobble.mean()))
    assert found.gaps["poor"].p < 1e-6
    assert ranked({"spender": rows[1]}, "last").names == []


def test_the_page_in_full_has_every_policy_of_every_comparison(tmp_path):
    call("leaderboard", "--full", "--out", tmp_path)
    text = (tmp_path / "leaderboard.md").read_text("utf-8")
    assert "money: 21 of 40 runs, up to 113 %" in text
    for one in boards(RESULTS, tmp_path):
        assert f"`{one.recipe}`" in text
        assert all(f" | `{row['policy']}`" in text for row in one.rows())


def test_a_policy_of_ones_own_stands_beside_the_others(tiny):
    """Twin is headgate, so it must have met the same prices and samples: its numbers are headgate's, to the last digit."""
    written = add(tiny, "for_the_board:Twin").split()
    board = tiny / "board"
    assert written == [str(board / name) for name in ("added/tiny/Twin.json", "leaderboard.md", "leaderboard.svg")]
    theirs = json.loads((tiny / "results" / "tiny.json").read_text("utf-8"))["rows"]
    added = read_results(board / "added" / "tiny" / "Twin.json")
    own = [row for row in theirs if row["policy"] == "headgate"]
    assert [row["budget"] for row in added] == [20.0, 55.0]
    for mine, other in zip(added, own, strict=True):
        for key in ("last_by_seed", "best_by_seed", "spend", "worst_spend", "learnt", "N"):
            assert mine[key] == pytest.approx(other[key], rel=1e-5), key
    text = (board / "leaderboard.md").read_text("utf-8")
    assert "## Digits, tried" in text
    assert re.search(r"\| \d \| `Twin` \(added\) \|", text)
    add(tiny, "for_the_board:Below", "--name", "cheap", "--with", "low=4.0")
    settings = [each.read_text("utf-8") for each in (tiny / "board" / "runs" / "tiny" / "cheap").rglob("config.toml")]
    assert len(settings) == 2
    assert all("low = 4.0" in each and "for_the_board:Below" in each for each in settings)
    text = (tiny / "board" / "leaderboard.md").read_text("utf-8")
    assert "`cheap` (added)" in text
    assert "`Twin` (added)" in text
    with pytest.raises(DataError, match="Twin stands there already"):
        add(tiny, "for_the_board:Twin")


def test_who_broke_a_limit_is_listed_apart(tiny):
    add(tiny, "released", "--out", tiny / "broken")
    lines = (tiny / "broken" / "leaderboard.md").read_text("utf-8").splitlines()
    one, _ = (line for line in lines if "`released` (added)" in line)
    assert one.startswith("| ✗ money: 3 of 3 runs, up to ")
    assert "; memory: up to " in one
    assert [line for line in lines if line.startswith("| reference | `oracle` |")]


@pytest.mark.parametrize(
    ("words", "refused", "says"),
    [
        (["--add", "for_the_board:Below", "--name", "random"], SettingError, "has a policy of that name"),
        (["--add", "for_the_board:Below", "--name", "../x"], SettingError, "must be letters, digits"),
        (["--add", "for_the_board:Nobody"], SettingError, "for_the_board:Nobody"),
        (["--name", "x"], SettingError, "need a policy that --add names"),
        (["--add", "for_the_board:Below", "--on", "better/lenet"], DataError, "better/lenet: has no results"),
    ],
)
def test_what_cannot_be_added_is_refused_before_anything_runs(tiny, words, refused, says, tmp_path):
    here = [] if "--on" in words else ["--on", str(tiny / "tiny.toml")]
    with pytest.raises(refused, match=re.escape(says)):
        call("leaderboard", *words, *here, "--results", tiny / "results", "--out", tmp_path / "board")
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize("content", ["[]", "{}", '{"rows": []}', '{"rows": [{"policy": 3}]}', '{"rows": [1e999]}', "\0"])
def test_results_that_are_none_are_refused_in_one_line(content, tmp_path):
    (tmp_path / "mnist.json").write_text(content)
    with pytest.raises(DataError, match=r"mnist\.json: "):
        call("leaderboard", "--results", tmp_path, "--out", tmp_path / "board")


def test_results_of_another_recipe_are_refused(tiny, tmp_path):
    rows = json.loads((tiny / "results" / "tiny.json").read_text("utf-8"))
    (tmp_path / "mnist.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match="better/mnist: its results were made with other rounds, seeds or budgets"):
        call("leaderboard", "--results", tmp_path, "--out", tmp_path / "board")
