"""decide is pure, post is the only way time advances, and the ledger is the truth."""

from dataclasses import replace

import numpy as np
import pytest

from headgate.control import (
    AdmissionPolicy,
    AdmissionRequest,
    Controller,
    Fifo,
    KStep,
    Report,
    System,
)
from headgate.control.controller import MOST_ADMITTED
from headgate.control.files import load_ledger, save_ledger
from headgate.control.policies import Below, Constant, Headgate
from headgate.errors import LedgerError, SettingError
from headgate.testing import a_system

from .playing import begun, played


@pytest.mark.paper("eq:lambda-def")
def test_orders_are_windows_of_the_stream():
    ever = 0
    for orders, after in played(a_system(), Constant(rate=4, K=2), [1.0] * 6):
        assert np.array_equal(orders.last, ever + orders.admitted)
        assert np.array_equal(orders.last - orders.first, after.occupancy)
        ever = after.admitted


def test_posting_twice_or_out_of_turn_is_refused():
    controller, ledger, orders = begun(Constant(rate=4, K=2))
    after = controller.post(ledger, orders)
    with pytest.raises(
        LedgerError, match="orders are for round 1, the ledger stands at round 1"
    ):
        controller.post(after, orders)


OPENED = System([8, 9, 10], budget=20.0, horizon=40)
OTHER_TERMS = [
    ({"budget": 40.0}, 1, Headgate, "budget = 20.0, this controller has 40.0"),
    ({"horizon": 50}, 1, Headgate, "horizon = 40, this controller has 50"),
    ({"horizon": None}, 1, Headgate, "horizon = 40, this controller has None"),
    (
        {"buffer": [8, 10, 9]},
        1,
        Headgate,
        r"buffers = 27 places \(\w+\), this controller has 27 places \(\w+\)",
    ),
    (
        {"buffer": [8, 9], "weight": None},
        1,
        Headgate,
        "clients = 3, this controller has 2",
    ),
    ({}, 2, Headgate, "runs = 1, this controller has 2"),
    ({}, 1, Below, "policy = Headgate, this controller has Below"),
]


@pytest.mark.parametrize(("changes", "runs", "policy", "message"), OTHER_TERMS)
def test_a_ledger_is_refused_by_a_controller_of_other_terms(
    changes, runs, policy, message, tmp_path
):
    """Else a new budget would count from round 1 on."""
    own, other = (
        Controller(OPENED, Headgate()),
        Controller(replace(OPENED, **changes), policy(), runs),
    )
    ledger = own.open()
    orders = own.decide(ledger, 3.0)
    after = own.post(ledger, orders)
    save_ledger(after, tmp_path / "ledger.npz")
    for refused in (
        lambda: other.decide(after, 3.0),
        lambda: other.post(ledger, orders),
        lambda: load_ledger(tmp_path / "ledger.npz", other),
    ):
        with pytest.raises(LedgerError, match=f"was opened with {message}"):
            refused()


def test_what_was_not_admitted_is_not_charged():
    controller, ledger, orders = begun(Constant(rate=20, K=2), 3.0)
    half = orders.admitted // 2
    after = controller.post(ledger, orders, Report(half))
    assert after.spent[0] == 3.0 * half.sum()
    assert after.distinct[0] == half.sum()
    assert np.array_equal(after.occupancy, half)
    for wrong in (orders.admitted + 1, -orders.admitted - 1, half[:, :2], half * 1.0):
        with pytest.raises(LedgerError, match="nothing was posted"):
            controller.post(ledger, orders, Report(wrong))


@pytest.mark.parametrize(("client", "change"), [(2, 1), (4, 1), (3, -99)])
def test_a_client_that_reports_more_than_its_order_is_named(client, change):
    controller, ledger, orders = begun(Constant(rate=20, K=2))
    said = orders.admitted.copy()
    said[0, 0], said[0, client] = 0, said[0, client] + change
    ordered = orders.admitted[0, client]
    with pytest.raises(
        LedgerError,
        match=(
            f"client {client} reports {ordered + change} admitted samples where"
            f" {ordered} were"
        ),
    ):
        controller.post(ledger, orders, Report(said))


def test_a_price_per_client_is_charged_per_client():
    ((orders, after),) = played(
        a_system(), Constant(rate=20, K=2), [np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])]
    )
    assert orders.admitted.tolist() == [[3, 1, 7, 4, 5]]
    assert after.spent[0] == 3 + 2 + 21 + 16 + 25
    assert orders.paid(orders.admitted).tolist() == [[3, 2, 21, 16, 25]]


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_bad_prices_are_refused(price):
    controller = Controller(a_system(), Constant(rate=4, K=2), 2)
    with pytest.raises(SettingError, match=f"round 1: a price of {price};"):
        controller.decide(controller.open(), np.array([0.0, price]))
    with pytest.raises(
        SettingError, match=r"prices of shape \(3,\); needs one, one for each of 2 runs"
    ):
        controller.decide(controller.open(), np.ones(3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buffer": []}, "at least one client"),
        ({"buffer": 8}, "system.buffers = 8: must be a list"),
        ({"buffer": [3, 0]}, r"system.buffers\[1\] = 0"),
        ({"buffer": [3, 2.5]}, "whole numbers"),
        ({"buffer": [3], "budget": 0.0}, "system.budget = 0.0"),
        ({"buffer": [3], "budget": float("nan")}, "system.budget = nan"),
        ({"buffer": [3], "horizon": 0}, "horizon = 0"),
        ({"buffer": [3], "weight": [1.0, 1.0]}, "2 entries for 1 clients"),
        ({"buffer": [3, 3], "weight": [0.0, 0.0]}, "not all zero"),
    ],
)
def test_a_system_that_makes_no_sense_is_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        System(**{"budget": 1.0, **settings})


