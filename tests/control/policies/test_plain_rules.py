"""The small buyers, those of the zoo too, each beside its rule in plain numbers: the
same purchases, to the sample.

Prices and budgets are multiples of 2^-6, so that sums of money are exact in whatever
order they are formed.
"""

import math
import struct
import sys
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Fifo, System
from headgate.control.policies import Below, Threshold
from headgate.control.policy import PolicyContext
from headgate.control.prices import Fixed, PriceProcess, Uniform
from headgate.control.randomness import Purpose, uniform
from headgate.errors import SettingError
from headgate.theory.bound import BoundConstants
from studies.zoo.plain import Pacing, Random

from ..playing import goes_on

RUNS, EPSILON, TINY = 2, 2.0**-30, sys.float_info.min
FOREVER = math.inf

# Each rule is given the prices up to today's, what earlier rounds cost, C, T, the most
# that may be spent so far and the places. It says which share of the places it wants
# and how much this round may cost.


def threshold(prices, costs, C, T, L, places, limit, share=1.0):
    return (
        1.0 if prices[-1] < limit else share if prices[-1] == limit else 0.0
    ), FOREVER


def random(prices, costs, C, T, L, places, chance, seed=0):
    low, high = struct.unpack("<II", struct.pack("<d", prices[-1]))
    return (
        float(uniform(seed, Purpose.ADMISSION, len(prices), low ^ high) < chance),
        FOREVER,
    )


def pacing(prices, costs, C, T, L, places, step=None, initial=None):
    mu = 1 / max(prices[0], TINY) if initial is None else initial
    for t in range(2, len(prices) + 1):
        mean, end = (
            max(sum(prices[:t]) / t, TINY),
            2 ** t.bit_length() if T is None else max(T, 2),
        )
        mu = max(
            mu - (step or 1 / (mean * C * math.sqrt(end))) * (C - costs[t - 2]), 0.0
        )
    return float(mu * prices[-1] <= 1), FOREVER


def below(prices, costs, C, T, L, places, quantile=0.5):
    c, t = prices[-1], len(prices)
    rounds = max(t, 20) if T is None else max(T - t + 1, 1)
    money = (
        max(L - sum(costs), 0.0) / rounds + (C * (1 - 1 / rounds) if T is None else 0.0)
    ) / quantile
    limit = sorted(prices)[math.ceil(quantile * t) - 1]
    return (min(money / (c * places), 1.0) if c * places > money else 1.0) * (
        c <= limit
    ), FOREVER


def bought(rule, setting, path, places, C, T, fill, overdraft):
    """What the rule buys in every round, with the purse of all buyers."""
    costs, owed, totals = [], 0.0, []
    for t, c in enumerate(path, start=1):
        S, L = sum(costs), C * (t + overdraft) if T is None else C * T
        share, most = rule(path[:t], costs, C, T, L, places, **setting)
        if fill and t == 1:
            share, L = 1.0, max(min(fill * C, L / 2), C)
        L = min(L, S + most)
        due = min(share * places + owed, float(places))
        n = math.floor(min(due + EPSILON, max(L - S, 0.0) / c if c else math.inf))
        n = n - 1 if S + c * n > L else n
        owed = max(due - math.floor(due + EPSILON), 0.0)
        costs.append(c * n)
        totals.append(n)
    return totals


