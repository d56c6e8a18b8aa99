"""Every policy, rule and price process that comes with headgate passes the public checks, and names what it refuses."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Losses, Report, System, policies, prices, retention, selection
from headgate.control.policies import (
    Acdpp,
    Alert,
    Below,
    Bucket,
    Clairvoyant,
    Constant,
    Dpp,
    Headgate,
    Held,
    Hybrid,
    Oracle,
    Pacing,
    Random,
    Rccda,
    Released,
    Resolving,
    Threshold,
)
from headgate.control.prices import (
    Bursts,
    Drift,
    Fixed,
    Markov,
    Pareto,
    PerClient,
    Seasonal,
    Switches,
    Trace,
    Uniform,
    UniformInteger,
)
from headgate.control.prices.recorded import Brent, Ercot
from headgate.control.retention import ClassBalanced, DynamicRatio, Fifo, KStep, Reservoir, StaticRatio
from headgate.errors import DataError, LedgerError, SettingError
from headgate.testing import a_system, check_policy, check_prices, check_retention, check_selection

OWN_PRICES = PerClient(Uniform(1, 10), (0.5, 1.0, 1.0, 1.5, 2.0), 0.3)
BUFFER = a_system().buffer
BUDGETED = {
    "headgate": Headgate(),
    "headgate, half of the places": Headgate(turnover=0.5, early=0.5, fill=0.0),
    "headgate, latest prices": Headgate(remember=16, smooth=0.25),
    "headgate, smooth": Headgate(smooth=1.0, ahead=2.0),
    "headgate, classes": Headgate(rule=ClassBalanced(BUFFER)),
    "headgate, by age": Headgate(rule=KStep(3, capacity="buffer")),
    "alert": Alert(false_alarms=5.0, probe=0.3, reserve=0.5),
    "threshold": Threshold(limit=4.0, share=0.5),
    "resolving": Resolving(rule=Reservoir(2)),
    "below": Below(),
    "rccda": Rccda(V=0.1, probe=0.2),
}
"""which know a price per client, too"""
OTHERS = {
    "pacing": Pacing(rule=DynamicRatio(BUFFER)),
    "bucket": Bucket(fill=0.0),
    "random": Random(chance=0.3),
    "oracle": Oracle(),
    "constant": Constant(rate=2.3, K=4),
    "constant, held": Constant(rate=6.5, K=4, capacity=BUFFER, purse=True),
    "constant, by lot": Constant(rate=6.3, K=4, rule=StaticRatio(BUFFER)),
    "hybrid": Hybrid(rate=2.0, K=3, stale=(0, 3)),
    "hybrid, gradual and paid": Hybrid(rate=2.0, K=3, stale=(0, 3), fill="gradual", paid=True),
    "hybrid, never filled": Hybrid(rate=2.0, K=3, stale=(0, 3), fill="none"),
    "acdpp": Acdpp(rate=2.0, K=5),
    "acdpp, a limited burst": Acdpp(rate=2.0, K=5, burst=7.5),
    "acdpp, held": Acdpp(rate=2.0, K=5, capacity=BUFFER, burst="buffer", purse=True, N0=100, n0=5),
    "dpp": Dpp(K=5),
    "dpp, no cap": Dpp(K=5, burst="none"),
    "released": Released(),
    "released, capacity and no least": Released(least=0, capacity=BUFFER),
    "held": Held(Acdpp(rate=2.0, K=5)),
}
WITHOUT_END = [*BUDGETED, "pacing", "bucket", "acdpp", "dpp", "held"]


@pytest.mark.paper("eq:joint-policy")
@pytest.mark.parametrize("name", [*BUDGETED, *OTHERS])
def test_policies(name):
    check_policy({**BUDGETED, **OTHERS}[name], rounds=24)


@pytest.mark.parametrize("name", WITHOUT_END)
def test_policies_without_an_end(name):
    check_policy({**BUDGETED, **OTHERS}[name], a_system(None), rounds=16)


@pytest.mark.parametrize("name", BUDGETED)
def test_policies_at_a_price_per_client(name):
    check_policy(BUDGETED[name], rounds=12, prices=OWN_PRICES)


@pytest.mark.paper("def:kstep", "eq:kstep-drop", "eq:buffer-occupancy")
@pytest.mark.parametrize(
    "rule",
    [
        KStep(1), KStep(60), KStep(np.array([2, 5, 1])), KStep(3, forever=(0, 3)), KStep(1, capacity=2),
        KStep(2, capacity="buffer", forever=(0, 3)), KStep(np.array([2, 5, 1]), capacity=BUFFER), KStep(50, capacity=2),
        Fifo(), Fifo(1), Fifo((3, 2, 1, 9, 5)),
        *(kind(capacity) for kind in (Reservoir, ClassBalanced, StaticRatio, DynamicRatio) for capacity in (1, BUFFER)),
    ],
    ids=lambda rule: type(rule).__name__,
)  # fmt: skip
def test_retention_rules(rule):
    check_retention(rule, rounds=20)


@pytest.mark.parametrize("kind", selection.KINDS)
def test_buying_rules(kind):
    check_selection(selection.KINDS[kind]())


PRICES = [
    Uniform(1, 10), UniformInteger(1, 10), Fixed(3.0), Markov((2.0,), ((1.0,),)),
    Markov((1.0, 5.0, 9.0), ((0.9, 0.1, 0.0), (0.1, 0.8, 0.1), (0.0, 0.1, 0.9))), Seasonal(5, 3, 24, 1), Seasonal(5, 5, 7),
    Trace(tuple(np.linspace(1, 9, 400))), Trace((1.0, 2.0, 6.0), "repeat"), Bursts(1, 6, 5, 0.02, 10), Drift(3, 8, 400),
    Bursts(1, 6, 0.5, 0.3, 1), Drift(8, 3, 100, 1.0), Pareto(1, 100, 1.2), Pareto(1, 1000, 1.0),
    Switches((1.0, 10.0), (200, 200)), Switches((10.0, 1.0, 0.0), (7, 5, 2), repeat=True),
    PerClient(Uniform(1, 10), (0.5, 1.0, 2.0), 0.3), Ercot(points=("HB_PAN", "LZ_WEST"), scale=2.0), Brent(),
]  # fmt: skip


@pytest.mark.parametrize("process", PRICES, ids=lambda process: type(process).__name__)
def test_prices(process):
    check_prices(process)


def test_every_kind_is_checked():
    causal = set(policies.KINDS.values()) - {Clairvoyant}  # which knows all prices
    assert {type(policy) for policy in {**BUDGETED, **OTHERS}.values()} == causal
    assert {type(process) for process in PRICES} == set(prices.KINDS.values())
    assert {KStep, Fifo, Reservoir, ClassBalanced, StaticRatio, DynamicRatio} == set(retention.KINDS.values())


@pytest.mark.parametrize("name", sorted(set(OTHERS) & {"pacing", "bucket", "random", "acdpp"}))
def test_the_others_say_that_they_need_one_price(name):
    with pytest.raises(SettingError, match=r"one price|prices per client"):
        check_policy(OTHERS[name], rounds=5, prices=OWN_PRICES)


LOSSES = st.lists(st.sampled_from([0.0, np.nan, 1e-300, 1.0, 1e300]) | st.floats(0.0, 20.0), min_size=3, max_size=3)
SOME_PRICES = st.lists(st.sampled_from([0.0, 1e-12, 1 / 3, 1e9]) | st.floats(0.0, 20.0), min_size=3, max_size=3)


@pytest.mark.parametrize("policy", [Alert(false_alarms=1e9, probe=0.4), Alert(), Rccda(V=100.0, rate=0.2, probe=0.2)])
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(SOME_PRICES, LOSSES), min_size=1, max_size=25), st.floats(0.01, 60.0), st.booleans(), st.booleans())
def test_a_policy_that_listens_never_overspends_or_overfills_whatever_it_hears(policy, rounds, budget, own_prices, open_end):
    buffer = np.array([3, 1, 7])
    controller = Controller(System(buffer, budget, None if open_end else len(rounds)), policy)
    ledger = controller.open()
    for t, (price, new) in enumerate(rounds, 1):
        orders = controller.decide(ledger, np.array([price]) if own_prices else price[0])
        heard = Losses(np.array([new]), np.array([new[::-1]]))
        ledger = controller.post(ledger, orders, Report(orders.admitted, losses=heard))
        assert np.array_equal(ledger.losses.new, heard.new, equal_nan=True)
        assert ledger.spent[0] <= budget * (t + policy.overdraft if open_end else len(rounds))
        assert np.all(ledger.occupancy <= buffer)


def test_losses_are_kept_for_those_who_listen_alone_and_those_that_cannot_be_are_refused():
    fine, short = np.ones((1, 5)), np.ones((1, 4))
    for policy, listens in ((Headgate(), False), (Rccda(rate=0.2), True)):
        controller = Controller(a_system(), policy)
        orders = controller.decide(controller.open(), 3.0)
        posted = controller.post(controller.open(), orders, Report(orders.admitted, losses=Losses(fine, fine)))
        assert (posted.losses is not None) == listens
    for bad in (short, -fine, fine * np.inf):
        with pytest.raises(LedgerError, match="round 1: losses must be one for each run and client"):
            controller.post(controller.open(), orders, Report(orders.admitted, losses=Losses(fine, bad)))


NAN = float("nan")
BAD = [
    (Headgate, {}, {"early": [1.5], "turnover": [0, 1.5], "remember": [0], "overdraft": [-1], "fairness": [-0.1, 2]}),
    (Headgate, {}, {"fill": [-1.0], "smooth": [-0.1, 1.1, NAN], "ahead": [-1.0, NAN]}),
    (Alert, {}, {"false_alarms": [0.0], "reserve": [1.0, -0.1], "probe": [1.5]}),
    (Rccda, {}, {"V": [0.0], "proportional": [-1.0], "derivative": [-1.0], "rate": [1.5], "probe": [-0.1]}),
    (Threshold, {}, {"limit": [-1.0, NAN], "share": [-0.1, 1.1], "fill": [-1.0]}),
    (Random, {}, {"chance": [-0.1, 1.1]}),
    (Pacing, {}, {"step": [0.0], "initial": [-1.0]}),
    (Bucket, {}, {"depth": [0.0]}),
    (Acdpp, {"rate": 10, "K": 10}, {"rho": [1.0, 0.0], "V": [0], "burst": [-5], "gamma": [1.5], "N0": [-1]}),
    (Acdpp, {}, {"rate": [-1], "K": [0]}),
    (Constant, {"K": 1}, {"rate": [NAN]}),
    (Released, {}, {"base": [1.5], "least": [-1]}),
    (Clairvoyant, {}, {"aim": ["money"]}),
    (KStep, {}, {"K": [0, 2.5]}),
    (KStep, {"K": 3}, {"capacity": [-1]}),
    (Fifo, {}, {"capacity": [0]}),
    (Reservoir, {}, {"capacity": [0]}),
    (DynamicRatio, {}, {"capacity": [2.5]}),
    (StaticRatio, {"capacity": 3}, {"ratio": [0.0, 1.5]}),
    (Uniform, {"high": 10}, {"low": [-1]}),
    (Uniform, {"low": 1}, {"high": [NAN]}),
    (UniformInteger, {"high": 3}, {"low": [1.5]}),
    (Fixed, {}, {"value": [0.0]}),
    (Seasonal, {"average": 5, "amplitude": 4}, {"period": [0]}),
    (Bursts, {"low": 1, "high": 6, "factor": 5, "chance": 0.1, "length": 3}, {"chance": [1.5], "length": [0], "factor": [-1]}),
    (Drift, {"first": 1, "last": 6, "rounds": 5}, {"first": [0], "noise": [1.1]}),
    (Pareto, {"low": 1, "high": 2, "tail": 2}, {"high": [1, float("inf")], "tail": [0]}),
    (PerClient, {"common": Uniform(1, 10), "factors": (1.0,)}, {"noise": [2.0]}),
    (Brent, {}, {"scale": [0]}),
]


@pytest.mark.parametrize(
    ("kind", "needed", "name", "value"),
    [(kind, needed, name, value) for kind, needed, wrong in BAD for name, values in wrong.items() for value in values],
)
def test_a_bad_setting_is_named_with_its_value(kind, needed, name, value):
    with pytest.raises(SettingError, match=re.escape(f"{name} = {value}")):
        kind(**{**needed, name: value})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Acdpp(rate=10, K=10, burst="full"), 'burst = "full"'),
        (lambda: Hybrid(rate=1, K=1, stale=(4, 3, 2, 1, 0)).shares(a_system()), "nobody is left"),
        (lambda: Hybrid(rate=1, K=1, stale=(0, 3), fill="later"), 'fill = "later"'),
        (lambda: Hybrid(rate=1, K=1, stale=(0, 5)).shares(a_system()), "there is no client 5"),
        (lambda: Fifo("bufer"), 'capacity = "bufer"'),
        (lambda: Fifo((1, 2)).limit(a_system()), "2 entries for 5 clients"),
        (lambda: Controller(System([1], 1.0), Constant(rate=1, K=1), 3, np.array([1, 2])), "2 seeds for 3 runs"),
        (lambda: Uniform(3, 2), "must not be above"),
        (lambda: Seasonal(5, 4, 10, 2), "fall below zero"),
        (lambda: Markov((1.0, 2.0), ((0.5, 0.4), (0.5, 0.5))), "sum to 1"),
        (lambda: Markov((1.0, 2.0), ((1.0,), (0.5, 0.5))), "2 rows of 2"),
        (lambda: Markov((1.0, 2.0), ((1.0, 0.0), (0.0, 1.0))), "never be reached"),
        (lambda: Markov((-1.0,), ((1.0,),)), "levels"),
        (lambda: Trace((1.0,), "stay"), "at_end"),
        (lambda: Trace(), "either a file or prices"),
        (lambda: Trace((1.0,), file="a.csv"), "either a file or prices"),
        (lambda: Switches((1.0, 2.0), (3,)), "one for each of the 2 levels"),
        (lambda: Switches((1.0,), (0,)), "lengths = 0"),
        (lambda: Switches((0.0,), (5,)), "mean of levels"),
        (lambda: PerClient(Uniform(1, 10), ()), "factors"),
        (lambda: PerClient(Uniform(1, 10), (1.0, -1.0)), "factors"),
        (lambda: Ercot(points=("HB_MOON",)), "HB_MOON is none of HB_HUBAVG"),
    ],
)
def test_settings_that_do_not_go_together_are_named(make, message):
    with pytest.raises((SettingError, DataError)) as refusal:
        make()
    assert message in str(refusal.value)
