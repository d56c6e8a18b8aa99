"""What each policy came to, seed by seed, read from its run folders.

Learning is known of the seeds that did not diverge; control does not depend on learning, so money and memory are known of all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headgate.analysis.intervals import LEVEL, Floats, means
from headgate.errors import DataError
from headgate.experiment import load
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
    """One policy in one run folder."""

    batch: str
    policy: str
    budget: float
    mean_price: float
    """c̄, what a sample costs in expectation"""
    buffers: NDArray[np.int64]
    rounds: int
    all_seeds: tuple[int, ...]
    seeds: tuple[int, ...]
    """those whose model was not lost"""
    guessing: int
    """seeds that ended no better than guessing"""
    t: NDArray[np.int64]
    """the evaluated rounds, (E,)"""
    best: Floats
    """running best test accuracy at these rounds, (seeds, E)"""
    price: Floats
    """the price of every round, (all seeds, T)"""
    spent: Floats
    """money up to and with every round, (all seeds, T)"""
    debt: Floats
    """Z at the beginning of every round, (all seeds, T)"""
    n: Floats
    """samples in memory, (all seeds, T)"""
    distinct: Floats
    """N at the end, (all seeds,)"""
    occupancy: NDArray[np.int64]
    """by client, (all seeds, T, M)"""

    @property
    def diverged(self) -> int:
        return len(self.all_seeds) - len(self.seeds)

    @property
    def learnt(self) -> bool:
        """Whether any seed's model is left to be measured."""
        return bool(self.seeds)

    @property
    def spend(self) -> Floats:
        """Money a round, (all seeds,)."""
        return self.spent[:, -1] / self.rounds

    @property
    def expected_spend(self) -> Floats:
        """`spend` with the luck of the prices taken out, (all seeds,): what the same purchases had cost, had the prices met
        their expectation on average. Constant admission of Λ̄ then spends c̄·Λ̄ whatever the prices of its seed were."""
        return np.asarray(self.spend - self.bought * (self.price.mean(axis=1) - self.mean_price))

    @property
    def bought(self) -> Floats:
        """Samples paid for a round, (all seeds,)."""
        money = np.diff(self.spent, axis=1, prepend=0.0)
        return np.asarray(np.divide(money, self.price, out=np.zeros_like(money), where=self.price > 0).mean(axis=1))

    @property
    def final(self) -> Floats:
        """The running best at the end, (seeds,)."""
        return self.best[:, -1] if self.learnt else np.empty(0)

    @property
    def late_gain(self) -> Floats:
        """How much of the running best came in the last quarter of the rounds, (seeds,): have the curves settled?"""
        before = int(np.searchsorted(self.t, 0.75 * self.rounds, side="right")) - 1
        return self.final - (self.best[:, before] if before >= 0 else 0.0)

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
        return first_round(self.best.mean(axis=0), self.t, target) if self.learnt else None

    def of_seeds(self, seeds: Sequence[int]) -> "Outcome":
        """The same with the learning of these seeds only."""
        places = [self.seeds.index(seed) for seed in seeds]
        return replace(self, seeds=tuple(seeds), best=self.best[places])


Outcomes = Mapping[tuple[str, str], Outcome]
"""by (run folder's own name, policy)"""


def read_outcomes(runs: Path, folders: Sequence[str]) -> dict[tuple[str, str], Outcome]:
    """Every policy of the given folders."""
    found = [outcome for folder in folders for outcome in _of_folder(runs / folder)]
    return {(outcome.batch, outcome.policy): outcome for outcome in found}


def _of_folder(path: Path) -> Iterator[Outcome]:
    run = RunFolder.open(path)
    metrics, occupancy = run.metrics(), run.occupancy()
    mean_price = load(str(path / "config.toml")).prices.mean(run.rounds)
    for policy in run.state["policies"]:
        own, held = (frame.filter(pl.col("policy") == policy).sort("seed", "t") for frame in (metrics, occupancy))
        yield _outcome(run, policy, mean_price, own, held)


