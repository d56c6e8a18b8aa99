import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import System
from headgate.control.policies import Acdpp, Threshold
from headgate.control.rehearse import Plan, plan
from headgate.experiment import load


@pytest.mark.paper("eq:optimal-K", "eq:kstep-opt-problem")
@pytest.mark.parametrize(
    ("recipe", "rate"), [("mnist", 10.0), ("cifar10", 20.0), ("imagenette", 40.0)]
)
def test_the_papers_systems_are_planned_with_K_10(recipe, rate):
    e = load(recipe)
    made = plan(e.given, e.policies["acdpp"])
    assert (made.policy.K, made.policy.rate) == (10, rate)
    assert (made.policy.V, made.policy.rho) == pytest.approx((10.0, 0.9))
    assert made.regret == pytest.approx(made.rehearsal.regret(e.bound).mean())


def test_what_is_stated_stays_and_what_is_left_out_is_worked_out():
    e = load("mnist", ["run.rounds=20", "run.seeds=3"])
    made = plan(e.given, Threshold())
    assert made.policy.limit == e.with_policy("own", Threshold()).policies["own"].limit
    assert made.setting("K") is None
    assert np.all(made.rehearsal.spend.sum(axis=-1) <= 55.0 * 20)
    stated = plan(e.given, Acdpp(K=3, rate=5.0))
    assert (stated.policy.K, stated.policy.rate, stated.setting("V")) == (
        3,
        5.0,
        pytest.approx(20**0.5),
    )


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 20)), min_size=1, max_size=6)
)
def test_the_fullest_client_is_over_its_buffer_if_any_is(clients):
    room, held = map(np.array, zip(*clients, strict=True))
    seen = type(
        "Seen",
        (),
        {"peak_occupancy": np.stack([held, held // 2]), "system": System(room, 9.0, 5)},
    )
    found = Plan(None, seen, 0.0, 0.0).peak_client
    if (held > room).any():
        assert held[found] - room[found] == (held - room).max()
    else:
        assert held[found] / room[found] == (held / room).max()


def test_a_budget_that_buys_next_to_nothing():
    made = plan(load("digits", ["system.budget=0.5"]).given, Acdpp())
    assert (
        made.bound == np.inf
    )  # memory is empty in the first rounds, as `rehearse` shows it
    assert made.peak_buffer >= 1
