"""Runs as a table: what each policy of a run folder came to, seed by seed and round by round.

Learning is known of the runs whose model was not lost. Control does not depend on learning, so money and memory are known of
all of them. Command line, report, comparison, page and studies read runs through this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.formatting import prices_text, unit_of
from headgate.analysis.intervals import Floats
from headgate.control.policies import KINDS
from headgate.control.policies.held import REFERENCES as NEVER_HELD
from headgate.errors import DataError
from headgate.records.reader import RunFolder
from headgate.records.tables import Rows

Ints = NDArray[np.int64]
LEARNING = ("test_accuracy", "test_loss", "validation_accuracy", "train_loss")
"""columns that mean nothing where the model was lost"""
MEASURES = {
    "best": "highest accuracy so far, at the end",
    "last": "accuracy in the last tenth of the rounds",
    "mean": "highest accuracy so far, mean over rounds",
    "chosen": "accuracy of the model chosen on held-out training data",
}
"""what a run has learnt, each a number from 0 to 1: one for each seed"""
REFERENCES = tuple(kind for kind, policy in KINDS.items() if issubclass(policy, NEVER_HELD))
"""kinds of policies that know or spend what nobody has: shown, never ranked"""


@dataclass(frozen=True, eq=False)
class Runs:
    """All runs of one policy in one run folder, one for each seed."""

    folder: str
    policy: str
    budget: float
    """C, a round"""
    buffers: Ints
    """B_m, (M,)"""
    rounds: int
    """T, as asked for"""
    seeds: tuple[int, ...]
    lost: NDArray[np.bool_]
    """(seeds,): the model diverged"""
    reached: Ints
    """(seeds,): the last round of each, 0 where it has not begun"""
    values: Mapping[str, Floats]
    """by column of the metrics, (seeds, rounds up to the farthest), NaN where there is none"""
    held: Ints | None = None
    """n_m(t) of the runs that have begun, (runs, rounds, M); None where it was not recorded"""
    kind: str = ""
    data: str | None = None
    prices: str = ""
    """the price process in a few words"""
    unit: str = ""
    """what its money is counted in, where prices are real ones"""
    label: str = ""
    """as shown: the policy's name, with the folder's before it where several are compared"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.policy)

    # how far they are

    @cached_property
    def begun(self) -> NDArray[np.bool_]:
        return self.reached > 0

    @property
    def farthest(self) -> int:
        return int(self.reached.max(initial=0))

    @cached_property
    def complete(self) -> int:
        """Rounds that all runs which have begun have reached: summaries of a policy cover these."""
        return int(self.reached[self.begun].min(initial=self.farthest))

    @property
    def finished(self) -> bool:
        return bool((self.reached == self.rounds).all())

    def column(self, name: str) -> Floats:
        """Of the runs that have begun, (runs, rounds that all have reached)."""
        values = self.values[name][:, : self.complete]
        return values if self.begun.all() else values[self.begun]

    @property
    def reference(self) -> bool:
        return (self.kind or self.policy) in REFERENCES

    # money and memory, of all runs that have begun

    @cached_property
    def spent(self) -> Floats:
        """Money up to and with each round, (runs, rounds)."""
        return np.cumsum(self.column("spend"), axis=1)

    @property
    def spend(self) -> Floats:
        """Money a round, (runs,)."""
        return self.spent[:, -1] / self.complete if self.complete else np.empty(0)

    @cached_property
    def spent_in_all(self) -> Floats:
        """Money of each run up to its own last round, (runs,)."""
        return np.asarray(np.nansum(self.values["spend"][self.begun], axis=1))

    @property
    def spent_on_looks(self) -> Floats | None:
        """Of that, what was for looks at samples before they were bought; None: nobody could look."""
        looks = self.values.get("looks")
        return None if looks is None or np.isnan(looks[self.begun]).all() else np.asarray(np.nansum(looks[self.begun], axis=1))

    @property
    def price_offered(self) -> float | None:
        """c(t), mean over rounds and runs; over clients, too, where prices differ between them."""
        return float(self.column("price").mean()) if self.complete and "price" in self.values else None

    @property
    def price_paid(self) -> float | None:
        """What a sample cost that was admitted, mean over samples."""
        admitted = self.column("admitted").sum() if "admitted" in self.values else 0.0
        return float(self.column("spend").sum() / admitted) if admitted > 0 else None

    @property
    def distinct(self) -> Floats:
        """N at the end, (runs,)."""
        return self.column("N")[:, -1] if self.complete else np.empty(0)

    @property
    def peak_n(self) -> int | None:
        """The most samples held at once by all clients together."""
        return _peak(self.column("n"))

    @cached_property
    def peak_excess(self) -> int | None:
        """The largest n_m(t) − B_m of any client, round and run; None where it was not recorded."""
        recorded = _peak(self.column("excess")) if "excess" in self.values else None
        return _peak(self.held - self.buffers) if recorded is None and self.held is not None else recorded

    # learning, of the runs whose model was not lost

    @cached_property
    def learnt(self) -> tuple[int, ...]:
        """Seeds of the runs that have begun and whose model was not lost."""
        return tuple(seed for seed, lost, begun in zip(self.seeds, self.lost, self.begun, strict=True) if begun and not lost)

    @property
    def lost_runs(self) -> int:
        return int((self.lost & self.begun).sum())

    @cached_property
    def _accuracy(self) -> Floats:
        return self.values["test_accuracy"][:, : self.complete][self.begun & ~self.lost]

    @cached_property
    def t(self) -> Ints:
        """The evaluated rounds, (E,)."""
        return np.flatnonzero(np.isfinite(self._accuracy).any(axis=0)) + 1

    @cached_property
    def curve(self) -> Floats:
        """Highest test accuracy so far at the evaluated rounds, (learnt, E)."""
        best: Floats = np.fmax.accumulate(self._accuracy[:, self.t - 1], axis=1)
        return best

    @property
    def best(self) -> Floats:
        """Highest test accuracy so far, at the end, (learnt,)."""
        return self.curve[:, -1] if self.t.size else np.empty(0)

    @property
    def last(self) -> Floats:
        """Test accuracy averaged over the evaluations in the last tenth of the rounds, (learnt,): no round is chosen."""
        if not self.t.size:
            return np.empty(0)
        late = 10 * (self.complete - self.t) < self.complete
        late[-1] = True
        return np.asarray(self._accuracy[:, self.t[late] - 1].mean(axis=1))

    @property
    def mean(self) -> Floats:
        """`curve` averaged over the evaluated rounds, (learnt,)."""
        return np.asarray(self.curve.mean(axis=1)) if self.t.size else np.empty(0)

    @property
    def chosen(self) -> Floats:
        """Test accuracy of the model that is best on what was held out of the training images, the first of several,
        (learnt,); empty where nothing was held out."""
        held = self.values.get("validation_accuracy")
        judged = np.empty(0) if held is None else held[:, : self.complete][self.begun & ~self.lost][:, self.t - 1]
        if not judged.size or np.isnan(judged).any():
            return np.empty(0)
        return np.take_along_axis(self._accuracy[:, self.t - 1], judged.argmax(axis=1, keepdims=True), axis=1)[:, 0]

    def measure(self, name: str) -> Floats:
        """One of `MEASURES`."""
        assert name in MEASURES
        values: Floats = getattr(self, name)
        return values

    def of_seeds(self, seeds: Sequence[int]) -> "Runs":
        """The same with the learning of these seeds only."""
        return replace(self, lost=self.lost | ~np.isin(self.seeds, seeds))

    @property
    def best_so_far(self) -> Floats:
        """Highest test accuracy so far in every round, (seeds, rounds up to the farthest); NaN before the first evaluation."""
        best = np.fmax.accumulate(self.values["test_accuracy"], axis=1)
        return np.where(np.isnan(self.values["spend"]), np.nan, best)


