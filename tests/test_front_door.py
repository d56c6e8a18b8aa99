"""`import headgate`: light, typed, and the same numbers as the command line."""

import json
import re
import runpy
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import headgate
from headgate.control.prices import Trace
from headgate.errors import DataError, SettingError
from headgate.testing import check_policy

SMALL = (
    "run.rounds=4",
    "run.seeds=2",
    'run.policies=["headgate", "constant", "oracle"]',
)


@dataclass(frozen=True)
class Steady(headgate.AdmissionPolicy):
    """The same number of samples every round; what leaves a full buffer of B_m is the
    default.
    """

    rate: float = 4.0

    def admit(self, view, memory):
        return headgate.AdmissionRequest(np.full(view.debt.shape, self.rate)), memory


def test_importing_it_imports_nothing_heavy_and_offers_no_other_name(python):
    code = (
        "import sys, headgate\n"
        "heavy = {'torch', 'polars', 'numpy', 'pydantic', 'rich', 'matplotlib'} &"
        " set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert [name for name in vars(headgate) if name[0] != '_'] == [],"
        " 'completion would offer more'\n"
        "assert {'load', 'plan', 'rehearse', 'run', 'compare', 'open', 'Controller',"
        " 'System'} <= set(dir(headgate))\n"
        "headgate.load('digits'); headgate.plan(headgate.load('digits',"
        " 'run.rounds=5'))\n"
        "assert not {'torch', 'matplotlib', 'flwr'} & set(sys.modules)\n"
    )
    python("-c", code)


def test_the_command_line_imports_what_a_command_needs(python, tmp_path):
    """Help and mistyped options come at once; a run and its report draw nothing with
    matplotlib and decode no pictures.
    """
    code = (
        "import sys, headgate.cli.commands\n"
        "heavy = {'numpy', 'polars', 'pydantic', 'matplotlib', 'torch', 'flwr',"
        " 'starlette'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.modules.update(dict.fromkeys(['matplotlib', 'PIL', 'sklearn', 'scipy',"
        " 'flwr', 'starlette', 'uvicorn']))\n"
        "sys.argv[1:] = 'run digits --rounds 2 --seeds 1 --policies headgate"
        " --processes 1 --out run'.split()\n"
        "headgate.cli.main()\n"
    )
    python("-c", code, cwd=tmp_path)
    assert (tmp_path / "run" / "report.html").is_file()


def test_every_name_leads_somewhere_and_help_lists_it():
    lines = headgate.__doc__.splitlines()
    for name in dir(headgate):
        assert getattr(headgate, name) is not None
        assert name == "__version__" or [
            line for line in lines if re.match(rf"    {name}  +[a-z]", line)
        ], name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        headgate.nothing  # noqa: B018


