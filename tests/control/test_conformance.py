"""Every policy, rule and price process that comes with headgate passes the public
checks, and names what it refuses.
"""

import re

import numpy as np
import pytest

from headgate.control import Losses, Report, selection
from headgate.control import policies as p
from headgate.control import prices as c
from headgate.control import retention as r
from headgate.errors import DataError, LedgerError, SettingError
from headgate.testing import (
    a_system,
    check_policy,
    check_prices,
    check_retention,
    check_selection,
)

from .following import follow_policy, follow_rule
from .playing import begun

OWN_PRICES = c.PerClient(c.Uniform(1, 10), (0.5, 1.0, 1.0, 1.5, 2.0), 0.3)
BUFFER = a_system().buffer
BUDGETED = {
    "headgate": p.Headgate(),
    "headgate, half of the places": p.Headgate(turnover=0.5, fill=0.0),
    "headgate, latest prices": p.Headgate(remember=16, smooth=0.25),
    "headgate, smooth": p.Headgate(smooth=1.0, ahead=2.0),
    "headgate, classes": p.Headgate(rule=r.ClassBalanced(BUFFER)),
    "headgate, by age": p.Headgate(rule=r.KStep(3, capacity="buffer")),
    "alert": p.Alert(false_alarms=5.0, probe=0.3),
    "threshold": p.Threshold(limit=4.0, share=0.5),
    "below": p.Below(rule=r.Reservoir(2)),
}
"""which know a price per client, too"""
OTHERS = {
    "oracle": p.Oracle(),
    "constant": p.Constant(rate=2.3, K=4),
    "constant, held": p.Constant(rate=6.5, K=4, capacity=BUFFER, purse=True),
    "constant, by lot": p.Constant(rate=6.3, K=4, rule=r.Reservoir(BUFFER)),
    "hybrid": p.Hybrid(rate=2.0, K=3, stale=(0, 3)),
    "hybrid, gradual and paid": p.Hybrid(
        rate=2.0, K=3, stale=(0, 3), fill="gradual", paid=True
    ),
    "hybrid, never filled": p.Hybrid(rate=2.0, K=3, stale=(0, 3), fill="none"),
    "acdpp": p.Acdpp(rate=2.0, K=5),
    "acdpp, a limited burst": p.Acdpp(rate=2.0, K=5, burst=7.5),
    "acdpp, held": p.Acdpp(
        rate=2.0, K=5, capacity=BUFFER, burst="buffer", purse=True, N0=100, n0=5
    ),
    "dpp": p.Dpp(K=5),
    "dpp, no cap": p.Dpp(K=5, burst="none"),
    "held": p.Held(p.Acdpp(rate=2.0, K=5)),
}
WITHOUT_END = [*BUDGETED, "acdpp", "dpp", "held"]


@pytest.mark.paper("eq:joint-policy")
@pytest.mark.parametrize("name", [*BUDGETED, *OTHERS])
def test_policies(name):
    policy = {**BUDGETED, **OTHERS}[name]
    check_policy(policy, rounds=24)
    follow_policy(policy, rounds=24)


@pytest.mark.parametrize("name", WITHOUT_END)
def test_policies_without_an_end(name):
    policy = {**BUDGETED, **OTHERS}[name]
    check_policy(policy, a_system(None), rounds=16)
    follow_policy(policy, a_system(None), rounds=16)


@pytest.mark.parametrize("name", BUDGETED)
def test_policies_at_a_price_per_client(name):
    check_policy(BUDGETED[name], rounds=12, prices=OWN_PRICES)
    follow_policy(BUDGETED[name], rounds=12, prices=OWN_PRICES)


@pytest.mark.paper("def:kstep", "eq:kstep-drop", "eq:buffer-occupancy")
@pytest.mark.parametrize(
    "rule",
    [
        r.KStep(1), r.KStep(60), r.KStep(3, forever=(0, 3)), r.KStep(1, capacity=2),
        r.KStep(2, capacity="buffer", forever=(0, 3)), r.KStep(5, capacity=BUFFER),
        r.KStep(50, capacity=2), r.Fifo(), r.Fifo(1), r.Fifo((3, 2, 1, 9, 5)),
        r.Reservoir(1), r.Reservoir(BUFFER),
        r.ClassBalanced(1), r.ClassBalanced(BUFFER),
    ],
    ids=lambda rule: type(rule).__name__,
)  # fmt: skip
def test_retention_rules(rule):
    check_retention(rule, rounds=20)
    follow_rule(rule, rounds=20)


@pytest.mark.parametrize("kind", selection.KINDS)
def test_buying_rules(kind):
    check_selection(selection.KINDS[kind]())


PRICES = [
    c.Uniform(1, 10), c.Fixed(3.0),
    c.Markov((2.0,), ((1.0,),)),
    c.Markov((1.0, 5.0, 9.0), ((0.9, 0.1, 0.0), (0.1, 0.8, 0.1), (0.0, 0.1, 0.9))),
    c.Trace(tuple(np.linspace(1, 9, 400))), c.Trace((1.0, 2.0, 6.0), "repeat"),
    c.Switches((1.0, 10.0), (200, 200)),
    c.Switches((10.0, 1.0, 0.0), (7, 5, 2), repeat=True),
    c.PerClient(c.Uniform(1, 10), (0.5, 1.0, 2.0), 0.3),
    c.Ercot(points=("HB_PAN", "LZ_WEST"), scale=2.0), c.Brent(),
]  # fmt: skip


