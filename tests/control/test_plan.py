import numpy as np
import pytest

from headgate.control import System
from headgate.control.plan import best_constant_admission, plan
from headgate.control.policies import Acdpp
from headgate.control.prices import Uniform
from headgate.errors import InfeasibleError, SettingError
from headgate.experiment import load
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import Benchmark, ck_bound, ck_feasible

k = BoundConstants()
ANY = Acdpp(rate=1, K=1)


def planned(buffers, budget, horizon, **more):
    return plan(System(np.array(buffers), budget, horizon), Uniform(1, 10), k, ANY, np.arange(5), 0.5, 0.5, **more)


@pytest.mark.paper("eq:optimal-K", "eq:kstep-opt-problem", "rem:buffer-violation")
@pytest.mark.parametrize(("recipe", "rate"), [("mnist", 10.0), ("cifar10", 20.0), ("imagenette", 40.0)])
@pytest.mark.parametrize("first_seed", [0, 7000])
def test_the_papers_systems_are_planned_with_K_10(recipe, rate, first_seed):
    e = load(recipe, [f"run.first_seed={first_seed}"])
    made = plan(e.system, e.prices, e.bound, e.policies["acdpp"], e.seeds, 0.5, 0.5)
    assert (made.chosen.K, made.chosen.rate) == (10, rate)
    assert (made.V, made.rho) == pytest.approx((10.0, 0.9))
    assert made.corollary == (Benchmark(10, rate), Benchmark(10, rate))
    assert made.chosen.regret == pytest.approx(made.chosen.bound - made.oracle_bound)
    assert made.chosen.buffer_violation <= 1e-3 * e.system.memory * 100


@pytest.mark.paper("eq:kstep-opt-problem")
@pytest.mark.parametrize(("buffers", "budget", "rounds"), [([100], 55.0, 100), ([30, 50], 61.0, 40), ([7], 3.0, 200)])
def test_the_search_finds_the_best_of_all_feasible_points(buffers, budget, rounds):
    system = System(np.array(buffers), budget, rounds)
    best = best_constant_admission(system, 5.5, k, rounds)
    least = ck_bound(best.K, best.rate, rounds, k).sum()
    for K in range(1, 4 * int(np.ceil(5.5 * sum(buffers) / budget)) + 1):
        for rate in np.geomspace(1.0, 0.05, 20) * min(budget / 5.5, sum(buffers) / K):
            if ck_feasible(Benchmark(K, rate), 5.5, system.buffer, budget):
                assert ck_bound(K, rate, rounds, k).sum() >= least * (1 - 1e-12)


@pytest.mark.paper("rem:buffer-violation")
def test_a_K_that_breaks_the_buffers_is_passed_over():
    made = planned([8, 9, 10, 11, 12] * 2, 55.0, 1000)
    by_K = {c.K: c for c in made.candidates}
    assert by_K[10].bound < made.chosen.bound
    assert by_K[10].buffer_violation > 100
    assert made.chosen.K == 9
    assert "broke the buffers" in made.why


def test_an_open_end_is_planned_over_a_thousand_rounds():
    made = planned([8, 9, 10, 11, 12] * 2, 55.0, None)
    assert made.rounds == 1000
    assert pytest.approx(1000**0.5) == made.V


def test_a_single_client_with_room_for_one():
    made = planned([1], 5.5, 20)
    assert made.chosen.K == 1
    assert made.chosen.rate == pytest.approx(1.0)
    assert "Corollary 2 decides" in made.why  # twenty samples and a pseudo-dimension of 100


def test_infeasible_and_senseless_plans():
    with pytest.raises(InfeasibleError, match=r"system.budget = 0.01 a round buys less than one sample in 100 rounds"):
        planned([10], 0.01, 100)
    with pytest.raises(SettingError, match=r"run.rounds = 1"):
        planned([10], 55.0, 1)
