"""The same folders through the reader, the command line, the report, the comparison,
the page and Python: one answer.

Finished, still running, one seed lost, the points of a sweep, a run on Flower, and one
whose policy and prices are of a module that cannot be imported. Every number that two
of them tell is equal to the last bit.
"""

import json
import os
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import tomli_w

import headgate as package
from headgate.analysis.accounts import ledger_facts
from headgate.analysis.comparison import rows as compared_rows
from headgate.analysis.curves import policy_curves
from headgate.analysis.formatting import percent
from headgate.analysis.limits import conclusion
from headgate.analysis.report import write_report
from headgate.analysis.runs import read_runs
from headgate.analysis.summary import TEXTS, columns, summarise
from headgate.records.reader import RunFolder, scan_runs
from headgate.web.api import Json

from .analysis.run_folders import Page
from .web.folders import MadeUp, sweep
from .web.served import Served

NAMES = ["finished", "flower", "foreign", "lost", "running", "study~K=2", "study~K=3"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of all of them, and the one that goes on."""
    runs = tmp_path_factory.mktemp("one") / "runs"
    MadeUp(
        runs / "finished", ("oracle", "constant", "acdpp", "headgate"), seeds=3
    ).finish()
    running = (
        MadeUp(runs / "running", ("constant", "headgate"), seeds=3, parts=True)
        .play(4)
        .play(3, ["constant"])
    )
    MadeUp(runs / "lost", ("constant", "headgate"), seeds=3).finish().say(
        "finished", diverged=[("headgate", 1)]
    )
    for point in sweep(
        runs / "study", ("K=2", "K=3"), policies=("acdpp", "headgate"), rounds=5
    ):
        point.finish()
    _foreign(runs / "foreign")
    _flower(runs / "flower", tmp_path_factory.mktemp("world"))
    return runs, running


def _foreign(folder):
    MadeUp(folder, ("constant", "headgate")).finish()
    config = tomllib.loads((folder / "config.toml").read_text())
    config["policies"] = {
        **config.get("policies", {}),
        "constant": {"kind": "not_there:Policy"},
    }
    config["prices"] = {"kind": "not_there:Prices"}
    config["data"] = {"kind": "not_there:data"}
    (folder / "config.toml").write_text(tomli_w.dumps(config))


def _flower(folder, place):
    """At the level of messages, as the tests of Flower do."""
    from headgate.flower import ENVIRONMENT

    os.environ |= dict(ENVIRONMENT)
    sys.path.insert(0, str(Path(__file__).parent / "flower"))
    from flwr.app import MetricRecord
    from worlds import World, an_experiment

    world = World(place, an_experiment("fifo", 4))
    world.play(
        evaluate_fn=lambda t, arrays: MetricRecord(
            {"accuracy": t / 10, "loss": 1.0 / (t or 1)}
        )
    )
    shutil.copytree(place / "run", folder)


@pytest.fixture(scope="module")
def page(made):
    with Served(made[0]) as served:
        yield served


def path_of(runs, name):
    return runs / name.replace("~", "/")


def as_json(value):
    return json.loads(json.dumps(value))


def by_reader(folder):
    """What the reader itself says, with the targets that the page and the closing table
    take.
    """
    run = RunFolder.open(folder)
    return [as_json(summarise(one, run.target).to_dict()) for one in read_runs([run])]


@pytest.fixture
def listed(made, headgate):
    """listed() are the lines of `headgate runs`, by name."""
    return lambda: {
        row["name"]: row
        for row in json.loads(headgate("runs", made[0], "--format", "json")[0])
    }


def test_the_command_line_and_the_page_list_the_same_runs(made, page, listed):
    """A sweep used to be listed by the page alone."""
    rows = page.get("/api/runs").json["rows"]
    assert sorted(row["name"] for row in rows) == NAMES
    assert {row["name"]: row for row in rows} == listed()
    assert {run.name for run in scan_runs(made[0])[0]} == set(NAMES)


def test_the_command_line_shows_what_the_best_spent(made, listed, headgate):
    row = listed()["finished"]
    (line,) = (
        each
        for each in headgate("runs", made[0])[0].splitlines()
        if each.startswith("  finished ")
    )
    shown = (
        row["best_policy"],
        percent(row["best_accuracy"], 1),
        percent(row["spend_share"]),
    )
    assert line.split()[-5:] == "{} {} {}".format(*shown).split()
    assert row["over_budget"]  # others' spending is not shown beside it


@pytest.mark.parametrize("name", NAMES)
def test_a_line_of_the_list_is_what_the_reader_says(made, listed, name):
    found, row = (
        {each["policy"]: each for each in by_reader(path_of(made[0], name))},
        listed()[name],
    )
    assert row["policies"] == list(found)
    assert row["spend_per_round"] == {
        policy: each["spend_per_round"] for policy, each in found.items()
    }
    assert row["spend_shares"] == {
        policy: each["spend_share"] for policy, each in found.items()
    }
    ranked = [each for each in found.values() if not each["reference"]]
    assert row["lost"] == sum(each["lost"] for each in found.values())
    best = max(
        (each for each in ranked if each["kept_limits"]),
        key=lambda each: each["best_accuracy"]["mean"],
        default=None,
    )
    assert (row["best_policy"], row["best_accuracy"]) == (
        best["policy"],
        best["best_accuracy"]["mean"],
    )
    assert (row["spend_policy"], row["spend_share"], row["broken"]) == (
        best["policy"],
        best["spend_share"],
        "",
    )
    assert row["over_budget"] == [
        each["policy"] for each in ranked if each["runs_over_budget"]
    ]


@pytest.mark.parametrize("name", NAMES)
def test_page_python_and_report_say_what_the_reader_says(
    made, page, headgate, tmp_path, name
):
    run = RunFolder.open(path_of(made[0], name))
    found, said = read_runs([run]), by_reader(run.path)
    shown = columns(run.target, [summarise(one, run.target) for one in found])
    texts = [
        [TEXTS[name](summarise(one, run.target)) for name in shown] for one in found
    ]
    detail = page.get(f"/api/runs/{name}").json
    assert detail["summary"] == said
    money = f"{ledger_facts(run).sentence} ".lstrip()
    assert bool(money) == (name == "flower")
    assert detail["conclusion"] == money + conclusion(found) != money
    assert [[cell["text"] for cell in row] for row in detail["table"]["rows"]] == texts
    curves = page.get(f"/api/runs/{name}/curves").json["policies"]
    assert curves == json.loads(
        Json([policy_curves(one, points=400) for one in found]).body
    )
    own = package.open(run.path)
    assert as_json(own.summary.to_dicts()) == said
    assert own.frame.height == sum(int(one.reached.sum()) for one in found)
    text = write_report([run], tmp_path / "report.html", run.target).read_text("utf-8")
    headgate("report", run.path, "--out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text("utf-8") == text
    data = Page(text).data
    assert [[cell["text"] for cell in row] for row in data["table"]["rows"]] == texts
    assert data["sentence"] == money + conclusion(found)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "running"])
def test_the_comparison_says_what_the_reader_says(made, name):
    """From any working folder: nothing is imported that the settings name."""
    folder = path_of(made[0], name)
    for row, own in zip(
        compared_rows(read_runs([RunFolder.open(folder)])),
        by_reader(folder),
        strict=True,
    ):
        assert row["policy"] == own["policy"]
        assert row["seeds"] + row["diverged"] == own["runs"]
        for theirs, ours in (
            ("diverged", "lost"), ("spend", "spend_per_round"),
            ("overspent_runs", "runs_over_budget"), ("peak_n", "peak_n"),
            ("worst_excess", "peak_excess"), ("kept_limits", "kept_limits"), ("N", "N"),
            ("reference", "reference"),
        ):  # fmt: skip
            assert row[theirs] == own[ours], theirs
        for measure in ("best", "last", "mean"):
            assert row[measure][0] == own[f"{measure}_accuracy"]["mean"]


def test_a_run_that_grows_is_told_alike_in_every_round(made, page, listed):
    runs, running = made
    for _ in range(3):
        before = by_reader(runs / "running")
        assert page.get("/api/runs/running").json["summary"] == before
        assert listed()["running"] == next(
            r for r in page.get("/api/runs").json["rows"] if r["name"] == "running"
        )
        running.play(1)
        assert [each["rounds"] for each in by_reader(runs / "running")] == [
            each["rounds"] + 1 for each in before
        ]
