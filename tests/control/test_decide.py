"""What a policy sees in a round, and what becomes of what it asks for."""

import numpy as np
import pytest

from headgate.control import AdmissionPolicy, AdmissionRequest, Fifo, KStep, System

from .playing import played

SYSTEM = System(np.array([3, 1, 7, 4, 5]), 11.0, 30)


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


def total(samples):
    return np.array([float(samples)])


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (KStep(2), [0, 10, 10, 10]),  # those of the round before; the others leave by age
        (Fifo(6), [0, 10, 20, 30]),
        (KStep(3, capacity=3), [0, 10, 15, 15]),
    ],
)
def test_a_policy_sees_the_ledger_and_what_is_still_in_memory(rule, kept):
    policy = Asks(AdmissionRequest(total(10)), rule)
    after = [ledger for _, ledger in played(SYSTEM, policy, [2.0] * 4)]
    assert [int(view.kept[0]) for view in policy.seen] == kept
    assert [view.kept_by_client.tolist() for view in policy.seen] == [[[each // 5] * 5] for each in kept]
    assert [view.t for view in policy.seen] == [1, 2, 3, 4]
    for view, ledger in zip(policy.seen[1:], after[:-1], strict=True):
        for name in ("spent", "debt", "distinct", "unused"):
            assert np.array_equal(getattr(view, name), getattr(ledger, name)), name


def first_orders(ask, rule, **weights):
    return next(played(SYSTEM, Asks(ask, rule, **weights), [2.0]))[0]


def test_nobody_is_given_more_than_the_policy_the_rule_and_both_leave_room_for():
    room = np.array([[2, 9, 2, 9, 2]])
    cases = [(None, Fifo(4), 4), (room, Fifo(4), [2, 4, 2, 4, 2]), (room, KStep(1), room[0]), (None, KStep(1), 20)]
    for asked_room, rule, most in cases:
        orders = first_orders(AdmissionRequest(total(100), asked_room), rule)
        assert orders.admitted.tolist() == [np.broadcast_to(most, 5).tolist()]
        assert orders.asked[0] == orders.admitted.sum()  # what lies beyond lapses


def test_room_of_a_client_without_a_share_is_no_room():
    orders = first_orders(AdmissionRequest(total(100)), Fifo(4), weights=(1, 2, 1, 1, 0))
    assert orders.admitted.tolist() == [[4, 4, 4, 4, 0]]
    assert (orders.asked.tolist(), orders.carry.tolist()) == ([16.0], [0.0])


def test_what_is_given_and_what_is_free_come_on_top_and_the_free_ones_cost_nothing():
    given, free = np.array([[1, 0, 0, 0, 2]]), np.array([[0, 3, 0, 0, 1]])
    ((orders, ledger),) = played(SYSTEM, Asks(AdmissionRequest(total(5), given=given, free=free), Fifo(9)), [2.0])
    assert orders.admitted.tolist() == [[2, 4, 1, 1, 4]]
    assert ledger.spent[0] == 2.0 * (5 + 3)
    assert orders.charge(np.array([[0, 2, 0, 0, 2]]))[0] == 2.0 * 1  # free ones are counted first