def _peak(values: NDArray[Any]) -> int | None:
    measured = values[np.isfinite(values)]
    return int(measured.max()) if measured.size else None


# reading


def read_runs(folders: Sequence[RunFolder]) -> list[Runs]:
    """Every policy of every run folder, in the order they were run."""
    names = [run.name for run in folders]  # folders of the same name in different places are numbered
    names = [name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)]
    found = []
    for run, name in zip(folders, names, strict=True):
        metrics, held = run.rows("metrics"), run.rows("clients", "held")
        own = [runs_of(run, policy, metrics, held=held) for policy in run.policies]
        found += [replace(one, folder=name, label=f"{name}: {one.policy}" if len(folders) > 1 else "") for one in own]
    return found


def read_finished(paths: Sequence[Path]) -> list[Runs]:
    """The same of run folders that must be finished."""
    found = read_runs([RunFolder.open(path) for path in paths])
    for one in found:
        if not one.finished:
            where = f"metrics of policy {one.policy}"
            raise DataError(f"{one.folder}: {where}: not one row for each of {len(one.seeds)} seeds and {one.rounds} rounds")
    return found


def runs_of(run: RunFolder, policy: str, metrics: Rows, columns: Sequence[str] = (), held: Rows | None = None) -> Runs:
    """One policy's runs, from rows in memory: of the metrics these columns, or all, and what clients hold."""
    columns = columns or run.measured
    seeds = tuple(sorted(run.seeds))
    keys = [(policy, seed) for seed in seeds]
    metrics.check_whole(keys, f"{run.name}: metrics")
    reached = metrics.reached(keys)
    begun = [key for key, t in zip(keys, reached, strict=True) if t]
    gone, last = run.lost, int(reached.max(initial=0))
    lost = np.array([key in gone for key in keys], dtype=bool)
    if len(begun) == len(keys) and begun:
        table = metrics.of(keys, last)
    else:
        table = np.full((len(keys), last, len(columns)), np.nan)
        table[reached > 0] = metrics.of(begun, last) if begun else np.nan
    there = np.arange(last) < reached[:, None]
    if not there.all():
        table = np.where(there[:, :, None], table, np.nan)
    values = {name: table[:, :, place] for place, name in enumerate(columns)}
    if np.isnan(values["spend"][there]).any():
        raise DataError(f"{run.name}: metrics of policy {policy}: spend is empty")
    if lost.any():
        values |= {name: np.where(lost[:, None], np.nan, values[name]) for name in LEARNING if name in values}
    # what clients hold, up to the round that all runs have; None where some run has none
    recorded = int(held.reached(begun).min(initial=reached[reached > 0].min())) if held is not None and begun else 0
    settings = run.config.get("policies", {}).get(policy, {})
    return Runs(
        folder=run.name,
        policy=policy,
        budget=run.budget,
        buffers=np.array(run.buffers, dtype=np.int64),
        rounds=run.rounds,
        seeds=seeds,
        lost=lost,
        reached=reached,
        values=values,
        held=held.of(begun, recorded) if held is not None and recorded else None,
        kind=settings.get("kind", policy) if isinstance(settings, dict) else policy,
        data=run.kind("data"),
        prices=prices_text(run.config.get("prices")),
        unit=unit_of(run.config),
    )


# differences


def gaps(ours: Runs, other: Runs, measure: str = "best") -> Floats:
    """Ours less the other's, seed by seed of those that both have learnt: they met the same prices and samples. None where
    they were evaluated in different rounds: a best is higher the more often one looks."""
    both = [seed for seed in ours.learnt if seed in other.learnt] if np.array_equal(ours.t, other.t) else []
    return ours.of_seeds(both).measure(measure) - other.of_seeds(both).measure(measure)


def measures(found: Sequence[Runs]) -> list[str]:
    """Those of `MEASURES` that are known of all of them that have learnt."""
    return [name for name in MEASURES if all(one.measure(name).size for one in found if one.best.size)]
