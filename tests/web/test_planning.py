"""The planner: the same answers as the command line, files that work, and limits."""

import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from headgate.analysis.formatting import jsonable
from headgate.analysis.rehearsal import plan_json, summarise_rehearsal
from headgate.control.rehearse import plan, rehearse
from headgate.errors import HeadgateError
from headgate.experiment import build
from headgate.registry import POLICY, checked
from headgate.theory.comparison import oracle_bound
from headgate.web import planning
from headgate.web.api import Json
from headgate.web.planning import PlanRequest, choices
from headgate.web.runs import Library, UnknownRun

from .folders import MadeUp, sweep

SYSTEM = {"buffers": [4, 6, 5], "budget": 20.0}
PRICES = {"kind": "uniform", "low": 1, "high": 10}
RUN = {"rounds": 40, "seeds": 3}
ASKED = {"system": SYSTEM, "prices": PRICES, "run": RUN}
TRACE = {"kind": "trace", "prices": [1.25, 3, 7.5, 0.1], "at_end": "repeat"}


def made(runs_in=Path("no-runs"), **asked):
    return planning.answer(checked(PlanRequest, asked, "plan"), Library(runs_in))


def of(policy="headgate", **settings):
    return {"policies": {policy: settings}}


def answer(**more):
    told = json.loads(Json(made(**{**ASKED, **more})).body, parse_constant=pytest.fail)
    return {**told["summary"], **told["plan"], **told}


SWITCHES = {"kind": "switches", "levels": [1, 9], "lengths": [4, 2], "repeat": True}
GIVEN = [
    {**of("acdpp", gamma=0.4, phi=0.6), "prices": prices}
    for prices in (PRICES, TRACE, SWITCHES)
]


@pytest.mark.parametrize(
    "given", [*GIVEN, *(of(name) for name in POLICY.kinds)], ids=str
)
def test_the_file_that_comes_back_makes_the_same_plan(given):
    told = answer(**given, run={"rounds": 20, "seeds": 2})
    (policy,) = given["policies"]
    e = build("again", tomllib.loads(told["toml"]))
    assert told["plan"] == jsonable(
        plan_json(e, policy, plan(e.given, e.policies[policy]))
    )
    again = summarise_rehearsal(
        e, policy, rehearse(e.system, e.policies[policy], e.prices, e.seeds, e.rounds)
    )
    assert told["summary"] == jsonable(again.to_dict())
    assert told["oracle_bound"] == pytest.approx(
        oracle_bound(e.system.buffer, 20, e.bound).sum()
    )


def test_a_stated_K_is_kept():
    told = answer(**of("acdpp", K=2))
    assert told["K"] == 2
    assert tomllib.loads(told["toml"])["policies"]["acdpp"]["K"] == 2
    assert (told["V"], told["rho"]) == pytest.approx((40**0.5, 1 - 40**-0.5))
    assert answer(**of(smooth=0.0))["spend"] > 0


def test_a_plan_that_breaks_a_limit_says_so_with_the_way_out():
    given = {
        "system": {"buffers": [8, 9, 10, 11, 12] * 2, "budget": 55.0},
        "run": {"rounds": 30, "seeds": 3},
    }
    kept = answer(**given)
    assert (kept["policy"], kept["warning"], kept["runs_over_budget"]) == (
        "headgate",
        "",
        0,
    )
    assert kept["dearest_share"] <= 1 + 1e-9
    told = answer(**of("acdpp"), **given)
    e = build("again", tomllib.loads(told["toml"]))
    result = rehearse(e.system, e.policies["acdpp"], e.prices, e.seeds, e.rounds)
    shares = result.spend.sum(axis=1) / (55.0 * 30)
    assert (told["runs_over_budget"], told["dearest_share"]) == (
        (shares > 1 + 1e-9).sum(),
        pytest.approx(shares.max()),
    )
    assert told["runs_over_budget"] > 0
    assert told["peak_excess"] > 0
    assert (
        told["warning"]
        == f"{told['runs_over_budget']} of 3 runs go over budget, the dearest spends"
        f" {100 * shares.max():.1f} % of it; a client holds up to"
        f" {told['peak_excess']} more than its buffer: take headgate, or set"
        ' capacity = "buffer" and purse = true.'
    )
    followed = answer(**of("acdpp", capacity="buffer", purse=True), **given)
    assert (followed["warning"], followed["runs_over_budget"]) == ("", 0)
    assert answer(**of("oracle"))["warning"].endswith(": take headgate.")


