"""Admissions that become known after their round, and money that is set aside for
them.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control.controller import Controller, debt_update
from headgate.control.policies import Constant, Headgate
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.purse import kept_back
from headgate.control.types import Report, System
from headgate.errors import LedgerError
from headgate.testing import a_system

from .playing import begun


@given(st.lists(st.integers(0, 6), min_size=5, max_size=5), st.floats(0, 50))
def test_late_samples_enter_the_window_and_are_charged_at_what_they_cost(late, charge):
    controller, ledger, orders = begun(
        Constant(rate=4, K=2, capacity=a_system().buffer)
    )
    after = controller.post(
        ledger, orders, Report(orders.admitted, np.array([late]), np.array([charge]))
    )
    assert np.array_equal(after.admitted, orders.admitted + late)
    assert after.spent[0] == 2.0 * orders.admitted.sum() + charge
    assert (
        after.debt[0]
        == debt_update(ledger.debt, after.spent, controller.system.budget)[0]
    )
    assert np.all(after.occupancy <= controller.system.buffer)
    assert after.uses[0] == after.occupancy.sum()  # they are used from this round on


@pytest.mark.parametrize(
    ("late", "charge", "reason"),
    [
        (np.zeros((1, 5), np.int64), None, "belong together"),
        (None, np.zeros(1), "belong together"),
        (np.zeros((1, 4), np.int64), np.zeros(1), "whole numbers from 0 on"),
        (np.zeros((1, 5)), np.zeros(1), "whole numbers from 0 on"),
        (np.zeros((1, 5), np.int64), np.array([np.nan]), r"late samples for \[nan\]"),
        (np.zeros((1, 5), np.int64), np.array([-1.0]), r"late samples for \[-1\.0\]"),
        (np.zeros((1, 5), np.int64), np.zeros(2), "late samples for"),
        (
            np.array([[0, 0, -1, 0, 3]]),
            np.ones(1),
            "whole numbers from 0 on",
        ),  # one is enough
    ],
)
def test_what_makes_no_sense_is_refused(late, charge, reason):
    controller, ledger, orders = begun(Constant(rate=4, K=2))
    with pytest.raises(LedgerError, match=reason):
        controller.post(ledger, orders, Report(orders.admitted, late, charge))


@given(st.floats(0, 400), st.floats(0.5, 5))
def test_a_purse_leaves_alone_what_is_set_aside(reserved, price):
    controller = Controller(a_system(), Headgate())
    ledger = controller.open()
    orders = controller.decide(ledger, np.array([price]), np.array([reserved]))
    whole = controller.system.budget * controller.system.horizon
    assert orders.charge(orders.admitted)[0] == 0 or orders.charge(orders.admitted)[
        0
    ] + reserved <= whole * (1 + 1e-12)
    same = controller.decide(ledger, np.array([price]), np.array([0.0]))
    assert np.array_equal(
        same.admitted, controller.decide(ledger, np.array([price])).admitted
    )


class Greedy(BudgetedPolicy):
    """Wants every place in every round, so that the purse alone says no."""

    def wanted(self, view, memory):
        return np.ones_like(view.price), memory


BUFFER = np.array([3, 1, 7])
PRICES = st.builds(
    lambda digits, power: digits * 10.0**power, st.floats(0.01, 3.0), st.integers(-9, 3)
)


def just_enough(prices, open_end=False):
    """A budget with which every place can be paid for in every round, and nothing else:
    the last bit counts.
    """
    total = 0.0
    for row in prices:
        total += float((row * BUFFER).sum() if row.size > 1 else row[0] * BUFFER.sum())
    return System(BUFFER, total / len(prices), None if open_end else len(prices))


def spent(system, prices, chance, late):
    """Money spent in the end, where orders are answered at once or, if `late`, in any
    later round, in whole or in part.
    """
    controller = Controller(system, Greedy(fill=0.0, fairness=1.0, overdraft=0.0), 1)
    ledger, waiting, last = controller.open(), [], len(prices) + 1
    for t, row in enumerate([*prices, prices[0]], start=1):
        most = system.money(t)
        price = row[None] if row.size > 1 else row
        owing = sum(one * count for _, count, one in waiting)
        amounts = np.concatenate([ledger.spent, row, [one for *_, one in waiting]])
        reserved = (
            owing + kept_back(most, amounts, len(waiting) + BUFFER.size)
            if late
            else 0.0
        )
        orders = controller.decide(ledger, price, np.array([reserved]))
        told, before, charge, still = (
            np.zeros_like(orders.admitted),
            np.zeros_like(orders.admitted),
            0.0,
            [],
        )
        for m, count, one in waiting:
            if t == last or chance.random() < 0.5:
                part = count if chance.random() < 0.8 else chance.randint(0, count)
                before[0, m] += part
                charge += one * part
            else:
                still.append((m, count, one))
        for m, count in enumerate(orders.admitted[0].tolist()):
            if late and count and t < last and chance.random() < 0.5:
                still.append((m, count, float(row[m if row.size > 1 else 0])))
            else:
                told[0, m] = (
                    count if chance.random() < 0.8 else chance.randint(0, count)
                )
        waiting = still
        ledger = controller.post(
            ledger, orders, Report(told, before, np.array([charge]))
        )
        assert ledger.spent[0] <= most, "by a bit"
    return float(ledger.spent[0])


MANY = st.lists(st.lists(PRICES, min_size=3, max_size=3), min_size=1, max_size=5)


@settings(max_examples=100, deadline=None)
@given(
    MANY, st.booleans(), st.booleans(), st.booleans(), st.randoms(use_true_random=False)
)
def test_the_money_is_never_exceeded_by_a_bit_however_late_answers_come(
    rows, per_client, open_end, late, chance
):
    """Sums of floating-point numbers depend on their order, and late answers change it:
    what that can add is kept back.
    """
    prices = [np.array(row if per_client else row[:1]) for row in rows]
    system = just_enough(prices, open_end)
    assert spent(system, prices, chance, late) <= system.budget * (
        len(prices) + open_end
    )


class Whole:
    """Everybody admits all, all of it late."""

    random, randint = staticmethod(lambda: 0.4), staticmethod(lambda low, high: high)


@given(st.lists(st.integers(1, 40), min_size=4, max_size=4), st.booleans())
def test_where_nothing_is_ever_rounded_nothing_is_kept_back(quarters, late):
    prices = [np.array([each / 4]) for each in quarters]
    system = just_enough(prices)
    assert (
        spent(system, prices, Whole, late)
        == system.budget * system.horizon
        == sum(quarters) / 4 * BUFFER.sum()
    )
