"""Errata of Lemma 5 and of the constant of Theorem 1. Each test fails if its erratum is untrue."""

import numpy as np
import pytest
import sympy

from headgate.theory.recursion import local_constants, memory_proportional_weight
from studies.paper.errata import about_the_recursion as errata


def steps(gradient, theta, eta, E):
    for _ in range(E):
        theta = theta - eta * gradient(theta)
    return theta


@pytest.mark.paper("eq:opt-recursion-app", "prop:Ropt-bound-app")
def test_24_the_recursion_is_false_with_the_minimum_of_another_objective():
    left, printed, mended = errata.minimum_of_the_wrong_objective().values()
    played = [steps(lambda theta, z=z: theta - z, 0.0, 0.01, 1) ** 2 for z in (-0.5, 0.5)]
    assert np.mean(played) == pytest.approx(left)
    assert left > 0 > printed
    assert left <= mended
    theta, z = sympy.symbols("theta z")
    loss = (theta - z) ** 2 / 2
    risk = sum(loss.subs(z, s) for s in (sympy.Rational(-1, 2), sympy.Rational(1, 2))) / 2
    assert sympy.solve(sympy.diff(risk, theta), theta) == [0]  # θ* is where it starts


def test_24_the_supremum_counts_once():
    """E min F̂ ≤ min E F̂ = F_P(θ*), so no second supremum is needed: min over θ of the mean of ±½ in the quadratic."""
    draw = np.random.default_rng(0)
    z = draw.choice([-0.5, 0.5], (4000, 5))
    least = ((z - z.mean(axis=1, keepdims=True)) ** 2 / 2).mean(axis=1)
    assert least.mean() < 1 / 8  # F_P(θ*)
    assert ((z**2) / 2).mean() == pytest.approx(1 / 8)  # E F̂(θ*)


@pytest.mark.paper("eq:opt-recursion-app", "eq:C1C2-def")
def test_25_three_local_steps_move_farther_than_the_recursion_allows():
    shown = list(errata.steps_of_a_round().values())
    holds = [left <= right for left, right in zip(shown[::2], shown[1::2], strict=True)]
    assert holds == [True, False, False]  # E = 2, 3, 10
    for E, left in zip((2, 3, 10), shown[::2], strict=True):
        assert steps(lambda theta: -1.0, 0.0, 0.1, E) ** 2 == pytest.approx(left)
        assert steps(lambda theta: -1.0, 0.0, 0.1 / E, E) ** 2 <= 0.01 * local_constants(1.0, 0.0, 2.0, E).C1  # steps of η/E


@pytest.mark.paper("eq:opt-recursion-app")
def test_26_without_convexity_the_recursion_is_false():
    left, right, gap = errata.without_convexity().values()
    stays = steps(lambda theta: -np.pi / 2 * np.sin(np.pi * theta), 0.0, 0.01, 100)
    assert stays == 0.0
    assert (1 + np.cos(np.pi * stays)) / 2 == gap
    assert left > right


@pytest.mark.paper("thm:regret-neff")
def test_27_with_the_start_in_every_round_the_bound_exceeds_any_excess_risk():
    every_round, root, once = errata.constant_inside_the_sum().values()
    eta, G, D = sympy.symbols("eta G D", positive=True)
    per_round = D**2 / (2 * eta) + eta * 5 * G**2 / 2
    least = per_round.subs(eta, sympy.solve(sympy.diff(per_round, eta), eta)[0])
    assert sympy.simplify(least - sympy.sqrt(5) * G * D) == 0
    assert every_round == pytest.approx(root, rel=1e-6)
    assert root > 1 > once


@pytest.mark.paper("eq:global-aggregation", "eq:memory-proportional-weight")
def test_33_with_the_papers_weights_steps_come_to_rest_beside_the_target():
    weight, share, stays, allowed, gap = errata.weights_of_the_server().values()
    assert weight == pytest.approx(0.64 / 0.68)
    theta, of_clients = 0.2, np.array([0.0, 1.0])  # θ* of the target; z of each client
    for _ in range(20_000):
        theta += 0.001 * float([weight, 1 - weight] @ (of_clients - theta))
    assert (theta - 0.2) ** 2 == pytest.approx(stays)
    assert stays > allowed  # though σ̄ = 0
    assert (theta - 0.2) ** 2 / 2 == pytest.approx(gap)
    alike = memory_proportional_weight([0.5, 0.5], [8, 2])
    assert alike == pytest.approx([share, 1 - share])  # equal α: w = n_m/n


@pytest.mark.paper("thm:regret-neff", "ass:bounded-domain")
def test_37_on_a_set_that_is_not_convex_theorem_1_is_false_as_printed():
    risk, printed, allowed = errata.two_islands().values()
    stays = steps(lambda theta: 0.0, 0.0, 10.0, 100)
    assert stays == 0.0  # on the island where the loss is 1; on the other it is 0
    assert risk > printed > allowed