def test_curves_are_those_of_the_rehearsal():
    told = answer(**of("constant"), run={"rounds": 40, "seeds": 1})
    series = told["curves"]["series"]
    assert told["curves"]["t"] == list(range(1, 41))
    e = build("again", tomllib.loads(told["toml"]))
    policy = e.policies["constant"]
    result = rehearse(e.system, policy, e.prices, e.seeds, e.rounds)
    for name in ("price", "spend", "debt", "admitted", "n", "N"):
        expected = getattr(result, name)[0]
        assert series[name]["mean"] == pytest.approx(expected, rel=1e-6)
    assert max(series["n"]["mean"]) == told["peak_n"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"run": {"rounds": 5001}}, "5001}: must be less than or equal to 5000"),
        (
            {"run": {**RUN, "seeds": 21}},
            "21}: must be less than or equal to 20",
        ),
        (
            {"system": {"buffers": [1] * 1001, "budget": 1}},
            "system.buffers: 1001 entries; at most 1,000",
        ),
        (
            {"system": {"buffers": [1], "clients": 1001, "budget": 1}},
            "system.clients = 1001",
        ),
        (
            {"system": {"buffers": [4] * 1000, "budget": 1}, "run": {"rounds": 5000}},
            "more than 2,000,000 decisions",
        ),
        (
            {"system": {"buffers": [4], "budget": 1e10}},
            "system.budget = 10000000000.0: must not be beyond",
        ),
        (
            {"system": {"buffers": [1000], "budget": 0.2}, "run": {"rounds": 100}},
            "at most 10,000 can be planned",
        ),
        (
            {"system": {"buffers": "many", "budget": 1}},
            "system.buffers: must be a list",
        ),
        ({"prices": {"kind": "trace"}}, "prices"),
        (
            {"prices": {"kind": "trace", "prices": [1, True]}},
            "prices.prices = [1, True]: must be a number",
        ),
        (of("acdpq"), "did you mean acdpp?"),
        (of(kind="os:system"), "policies.headgate.kind = os:system: a plan knows what"),
        (of("acdpp", K=10**9), "policies.acdpp.K = 1000000000: at most 5,000"),
        (of("acdpp", capacity=10**9), "policies.acdpp.capacity = 1000000000: 3 runs"),
        (of("acdpp", capacity=10**6), "capacity = 1000000: 3 clients; at most"),
        (of("acdpp", K=0), "K = 0"),
        ({"policies": {}}, "plan.policies"),
        ({"policies": {"headgate": {}, "constant": {}}}, "plan.policies"),
        ({"run": {**RUN, "folder": "/"}}, "plan.run"),
        ({"colour": "red"}, "plan.colour: unknown key"),
        (
            {"system": {"buffers": [4], "budget": 1, "clients": 3e6}},
            "system.clients = 3000000: must be 1 to 1,000",
        ),
        (
            {"system": {"buffers": [4], "budget": 1, "clients": 2.5}},
            "system.clients = 2.5: must be a whole number",
        ),
        ({"system": {"buffers": [3e5], "budget": 1}}, "300000 places; at most 250,000"),
        (
            {"prices": {**SWITCHES, "lengths": [4, 2e8]}},
            "prices.lengths = 200000000: must be a whole number, 1 to 1,000,000",
        ),
        ({"prices": {"kind": [1]}}, "prices.kind = [1]: no such price process"),
        (
            of(rule={"kind": "fifo", "capacity": 1e6}),
            "capacity = 1000000: 3 clients",
        ),
        (of(rule={"kind": [1]}), "policies.headgate.rule.kind = [1]"),
        (of("x" * 10**6), "policy = xxx"),
        ({"prices": {"kind": "x" * 10**6}}, "1,000,000 characters; at most 200"),
        (of(a={"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}), "too deep"),
    ],
)
def test_what_has_no_meaning_or_no_end_is_refused(more, says):
    with pytest.raises(HeadgateError) as refused:
        made(**{**ASKED, **more})
    assert says in str(refused.value)


def test_recipes_to_start_from_can_be_planned():
    told = json.loads(Json(choices(Library(Path("no-runs")))).body)
    assert told["finished"] == []
    assert {"mnist", "digits"} <= {recipe["name"] for recipe in told["recipes"]}
    assert "million" not in {recipe["name"] for recipe in told["recipes"]}
    for recipe in told["recipes"]:
        asked = {name: recipe[name] for name in ("system", "prices", "bound")}
        planned = made(**asked, run={"rounds": 10, "seeds": 1}).plan
        assert (planned["policy"], planned["warning"]) == ("headgate", "")
    assert next(iter(told["policies"])) == "headgate"
    assert {"K", "gamma", "phi"} <= set(told["policies"]["acdpp"])


# money first: in all, labels, and what they would cost bought evenly


def test_money_and_labels_are_those_of_the_rehearsals_beside_buying_evenly():
    system = {**SYSTEM, "currency": "€"}
    told = answer(system=system)
    assert (told["unit"], told["total"]) == ("€", 20.0 * 40)
    e = build("again", tomllib.loads(told["toml"]))
    even = {"kind": "below", "quantile": 1.0, "fill": 0.0}
    evenly = build(
        "even",
        {
            **e.tables(),
            "policies": {"even": even},
            "run": {**RUN, "policies": ["even"]},
        },
    )
    bought = {}
    for key, one, name in (("bought", e, "headgate"), ("evenly", evenly, "even")):
        result = rehearse(one.system, one.policies[name], one.prices, one.seeds, 40)
        spent, labels = result.spend.sum(axis=1), result.admitted.sum(axis=1)
        bought[key] = spent, labels
        for values, field in ((spent, "spent"), (labels, "labels")):
            expected = {
                "mean": values.mean(),
                "low": values.min(),
                "high": values.max(),
            }
            assert told[key][field] == pytest.approx({**expected, "runs": 3})
        assert told[key]["each"]["mean"] == pytest.approx(spent.sum() / labels.sum())
        assert told[key]["dearest"]["high"] == pytest.approx(result.spend.max())
    ours, theirs = (spent / labels for spent, labels in bought.values())
    saved = 1 - told["bought"]["each"]["mean"] / told["evenly"]["each"]["mean"]
    ends = [saved, *np.quantile(1 - ours / theirs, [0, 1])]
    assert [told["saved"][key] for key in ("mean", "low", "high")] == pytest.approx(
        ends
    )
    series = told["curves"]["series"]
    assert series["bought"]["mean"][-1] == pytest.approx(
        told["bought"]["labels"]["mean"]
    )
    assert series["even_spent"]["mean"][-1] == pytest.approx(
        told["evenly"]["spent"]["mean"]
    )


@pytest.mark.parametrize(
    "text",
    [
        "date,price\n2026-01-01,1.25\n2026-01-02,3\n2026-01-03,7.5\n2026-01-04,0.1\n",
        "1.25\r\n3\r\n7.5\r\n0.1\r\n",
        "day\tprice\n1\t1.25\n2\t3\n3\t7.5\n4\t0.1",
        "eur per label\n1.25\n3\n7.5\n0.1",
        "cost,price of a label\n9,1.25\n9,3\n9,7.5\n9,0.1",
    ],
)
def test_a_price_list_is_read_as_a_trace(text):
    column = "price of a label" if "of a" in text else None
    prices = {"kind": "trace", "text": text, "column": column, "at_end": "repeat"}
    told = answer(prices=prices)
    assert tomllib.loads(told["toml"])["prices"] == TRACE
    assert told["spend"] == answer(prices=TRACE)["spend"]
    assert told["bought"]["spent"]["low"] == told["bought"]["spent"]["high"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("price\n1\nx\n", 'prices.csv: "x" in row 2 of column "price" is not a number'),
        (
            "0,05\n0,06\n",
            'prices.csv: "0,05" in row 1 has more columns than the header',
        ),
        ("day,price\n1,2\n2,0,05\n", 'prices.csv: "2,0,05" in row 2 has more columns'),
        ("day;price\n1;0,05\n", "prices.csv: has semicolons between its columns; save"),
        ("a,b\n1,2\n", 'prices.csv: no column "price"; its header names "a", "b"'),
        ("1\n-2\n", "prices: price -2.0 in row 2"),
        ("1\n2\n", "prices: ends after 2 rounds, round 40 was asked for"),
        ("", "prices.csv: cannot be read as csv"),
        ("1\n" * 5001, "prices.prices: 5001 entries; at most 5,000"),
        ("1\n" * 100_001, "prices.csv: must be text of at most 200,000 characters"),
        ([1.0], 'prices.csv: no column "price"; its header names "[1.0]"'),
    ],
)
def test_a_price_list_that_cannot_be_used_is_refused_by_row(text, says):
    with pytest.raises(HeadgateError) as refused:
        made(**{**ASKED, "prices": {"kind": "trace", "text": text}})
    assert says in str(refused.value)