SHARE = st.sampled_from([0.0, 0.3, 0.5, 1.0])
MAYBE = st.none() | st.sampled_from([2.0**-8, 0.1, 0.5, 1.0])
RULES = {
    threshold: (
        Threshold,
        {"limit": st.sampled_from([0.0, 1.0, 2.0, 5.0, math.inf])},
        {"share": SHARE},
    ),
    random: (Random, {"chance": SHARE}, {"seed": st.integers(0, 3)}),
    pacing: (Pacing, {}, {"step": MAYBE, "initial": MAYBE | st.just(0.0)}),
    below: (Below, {}, {"quantile": st.sampled_from([0.25, 0.5, 1.0])}),
}
WORLD = {
    "clients": st.integers(1, 5),
    "rounds": st.integers(1, 30),
    "beyond": st.sampled_from([None, -2, 0, 9]),
    "atoms": st.booleans(),
    "capacity": st.sampled_from(["buffer", 4]),
    "fill": st.sampled_from([0.0, 8.0]),
    "overdraft": st.sampled_from([0.0, 10.0]),
    "seed": st.integers(0, 10**6),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@settings(max_examples=50)
@given(world=st.fixed_dictionaries(WORLD), data=st.data())
def test_the_policy_buys_what_its_page_says(rule, world, data):
    policy, needed, others = RULES[rule]
    setting = data.draw(st.fixed_dictionaries(needed, optional=others))
    rng, rounds, purse = (
        np.random.default_rng(world["seed"]),
        world["rounds"],
        {k: world[k] for k in ("fill", "overdraft")},
    )
    buffers, shape = (
        rng.integers(1, 12, world["clients"], endpoint=True),
        (RUNS, rounds),
    )
    paths = (
        rng.choice([0.0, 0.5, 1.0, 2.0, 5.0], shape)
        if world["atoms"]
        else rng.integers(1, 640, shape) / 64
    )
    C = float(
        np.ceil(
            64 * rng.choice([0.05, 0.3, 1.0]) * rng.uniform(0.1, 5.0) * buffers.sum()
        )
        / 64
    )
    T = None if world["beyond"] is None else max(rounds + world["beyond"], 1)
    controller = Controller(
        System(buffers, C, T),
        policy(rule=Fifo(world["capacity"]), **setting, **purse),
        RUNS,
    )
    fast = [orders.admitted.sum(axis=-1) for orders, _ in goes_on(controller, paths.T)]
    places = int(
        buffers.sum() if world["capacity"] == "buffer" else np.minimum(buffers, 4).sum()
    )
    assert np.array(fast).T.tolist() == [
        bought(rule, setting, path, places, C, T, **purse) for path in paths.tolist()
    ]


class Told(PriceProcess):
    """Prices of few different kinds by seed and round; it keeps what it was asked
    for.
    """

    def path(self, seeds, start, stop):
        self.asked = seeds, start, stop
        return (seeds[:, None] * 7 + np.arange(start, stop) * 3) % 13 / 4

    def mean(self, rounds):
        return 1.0 + rounds / 4


SYSTEM = System(np.array([3, 8, 5]), 6.0, 40)


def resolved(policy, prices, rounds=40, system=SYSTEM):
    return policy.resolved(
        PolicyContext(system, prices, BoundConstants(), np.arange(2), rounds)
    )


@pytest.mark.parametrize("rounds", [1, 2, 7, 40])
@pytest.mark.parametrize("fill", [0.0, 1.0, 8.0])
def test_a_limit_that_is_left_out_spends_the_money_with_what_round_1_may_cost(
    fill, rounds
):
    prices = Told()
    policy = resolved(Threshold(fill=fill, share=0.2), prices, rounds)
    seeds, start, stop = prices.asked
    assert (start, stop, seeds.size * rounds) == (
        1,
        rounds + 1,
        pytest.approx(2**17, rel=0.001),
    )
    assert seeds.min() >= 2**31  # never those of the runs

    first = (
        min(16 * prices.mean(rounds), min(fill * 6.0, 6.0 * 40 / 2))
        if fill and rounds > 1
        else 0.0
    )
    spend = (6.0 * rounds - first) / (rounds - bool(first)) / 16
    seen = np.sort(prices.path(*prices.asked).ravel()).tolist()
    within = sum(total <= spend * len(seen) for total in accumulate(seen))
    limit = seen[within] if within < len(seen) else math.inf
    below, at = (
        sum(c for c in seen if test(c))
        for test in (lambda c: c < limit, lambda c: c == limit)
    )
    assert policy.limit == limit
    assert policy.share == pytest.approx(
        (spend * len(seen) - below) / at if at else 1.0, rel=1e-9
    )


def test_what_was_stated_stays():
    limited = Threshold(limit=2.0, share=0.5)
    assert resolved(limited, Uniform(1, 10)) is limited
    assert resolved(Random(chance=0.0), Uniform(1, 10)).chance == 0.0


def test_a_chance_that_is_left_out_spends_the_budget_at_the_mean_price():
    assert resolved(Random(), Fixed(2.0)).chance == 6.0 / (2.0 * 16)
    assert resolved(Random(), Fixed(0.25)).chance == 1.0


@pytest.mark.parametrize("policy", [Threshold(), Random()])
def test_without_what_it_needs_a_policy_refuses_to_decide(policy):
    controller = Controller(SYSTEM, policy)
    with pytest.raises(
        SettingError, match=r"(Threshold\.limit|Random\.chance): is missing"
    ):
        controller.decide(controller.open(), 1.0)
