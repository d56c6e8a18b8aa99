"""Admissions that become known after their round, and money that is set aside for them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.controller import Controller
from headgate.control.policies import Constant, Headgate
from headgate.control.retention import Fifo
from headgate.control.types import Report
from headgate.errors import LedgerError
from headgate.testing import a_system
from headgate.theory.drift import debt_update


def one(policy=None):
    return Controller(a_system(), policy or Constant(rate=4, K=2, capacity=a_system().buffer), 1)


@given(st.lists(st.integers(0, 6), min_size=5, max_size=5), st.floats(0, 50))
def test_late_samples_enter_the_window_and_are_charged_at_what_they_cost(late, charge):
    controller = one()
    ledger = controller.open()
    orders = controller.decide(ledger, np.array([2.0]))
    report = Report(orders.admitted, np.array([late]), np.array([charge]))
    after = controller.post(ledger, orders, report)
    assert np.array_equal(after.admitted, orders.admitted + late)
    assert after.spent[0] == 2.0 * orders.admitted.sum() + charge
    assert after.debt[0] == debt_update(ledger.debt, after.spent, controller.system.budget)[0]
    assert np.all(after.occupancy <= controller.system.buffer)
    assert after.uses[0] == after.occupancy.sum()  # they are used from this round on


def test_a_report_without_late_samples_is_what_it_was():
    controller = one()
    ledger = controller.open()
    orders = controller.decide(ledger, np.array([2.0]))
    none = np.zeros_like(orders.admitted)
    for report in (Report(orders.admitted), Report(orders.admitted, none, np.zeros(1))):
        after, plain = controller.post(ledger, orders, report), controller.post(ledger, orders)
        assert (after.spent[0], after.debt[0]) == (plain.spent[0], plain.debt[0])
        assert np.array_equal(after.admitted, plain.admitted)


@pytest.mark.parametrize(
    ("late", "charge", "reason"),
    [
        (np.zeros((1, 5), np.int64), None, "belong together"),
        (None, np.zeros(1), "belong together"),
        (np.zeros((1, 4), np.int64), np.zeros(1), "whole numbers from 0 on"),
        (np.zeros((1, 5)), np.zeros(1), "whole numbers from 0 on"),
        (np.full((1, 5), -1), np.zeros(1), "whole numbers from 0 on"),
        (np.zeros((1, 5), np.int64), np.array([np.nan]), r"late samples for \[nan\]"),
        (np.zeros((1, 5), np.int64), np.array([-1.0]), r"late samples for \[-1\.0\]"),
        (np.zeros((1, 5), np.int64), np.zeros(2), "late samples for"),
    ],
)
def test_what_makes_no_sense_is_refused(late, charge, reason):
    controller = one()
    orders = controller.decide(controller.open(), np.array([2.0]))
    with pytest.raises(LedgerError, match=reason):
        controller.post(controller.open(), orders, Report(orders.admitted, late, charge))


@given(st.floats(0, 400), st.floats(0.5, 5))
def test_a_purse_leaves_alone_what_is_set_aside(reserved, price):
    controller = one(Headgate(rule=Fifo(a_system().buffer)))
    ledger = controller.open()
    orders = controller.decide(ledger, np.array([price]), np.array([reserved]))
    whole = controller.system.budget * controller.system.horizon
    assert orders.charge(orders.admitted)[0] == 0 or orders.charge(orders.admitted)[0] + reserved <= whole * (1 + 1e-12)
    same = controller.decide(ledger, np.array([price]), np.array([0.0]))
    assert np.array_equal(same.admitted, controller.decide(ledger, np.array([price])).admitted)
