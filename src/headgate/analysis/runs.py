"""The results of run folders as arrays: one `Runs` for each policy, by seed and round.

Accuracies and losses cover the runs whose model was not lost. Money and memory cover
all runs, because they stay valid when a model is lost. The command line, the report,
the comparison, the page and the studies read runs through this module.
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
"""metrics columns that have no meaning for a run whose model was lost"""
MEASURES = ("best", "last", "mean")
"""names of the properties of `Runs` that summarise test accuracy, each one number from
0 to 1 per seed
"""
ROUNDING = 1e-9
"""relative tolerance: a spend that exceeds C·T by less than this share counts as a
rounding error
"""
REFERENCES = tuple(
    kind for kind, policy in KINDS.items() if issubclass(policy, NEVER_HELD)
)
"""kinds of policies that use knowledge or money that nobody has; they are shown but
never ranked
"""


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of one policy in one run folder, one run for each seed."""

    folder: str
    policy: str
    budget: float
    """the budget C of each round"""
    buffers: Ints
    """the buffer size B_m of each client, (M,)"""
    rounds: int
    """the number of rounds T that were requested"""
    seeds: tuple[int, ...]
    lost: NDArray[np.bool_]
    """whether the model of each run diverged, (seeds,)"""
    reached: Ints
    """the last round of each run, (seeds,); 0 if the run has not begun"""
    values: Mapping[str, Floats]
    """the metrics by column name, each (seeds, rounds of the farthest run); NaN where a
    value is missing
    """
    held: Ints | None = None
    """the samples n_m(t) that each client holds in the runs that have begun, (runs,
    rounds, M); None if not recorded
    """
    kind: str = ""
    data: str | None = None
    prices: str = ""
    """a short description of the price process"""
    unit: str = ""
    """the currency; empty if the recipe states none and the prices are not recorded
    ones
    """
    label: str = ""
    """the name to show: the policy's name, preceded by the folder's name if several
    folders are compared
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.policy)

    # progress

    @cached_property
    def begun(self) -> NDArray[np.bool_]:
        return self.reached > 0

    @property
    def farthest(self) -> int:
        return int(self.reached.max(initial=0))

    @cached_property
    def complete(self) -> int:
        """The number of rounds that every run which has begun has reached; summaries of
        a policy cover these rounds.
        """
        return int(self.reached[self.begun].min(initial=self.farthest))

    @property
    def finished(self) -> bool:
        return bool((self.reached == self.rounds).all())

    def column(self, name: str) -> Floats:
        """Return a metrics column of the runs that have begun, (runs, `complete`
        rounds).
        """
        values = self.values[name][:, : self.complete]
        return values if self.begun.all() else values[self.begun]

    @property
    def reference(self) -> bool:
        return (self.kind or self.policy) in REFERENCES

    # money and memory, of all runs that have begun

    @cached_property
    def spent(self) -> Floats:
        """Money spent up to and including each round, (runs, rounds)."""
        return np.cumsum(self.column("spend"), axis=1)

    @property
    def spend(self) -> Floats:
        """Mean money spent per round, (runs,)."""
        return self.spent[:, -1] / self.complete if self.complete else np.empty(0)

    @cached_property
    def spent_in_all(self) -> Floats:
        """Total money that each run spent up to its own last round, (runs,)."""
        return np.asarray(np.nansum(self.values["spend"][self.begun], axis=1))

    def peak(self, name: str) -> int | None:
        """Return the largest value of a column in any round and run; None if it was not
        recorded.
        """
        values = self.column(name) if name in self.values else np.empty(0)
        return int(np.nanmax(values)) if np.isfinite(values).any() else None

    @cached_property
    def peak_excess(self) -> int | None:
        """The largest n_m(t) − B_m of any client, round and run; None if it was not
        recorded.
        """
        return self.peak("excess")

    @cached_property
    def runs_over_budget(self) -> int:
        """The number of runs that spent more than C·T in total, where T is the
        requested number of rounds.
        """
        return int(
            (self.spent_in_all > self.budget * self.rounds * (1 + ROUNDING)).sum()
        )

    @property
    def dearest_share(self) -> float | None:
        """The largest total spend of a run, as a share of C·T; None if the budget is
        0.
        """
        return (
            float(self.spent_in_all.max(initial=0.0)) / (self.budget * self.rounds)
            if self.budget > 0
            else None
        )

    @property
    def broken(self) -> str:
        """The limits that any run broke, lost models included: "money", "memory",
        "money and memory", or empty for none.
        """
        return broken_limits(self.runs_over_budget, self.peak_excess)

    # learning, of the runs whose model was not lost

    @cached_property
    def learnt(self) -> tuple[int, ...]:
        """Seeds of the runs that have begun and whose model was not lost."""
        return tuple(
            seed
            for seed, lost, begun in zip(self.seeds, self.lost, self.begun, strict=True)
            if begun and not lost
        )

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
        """Highest test accuracy so far at each evaluated round, (learnt seeds, E)."""
        best: Floats = np.fmax.accumulate(self._accuracy[:, self.t - 1], axis=1)
        return best

    @property
    def best(self) -> Floats:
        """Highest test accuracy of each run, (learnt seeds,); empty if no round was
        evaluated.
        """
        return self.curve[:, -1] if self.t.size else np.empty(0)

    @property
    def last(self) -> Floats:
        """Mean test accuracy over the evaluations in the last tenth of the rounds,
        (learnt seeds,); no best round is picked.
        """
        if not self.t.size:
            return np.empty(0)
        late = 10 * (self.complete - self.t) < self.complete
        late[-1] = True
        return np.asarray(self._accuracy[:, self.t[late] - 1].mean(axis=1))

    @property
    def mean(self) -> Floats:
        """Mean of `curve` over the evaluated rounds, (learnt seeds,)."""
        return np.asarray(self.curve.mean(axis=1)) if self.t.size else np.empty(0)

    def measure(self, name: str) -> Floats:
        """Return one of `MEASURES` by its name, (learnt seeds,)."""
        assert name in MEASURES
        values: Floats = getattr(self, name)
        return values

    def of_seeds(self, seeds: Sequence[int]) -> "Runs":
        """Return a copy in which only these seeds count as learnt."""
        return replace(self, lost=self.lost | ~np.isin(self.seeds, seeds))


def broken_limits(runs_over_budget: int, excess: int | None) -> str:
    """Return the names of the broken limits as text; empty if none was broken.
    >>> broken_limits(2, 1), broken_limits(0, None)
    ('money and memory', '')
    """
    return " and ".join(
        ["money"] * (runs_over_budget > 0) + ["memory"] * ((excess or 0) > 0)
    )


# reading


def read_runs(folders: Sequence[RunFolder]) -> list[Runs]:
    """Return the runs of every policy of every run folder, in the order in which they
    were run.
    """
    names = [
        run.name for run in folders
    ]  # folders of the same name in different places are numbered
    names = [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})"
        for i, name in enumerate(names)
    ]
    found = []
    for run, name in zip(folders, names, strict=True):
        metrics, held = run.rows("metrics"), run.rows("clients", "held")
        own = [runs_of(run, policy, metrics, held=held) for policy in run.policies]
        found += [
            replace(
                one,
                folder=name,
                label=f"{name}: {one.policy}" if len(folders) > 1 else "",
            )
            for one in own
        ]
    return found


def read_finished(paths: Sequence[Path]) -> list[Runs]:
    """Return the runs of run folders; raise DataError if one of the runs is not
    finished.
    """
    found = read_runs([RunFolder.open(path) for path in paths])
    for one in found:
        if not one.finished:
            where = f"metrics of policy {one.policy}"
            raise DataError(
                f"{one.folder}: {where}: not one row for each of {len(one.seeds)} seeds"
                f" and {one.rounds} rounds"
            )
    return found


def runs_of(
    run: RunFolder,
    policy: str,
    metrics: Rows,
    columns: Sequence[str] = (),
    held: Rows | None = None,
) -> Runs:
    """Return one policy's runs from tables in memory: `columns` of the metrics (all if
    empty), and what clients hold.
    """
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
        values |= {
            name: np.where(lost[:, None], np.nan, values[name])
            for name in LEARNING
            if name in values
        }
    # what clients hold, up to the last round that every run has recorded; None if some
    # run has recorded none
    recorded = (
        int(held.reached(begun).min(initial=reached[reached > 0].min()))
        if held is not None and begun
        else 0
    )
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
    """Return our measure minus the other's for each seed that both have learnt, with
    the same prices and samples, (seeds,). The array is empty if the two were evaluated
    in different rounds, because more evaluations give a higher best accuracy."""
    both = (
        [seed for seed in ours.learnt if seed in other.learnt]
        if np.array_equal(ours.t, other.t)
        else []
    )
    return ours.of_seeds(both).measure(measure) - other.of_seeds(both).measure(measure)


# the cost of a change of the world: how far accuracy falls, how long it takes to
# recover, and the money spent meanwhile
#
# A change begins when the concept of some client changes after CALM rounds in which no
# concept changed. It lasts until the next change begins, so clients that change one
# after the other, or gradually, make a single change. The depth of its dip is how far
# accuracy falls below the last evaluation before the change. The dip ends when 90 % of
# the depth is recovered.

CALM = 5
"""the number of rounds without a changed concept after which the next one begins a new
change
"""
RECOVERED = 0.9
"""the share of the depth that must be recovered for a dip to end"""


class Dip(NamedTuple):
    """The fall of one run's accuracy after one change."""

    change: int
    """the round in which the change begins"""
    depth: float
    """accuracy before the change minus the lowest accuracy after it; 0 if accuracy does
    not fall
    """
    length: int
    """rounds until `RECOVERED` of the depth is regained, or else until the next change
    or the end
    """
    money: float
    """money spent in the rounds of the dip"""
    recovered: bool