# the accuracy of finished runs, for the money of the plan


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learnt")
    budgets = [f"system.budget={budget}" for budget in (10.0, 40.0)]
    for label in budgets:
        system = {**SYSTEM, "budget": float(label.partition("=")[2])}
        MadeUp(
            folder / "money" / label, ("headgate", "constant"), rounds=40, system=system
        ).finish()
    (folder / "money" / "sweep.json").write_text(json.dumps({"points": budgets}))
    sweep(folder / "rates", rounds=4)[0].finish()
    return folder


def test_a_plan_starts_from_finished_runs_that_differ_only_in_money(learnt):
    starts = {each.name: each for each in choices(Library(learnt)).finished}
    assert starts.keys() == {"money", "rates"}
    start = starts["money"]
    assert start.budgets == (10.0, 40.0)
    assert start.runs == ("money~system.budget=10.0", "money~system.budget=40.0")
    assert start.system == {**SYSTEM, "clients": 3, "budget": 40.0}


def test_the_accuracy_is_that_of_runs_with_the_same_prices_clients_and_rounds(learnt):
    runs = ["money~system.budget=10.0", "money~system.budget=40.0"]
    told = made(learnt, **ASKED, runs=runs)
    assert told.accuracy.differs == []
    known = told.accuracy.policies["headgate"]
    ends = [made(learnt, **ASKED, runs=[run]).accuracy.policies for run in runs]
    assert [each["headgate"] for each in ends] == [None, None]
    at_ends = [
        made(learnt, **{**ASKED, "system": {**SYSTEM, "budget": budget}}, runs=runs)
        for budget in (10.0, 40.0)
    ]
    low, high = (each.accuracy.policies["headgate"].mean for each in at_ends)
    assert 0 < low <= known.mean <= high < 1
    assert known.low <= known.mean <= known.high
    far = {**ASKED, "system": {**SYSTEM, "budget": 400.0}}
    assert made(learnt, **far, runs=runs).accuracy.policies["headgate"] is None


