"""The comparisons under other prices: every kind is there, budgets are alike, and who is not ahead is named."""

import numpy as np
import polars as pl
import pytest

from headgate import rehearse
from headgate.control.prices import KINDS
from headgate.experiment import sweep_points
from studies import recipe
from studies.better.every_price import exceptions, pairs_in, prices_table
from studies.better.studies import PRICED, study

POINTS = {name: [point for _, point in sweep_points(recipe(f"better/{name}"))] for name in PRICED}

COMPARE = "headgate compare studies/recipes/better"


def test_every_kind_of_price_is_compared():
    """A trace is a file of the user's; the recorded ones are what it would be."""
    kinds = {point.tables()["prices"]["kind"] for points in POINTS.values() for point in points}
    assert kinds == KINDS.keys() - {"trace"}


@pytest.mark.parametrize("name", PRICED)
def test_a_budget_is_a_tenth_of_what_full_buffers_would_cost(name):
    for point in POINTS[name]:
        full = point.prices.mean(point.rounds) * point.system.buffer.sum()
        assert point.system.budget == pytest.approx(full / 10, rel=0.011)
        assert (len(point.seeds), point.seeds[0]) == (40, 300 if name.endswith("lenet") else 100)


@pytest.mark.parametrize("name", ["ercot", "brent"])
def test_recorded_prices_differ_by_seed(name):
    """Each begins at a row that is drawn for it: two of forty may meet."""
    (point,) = POINTS[name]
    path = point.prices.path(point.seeds, 1, point.rounds + 1)
    assert len(np.unique(path.reshape(len(path), -1), axis=0)) >= len(path) - 1
    assert point.prices.unit == "$"


def test_without_a_limit_nearly_half_of_crude_oils_money_is_gone_in_the_first_quarter():
    """What the page says of `ahead`, and that its limit costs no samples there."""
    (point,) = POINTS["brent-lenet"]
    played = rehearse(point.only(["headgate", "ahead-any"])).frame
    early, bought = {}, {}
    for name in ("headgate", "ahead-any"):
        own = played.filter(pl.col("policy") == name)
        early[name] = own.filter(pl.col("t") <= point.rounds // 4)["spend"].sum() / own["spend"].sum()
        bought[name] = own["admitted"].sum()
    assert early["ahead-any"] == pytest.approx(0.47, abs=0.02)
    assert early["headgate"] < 0.4
    assert bought["headgate"] >= bought["ahead-any"]


def test_the_command_names_the_sweep_where_prices_differ():
    assert (
        study("prices").command
        == "headgate compare studies/recipes/better/prices.toml --budgets recipe --policies recipe --as-printed"
    )
    assert (
        study("brent").command
        == "headgate compare studies/recipes/better/brent.toml --budgets 46 --policies recipe --as-printed"
    )


def row(policy, best, last, prices="markov"):
    common = {"reference": False, "seeds": 4, "diverged": 0, "rounds": 5, "spend": 9.0, "worst_spend": 10.0}
    limits = {"overspent_runs": 0, "worst_excess": 0, "kept_limits": True, "price_paid": 2.0, "price_offered": 5.5}
    seeds = np.array([0.0, 0.01, -0.01, 0.0])
    learnt = {}
    for measure, value in (("best", best), ("last", last), ("mean", best)):
        learnt |= {measure: [value, None, None], f"{measure}_by_seed": (value + (1 + value) * seeds).tolist()}
    return {"policy": policy, "budget": 10.0, "prices": prices, **common, **limits, **learnt}


def test_who_is_not_clearly_ahead_is_named():
    clear = [row("headgate", 0.8, 0.8), row("constant", 0.6, 0.6)]
    short = [row("headgate", 0.8, 0.5, "drift"), row("constant", 0.6, 0.6, "drift")]
    pairs = pairs_in({"prices": [*clear, *short], "ablations": clear})
    assert [pair.short for pair in pairs] == [[], ["last"]]
    assert exceptions(pairs[:1]) == "In 1 of 1 rows `headgate` is clearly ahead by all three, in 0 clearly behind by any. "
    assert "In 1 of 2 rows" in exceptions(pairs)
    assert "drift, budget 10 (last)\n" in exceptions(pairs)
    assert "| 5.50 / 2.00 / 2.00 | **last** |" in prices_table(pairs)


def test_what_is_clear_alone_need_not_be_clear_among_many():
    """A difference with p = 0.02 beside 15 without one: after Holm's correction over all 48 tests it is none."""
    close = 0.6 + np.array([0.004, 0.006, 0.001, 0.007])
    ours = row("headgate", 0.6, 0.6) | {f"{measure}_by_seed": close.tolist() for measure in ("best", "last", "mean")}
    level = row("constant", 0.6, 0.6) | {f"{measure}_by_seed": [0.6] * 4 for measure in ("best", "last", "mean")}
    (alone,) = pairs_in({"brent": [ours, level]})
    assert 0.01 < alone.gaps["best"].p / 3 < 0.05
    many = [
        each | {"prices": f"kind {k}"} for k in range(15) for each in (row("headgate", 0.6, 0.6), row("constant", 0.6, 0.6))
    ]
    beside = pairs_in({"prices": [ours, level, *many]})[0]
    assert beside.gaps["best"].low > 0
    assert beside.short == ["best", "last", "mean"]