def begins(changed: Floats) -> Ints:
    """Return the rounds in which changes begin, from the share of clients that changed
    in each round of a run.

    >>> begins(np.array([0, 0, 0.1, 0.1, 0, 0, 0.1, 0, 0, 0, 0, 0, 0, 1.0])).tolist()
    [3, 14]
    """
    rounds = np.flatnonzero(changed > 0) + 1
    return rounds[np.diff(rounds, prepend=-CALM) > CALM]


def dips_of(accuracy: Floats, spend: Floats, changed: Floats) -> list[Dip]:
    """Return the dips of one run; accuracy is NaN without evaluation. Changes that lack
    one before or after are left out.
    """
    edges = [*begins(changed).tolist(), len(accuracy) + 1]
    evaluated = np.flatnonzero(np.isfinite(accuracy)) + 1
    found = []
    for change, until in pairwise(edges):
        before, after = (
            evaluated[evaluated < change],
            evaluated[(evaluated >= change) & (evaluated < until)],
        )
        if not before.size or not after.size:
            continue
        level, seen = accuracy[before[-1] - 1], accuracy[after - 1]
        least = int(seen.argmin())
        depth = max(float(level - seen[least]), 0.0)
        back = (
            after[least:][seen[least:] >= level - (1 - RECOVERED) * depth]
            if depth
            else after[:1]
        )
        end = (int(back[0]) if depth else change) if back.size else until
        found.append(
            Dip(
                change,
                depth,
                end - change,
                float(spend[change - 1 : end - 1].sum()),
                bool(back.size),
            )
        )
    return found


