"""Errata of Lemma 5 and of the constant of Theorem 1: the optimisation recursion."""

from math import pi, sqrt

import numpy as np

from headgate.theory.recursion import distance_recursion, local_constants, memory_proportional_weight
from studies.paper.errata import Numbers, shows


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


@shows(33)
def weights_of_the_server() -> Numbers:
    """ℓ = (θ − z)²/2 on [0, 1], z = 0 at client 1 and 1 at client 2; α = (0.8, 0.2) and n_m in proportion to it, η = 0.001.

    Samples of a client are alike, so F̂_all = F̂_mem = F_P and σ̄ = 0.
    """
    alpha, eta = np.array([0.8, 0.2]), 0.001
    weights = memory_proportional_weight(alpha, 10 * alpha)
    best, rest = alpha[1], weights[1]  # where F_P is least, and where the weighted steps come to rest
    away, gap = float((rest - best) ** 2), float((rest - best) ** 2 / 2)
    return {
        "weight of client 1": float(weights[0]),
        "its share in memory and target": float(alpha[0]),
        "‖θ(t+1) − θ*‖² where steps come to rest": away,
        "recursion": float(distance_recursion(away, gap, 0.0, eta, 1.0, local_constants(1.0, 1.0, 1.0, E=1))),
        "excess risk of every later round": gap,
    }


@shows(37)
def two_islands() -> Numbers:
    """Θ = [0, 1] ∪ [2, 3], loss 1 on the first and 0 on the second: G = σ = 0, Pdim = 1, D = 3; 100 fresh samples, η = 10."""
    D, eta, T, memory = 3.0, 10.0, 10_000, 100
    N = memory * np.arange(1, T + 1)
    return {
        "excess risk of 10,000 rounds from θ(1) = 0": float(T),
        "Theorem 1 as printed, D²/2η in every round": float(T * D**2 / (2 * eta) + (10 * np.sqrt((1 + np.log(N)) / N)).sum()),
        "G·D": 0.0,
    }