def test_runs_of_another_world_tell_no_accuracy(learnt):
    asked = {**ASKED, "prices": TRACE, "run": {"rounds": 30}}
    told = made(learnt, **asked, runs=["money~system.budget=10.0"]).accuracy
    assert told.policies == {}
    assert {"prices.kind", "run.rounds"} <= set(told.differs)
    assert made(learnt, **ASKED).accuracy.policies == {}
    with pytest.raises(UnknownRun, match="nobody"):
        made(learnt, **ASKED, runs=["nobody"])


# a request cannot have a module imported or a file read, however deep it hides the name

OUTSIDE, FILE = "planted_by_a_visitor:Part", {"kind": "trace", "file": "prices.csv"}
PER_CLIENT = {"kind": "per-client", "factors": [1.0, 1.0, 1.0]}


@pytest.mark.parametrize(
    "more",
    [
        of(OUTSIDE),
        of(kind=OUTSIDE),
        of(rule=OUTSIDE),
        of(rule={"kind": OUTSIDE}),
        of("constant", rule=OUTSIDE),
        of("acdpp", bound={"kind": OUTSIDE}),
        {"prices": {"kind": OUTSIDE}},
        {"prices": {**PER_CLIENT, "common": OUTSIDE}},
        {
            "prices": {
                **PER_CLIENT,
                "common": {**PER_CLIENT, "common": {"kind": OUTSIDE}},
            }
        },
        {"system": {**SYSTEM, "kind": OUTSIDE}},
        {"bound": {"kind": OUTSIDE}},
        {"prices": FILE},
        {"prices": {**FILE, "prices": [1.0]}},
        {"prices": {**PER_CLIENT, "common": {**PER_CLIENT, "common": FILE}}},
        {"prices": {**PRICES, "folder": "/"}},
    ],
)
def test_no_module_is_imported_and_no_file_read(tmp_path, monkeypatch, more):
    (tmp_path / "planted_by_a_visitor.py").write_text("raise SystemExit('imported')")
    (tmp_path / "prices.csv").write_text("price\n" + "1\n" * 40)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        HeadgateError, match=None if OUTSIDE in str(more) else "a plan names no file"
    ) as refused:
        made(**{**ASKED, **more})
    assert "planted_by_a_visitor" not in sys.modules
    assert "imported" not in str(refused.value)


def test_what_is_shipped_may_be_nested():
    told = answer(
        prices={**PER_CLIENT, "common": PRICES},
        **of(rule={"kind": "fifo", "capacity": 5}),
    )
    assert told["policy"] == "headgate"
    assert told["spend"] <= 20.0 * (1 + 1e-9)