def changes_in(one: Runs) -> list[int]:
    """Return the rounds in which a change begins in every run of a policy; empty if the
    world does not change.
    """
    if CHANGED not in one.values or not one.complete:
        return []
    each = [set(begins(changed).tolist()) for changed in one.column(CHANGED)]
    return sorted(set.intersection(*each))


@dataclass(frozen=True)
class Dips:
    """The dips of a policy's runs whose model was not lost."""

    by_seed: dict[str, Floats]
    """one value per seed: `daily` is the mean accuracy on the current concepts over the
    evaluated rounds; `depth`, `length` and `money` are means over the changes of a run,
    NaN if the run saw none"""
    count: int
    """the number of dips in all runs"""
    recovered: int
    """the number of dips that ended before the next change"""


def summary_of_dips(one: Runs) -> Dips | None:
    """Return the dips up to the round that all runs have reached; None if the world
    does not change or no dip was found.
    """
    if CHANGED not in one.values:
        return None
    kept = one.begun & ~one.lost
    accuracy, spend, changed = (
        one.values[name][kept, : one.complete]
        for name in ("test_accuracy", "spend", CHANGED)
    )
    runs = [*map(dips_of, accuracy, spend, changed)]
    every = [dip for dips in runs for dip in dips]
    if not every:
        return None
    means = [
        np.mean([dip[1:4] for dip in dips], axis=0) if dips else np.full(3, np.nan)
        for dips in runs
    ]
    by_seed = dict(zip(("depth", "length", "money"), np.transpose(means), strict=True))
    return Dips(
        {"daily": np.nanmean(accuracy, axis=1), **by_seed},
        len(every),
        sum(dip.recovered for dip in every),
    )
