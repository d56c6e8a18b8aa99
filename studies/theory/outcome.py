"""What was measured on one data set: points, stages, the whole."""

from dataclasses import dataclass, replace

import numpy as np

from headgate.control.types import Floats
from headgate.theory.bound import BoundConstants, learning_error, penalty
from studies.theory.population import Constants, Extremes, Optimum

RELEASED = BoundConstants()
"""the constants of the released scripts"""


@dataclass(frozen=True, eq=False)
class Point:
    """One policy under one budget, all seeds; arrays are (seeds, rounds)."""

    policy: str
    budget: float
    risk: Floats
    """F(θ^(t)), of the model that enters round t, as eq:cum-excess-risk has it"""
    excess: Floats
    """F(θ^(t)) − F(θ*)"""
    n: Floats
    N: Floats
    n_eff: Floats
    spend: Floats

    @property
    def label(self) -> str:
        return f"{self.policy}, C = {self.budget:g}"

    @property
    def measured(self) -> Floats:
        """E_T of each seed."""
        return np.asarray(self.excess.sum(axis=1))

    def bound(self, k: BoundConstants) -> Floats:
        """Theorem 1's term of each round."""
        return learning_error(self.n, self.N, self.n_eff / self.N, k)

    def penalty(self, k: BoundConstants) -> Floats:
        return penalty(self.n, self.N, k)


@dataclass(frozen=True, eq=False)
class Stage:
    """All points at one step size."""

    lr: float
    points: tuple[Point, ...]
    seen: Extremes
    estimated: Constants
    """the smallest that fit these runs, Pdim = number of parameters"""
    contained: bool
    """whether no run left the ball"""

    def few(self) -> Constants:
        """`estimated` with the released scripts' Pdim."""
        return replace(self.estimated, bound=replace(self.estimated.bound, pdim=RELEASED.pdim))


@dataclass(frozen=True, eq=False)
class ExcessRisk:
    """The outcome for one data set."""

    name: str
    rounds: int
    seeds: int
    steps: int
    L: float
    parameters: int
    classes: int
    optima: tuple[Optimum, ...]
    """one per seed: every seed deals the images out itself"""
    stages: tuple[Stage, ...]
    """the recipe's step size, then one that is at most 1/L"""
    quick: bool

    @property
    def idle(self) -> float:
        """T·(log c − F(θ*)): what the model that every run starts from, all zero, would gather by never learning."""
        return self.rounds * (float(np.log(self.classes)) - float(np.mean([each.risk for each in self.optima])))