def test_a_run_needs_no_folder_and_its_prices_may_lie_in_the_working_folder(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text("price\n1\n2\n")
    trace = {"kind": "trace", "file": "good.csv", "at_end": "repeat"}
    tables = headgate.load("digits", *SMALL).tables()
    told = [
        headgate.load(
            "digits",
            *SMALL,
            "prices.kind=trace",
            "prices.file=good.csv",
            "prices.at_end=repeat",
        ),
        headgate.load({**tables, "prices": trace}),
        replace(
            headgate.load("digits", *SMALL),
            prices=Trace(file="good.csv", at_end="repeat"),
        ),
    ]
    for number, e in enumerate(told):
        assert headgate.run(e, f"out{number}", quiet=True).frame[
            "price"
        ].unique().sort().to_list() == [1.0, 2.0]
    run = headgate.run(told[0], quiet=True)
    assert re.fullmatch(r"runs/digits-\d{8}-\d{6}", str(run.path))
    with pytest.raises(
        SettingError, match="out = None: without an experiment a run folder is needed"
    ):
        headgate.run(None)


def test_a_run_says_what_it_came_to_and_goes_on(tmp_path):
    e, out = headgate.load("digits", *SMALL), str(tmp_path / "out")
    run = headgate.run(e, out, quiet=True)
    before = (tmp_path / "out" / "metrics.parquet").read_bytes()
    again = headgate.run(e, out, quiet=True)
    assert (tmp_path / "out" / "metrics.parquet").read_bytes() == before
    assert again.frame.equals(run.frame)
    assert run.status == "finished"
    assert run.frame.height == 3 * 2 * 4
    assert run.summary["policy"].to_list() == ["headgate", "constant", "oracle"]
    assert (
        json.loads((tmp_path / "out" / "summary.json").read_text())[0]["policy"]
        == "headgate"
    )
    assert run.report().read_text("utf-8").startswith("<!doctype html>")
    assert "headgate" in repr(run)
    assert "<pre" in run._repr_html_()
    assert run.clients["admitted"].list.len().unique().to_list() == [10]
    with pytest.raises(DataError) as refusal:
        headgate.run(
            headgate.load("digits", *SMALL, "system.budget=40"), out, quiet=True
        )
    assert "was begun with other settings" in str(refusal.value)
    assert "--" not in str(refusal.value)  # whoever calls from Python has no options


def test_any_folder_is_opened(tmp_path):
    points = headgate.sweep("digits", *SMALL, "sweep.system.budget=[20.0, 55.0]")
    headgate.run(points, tmp_path / "swept", quiet=True)
    found = headgate.open(tmp_path / "swept")
    assert found.frame["point"].unique(maintain_order=True).to_list() == [
        "system.budget=20.0",
        "system.budget=55.0",
    ]
    assert found.summary.height == 6
    alone = headgate.open(tmp_path / "swept" / "system.budget=20.0")
    assert alone.frame.equals(
        found.frame.filter(pl.col("point") == "system.budget=20.0").drop("point")
    )
    for wrong in (tmp_path / "none", tmp_path):
        with pytest.raises(DataError, match=str(tmp_path)):
            headgate.open(wrong)


def test_policies_are_compared_at_equal_spend(tmp_path):
    e = headgate.load("digits", *SMALL).with_policy("mine", Steady(rate=3.0))
    found = headgate.compare(e, budgets=[20, 55], out=tmp_path, quiet=True)
    frame = found.frame
    assert frame["budget"].unique(maintain_order=True).to_list() == [20.0, 55.0]
    assert set(frame["policy"]) == {"headgate", "constant", "oracle", "mine"}
    assert found.path.is_file()
    spends = dict(
        zip(
            frame.filter(pl.col("budget") == 20.0)["policy"],
            frame["spend"],
            strict=False,
        )
    )
    assert spends["headgate"] <= 20.0
    assert "at 20.0 a round" in repr(found)
    assert {one.policy for one in found.saved_against()} == {"headgate", "mine"}
    assert {one.policy for one in found.money_for(0.01)} == {
        "headgate",
        "constant",
        "mine",
    }
    with pytest.raises(SettingError, match="rival = nobody: was not compared"):
        found.saved_against("nobody")
    for budgets, why in (
        ([20, 20], "each must be named once"),
        ([], "at least one"),
        (20, "budgets = 20: must be a list"),
    ):
        with pytest.raises(SettingError, match=why):
            headgate.compare(e, budgets=budgets, out=tmp_path)


def test_what_a_policy_was_not_told_follows_the_budget():
    e = headgate.load("mnist")
    assert (
        e.with_budget(110.0).tables()
        == headgate.load("mnist", "system.budget=110.0").tables()
    )
    assert e.with_budget(110.0).with_budget(55.0).tables() == e.tables()
    stated = e.with_policy(
        "constant", headgate.load("mnist", "policies.constant.K=3").policies["constant"]
    )
    assert stated.with_budget(110.0).policies["constant"].K == 3


@pytest.mark.parametrize("policy", ["headgate", "constant", "acdpp", "oracle"])
def test_a_plan_is_that_of_the_command_line(policy, typed):
    given = ("system.budget=55.0", "run.rounds=12", "run.seeds=3")
    e = headgate.load("digits", *given, f'run.policies=["{policy}"]')
    words = [
        "plan",
        "digits",
        "--policy",
        policy,
        *(word for each in given for word in ("--set", each)),
        "--format",
        "json",
    ]
    told = json.loads(typed("headgate", *words)[0])
    made = headgate.plan(e, policy)
    assert told == json.loads(json.dumps(made.numbers))
    assert (told["K"] is None) == (policy in ("headgate", "oracle"))
    assert ("headgate" in made.warning) == (policy != "headgate")


def test_a_plan_takes_an_object_and_says_where_it_breaks_a_limit():
    made = headgate.plan(
        headgate.load("digits", "run.rounds=12", "run.seeds=2"), Steady(rate=90.0)
    )
    assert made.name == "Steady"
    assert "over budget" in made.warning
    assert "headgate" in made.warning
    assert made.warning in " ".join(repr(made).split())
    with pytest.raises(
        SettingError, match=r"policy = headgat: .*did you mean headgate\?"
    ):
        headgate.plan(headgate.load("digits"), "headgat")


@pytest.mark.parametrize(
    ("budget", "said"), [(0.5, True), (9.1, True), (9.3, False), (55, False)]
)
def test_a_plan_says_where_the_money_cannot_fill_the_buffers(budget, said):
    """60 rounds, 100 places, a mean price of 5.5: 9.17 a round fill them once."""
    made = headgate.plan(
        headgate.load("digits", f"system.budget={budget}", "run.seeds=1")
    )
    assert ("From a budget of 9.17 a round on" in " ".join(repr(made).split())) == said


def test_a_loop_of_ones_own_learns_within_its_money():
    """examples/own_loop.py: plain PyTorch, in which headgate decides."""
    pytest.importorskip("torch", reason="the example trains with PyTorch")
    example = runpy.run_path(
        str(Path(__file__).parents[1] / "examples" / "own_loop.py")
    )
    accuracy, spent, money = example["main"](rounds=15)
    assert accuracy > 0.8
    assert 0.9 * money < spent <= money


def test_a_labelling_queue_goes_from_plan_to_report(tmp_path, capsys, monkeypatch):
    """examples/labelling_queue.py: real prices, looks that cost, labels that come late,
    data of one's own.
    """
    monkeypatch.setattr(sys, "path", list(sys.path))
    example = runpy.run_path(
        str(Path(__file__).parents[1] / "examples" / "labelling_queue.py")
    )
    run = example["main"](tmp_path / "queue", "run.rounds=12", "run.seeds=2")
    said = capsys.readouterr().out
    assert "planned for 12 rounds" in said
    assert (tmp_path / "queue" / "report.html").is_file()
    rows = {row["policy"]: row for row in run.summary.to_dicts()}
    assert list(rows) == ["headgate", "by-lot", "unsure", "every-hour"]
    spent = run.frame.group_by("policy", "seed").agg(pl.col("spend", "looks").sum())
    assert (spent["spend"] <= 12 * 20.0 * (1 + 1e-9)).all()
    assert (spent.filter(pl.col("policy") == "unsure")["looks"] > 0).all()


def test_the_loop_says_what_it_lacks_without_torch(python):
    path = Path(__file__).parents[1] / "examples" / "own_loop.py"
    program = (
        f"import runpy, sys; sys.modules['torch'] = None; runpy.run_path({str(path)!r},"
        " run_name='__main__')"
    )
    _, said = python("-c", program, code=1)
    assert (
        said == "this example trains with PyTorch, which is not installed: pip install"
        " 'headgate[sim]'\n"
    )


@pytest.mark.parametrize(
    "do",
    [
        headgate.load("digits", *SMALL).with_policy,
        lambda name, policy: check_policy(policy),
    ],
)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Steady, r"is a class; a policy is made of it, as in Steady\(\)"),
        ("headgate", r"Headgate\(\)"),
    ],
)
def test_what_is_no_policy_is_told_how_to_make_one(do, given, said):
    with pytest.raises(SettingError, match=said):
        do("mine", given)


RECIPE = "experiment = digits: is a recipe; headgate.load makes an experiment of it"


@pytest.mark.parametrize(
    ("do", "said"),
    [
        *((do, RECIPE) for do in (headgate.plan, headgate.rehearse, headgate.compare)),
        (lambda recipe: headgate.run(recipe, "out"), RECIPE),
        (
            lambda recipe: headgate.load(recipe, {"run.rounds": 3}),
            'an override must be a string, as in "run.rounds=20"',
        ),
    ],
)
def test_what_is_given_in_place_of_something_else_is_told_what_to_do(do, said):
    with pytest.raises(headgate.HeadgateError) as refusal:
        do("digits")
    assert said in str(refusal.value)