def _outcome(run: RunFolder, policy: str, mean_price: float, own: pl.DataFrame, held: pl.DataFrame) -> Outcome:
    all_seeds = tuple(sorted(run.state["seeds"]))
    shape = (len(all_seeds), run.rounds)
    wanted = [(seed, t) for seed in all_seeds for t in range(1, run.rounds + 1)]
    for table, frame in (("metrics", own), ("occupancy", held)):
        if frame.select("seed", "t").rows() != wanted:
            raise DataError(
                f"{run.path}: {table} of policy {policy}: not one row for each of {shape[0]} seeds and {shape[1]} rounds"
            )
    values = {
        name: own[name].cast(pl.Float64).fill_null(float("nan")).to_numpy().reshape(shape)
        for name in ("test_accuracy", "price", "spend", "debt", "n", "N")
    }
    lost = {seed for name, seed in run.diverged if name == policy}
    kept = [place for place, seed in enumerate(all_seeds) if seed not in lost]
    accuracy = values["test_accuracy"][kept]
    evaluated = np.flatnonzero(~np.isnan(accuracy).any(axis=0)) if kept else np.empty(0, dtype=np.int64)
    return Outcome(
        batch=run.name,
        policy=policy,
        budget=run.budget,
        mean_price=mean_price,
        buffers=np.array(run.buffers, dtype=np.int64),
        rounds=run.rounds,
        all_seeds=all_seeds,
        seeds=tuple(all_seeds[place] for place in kept),
        guessing=sum(one["policy"] == policy for one in run.state.get("guessing", [])),
        t=evaluated + 1,
        best=np.maximum.accumulate(accuracy[:, evaluated], axis=1),
        price=values["price"],
        spent=np.cumsum(values["spend"], axis=1),
        debt=values["debt"],
        n=values["n"],
        distinct=values["N"][:, -1],
        occupancy=held["n"].list.explode().to_numpy().reshape(*shape, len(run.buffers)),
    )


# Numbers with intervals


def estimate(values: Floats) -> Estimate:
    """The mean over seeds with Student's interval."""
    mean, half = (float(value) for value in means(values))
    return Estimate(mean, None, None) if np.isnan(half) else Estimate(mean, mean - half, mean + half)


def difference(ours: Outcome, other: Outcome) -> Estimate:
    """How much higher our running best ends, seed by seed where both have the seed: they met the same prices and samples."""
    mine, theirs = paired(ours, other)
    return estimate(mine.final - theirs.final)


def paired(ours: Outcome, other: Outcome) -> tuple[Outcome, Outcome]:
    """Both with the seeds that both have learnt. A running best is higher the more often one looks, so both must have looked
    equally often."""
    both = [seed for seed in ours.seeds if seed in other.seeds]
    names = f"{ours.batch}/{ours.policy} and {other.batch}/{other.policy}"
    if not both:
        raise DataError(f"{names}: have no seed in common that did not diverge")
    if not np.array_equal(ours.t, other.t):
        raise DataError(f"{names}: were evaluated in different rounds; their running bests cannot be compared")
    return ours.of_seeds(both), other.of_seeds(both)


def first_round(curve: Floats, t: NDArray[np.int64], target: float) -> int | None:
    """
    >>> first_round(np.array([0.2, 0.5, 0.6]), np.array([5, 10, 15]), 0.5)
    10
    """
    there = np.flatnonzero(curve >= target)
    return int(t[there[0]]) if there.size else None


def speed_up(ours: Outcome, other: Outcome, target: float) -> Estimate:
    """The other's first round at the target over ours, with an interval from drawing the seeds anew, the same for both.

    A curve of the other that never gets there counts as one round more than the last, so that the ratio is then a lower bound
    and has no upper end; one of ours that never gets there is infinitely slow.
    """
    ours, other = paired(ours, other)
    value = _first(other.best.mean(axis=0), other, target, other.rounds + 1) / _first(
        ours.best.mean(axis=0), ours, target, np.inf
    )
    if len(ours.seeds) < 2:
        return Estimate(float(value), None, None)
    picks = np.random.default_rng(0).integers(len(ours.seeds), size=(RESAMPLES, len(ours.seeds)))
    slow = other.best[picks].mean(axis=1)
    ratios = _first(slow, other, target, other.rounds + 1) / _first(ours.best[picks].mean(axis=1), ours, target, np.inf)
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    bounded = np.mean(slow[:, -1] < target) < (1 - LEVEL) / 2
    return Estimate(float(value), float(low), float(high) if bounded else None)


def _first(curves: Floats, of: Outcome, target: float, never: float) -> Floats:
    there = curves >= target
    rounds = of.t[there.argmax(axis=-1)]
    return np.where(there.any(axis=-1), rounds, never).astype(np.float64)
