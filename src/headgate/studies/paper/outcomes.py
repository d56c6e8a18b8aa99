"""The runs of a study, by folder and policy, and how much sooner one policy reaches a target than another."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
    """When the other's mean curve crosses the target over when ours does, with an interval from drawing the seeds anew, the
    same for both: bias-corrected and accelerated (BCa). From about twenty seeds on it holds the truth as often as it says.

    A curve of the other that never gets there counts as one round more than the last, so that the ratio is then a lower bound
    and has no upper end; one of ours that never gets there is infinitely slow.
    """
    from scipy.stats import DegenerateDataWarning, bootstrap

    ours, other = paired(ours, other)
    seeds = len(ours.learnt)
    missed = []

    def ratio(picked: NDArray[np.int64], axis: int = -1) -> Floats:
        """Of the seeds at these places, on the last axis."""
        slow, fast = (each.curve[picked].mean(axis=-2) for each in (other, ours))
        missed.append(np.mean(slow[..., -1] < target))
        return np.asarray(_crossing(slow, other, target, other.rounds + 1) / _crossing(fast, ours, target, np.inf))

    value = float(ratio(np.arange(seeds)))
    if seeds < 2:
        return Estimate(value, None, None, seeds)
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)  # all seeds say the same
        missed.clear()
        found = bootstrap(
            (np.arange(seeds),), ratio, n_resamples=RESAMPLES, confidence_level=LEVEL, vectorized=True, method="BCa", rng=0
        )
    low, high = found.confidence_interval
    if not (np.isfinite(low) and np.isfinite(high)):
        low, high = np.quantile(found.bootstrap_distribution, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    bounded = max(missed) < (1 - LEVEL) / 2
    return Estimate(value, float(low), float(high) if bounded else None, seeds)


def _crossing(curves: Floats, of: Runs, target: float, never: float) -> Floats:
    """The round at which curves reach the target, by a straight line from the look before it."""
    there = curves >= target
    place = there.argmax(axis=-1)
    before = np.maximum(place - 1, 0)
    low, high = (np.take_along_axis(curves, each[..., None], axis=-1)[..., 0] for each in (before, place))
    rise = np.where(high > low, high - low, 1.0)
    share = np.where(high > low, (target - low) / rise, 1.0)
    return np.where(there.any(axis=-1), of.t[before] + share * (of.t[place] - of.t[before]), never)
