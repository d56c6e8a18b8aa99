"""Policies and rules of one's own that cannot be meant are refused when they are put
in, or in the round they go wrong.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from headgate.control import (
    AdmissionPolicy,
    AdmissionRequest,
    Controller,
    Fifo,
    KStep,
    System,
)
from headgate.control.policies import Constant
from headgate.control.retention import Retention
from headgate.errors import SettingError

SYSTEM = System(np.array([4, 5]), 10.0, 20)


@dataclass(frozen=True)
class Rule(Retention):
    def rank(self, candidates):
        return candidates.position


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


@pytest.mark.parametrize("shares", [[1], [0, 0], [1, -1], [0.5, 0.5]])
def test_shares_are_whole_numbers_one_per_client(shares):
    class Sharing(Own):
        def shares(self, system):
            return np.array(shares)

    with pytest.raises(SettingError, match="policy shares must be whole numbers"):
        Controller(SYSTEM, Sharing())


@pytest.mark.parametrize(
    ("retention", "message"),
    [
        (Fifo(), r"Keeping\.retention: must be a method"),
        (lambda self, system: "fifo", "retention = 'fifo': must be a Retention"),
        (
            lambda self, system: KStep(np.array([1, 2])),
            r"K = \[1 2\]: must be one whole number",
        ),
        (
            lambda self, system: Rule(capacity=None),
            "Rule: needs a capacity; only window rules go without",
        ),
    ],
)
def test_retention_is_a_method_that_returns_a_rule_for_these_runs(retention, message):
    with pytest.raises(SettingError, match=message):
        Controller(SYSTEM, type("Keeping", (Own,), {"retention": retention})(), 2)


def refuses(view, memory):
    raise SettingError("the feed is empty")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (refuses, "round 1: Own: the feed is empty"),
        (
            lambda view, memory: 3,
            (
                r"round 1: Own\.admit must return an AdmissionRequest and the memory,"
                r" returned int"
            ),
        ),
        (
            lambda view, memory: (3, memory),
            r"round 1: Own\.admit must return an AdmissionRequest",
        ),
        (
            lambda view, memory: (AdmissionRequest(np.ones(2)), memory),
            "round 1: Own asked for an array of .*; needs one total for each run",
        ),
        *(
            (
                lambda view, memory, key=key: (
                    AdmissionRequest(np.ones(1), **{key: np.ones(3, int)}),
                    memory,
                ),
                (
                    rf"round 1: Own asked with `{key}` of shape \(3,\); needs one"
                    r" number for each of 1 runs"
                ),
            )
            for key in ("room", "given", "free")
        ),
    ],
)
def test_an_ask_that_cannot_be_meant_names_round_and_policy(said, message):
    controller = Controller(SYSTEM, Own(said))
    with pytest.raises(SettingError, match=message):
        controller.decide(controller.open(), 1.0)


@pytest.mark.parametrize("total", [-1.0, np.nan, 1e19])
def test_one_run_for_which_nonsense_is_asked_is_enough(total):
    controller = Controller(
        SYSTEM,
        Own(lambda view, memory: (AdmissionRequest(np.array([1.0, total])), memory)),
        2,
    )
    with pytest.raises(
        SettingError,
        match=r"round 1: Own asked for .* samples; (must be finite|at most)",
    ):
        controller.decide(controller.open(), 1.0)


def test_one_number_for_each_client_is_not_taken_for_one_of_each_run():
    """Where there are as many runs as clients the shapes are the same."""
    own = Controller(
        SYSTEM,
        Own(
            lambda view, memory: (
                AdmissionRequest(np.ones(view.system.clients)),
                memory,
            )
        ),
        2,
    )
    with pytest.raises(
        SettingError,
        match=(
            r"round 1: Own asked for an array of \(2,\); needs one total for each run"
        ),
    ):
        own.decide(own.open(), 1.0)
