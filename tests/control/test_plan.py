from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import PolicyContext, System
from headgate.control.plan import _choose, _fullest, best_constant_admission, plan
from headgate.control.policies import Acdpp, Threshold
from headgate.control.prices import Uniform
from headgate.errors import SettingError
from headgate.experiment import load
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import Benchmark, ck_bound

k = BoundConstants()


def planned(buffers, budget, horizon):
    system = System(np.array(buffers), budget, horizon)
    return plan(PolicyContext(system, Uniform(1, 10), k, np.arange(5), horizon or 1000), Acdpp())


@pytest.mark.paper("eq:optimal-K", "eq:kstep-opt-problem", "rem:buffer-violation")
@pytest.mark.parametrize(("recipe", "rate"), [("mnist", 10.0), ("cifar10", 20.0), ("imagenette", 40.0)])
@pytest.mark.parametrize("first_seed", [0, 7000])
def test_the_papers_systems_are_planned_with_K_10(recipe, rate, first_seed):
    e = load(recipe, [f"run.first_seed={first_seed}"])
    made = plan(e.given, e.policies["acdpp"])
    assert (made.policy.K, made.policy.rate) == (10, rate)
    assert (made.policy.V, made.policy.rho) == pytest.approx((10.0, 0.9))
    assert made.corollary == (Benchmark(10, rate), Benchmark(10, rate))
    assert made.regret == pytest.approx(made.rehearsal.regret(e.bound).mean())
    assert made.rehearsal.buffer_violation() <= 0.1 * e.system.memory


@pytest.mark.paper("eq:kstep-opt-problem")
@pytest.mark.parametrize(("buffers", "budget", "rounds"), [([100], 55.0, 100), ([30, 50], 61.0, 40), ([7], 3.0, 200)])
def test_the_search_finds_the_best_of_all_feasible_points(buffers, budget, rounds):
    system = System(np.array(buffers), budget, rounds)
    best = best_constant_admission(system, 5.5, k, rounds)
    least = ck_bound(best.K, best.rate, rounds, k).sum()
    for K in range(1, 4 * int(np.ceil(5.5 * sum(buffers) / budget)) + 1):
        for rate in np.geomspace(1.0, 0.05, 20) * min(budget / 5.5, sum(buffers) / K):  # all that keep both limits
            assert ck_bound(K, rate, rounds, k).sum() >= least * (1 - 1e-12)


@pytest.mark.paper("rem:buffer-violation")
def test_a_K_that_breaks_the_buffers_is_passed_over():
    made = planned([8, 9, 10, 11, 12] * 2, 55.0, 1000)
    by_K = {c.K: c for c in made.candidates}
    assert by_K[10].bound < made.bound
    assert by_K[10].buffer_violation > 100
    assert made.policy.K == 9
    assert "broke the buffers" in made.why


@pytest.mark.paper("rem:buffer-violation")
def test_what_is_tolerated_does_not_grow_with_the_horizon():
    """Remark 3 claims O(1)."""
    system = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 1000)
    candidates = planned([8, 9, 10, 11, 12] * 2, 55.0, 100).candidates
    told = tuple(replace(c, buffer_violation=50.0 if c.K == 10 else 0.0) for c in candidates)
    for rounds in (100, 10_000):
        chosen, why = _choose(told, 10, system, 5.5, rounds, k.pdim)
        assert chosen.K == 9
        assert "K = 10 has the least rehearsed bound but broke the buffers" in why


def test_an_open_end_is_planned_over_a_thousand_rounds():
    made = planned([8, 9, 10, 11, 12] * 2, 55.0, None)
    assert made.rounds == 1000
    assert pytest.approx(1000**0.5) == made.policy.V


def test_a_single_client_with_room_for_one():
    made = planned([1], 5.5, 20)
    assert made.policy.K == 1
    assert made.policy.rate == pytest.approx(1.0)
    assert "Corollary 2 decides" in made.why  # twenty samples and a pseudo-dimension of 100


def test_any_other_policy_is_planned_as_it_is():
    e = load("mnist", ["run.rounds=20", "run.seeds=3"])
    made = plan(e.given, Threshold())
    assert made.policy.limit == e.with_policy("own", Threshold()).policies["own"].limit
    assert made.candidates == ()
    assert made.setting("K") is None
    assert np.all(made.rehearsal.spend.sum(axis=-1) <= 55.0 * 20)
    stated = plan(e.given, Acdpp(K=3, rate=5.0), search=False)
    assert (stated.policy.K, stated.policy.rate, stated.setting("V")) == (3, 5.0, pytest.approx(20**0.5))


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 20)), min_size=1, max_size=6),
)
def test_the_fullest_client_is_over_its_buffer_if_any_is(clients):
    room, held = map(np.array, zip(*clients, strict=True))
    of = SimpleNamespace(peak_occupancy=np.stack([held, held // 2]), system=System(room, 9.0, 5))
    found = _fullest(of)
    if (held > room).any():
        assert held[found] - room[found] == (held - room).max()
    else:
        assert held[found] / room[found] == (held / room).max()


def test_a_budget_that_buys_next_to_nothing():
    e = load("digits", ["system.budget=0.5"])
    made = plan(e.given, Acdpp())
    assert made.bound == np.inf  # memory is empty in the first rounds, as `rehearse` shows it
    assert made.peak_buffer >= 1
    assert made.why.endswith("samples a round use up the budget")  # the buffers are never full


def test_senseless_plans():
    with pytest.raises(SettingError, match=r"run.rounds = 1"):
        planned([10], 55.0, 1)
