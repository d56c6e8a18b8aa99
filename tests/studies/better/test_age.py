"""How old held samples are, against a queue; the least age, against every rule there is; what regular schedules close."""

import itertools
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.analysis.pages import read_numbers
from headgate.control import System
from headgate.control.policies import Periodic
from headgate.control.prices import Fixed, Uniform
from headgate.control.rehearse import rehearse
from studies.better.age import Aged, Regular, _played, aged, ages, least_age, off, regular, share_of_age

PAGES = Path(__file__).parents[3] / "docs" / "better"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12), st.integers(1, 6))
def test_ages_are_those_in_a_queue(admitted, places):
    queues, expected, held = [deque(maxlen=places), deque(maxlen=places)], [], []
    for t, row in enumerate(admitted):
        for queue, count in zip(queues, row, strict=True):
            queue.extend([t] * count)
        held.append([len(queue) for queue in queues])
        expected.append([np.mean(t - np.array(queue)) if queue else np.nan for queue in queues])
    assert ages(np.array([admitted]), np.array([held])) == pytest.approx(np.array([expected]), nan_ok=True)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25, 0.1])
def test_a_schedule_of_every_round_is_as_old_as_its_share_says(share):
    system = System(np.array([20]), 1e6, 200)
    told = rehearse(system, Periodic(share=share, every=1), Uniform(1, 10), np.array([0]), 200, by_client=True)
    settled = ages(told.admitted_by_client, told.held_by_client)[0, 50:, 0]
    assert share_of_age(settled.mean()) == pytest.approx(share)


def every_rule(prices, rounds, rate):
    """The least mean age plus `rate` times the spend, over all rules of one place: at each round and age, up to which price."""
    states = [(t, age) for t in range(2, rounds + 1) for age in range(t - 1)]
    totals = []
    for limits in itertools.product(range(len(prices) + 1), repeat=len(states)):
        rule, at, total = dict(zip(states, limits, strict=True)), {0: 1.0}, rate * np.mean(prices)
        for t in range(2, rounds + 1):
            after = {}
            for age, chance in at.items():
                lowest = sorted(prices)[: rule[t, age]]
                renewed = chance * len(lowest) / len(prices)
                total += chance * rate * sum(lowest) / len(prices)
                after[0] = after.get(0, 0.0) + renewed
                after[age + 1] = after.get(age + 1, 0.0) + chance - renewed
            at = after
            total += sum(age * chance for age, chance in at.items())
        totals.append(total)
    return min(totals)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.7, 1.1, 2.0, 50.0])
def test_no_rule_is_younger_for_the_money(rate):
    prices = [1.0, 3.0]
    age, spent = _played(np.array(prices), 4, rate)
    assert age * 4 + rate * spent == pytest.approx(every_rule(prices, 4, rate))


def test_more_money_makes_samples_younger():
    assert least_age(Fixed(2.0), 60, 61.0) == pytest.approx(0.5, abs=0.02)  # every second round
    assert least_age(Fixed(2.0), 60, 120.0) == 0.0  # every round
    by_money = [least_age(Uniform(1, 10), 60, money) for money in (10.0, 20.0, 40.0, 80.0)]
    assert by_money == sorted(by_money, reverse=True)
    assert by_money[0] > 2 * by_money[-1] > 0


def test_what_a_share_closes_lies_between_its_neighbours():
    curve = Regular((0.25, 0.5, 1.0), (0.2, 0.6, 1.0))
    assert [curve.at(share) for share in (0.25, 0.5, 1.0)] == pytest.approx([0.2, 0.6, 1.0])
    assert curve.at(np.sqrt(0.125)) == pytest.approx(0.4)
    assert curve.at(0.125) == pytest.approx(-0.2)  # as between the last two


def test_off_is_by_number_and_by_age():
    curve = Regular((0.25, 0.5, 1.0), (0.2, 0.6, 1.0))
    policies = [Aged("one", 1.5, 0.5, {"best": 0.25}), Aged("other", 0.0, 1.0, {"best": 0.9})]
    assert off(policies, {"best": curve}, "best") == pytest.approx(((0.35 + 0.1) / 2, (0.05 + 0.1) / 2))


def test_only_who_keeps_the_newest_within_both_limits_is_held_against_schedules():
    rows = read_numbers(PAGES / "ablations.json")["rows"]
    named = {one.policy: one for one in aged("ablations", rows)}
    assert {"headgate", "smooth-25", "turnover-50", "known-prices"} <= set(named)
    assert not {"oracle", "cheapest-first", "constant", "released", "reservoir", "dynamic", "acdpp-capped", "k-step-4"} & set(
        named
    )
    assert named["headgate"].age > named["smooth-25"].age  # which is what `smooth` is for
    closed = regular("response-logistic", read_numbers(PAGES / "response-logistic.json")["rows"], "best")
    assert closed.shares == (0.125, 0.25, 0.5, 1.0)
    assert closed.closed[-1] == 1.0
