"""The runs of a study, by folder and policy, and how much sooner one policy reaches a target than another."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from headgate.analysis.intervals import LEVEL, Estimate, Floats
from headgate.analysis.runs import Runs, paired, read_finished

RESAMPLES = 2000
"""of the seeds, for the interval of a ratio"""
Outcomes = Mapping[tuple[str, str], Runs]
"""by (run folder's own name, policy)"""


def read_outcomes(folders: Sequence[Path]) -> dict[tuple[str, str], Runs]:
    """Every policy of the given folders."""
    return {(one.folder, one.policy): one for folder in folders for one in read_finished([folder])}


def speed_up(ours: Runs, other: Runs, target: float) -> Estimate:
    """The other's first round at the target over ours, with an interval from drawing the seeds anew, the same for both.

    A curve of the other that never gets there counts as one round more than the last, so that the ratio is then a lower bound
    and has no upper end; one of ours that never gets there is infinitely slow.
    """
    ours, other = paired(ours, other)
    seeds = len(ours.learnt)
    value = _first(other.curve.mean(axis=0), other, target, other.rounds + 1) / _first(
        ours.curve.mean(axis=0), ours, target, np.inf
    )
    if seeds < 2:
        return Estimate(float(value), None, None, seeds)
    picks = np.random.default_rng(0).integers(seeds, size=(RESAMPLES, seeds))
    slow = other.curve[picks].mean(axis=1)
    ratios = _first(slow, other, target, other.rounds + 1) / _first(ours.curve[picks].mean(axis=1), ours, target, np.inf)
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    bounded = np.mean(slow[:, -1] < target) < (1 - LEVEL) / 2
    return Estimate(float(value), float(low), float(high) if bounded else None, seeds)


def _first(curves: Floats, of: Runs, target: float, never: float) -> Floats:
    there = curves >= target
    rounds = of.t[there.argmax(axis=-1)]
    return np.where(there.any(axis=-1), rounds, never).astype(np.float64)
