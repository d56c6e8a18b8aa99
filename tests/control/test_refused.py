"""Policies and rules of one's own that cannot be meant are refused when they are put in, or in the round they go wrong."""

from dataclasses import dataclass

import numpy as np
import pytest

from headgate.control import AdmissionPolicy, AdmissionRequest, Controller, Fifo, KStep, Report, System
from headgate.control.policies import Acdpp, Constant
from headgate.control.policies.operating_point import highest_rate
from headgate.control.policy import PolicyContext
from headgate.control.prices import Uniform
from headgate.control.retention import Retention
from headgate.errors import SettingError
from headgate.theory.bound import BoundConstants

SYSTEM = System(np.array([4, 5]), 10.0, 20)


@dataclass(frozen=True)
class Own(AdmissionPolicy):
    said: object = None

    def admit(self, view, memory):
        return self.said(view, memory)


def test_runs_seeds_and_settings_must_fit_together():
    policy = Constant(rate=1, K=3)
    with pytest.raises(SettingError, match="runs = 0: must be at least 1"):
        Controller(SYSTEM, policy, 0)
    with pytest.raises(SettingError, match="3 seeds for 2 runs"):
        Controller(SYSTEM, policy, 2, np.arange(3))
    with pytest.raises(SettingError, match="must be one number, or one for each of 2 runs"):
        Controller(SYSTEM, Acdpp(rate=np.ones(3), K=3, V=np.ones(3), rho=0.5), 2)


@pytest.mark.parametrize("shares", [[1], [0, 0], [1, -1], [0.5, 0.5]])
def test_shares_are_whole_numbers_one_per_client(shares):
    class Sharing(Own):
        def shares(self, system):
            return np.array(shares)

    with pytest.raises(SettingError, match="policy shares must be whole numbers"):
        Controller(SYSTEM, Sharing())


def test_retention_is_a_method_that_returns_a_rule():
    class Wrong(Own):
        retention = Fifo()

    with pytest.raises(SettingError, match=r"Wrong\.retention: must be a method"):
        Controller(SYSTEM, Wrong())

    class Name(Own):
        def retention(self, system):
            return "fifo"

    with pytest.raises(SettingError, match="retention = 'fifo': must be a Retention"):
        Controller(SYSTEM, Name())


def test_a_K_for_each_run_is_for_these_runs():
    class Keeping(Own):
        def retention(self, system):
            return KStep(np.array([1, 2, 3]))

    with pytest.raises(SettingError, match="K: has 3 entries for 2 runs"):
        Controller(SYSTEM, Keeping(), 2)


def refuses(view, memory):
    raise SettingError("the feed is empty")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (refuses, "round 1: Own: the feed is empty"),
        (lambda view, memory: 3, r"round 1: Own\.admit must return an AdmissionRequest and the memory, returned int"),
        (lambda view, memory: (3, memory), r"round 1: Own\.admit must return an AdmissionRequest"),
        (
            lambda view, memory: (AdmissionRequest(np.ones(2)), memory),
            "round 1: Own asked for an array of .*; needs one total for each run",
        ),
        (lambda view, memory: (AdmissionRequest(np.array([-1.0])), memory), "round 1: Own asked for .* samples"),
        (lambda view, memory: (AdmissionRequest(np.array([1e19])), memory), r"round 1: Own asked for 1e\+19 samples; at most"),
    ],
)
def test_an_ask_that_cannot_be_meant_names_round_and_policy(said, message):
    controller = Controller(SYSTEM, Own(said))
    with pytest.raises(SettingError, match=message):
        controller.decide(controller.open(), 1.0)


@pytest.mark.parametrize("total", [-1.0, np.nan, 1e19])
def test_one_run_for_which_nonsense_is_asked_is_enough(total):
    controller = Controller(SYSTEM, Own(lambda view, memory: (AdmissionRequest(np.array([1.0, total])), memory)), 2)
    with pytest.raises(SettingError, match=r"round 1: Own asked for .* samples"):
        controller.decide(controller.open(), 1.0)


def test_one_number_for_each_client_is_not_taken_for_one_of_each_run():
    """Where there are as many runs as clients the shapes are the same; settings for each run still are."""
    own = Controller(SYSTEM, Own(lambda view, memory: (AdmissionRequest(np.ones(view.system.clients)), memory)), 2)
    with pytest.raises(SettingError, match=r"round 1: Own asked for an array of \(2,\); needs one total for each run"):
        own.decide(own.open(), 1.0)
    each = Controller(SYSTEM, Constant(rate=np.array([1.0, 2.0]), K=3), 2)
    assert each.decide(each.open(), 1.0).admitted.sum(axis=1).tolist() == [1, 2]


def test_a_setting_that_is_still_to_be_worked_out_is_named():
    with pytest.raises(SettingError, match=r"Constant\.rate: is missing; state it"):
        Constant(K=3).required("rate")


def test_a_sample_is_kept_for_a_round_at_least():
    given = PolicyContext(SYSTEM, Uniform(1, 10), BoundConstants(), np.arange(2), 20)
    with pytest.raises(SettingError, match="K = 0: a sample must be kept for at least one round"):
        highest_rate(0, given)


@dataclass(frozen=True)
class Rule(Retention):
    def rank(self, candidates):
        return candidates.position


def test_a_rule_that_chooses_needs_to_know_for_how_many_there_is_room():
    class Endless(Own):
        def retention(self, system):
            return Rule(capacity=None)

    with pytest.raises(SettingError, match="Rule: needs a capacity; only window rules go without"):
        Controller(SYSTEM, Endless())


def test_orders_tell_what_each_client_pays_at_one_price_or_at_its_own():
    controller = Controller(SYSTEM, Constant(rate=4, K=3))
    for price in (2.0, np.array([[2.0, 3.0]])):
        orders = controller.decide(controller.open(), price)
        paid = orders.paid(orders.admitted)
        assert paid.tolist() == (np.broadcast_to(price, (1, 2)) * orders.admitted).tolist()
        assert paid.sum() == pytest.approx(controller.post(controller.open(), orders, Report(orders.admitted)).spent[0])


@pytest.mark.parametrize("key", ["room", "given", "free"])
def test_what_is_said_for_each_client_is_said_for_each_run_and_client(key):
    controller = Controller(SYSTEM, Own(lambda view, memory: (AdmissionRequest(np.ones(1), **{key: np.ones(3, int)}), memory)))
    with pytest.raises(
        SettingError, match=rf"round 1: Own asked with `{key}` of shape \(3,\); needs one number for each of 1 runs"
    ):
        controller.decide(controller.open(), 1.0)