def test_weights_are_normalised_and_nothing_can_be_changed_in_place():
    system = System(np.array([1, 2]), 1.0, weight=np.array([1.0, 3.0]))
    assert system.weight.tolist() == [0.25, 0.75]
    with pytest.raises(ValueError, match="read-only"):
        system.buffer[0] = 5


class Asks(AdmissionPolicy):
    """The same in every round; remembers what it saw."""

    def __init__(self, ask, rule, weights=(1, 1, 1, 1, 1)):
        self.ask, self.rule, self.weights, self.seen = ask, rule, np.array(weights), []

    def retention(self, system):
        return self.rule

    def shares(self, system):
        return self.weights

    def admit(self, view, memory):
        self.seen.append(view)
        return self.ask, memory


FOUR = [1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("total", "weights", "extra", "fits"),
    [
        (MOST_ADMITTED / 4, FOUR, {}, True),  # four shares in all
        (MOST_ADMITTED / 4 + 1, FOUR, {}, False),
        (MOST_ADMITTED, [1], {}, True),
        (0.0, [1], {"given": np.array([[MOST_ADMITTED]])}, True),
        (0.0, FOUR, {"given": np.full((1, 5), MOST_ADMITTED)}, False),
    ],
)
def test_as_many_samples_as_can_be_counted_exactly_may_be_asked_for_and_no_more(
    total, weights, extra, fits
):
    system = System(np.arange(1, len(weights) + 1), 1.0)
    policy = Asks(AdmissionRequest(np.array([total]), **extra), KStep(1), weights)
    if fits:
        ((orders, _),) = played(system, policy, [1.0])
        assert orders.admitted.sum() == total + sum(
            each.sum() for each in extra.values()
        )
    else:
        with pytest.raises(SettingError, match="at most"):
            next(played(system, policy, [1.0]))


def total(samples):
    return np.array([float(samples)])


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (
            KStep(2),
            [0, 10, 10, 10],
        ),  # those of the round before; the others leave by age
        (Fifo(6), [0, 10, 20, 30]),
        (KStep(3, capacity=3), [0, 10, 15, 15]),
    ],
)
def test_a_policy_sees_the_ledger_and_what_is_still_in_memory(rule, kept):
    policy = Asks(AdmissionRequest(total(10)), rule)
    after = [ledger for _, ledger in played(a_system(), policy, [2.0] * 4)]
    assert [int(view.kept[0]) for view in policy.seen] == kept
    assert [view.kept_by_client.tolist() for view in policy.seen] == [
        [[each // 5] * 5] for each in kept
    ]
    assert [view.t for view in policy.seen] == [1, 2, 3, 4]
    for view, ledger in zip(policy.seen[1:], after[:-1], strict=True):
        for name in ("spent", "debt", "distinct", "unused"):
            assert np.array_equal(getattr(view, name), getattr(ledger, name)), name


def first_orders(ask, rule, **weights):
    return next(played(a_system(), Asks(ask, rule, **weights), [2.0]))[0]


def test_nobody_is_given_more_than_the_policy_the_rule_and_both_leave_room_for():
    room = np.array([[2, 9, 2, 9, 2]])
    cases = [
        (None, Fifo(4), 4),
        (room, Fifo(4), [2, 4, 2, 4, 2]),
        (room, KStep(1), room[0]),
        (None, KStep(1), 20),
    ]
    for asked_room, rule, most in cases:
        orders = first_orders(AdmissionRequest(total(100), asked_room), rule)
        assert orders.admitted.tolist() == [np.broadcast_to(most, 5).tolist()]
        assert orders.asked[0] == orders.admitted.sum()  # what lies beyond lapses


def test_room_of_a_client_without_a_share_is_no_room():
    orders = first_orders(
        AdmissionRequest(total(100)), Fifo(4), weights=(1, 2, 1, 1, 0)
    )
    assert orders.admitted.tolist() == [[4, 4, 4, 4, 0]]
    assert (orders.asked.tolist(), orders.carry.tolist()) == ([16.0], [0.0])


def test_what_is_given_and_what_is_free_come_on_top_and_the_free_ones_cost_nothing():
    given, free = np.array([[1, 0, 0, 0, 2]]), np.array([[0, 3, 0, 0, 1]])
    ((orders, ledger),) = played(
        a_system(),
        Asks(AdmissionRequest(total(5), given=given, free=free), Fifo(9)),
        [2.0],
    )
    assert orders.admitted.tolist() == [[2, 4, 1, 1, 4]]
    assert ledger.spent[0] == 2.0 * (5 + 3)
    assert (
        orders.charge(np.array([[0, 2, 0, 0, 2]]))[0] == 2.0 * 1
    )  # free ones are counted first
