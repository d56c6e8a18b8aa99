"""The cost-debt queue, its drift, and the objective that ACDPP minimises each round (paper §5.2, §6.2)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.theory.labels import paper

Floats = NDArray[np.float64]


@paper("eq:Z-update")
def debt_update(debt: ArrayLike, spend: ArrayLike, budget: ArrayLike) -> Floats:
    """Z(t+1) = [Z(t) + C_t − C]^+.

    >>> debt_update([0.0, 10.0], [30.0, 70.0], 55.0).tolist()
    [0.0, 25.0]
    """
    return np.asarray(np.maximum(np.asarray(debt) + np.asarray(spend) - np.asarray(budget), 0.0))


@paper("eq:lyapunov-dpp")
def lyapunov(debt: ArrayLike) -> Floats:
    """L = Z²/2."""
    return np.asarray(0.5 * np.asarray(debt, dtype=np.float64) ** 2)


@paper("eq:lyapunov-drift", "eq:dpp-objective")
def drift(debt: ArrayLike, next_debt: ArrayLike) -> Floats:
    """L(t+1) − L(t) of one step; its mean over runs in one state is Δ(O(t))."""
    return lyapunov(next_debt) - lyapunov(debt)


@paper("eq:dpp-upper-1", "eq:dpp-upper-anyd")
def drift_constant(most_spend: ArrayLike, budget: ArrayLike) -> Floats:
    """The constant of eq:dpp-upper-1 (the paper's second B): (C_t − C)²/2 for 0 ≤ C_t ≤ most_spend at its worst.

    It is uniform over rounds only while c(t)·Λ(t) is bounded; with the paper's interval that means
    c_max·Λ̄/(1−ρ), so the constant grows like (1−ρ)^{-2} (studies/paper/errata.md, erratum 13).
    """
    most_spend, budget = np.asarray(most_spend, dtype=np.float64), np.asarray(budget, dtype=np.float64)
    return np.asarray(0.5 * np.maximum((most_spend - budget) ** 2, budget**2))


@paper("eq:dpp-upper-2", "eq:J-constant")
def dpp_objective(
    debt: ArrayLike, cost: ArrayLike, admitted: ArrayLike, budget: ArrayLike, V: ArrayLike, p: ArrayLike
) -> Floats:
    """J_t(Λ) = Z·(c·Λ − C) + V·p."""
    return np.asarray(np.asarray(debt) * (np.asarray(cost) * np.asarray(admitted) - budget) + np.asarray(V) * p)


@paper("eq:lambda-min-max", "eq:lambda-interval")
def admission_interval(t: ArrayLike, rate: ArrayLike, rho: ArrayLike) -> tuple[Floats, Floats]:
    """[Λ_min(t), Λ_max(t)] = [Λ̄·(1 − ρ^t), Λ̄/(1 − ρ^t)].

    >>> [round(float(x), 6) for x in admission_interval(1, 10.0, 0.9)]
    [1.0, 100.0]
    """
    closed = -np.expm1(np.asarray(t, dtype=np.float64) * np.log(np.asarray(rho, dtype=np.float64)))
    rate = np.asarray(rate, dtype=np.float64)
    with np.errstate(divide="ignore"):  # before round 1 anything goes
        return np.asarray(rate * closed), np.asarray(rate / closed)


@paper("eq:dpp-T-slot-upper", "lem:dpp-T-slot-upper", "eq:dpp-drift-sum", "eq:penalty-bridge")
def t_slot_upper(constant: ArrayLike, rounds: int, V: ArrayLike, comparison: ArrayLike) -> Floats:
    """B·T + V·Σ p̄^CK(t): Lemma 1's ceiling for E[L(T+1) − L(1)] + V·Σ E[p(t)]. With L(1) added and over V: for Σ E[p(t)]."""
    return np.asarray(np.asarray(constant) * rounds + np.asarray(V) * np.sum(comparison, axis=-1))
