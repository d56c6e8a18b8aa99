"""Runs as a table: what each policy of a run folder came to, seed by seed and round by round.

Learning is known of the runs whose model was not lost. Control does not depend on learning, so money and memory are known of
all of them. Command line, report, comparison, page and studies read runs through this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.formatting import prices_text, unit_of
from headgate.analysis.intervals import Floats
from headgate.control.policies import KINDS
from headgate.control.policies.references import REFERENCES as NEVER_HELD
from headgate.errors import DataError
from headgate.records.reader import RunFolder
from headgate.records.tables import CHANGED, Rows

Ints = NDArray[np.int64]
LEARNING = ("test_accuracy", "test_loss", "validation_accuracy", "train_loss")
"""columns that mean nothing where the model was lost"""
MEASURES = ("best", "last", "mean")
"""what a run has learnt, each a number from 0 to 1: one for each seed"""
ROUNDING = 1e-9
"""relative; so much above C·T is rounding"""
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

    def peak(self, name: str) -> int | None:
        """Return the largest value of a column in any round and run; None where it was not recorded."""
        values = self.column(name) if name in self.values else np.empty(0)
        return int(np.nanmax(values)) if np.isfinite(values).any() else None

    @cached_property
    def peak_excess(self) -> int | None:
        """The largest n_m(t) − B_m of any client."""
        return self.peak("excess")

    @cached_property
    def runs_over_budget(self) -> int:
        """Runs that spent more than C·T in all, T the rounds asked for."""
        return int((self.spent_in_all > self.budget * self.rounds * (1 + ROUNDING)).sum())

    @property
    def dearest_share(self) -> float | None:
        """The largest spend of a run in all, as a share of C·T; None without a budget."""
        return float(self.spent_in_all.max(initial=0.0)) / (self.budget * self.rounds) if self.budget > 0 else None

    @property
    def broken(self) -> str:
        """Which limit some run broke, also one whose model was lost: "money", "memory" or both; empty where none did."""
        return broken_limits(self.runs_over_budget, self.peak_excess)

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

    def measure(self, name: str) -> Floats:
        """One of `MEASURES`."""
        assert name in MEASURES
        values: Floats = getattr(self, name)
        return values

    def of_seeds(self, seeds: Sequence[int]) -> "Runs":
        """The same with the learning of these seeds only."""
        return replace(self, lost=self.lost | ~np.isin(self.seeds, seeds))


def broken_limits(runs_over_budget: int, excess: int | None) -> str:
    """
    >>> broken_limits(2, 1), broken_limits(0, None)
    ('money and memory', '')
    """
    return " and ".join(["money"] * (runs_over_budget > 0) + ["memory"] * ((excess or 0) > 0))


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
    table = np.full((len(keys), last, len(columns)), np.nan)
    if begun:
        table[reached > 0] = metrics.of(begun, last)
    there = np.arange(last) < reached[:, None]
    table[~there] = np.nan
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
        budget=run.system.budget,
        buffers=run.system.buffer,
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


# what a change of the world costs: how far accuracy falls, how long until it is back, and the money spent meanwhile
#
# A change begins in a round in which some client's concept is another one, after CALM rounds in which none was, and lasts until
# the next one begins: changes of one client after the other, and gradual ones, are one. Its dip is as deep as accuracy falls
# below what it was when last looked at before, and ends when 90 % of that are recovered.

CALM = 5
"""rounds without a change, after which the next one is another"""
RECOVERED = 0.9
"""of the depth"""


class Dip(NamedTuple):
    """Of one run after one change."""

    change: int
    """the round in which it begins"""
    depth: float
    """accuracy before, less the least after; 0 where it does not fall"""
    length: int
    """rounds until so much is recovered; where it never is, those until the next change, or the end"""
    money: float
    """spent in these rounds"""
    recovered: bool


def begins(changed: Floats) -> Ints:
    """The rounds in which changes begin, from what changed in every round of a run.

    >>> begins(np.array([0, 0, 0.1, 0.1, 0, 0, 0.1, 0, 0, 0, 0, 0, 0, 1.0])).tolist()
    [3, 14]
    """
    rounds = np.flatnonzero(changed > 0) + 1
    return rounds[np.diff(rounds, prepend=-CALM) > CALM]


def dips_of(accuracy: Floats, spend: Floats, changed: Floats) -> list[Dip]:
    """The dips of one run, from its rounds; accuracy is NaN where nobody looked. A change before the first look has none."""
    edges = [*begins(changed).tolist(), len(accuracy) + 1]
    looked = np.flatnonzero(np.isfinite(accuracy)) + 1
    found = []
    for change, until in pairwise(edges):
        before, after = looked[looked < change], looked[(looked >= change) & (looked < until)]
        if not before.size or not after.size:
            continue
        level, seen = accuracy[before[-1] - 1], accuracy[after - 1]
        least = int(seen.argmin())
        depth = max(float(level - seen[least]), 0.0)
        back = after[least:][seen[least:] >= level - (1 - RECOVERED) * depth] if depth else after[:1]
        end = (int(back[0]) if depth else change) if back.size else until
        found.append(Dip(change, depth, end - change, float(spend[change - 1 : end - 1].sum()), bool(back.size)))
    return found


def changes_in(one: Runs) -> list[int]:
    """The rounds in which the changes begin that all of a policy's runs have in common; none where the world stands still."""
    if CHANGED not in one.values or not one.complete:
        return []
    each = [set(begins(changed).tolist()) for changed in one.column(CHANGED)]
    return sorted(set.intersection(*each))


@dataclass(frozen=True)
class Dips:
    """The dips of a policy's runs whose model was not lost."""

    by_seed: dict[str, Floats]
    """daily: accuracy by the concepts of the day, mean over the evaluated rounds; depth, length, money: means over the changes
    of a run, NaN where it saw none"""
    count: int
    """of all runs and changes"""
    recovered: int
    """of them, those that ended before the next change"""


def summary_of_dips(one: Runs) -> Dips | None:
    """Return the dips up to the round that all runs have reached; None where the world stands still, or no change was seen."""
    if CHANGED not in one.values:
        return None
    kept = one.begun & ~one.lost
    accuracy, spend, changed = (one.values[name][kept, : one.complete] for name in ("test_accuracy", "spend", CHANGED))
    runs = [*map(dips_of, accuracy, spend, changed)]
    every = [dip for dips in runs for dip in dips]
    if not every:
        return None
    means = [np.mean([dip[1:4] for dip in dips], axis=0) if dips else np.full(3, np.nan) for dips in runs]
    by_seed = dict(zip(("depth", "length", "money"), np.transpose(means), strict=True))
    return Dips({"daily": np.nanmean(accuracy, axis=1), **by_seed}, len(every), sum(dip.recovered for dip in every))
