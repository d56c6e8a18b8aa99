"""Errata of Lemma 5 and of the constant of Theorem 1: the optimisation recursion."""

from math import pi, sqrt

import numpy as np

from headgate.theory.errata.shown import Numbers, shows
from headgate.theory.recursion import distance_recursion, local_constants


@shows(24)
def minimum_of_the_wrong_objective() -> Numbers:
    """ℓ = (θ − z)²/2 on [−1, 1], z = ±½: θ* = 0. One sample, θ(1) = θ*, one step of η = 0.01."""
    eta, z = 0.01, 0.5
    c = local_constants(G=1.5, L=1.0, D=2.0, E=1)
    of_sample, least = z**2 / 2, 0.0
    return {
        "‖θ(2) − θ*‖²": (eta * z) ** 2,
        "eq:opt-recursion-app": float(distance_recursion(0.0, of_sample - least, 0.0, eta, 2.0, c)),
        "with F̂_all(θ*) for its minimum": float(distance_recursion(0.0, 0.0, 0.0, eta, 2.0, c)),
    }


@shows(25)
def steps_of_a_round() -> Numbers:
    """ℓ = 1 + z·θ on [−1, 1], z = ±1: F_P is constant, so θ(1) = 0 is a θ*. E steps of η = 0.1 on one sample."""
    eta = 0.1
    found: Numbers = {}
    for E in (2, 3, 10):
        c = local_constants(G=1.0, L=0.0, D=2.0, E=E)
        found[f"‖θ(2) − θ*‖², E = {E}"] = (E * eta) ** 2
        found[f"recursion with F̂_all(θ*), E = {E}"] = float(distance_recursion(0.0, 0.0, 0.0, eta, 2.0, c))
    return found


@shows(26)
def without_convexity() -> Numbers:
    """ℓ = (1 + cos πθ)/2 on [−1, 1], the same for every sample: gradient descent stays at θ(1) = 0, its highest point."""
    eta, G, L, D = 0.01, pi / 2, pi**2 / 2, 2.0
    gap = 1.0
    after = float(distance_recursion(1.0, gap, 0.0, eta, D, local_constants(G, L, D, E=1)))
    return {"‖θ(2) − θ*‖², where θ* = 1": 1.0, "recursion": after, "excess risk of every round": gap}


@shows(27)
def constant_inside_the_sum() -> Numbers:
    G = D = 1.0
    eta = np.geomspace(1e-4, 1e4, 100_001)
    with_all = D**2 / (2 * eta) + eta * local_constants(G, 0.0, D, E=1).C1 / 2
    T = 10_000
    spread = D**2 / (2 * eta * T) + eta * local_constants(G, 0.0, D, E=1).C1 / 2
    return {
        "least C_2 of any η over G·D, D²/2η in every round": float(with_all.min()),
        "√5": sqrt(5),
        "D²/2η once in T = 10,000 rounds": float(spread.min()),
    }