@pytest.mark.parametrize("process", PRICES, ids=lambda process: type(process).__name__)
def test_prices(process):
    check_prices(process)


def test_every_kind_is_checked():
    causal = set(p.KINDS.values()) - {p.Clairvoyant}  # which knows all prices
    assert {type(policy) for policy in {**BUDGETED, **OTHERS}.values()} == causal
    assert {type(process) for process in PRICES} == set(c.KINDS.values())
    assert {r.KStep, r.Fifo, r.Reservoir, r.ClassBalanced} == set(r.KINDS.values())


def test_losses_are_kept_for_those_who_listen_alone():
    fine, short = np.ones((1, 5)), np.ones((1, 4))
    for policy, listens in ((p.Headgate(), False), (p.Alert(), True)):
        controller, ledger, orders = begun(policy)
        posted = controller.post(
            ledger, orders, Report(orders.admitted, losses=Losses(fine, fine))
        )
        assert (posted.losses is not None) == listens
    for bad in (short, -fine, fine * np.inf):
        with pytest.raises(
            LedgerError, match="round 1: losses must be one for each run and client"
        ):
            controller.post(
                ledger, orders, Report(orders.admitted, losses=Losses(fine, bad))
            )


NAN = float("nan")
BAD = [
    (
        p.Headgate,
        {},
        {
            "turnover": [0, 1.5],
            "remember": [0],
            "overdraft": [-1],
            "fairness": [-0.1, 2],
        },
    ),
    (
        p.Headgate,
        {},
        {"fill": [-1.0], "smooth": [-0.1, 1.1, NAN], "ahead": [-1.0, NAN]},
    ),
    (p.Alert, {}, {"false_alarms": [0.0], "probe": [1.5]}),
    (p.Threshold, {}, {"limit": [-1.0, NAN], "share": [-0.1, 1.1], "fill": [-1.0]}),
    (
        p.Acdpp,
        {"rate": 10, "K": 10},
        {"rho": [1.0, 0.0], "V": [0], "burst": [-5], "gamma": [1.5], "N0": [-1]},
    ),
    (p.Acdpp, {}, {"rate": [-1], "K": [0]}),
    (p.Constant, {"K": 1}, {"rate": [NAN]}),
    (r.KStep, {}, {"K": [0, 2.5]}),
    (r.KStep, {"K": 3}, {"capacity": [-1]}),
    (r.Fifo, {}, {"capacity": [0, 2.5]}),
    (c.Uniform, {"high": 10}, {"low": [-1]}),
    (c.Uniform, {"low": 1}, {"high": [NAN]}),
    (c.Fixed, {}, {"value": [0.0]}),
    (c.PerClient, {"common": c.Uniform(1, 10), "factors": (1.0,)}, {"noise": [2.0]}),
    (c.Brent, {}, {"scale": [0]}),
]


@pytest.mark.parametrize(
    ("kind", "needed", "name", "value"),
    [
        (kind, needed, name, value)
        for kind, needed, wrong in BAD
        for name, values in wrong.items()
        for value in values
    ],
)
def test_a_bad_setting_is_named_with_its_value(kind, needed, name, value):
    with pytest.raises(SettingError, match=re.escape(f"{name} = {value}")):
        kind(**{**needed, name: value})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: p.Acdpp(rate=10, K=10, burst="full"), 'burst = "full"'),
        (
            lambda: p.Hybrid(rate=1, K=1, stale=(4, 3, 2, 1, 0)).shares(a_system()),
            "nobody is left",
        ),
        (lambda: p.Hybrid(rate=1, K=1, stale=(0, 3), fill="later"), 'fill = "later"'),
        (
            lambda: p.Hybrid(rate=1, K=1, stale=(0, 5)).shares(a_system()),
            "there is no client 5",
        ),
        (lambda: r.Fifo("bufer"), 'capacity = "bufer"'),
        (lambda: r.Fifo((1, 2)).limit(a_system()), "2 entries for 5 clients"),
        (lambda: c.Uniform(3, 2), "must not be above"),
        (lambda: c.Markov((1.0, 2.0), ((0.5, 0.4), (0.5, 0.5))), "sum to 1"),
        (lambda: c.Markov((1.0, 2.0), ((1.0,), (0.5, 0.5))), "2 rows of 2"),
        (lambda: c.Markov((1.0, 2.0), ((1.0, 0.0), (0.0, 1.0))), "never be reached"),
        (lambda: c.Markov((-1.0,), ((1.0,),)), "levels"),
        (lambda: c.Trace((1.0,), "stay"), "at_end"),
        (lambda: c.Trace(), "either a file or prices"),
        (lambda: c.Trace((1.0,), file="a.csv"), "either a file or prices"),
        (lambda: c.Switches((1.0, 2.0), (3,)), "one for each of the 2 levels"),
        (lambda: c.Switches((1.0,), (0,)), "lengths = 0"),
        (lambda: c.Switches((0.0,), (5,)), "mean of levels"),
        (lambda: c.PerClient(c.Uniform(1, 10), ()), "factors"),
        (lambda: c.PerClient(c.Uniform(1, 10), (1.0, -1.0)), "factors"),
        (lambda: c.Ercot(points=("HB_MOON",)), "HB_MOON is none of HB_HUBAVG"),
    ],
)
def test_settings_that_do_not_go_together_are_named(make, message):
    with pytest.raises((SettingError, DataError)) as refusal:
        make()
    assert message in str(refusal.value)
