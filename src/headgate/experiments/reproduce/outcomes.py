"""What each policy of a study came to, seed by seed, read from its run folders."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.experiments.curves import PolicyRuns, read_policies
from headgate.experiments.intervals import LEVEL, Floats, means
from headgate.records.reader import RunFolder

RESAMPLES = 2000
"""of the seeds, for the interval of a ratio"""


class Estimate(NamedTuple):
    """A number with its 80 % interval; None where the seeds give none."""

    mean: float
    low: float | None
    high: float | None

    def scaled(self, factor: float) -> "Estimate":
        return Estimate(*(None if value is None else factor * value for value in self))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Outcome:
    """One policy in one run folder; diverged seeds are left out and counted."""

    batch: str
    policy: str
    budget: float
    buffers: NDArray[np.int64]
    rounds: int
    seeds: tuple[int, ...]
    diverged: int
    guessing: int
    """seeds that ended no better than guessing"""
    t: NDArray[np.int64]
    """the evaluated rounds, (E,)"""
    best: Floats
    """running best test accuracy at these rounds, (S, E)"""
    spent: Floats
    """money up to and with every round, (S, T)"""
    debt: Floats
    """Z at the beginning of every round, (S, T)"""
    n: Floats
    """samples in memory, (S, T)"""
    occupancy: NDArray[np.int64]
    """by client, (S, T, M)"""

    @property
    def spend(self) -> Floats:
        """Money a round, (S,)."""
        return self.spent[:, -1] / self.rounds

    @property
    def final(self) -> Floats:
        """The running best at the end, (S,)."""
        return self.best[:, -1]

    @property
    def fullest(self) -> float:
        """The largest over clients of the mean occupancy over B_m: at most 1 where the paper's buffer constraint is kept."""
        return float((self.occupancy.mean(axis=(0, 1)) / self.buffers).max())

    @property
    def peak(self) -> int:
        """The most samples held at once by all clients together."""
        return int(self.n.max())

    @property
    def peak_over(self) -> float:
        """The largest n_m(t)/B_m of any client, round and seed."""
        return float((self.occupancy / self.buffers).max())

    def first_round(self, target: float) -> int | None:
        """The first evaluated round at which the mean over seeds of the running best reaches the target."""
        return first_round(self.best.mean(axis=0), self.t, target)


class Fate(NamedTuple):
    """What became of a policy's runs, also where none of them is left to be measured."""

    runs: int
    rounds: int
    diverged: int
    guessing: int

    @property
    def lost(self) -> int:
        return self.diverged + self.guessing


def read_fates(runs: Path, folders: Sequence[str]) -> dict[tuple[str, str], Fate]:
    """By (folder's own name, policy), every policy of the given folders."""
    fates = {}
    for folder in folders:
        run = RunFolder.open(runs / folder)
        lost = {key: Counter(one["policy"] for one in run.state.get(key, [])) for key in ("diverged", "guessing")}
        for policy in run.state["policies"]:
            counts = (lost[key][policy] for key in ("diverged", "guessing"))
            fates[run.name, policy] = Fate(len(run.state["seeds"]), run.rounds, *counts)
    return fates


def read_outcomes(runs: Path, folders: Sequence[str]) -> dict[tuple[str, str], Outcome]:
    """By (folder's own name, policy), every policy of the given folders of which a run is left to be measured."""
    found = [outcome for folder in folders for outcome in _of_folder(runs / folder)]
    return {(outcome.batch, outcome.policy): outcome for outcome in found}


def _of_folder(path: Path) -> Iterator[Outcome]:
    run = RunFolder.open(path)
    for policy in read_policies([run]):
        if policy.runs:
            yield outcome_of(run, policy)


def outcome_of(run: RunFolder, policy: PolicyRuns) -> Outcome:
    lost = {seed for name, seed in run.diverged if name == policy.policy}
    best = policy.best_so_far
    evaluated = np.flatnonzero(~np.isnan(policy.values["test_accuracy"]).any(axis=0))
    return Outcome(
        batch=run.name,
        policy=policy.policy,
        budget=policy.budget,
        buffers=policy.buffers,
        rounds=policy.rounds,
        seeds=tuple(seed for seed in sorted(run.state["seeds"]) if seed not in lost),
        diverged=len(lost),
        guessing=sum(one["policy"] == policy.policy for one in run.state.get("guessing", [])),
        t=evaluated + 1,
        best=best[:, evaluated],
        spent=policy.spent,
        debt=policy.values["debt"],
        n=policy.values["n"],
        occupancy=policy.occupancy,
    )


# Numbers with intervals


def estimate(values: Floats) -> Estimate:
    """The mean over seeds with Student's interval."""
    mean, half = (float(value) for value in means(values))
    return Estimate(mean, None, None) if np.isnan(half) else Estimate(mean, mean - half, mean + half)


def difference(ours: Outcome, other: Outcome) -> Estimate:
    """How much higher our running best ends, seed by seed where both have the seed: they met the same prices and samples."""
    both = _paired(ours, other)
    gains = [ours.final[ours.seeds.index(seed)] - other.final[other.seeds.index(seed)] for seed in both]
    return estimate(np.array(gains)) if both else Estimate(float(ours.final.mean() - other.final.mean()), None, None)


def _paired(ours: Outcome, other: Outcome) -> list[int]:
    """The seeds that both have. A running best is higher the more often one looks, so both must have looked equally often."""
    if not np.array_equal(ours.t, other.t):
        raise DataError(
            f"{ours.batch}/{ours.policy} and {other.batch}/{other.policy}: were evaluated in different rounds; "
            "their running bests cannot be compared"
        )
    return [seed for seed in ours.seeds if seed in other.seeds]


def first_round(curve: Floats, t: NDArray[np.int64], target: float) -> int | None:
    """
    >>> first_round(np.array([0.2, 0.5, 0.6]), np.array([5, 10, 15]), 0.5)
    10
    """
    there = np.flatnonzero(curve >= target)
    return int(t[there[0]]) if there.size else None


def speed_up(ours: Outcome, other: Outcome, target: float) -> Estimate:
    """The other's first round at the target over ours. Its interval comes from drawing the seeds anew, the same for both;
    a curve that never gets there counts as one round more than the last, so that the ratio is then a lower bound."""
    both = _paired(ours, other)
    mine, theirs = (outcome.best[[outcome.seeds.index(seed) for seed in both]] for outcome in (ours, other))
    value = _first(theirs.mean(axis=0), other, target) / _first(mine.mean(axis=0), ours, target)
    if len(both) < 2:
        return Estimate(float(value), None, None)
    picks = np.random.default_rng(0).integers(len(both), size=(RESAMPLES, len(both)))
    ratios = _first(theirs[picks].mean(axis=1), other, target) / _first(mine[picks].mean(axis=1), ours, target)
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))


def _first(curves: Floats, of: Outcome, target: float) -> Floats:
    there = curves >= target
    rounds = of.t[there.argmax(axis=-1)]
    return np.where(there.any(axis=-1), rounds, of.rounds + 1).astype(np.float64)
