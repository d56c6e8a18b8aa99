"""Every answer of the API over a real socket: right numbers, the documented shape,
one-line refusals.
"""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from headgate.analysis.comparison import rows
from headgate.analysis.runs import read_runs
from headgate.analysis.savings import chosen_budget, savings, sentence
from headgate.records.reader import RunFolder
from headgate.web.compare import _savings, compare
from headgate.web.runs import Library

from .folders import MadeUp, change_state, nobody, sweep
from .served import Served


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished, half-way in parts, interrupted, and the points of a sweep; something
    broken and something else beside them.
    """
    folder = tmp_path_factory.mktemp("served") / "runs"
    folder.mkdir()
    made = {
        "done": MadeUp(folder / "done", seeds=3).finish(),
        "live": (
            MadeUp(
                folder / "live", parts=True, policies=("acdpp", "constant", "headgate")
            )
            .play(4)
            .play(3, ["acdpp"])
        ),
        "dead": MadeUp(folder / "dead").play(5),
    }
    change_state(folder / "dead", pid=nobody())
    for each in sweep(folder / "study", policies=("acdpp",), rounds=4):
        each.finish()
    MadeUp(folder / "lost", policies=("acdpp",)).play(3).say(
        "interrupted", diverged=[("acdpp", 0), ("acdpp", 1)]
    )
    MadeUp(folder / "broken").play(1)
    (folder / "broken" / "state.json").write_text("{", "utf-8")
    (folder / "notes").mkdir()
    (folder / "notes" / "secret.txt").write_text("secret", "utf-8")
    return folder, made


@pytest.fixture(scope="module")
def page(runs):
    with Served(runs[0]) as served:
        yield served


def get(page, path):
    """An answer; test_openapi holds all answers to their shapes."""
    answer = page.get(path)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    return answer.json


def test_the_list_says_where_every_run_stands(page):
    told = get(page, "/api/runs")
    rows = {row["name"]: row for row in told["rows"]}
    states = {name: row["state"] for name, row in rows.items()}
    points = {"study~lr=0.1": "finished", "study~lr=0.5,K=3": "finished"}
    assert states == {
        "done": "finished",
        "live": "running",
        "dead": "interrupted",
        "lost": "diverged",
        **points,
    }
    assert (told["total"], told["matching"]) == (6, 6)
    ((broken, why),) = told["unreadable"].items()
    assert broken == "broken"
    assert "state.json" in why
    assert "/" not in why.replace("broken/state.json", "")
    assert (rows["done"]["round"], rows["dead"]["round"]) == (12, 5)
    assert rows["live"]["round"] == (7 + 4 + 4) // 3
    assert rows["study~lr=0.1"]["sweep"] == "study"
    assert rows["lost"]["lost"] == 2
    assert rows["lost"]["best_accuracy"] is None


def test_where_nobody_kept_the_limits_the_dearest_says_what_it_broke(tmp_path):
    MadeUp(tmp_path / "run", ("acdpp", "released"), rounds=20).finish()
    (row,) = Library(tmp_path).rows(["run"])
    found = {
        each.policy: each for each in read_runs([RunFolder.open(tmp_path / "run")])
    }
    assert all(each.broken for each in found.values())
    dearest = max(found, key=lambda name: found[name].spend.mean())
    share = pytest.approx(found[dearest].spend.mean() / 20)
    assert (row["best_policy"], row["spend_policy"], row["spend_share"]) == (
        None,
        dearest,
        share,
    )
    assert row["broken"].startswith("money")
    assert row["over_budget"] == [
        name for name in found if name != dearest and found[name].runs_over_budget
    ]


def test_a_reference_is_neither_the_best_nor_the_dearest_beside_others(tmp_path):
    for name, policies in (("both", ("oracle", "headgate")), ("alone", ("oracle",))):
        MadeUp(tmp_path / name, policies).play(4)
    both, alone = Library(tmp_path).rows(["both", "alone"])
    assert (both["best_policy"], alone["best_policy"]) == ("headgate", None)
    assert (
        both["spend_share"]
        == both["spend_shares"]["headgate"]
        < both["spend_shares"]["oracle"]
    )
    assert alone["spend_share"] == alone["spend_shares"]["oracle"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("sort=name&order=asc&limit=2", ["dead", "done"]),
        ("sort=name&order=desc&limit=2&offset=1", ["study~lr=0.1", "lost"]),
        ("search=running", ["live"]),
        ("search=HEADGATE%20acdpp", ["live"]),
        ("search=study%200.5", ["study~lr=0.5,K=3"]),
        ("search=nothing", []),
        ("sort=accuracy&order=desc&limit=1", ["done"]),
        (
            "sort=accuracy&order=asc&limit=6&search=d",
            ["dead", "live", "done", "lost", "study~lr=0.1", "study~lr=0.5,K=3"],
        ),
        ("sort=spend&order=desc&limit=1&search=finished%20constant", ["done"]),
        ("sort=progress&order=asc&limit=1", ["lost"]),
        ("sort=state&order=asc&limit=1", ["lost"]),
    ],
)
def test_the_list_is_searched_and_sorted(page, query, names):
    assert [row["name"] for row in page.get(f"/api/runs?{query}").json["rows"]] == names


def test_a_run_in_full(page, runs):
    told = get(
        page, "/api/runs/done"
    )  # test_one_reader.py compares summary and conclusion
    assert (told["buffers"], told["memory"], told["target"]) == ([4, 6, 5], 15, 0.5)
    assert told["toml"] == (runs[0] / "done" / "config.toml").read_text()
    assert (
        get(page, "/api/runs/lost")["warning"]
        == "Runs that broke down: 2 of acdpp diverged."
    )
    assert get(page, "/api/runs/study~lr=0.5,K=3")["sweep"] == "study"


def test_curves_go_on_where_one_has_them(page):
    told = get(page, "/api/runs/live/curves?since=4")
    by_policy = {each["policy"]: each for each in told["policies"]}
    assert (by_policy["acdpp"]["t"], by_policy["acdpp"]["complete"]) == ([5, 6, 7], 7)
    assert (by_policy["constant"]["t"], by_policy["constant"]["rounds"]) == ([], 4)
    assert by_policy["acdpp"]["evaluated"] == [6]
    one = get(page, "/api/runs/live/curves?points=3&policies=headgate")["policies"]
    assert [each["t"] for each in one] == [[1, 2 if one[0]["t"][1] == 2 else 3, 4]]


def test_clients_hold_what_the_ledger_says(page, runs):
    made = runs[1]["done"]
    told = get(page, "/api/runs/done/clients?policy=acdpp&seed=1")
    held = [
        row[-1] * size for row, size in zip(told["ratio"], told["buffers"], strict=True)
    ]
    assert held == pytest.approx(made.held("acdpp")[1].tolist(), rel=1e-3)
    assert (told["clients"], told["buffers"], told["last"]) == (
        ["0", "1", "2"],
        [4, 6, 5],
        12,
    )
    mean = get(page, "/api/runs/done/clients?policy=acdpp")
    expected = made.held("acdpp").mean(axis=0) / [4, 6, 5]
    assert [row[-1] for row in mean["ratio"]] == pytest.approx(
        expected.tolist(), rel=1e-3
    )


def test_runs_side_by_side(page, runs):
    told = get(page, "/api/compare?runs=done&runs=dead&policies=acdpp&metric=spent")
    assert [(line["run"], line["policy"]) for line in told["lines"]] == [
        ("done", "acdpp"),
        ("dead", "acdpp"),
    ]
    (difference,) = told["differences"]
    assert (told["base"], difference["run"], difference["seeds"]) == (
        0,
        "dead",
        2,
    )  # seeds that both have
    assert difference["x"] == [1, 2, 3, 4, 5]
    done, dead = (
        Library(runs[0]).metrics(name).of([("acdpp", 0), ("acdpp", 1)], 5)
        for name in ("done", "dead")
    )
    place = RunFolder.open(runs[0] / "done").measured.index("spend")
    gaps = np.cumsum((dead - done)[:, :, place], axis=1)
    assert difference["mean"] == pytest.approx(gaps.mean(axis=0).tolist(), abs=1e-9)
    assert told["settings"] == [{"key": "run.seeds", "values": [3, 2]}]


def test_any_line_can_be_the_one_to_compare_with(page):
    first, other = (
        get(page, f"/api/compare?runs=done&metric=n{to}")
        for to in ("", "&to_run=done&to_policy=constant")
    )
    (there,), (back,) = first["differences"], other["differences"]
    assert (first["base"], there["policy"], other["base"], back["policy"]) == (
        0,
        "constant",
        1,
        "acdpp",
    )
    assert back["mean"] == pytest.approx([-value for value in there["mean"]])
    assert back["half"] == pytest.approx(there["half"])
    assert page.get("/api/compare?runs=done&to_policy=dpp").status == 422


@pytest.fixture(scope="module")
def budgets(tmp_path_factory):
    """The same run with three budgets; one that learns otherwise; one that is not
    finished.
    """
    folder = tmp_path_factory.mktemp("budgets")

    def at(name, money, **more):
        system = {"buffers": [4, 6, 5], "budget": float(money)}
        return MadeUp(
            folder / name, ("headgate", "constant"), seeds=3, system=system, **more
        )

    for name, money in (("at-10", 10), ("at-20", 20), ("at-40", 40), ("twin", 40)):
        at(name, money).finish()
    at("faster", 80, training={"lr": 0.9}).finish()
    at("begun", 80).play(4)
    return folder


def needs(folder, names, policies=()):
    return compare(
        Library(folder), names.split(), policies, "best_accuracy", 50
    ).savings


def test_runs_at_several_budgets_begin_with_the_money_for_the_same_accuracy(budgets):
    found = read_runs(
        [RunFolder.open(budgets / name) for name in ("at-10", "at-20", "at-40")]
    )
    said = needs(budgets, "at-10 at-20 at-40")
    assert said == sentence(chosen_budget(savings(rows(found), "constant", "last")))
    assert re.fullmatch(
        r"headgate reaches the accuracy of constant admission for .+ % of the money:"
        r" \S+ a round in place of \S+, for \S+ %\.",
        said,
    )
    with Served(budgets) as served:
        path = "/api/compare?runs=at-10&runs=at-20&runs=at-40&metric=n"
        assert get(served, path)["savings"] == said


@pytest.mark.parametrize(
    "names", ["at-10", "at-10 faster", "at-10 at-40 twin", "at-10 begun"]
)
def test_nothing_is_said_of_money_where_runs_do_not_tell_it(budgets, names):
    assert needs(budgets, names) == ""


@pytest.mark.parametrize(
    ("column", "value"), [("spend", 0.0), ("spend", np.inf), ("test_accuracy", np.nan)]
)
def test_folders_of_strangers_may_hold_anything(budgets, column, value):
    found = read_runs([RunFolder.open(budgets / name) for name in ("at-10", "at-40")])
    last = found[-1].values[column].copy()
    last[... if value == 0 else (0, -1)] = value
    assert _savings(found, set()) != ""
    assert (
        _savings(
            [
                *found[:-1],
                replace(found[-1], values={**found[-1].values, column: last}),
            ],
            set(),
        )
        == ""
    )


def test_nothing_is_said_of_money_without_constant_admission(budgets, monkeypatch):
    assert needs(budgets, "at-10 at-40", policies=["headgate"]) == ""
    for limit, cells in (("MOST_SEEDS", 3), ("MOST_CELLS", 2 * 2 * 3 * 12)):
        monkeypatch.setattr(f"headgate.web.compare.{limit}", cells)
        assert needs(budgets, "at-10 at-40") != ""
        monkeypatch.setattr(f"headgate.web.compare.{limit}", cells - 1)
        assert needs(budgets, "at-10 at-40") == ""
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/api/runs/none", 404, "run 'none': there is no such run"),
        ("/api/runs/notes", 404, "run 'notes'"),
        ("/api/runs/broken", 422, "broken/state.json: not valid JSON"),
        ("/api/runs/done/curves?since=-1", 400, "since = '-1'"),
        (
            "/api/runs/done/curves?points=1",
            400,
            "points = '1': must be greater than or equal to 2",
        ),
        (
            "/api/runs/done/curves?policies=dpp",
            404,
            "policy 'dpp': done has acdpp, constant",
        ),
        ("/api/runs/done/clients?seed=77", 404, "seed 77: nothing was recorded"),
        ("/api/runs?sort=size", 400, "sort = 'size': must be 'started', 'name'"),
        ("/api/runs?order=up", 400, "order = 'up'"),
        ("/api/runs?limit=2000", 400, "limit = '2000'"),
        ("/api/compare", 400, "runs = ''"),
        ("/api/compare?runs=done&metric=time", 400, "metric = 'time'"),
        ("/api/nothing", 404, "/api/nothing: not found"),
    ],
)
def test_refusals_are_one_line(page, path, status, says):
    answer = page.get(path)
    assert (answer.status, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    )
    assert says in answer.json["detail"]
    assert "\n" not in answer.json["detail"]


def test_a_plan_that_is_refused_names_the_key_of_the_recipe(page):
    asked = {
        "system": {"buffers": [4], "budget": 1.0},
        "prices": {"kind": "uniform", "low": 1, "high": 10},
        "run": {"rounds": 5001},
    }
    for more, says in (
        ({}, "run.rounds = '5001': must be less than or equal to 5000"),
        ({"run": {"rounds": 40, "folder": "/"}}, "run.folder = '/': "),
        ({"run": {"rounds": 40}, "policies": []}, "policies = '[]': must be"),
    ):
        answer = page.post("/api/plan", json.dumps(asked | more).encode())
        assert answer.status == 400
        assert answer.json["detail"].startswith(says)


def test_nothing_is_written(page, runs):
    before = {path: path.stat().st_mtime_ns for path in runs[0].rglob("*")}
    for path in (
        "/api/runs",
        "/api/runs/live",
        "/api/runs/live/curves",
        "/api/runs/live/clients",
    ):
        assert page.get(path).status == 200
    assert {path: path.stat().st_mtime_ns for path in runs[0].rglob("*")} == before
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert page.ask(method, "/api/runs/done").status == 405


def test_a_single_run_folder_is_shown_alone(runs):
    with Served(runs[0] / "done") as served:
        assert [row["name"] for row in served.get("/api/runs").json["rows"]] == ["done"]
        assert served.get("/api/runs/done").status == 200
        assert served.get("/api/runs/dead").status == 404
