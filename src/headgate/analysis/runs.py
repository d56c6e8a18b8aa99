"""The results of run folders as arrays: one `Runs` for each policy, by seed and round.

Accuracies and losses cover the runs whose model was not lost. Money and memory cover
all runs, because they stay valid when a model is lost. The command line, the report,
the comparison, the page and the studies read runs through this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, pairwise
from typing import NamedTuple

import numpy as np

from headgate.analysis.formatting import delay_text, prices_text, unit_of
from headgate.analysis.intervals import Floats
from headgate.control.policies import KINDS
from headgate.control.policies.references import REFERENCES as NEVER_HELD
from headgate.control.types import Bools, Ints
from headgate.errors import DataError
from headgate.records.reader import RunFolder
from headgate.records.tables import CHANGED, Rows

Key = tuple[str, int]
"""a policy and a seed"""
LEARNING = ("test_accuracy", "test_loss", "validation_accuracy", "train_loss")
"""metrics columns that have no meaning for a run whose model was lost"""
MEASURES = ("best", "last", "mean")
"""names of the properties of `Runs` that summarise test accuracy, each one number from
0 to 1 per seed
"""
BUDGET_ROUNDING = 1e-9
"""a spend that exceeds C·T by less than this share counts as a rounding error"""
REFERENCES = tuple(
    kind for kind, policy in KINDS.items() if issubclass(policy, NEVER_HELD)
)
"""kinds of policies that are shown but never ranked: nobody has what they use"""


@dataclass(
    frozen=True,
    eq=False,
)
class Runs:
    """The runs of one policy in one run folder, one run for each seed.

    Parameters
    ----------
    folder, policy : str
        The names of the run folder and of the policy.
    budget : float
        The budget C of each round.
    buffers : array
        The buffer size B_m of each client, (M,).
    rounds : int
        The number of rounds T that were requested.
    seeds : tuple of int
        The seed of each run.
    lost : array
        Whether the model of each run diverged, (seeds,).
    reached : array
        The last round of each run, (seeds,); 0 if the run has not begun.
    values : mapping
        The metrics by column name, each (seeds, rounds of the farthest run); NaN where
        a value is missing.
    held : array, optional
        The samples n_m(t) that each client holds in the runs that have begun, (runs,
        rounds, M); None if not recorded.
    kind : str
        The kind of the policy; empty if it is its name.
    data : str, optional
        The kind of the data.
    prices : str
        A short description of the price process, and of the delay of samples.
    unit : str
        The currency; empty if the recipe states none and the prices are not recorded
        ones.
    delay : str
        A short description of the delay of samples; empty if there is none.
    label : str
        The name to show: the policy's name, preceded by the folder's name if several
        folders are compared.
    """

    folder: str
    policy: str
    budget: float
    buffers: Ints
    rounds: int
    seeds: tuple[int, ...]
    lost: Bools
    reached: Ints
    values: Mapping[str, Floats]
    held: Ints | None = None
    kind: str = ""
    data: str | None = None
    prices: str = ""
    unit: str = ""
    delay: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.policy)

    # progress

    @cached_property
    def begun(self) -> Bools:
        return self.reached > 0

    @property
    def farthest(self) -> int:
        return int(self.reached.max(initial=0))

    @cached_property
    def complete(self) -> int:
        """The number of rounds that all runs which have begun have reached.

        Summaries of a policy cover these rounds.
        """
        return int(self.reached[self.begun].min(initial=self.farthest))

    @property
    def finished(self) -> bool:
        return bool((self.reached == self.rounds).all())

    def column(self, name: str) -> Floats:
        """Return a column of the runs that have begun, (runs, `complete` rounds)."""
        return self.values[name][self.begun, : self.complete]

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
        """Return the largest value of a column; None if it was not recorded."""
        if name not in self.values:
            return None
        values = self.column(name)
        return int(np.nanmax(values)) if np.isfinite(values).any() else None

    @cached_property
    def peak_excess(self) -> int | None:
        """The largest n_m(t) − B_m of any client, round and run, if recorded."""
        return self.peak("excess")

    @property
    def money(self) -> float:
        """The money C·T of a run, for all rounds that were requested."""
        return self.budget * self.rounds

    @cached_property
    def runs_over_budget(self) -> int:
        """The number of runs that spent more than C·T in total."""
        limit = self.money * (1 + BUDGET_ROUNDING)
        return int((self.spent_in_all > limit).sum())

    @property
    def dearest_share(self) -> float | None:
        """The largest total spend as a share of C·T; None if the budget is 0."""
        if self.budget <= 0:
            return None
        return float(self.spent_in_all.max(initial=0.0)) / self.money

    @property
    def broken(self) -> str:
        """The limits that any run broke, lost models included; empty for none."""
        return broken_limits(self.runs_over_budget, self.peak_excess)

    # learning, of the runs whose model was not lost

    @cached_property
    def learnt(self) -> tuple[int, ...]:
        """Seeds of the runs that have begun and whose model was not lost."""
        return tuple(compress(self.seeds, self.kept))

    @cached_property
    def kept(self) -> Bools:
        """Whether each run has begun and its model was not lost, (seeds,)."""
        return self.begun & ~self.lost

    @property
    def lost_runs(self) -> int:
        """The number of runs whose model was lost."""
        return int((self.lost & self.begun).sum())

    @cached_property
    def _accuracy(self) -> Floats:
        return self.values["test_accuracy"][self.kept, : self.complete]

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
        """Highest test accuracy of each run, (learnt seeds,).

        It is empty if no round was evaluated.
        """
        return self.curve[:, -1] if self.t.size else np.empty(0)

    @property
    def last(self) -> Floats:
        """Mean test accuracy in the last tenth of the rounds, (learnt seeds,).

        No best round is picked.
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
    money = ["money"] if runs_over_budget > 0 else []
    memory = ["memory"] if excess is not None and excess > 0 else []
    return " and ".join(money + memory)


# reading


def read_runs(folders: Sequence[RunFolder]) -> list[Runs]:
    """Return the runs of every policy of every folder, in the order of the policies."""
    found = []
    for run, name in zip(folders, _names(folders), strict=True):
        metrics, held = run.rows("metrics"), run.rows("clients", "held")
        for policy in run.policies:
            one = runs_of(run, policy, metrics, held=held)
            label = f"{name}: {policy}" if len(folders) > 1 else ""
            found.append(
                replace(
                    one,
                    folder=name,
                    label=label,
                )
            )
    return found


def _names(folders: Sequence[RunFolder]) -> list[str]:
    """Return the names of folders; equal names in different places are numbered."""
    names = [run.name for run in folders]
    numbered = []
    for i, name in enumerate(names):
        number = names[: i + 1].count(name)
        numbered.append(f"{name} ({number})" if names.count(name) > 1 else name)
    return numbered


def runs_of(
    run: RunFolder,
    policy: str,
    metrics: Rows,
    columns: Sequence[str] = (),
    held: Rows | None = None,
) -> Runs:
    """Return one policy's runs from tables in memory.

    Parameters
    ----------
    run : RunFolder
        The run folder, with its settings.
    policy : str
        One of its policies.
    metrics : Rows
        The rows of its metrics.
    columns : sequence of str, optional
        The columns of `metrics`; by default all that the run measures.
    held : Rows, optional
        The rows of what clients hold.

    Returns
    -------
    Runs
        The runs.
    """
    columns = columns or run.measured
    seeds = tuple(sorted(run.seeds))
    keys = [(policy, seed) for seed in seeds]
    metrics.check_whole(keys, f"{run.name}: metrics")
    reached = metrics.reached(keys)
    begun = [key for key, t in zip(keys, reached, strict=True) if t]

    gone = run.lost
    lost = np.array([key in gone for key in keys], dtype=bool)
    values = _values(metrics, begun, reached, columns)
    played = np.arange(reached.max(initial=0)) < reached[:, None]
    if np.isnan(values["spend"][played]).any():
        raise DataError(f"{run.name}: metrics of policy {policy}: spend is empty")
    for name in LEARNING:
        if name in values:
            values[name][lost] = np.nan

    settings = run.config.get("policies", {}).get(policy, {})
    kind = settings.get("kind", policy) if isinstance(settings, dict) else policy
    prices = prices_text(run.config.get("prices"))
    delay = delay_text(run.config.get("data", {}).get("delay"))
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
        held=_held(held, begun, reached),
        kind=kind,
        data=run.kind("data"),
        prices=", ".join(filter(None, [prices, delay])),
        delay=delay,
        unit=unit_of(run.config),
    )


def _values(
    metrics: Rows,
    begun: Sequence[Key],
    reached: Ints,
    columns: Sequence[str],
) -> dict[str, Floats]:
    """Return the columns, each (seeds, rounds), NaN after the last round of a run."""
    last = int(reached.max(initial=0))
    table = np.full((reached.size, last, len(columns)), np.nan)
    if begun:
        table[reached > 0] = metrics.of(begun, last)
    table[np.arange(last) >= reached[:, None]] = np.nan
    return {name: table[:, :, place] for place, name in enumerate(columns)}


def _held(
    held: Rows | None,
    begun: Sequence[Key],
    reached: Ints,
) -> Ints | None:
    """Return what clients hold up to the last round that every run has recorded."""
    if held is None or not begun:
        return None
    played = int(reached[reached > 0].min())
    recorded = int(held.reached(begun).min(initial=played))
    return held.of(begun, recorded) if recorded else None


# differences


def gaps(
    ours: Runs,
    other: Runs,
    measure: str = "best",
) -> Floats:
    """Return our measure minus the other's for each seed that both have learnt.

    These have the same prices and samples. The array is empty if the two were evaluated
    in different rounds, because more evaluations give a higher best accuracy.
    """
    both = []
    if np.array_equal(ours.t, other.t):
        both = [seed for seed in ours.learnt if seed in other.learnt]
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
    """The fall of one run's accuracy after one change.

    Parameters
    ----------
    change : int
        The round in which the change begins.
    depth : float
        Accuracy before the change minus the lowest accuracy after it; 0 if accuracy
        does not fall.
    length : int
        Rounds until `RECOVERED` of the depth is regained, or else until the next change
        or the end.
    money : float
        Money spent in the rounds of the dip.
    recovered : bool
        Whether it was regained.
    """

    change: int
    depth: float
    length: int
    money: float
    recovered: bool


def begins(changed: Floats) -> Ints:
    """Return the rounds in which changes begin, from the share of clients that changed
    in each round of a run.

    >>> begins(np.array([0, 0, 0.1, 0.1, 0, 0, 0.1, 0, 0, 0, 0, 0, 0, 1.0])).tolist()
    [3, 14]
    """
    rounds = np.flatnonzero(changed > 0) + 1
    return rounds[np.diff(rounds, prepend=-CALM) > CALM]


def dips_of(
    accuracy: Floats,
    spend: Floats,
    changed: Floats,
) -> list[Dip]:
    """Return the dips of one run; accuracy is NaN without evaluation.

    Changes without an evaluation before or after them are left out.
    """
    edges = [*begins(changed).tolist(), len(accuracy) + 1]
    evaluated = np.flatnonzero(np.isfinite(accuracy)) + 1
    found = []
    for change, until in pairwise(edges):
        before = evaluated[evaluated < change]
        after = evaluated[(evaluated >= change) & (evaluated < until)]
        if not before.size or not after.size:
            continue

        level, seen = accuracy[before[-1] - 1], accuracy[after - 1]
        lowest = int(seen.argmin())
        depth = max(float(level - seen[lowest]), 0.0)
        end, recovered = change, True
        if depth:
            regained = seen[lowest:] >= level - (1 - RECOVERED) * depth
            back = after[lowest:][regained]
            recovered = bool(back.size)
            end = int(back[0]) if recovered else until
        money = float(spend[change - 1 : end - 1].sum())
        found.append(Dip(change, depth, end - change, money, recovered))
    return found


def changes_in(one: Runs) -> list[int]:
    """Return the rounds in which a change begins in every run of a policy.

    The list is empty if the world does not change.
    """
    if CHANGED not in one.values or not one.complete:
        return []
    each = [set(begins(changed).tolist()) for changed in one.column(CHANGED)]
    return sorted(set.intersection(*each))


@dataclass(frozen=True)
class Dips:
    """The dips of a policy's runs whose model was not lost.

    Parameters
    ----------
    by_seed : dict
        One value per seed: `daily` is the mean accuracy on the current concepts over
        the evaluated rounds; `depth`, `length` and `money` are means over the changes
        of a run, NaN if the run saw none.
    count : int
        The number of dips in all runs.
    recovered : int
        The number of dips that ended before the next change.
    """

    by_seed: dict[str, Floats]
    count: int
    recovered: int


def summary_of_dips(one: Runs) -> Dips | None:
    """Return the dips up to the round that all runs have reached; None without dips."""
    if CHANGED not in one.values:
        return None
    accuracy, spend, changed = (
        one.values[name][one.kept, : one.complete]
        for name in ("test_accuracy", "spend", CHANGED)
    )
    runs = [dips_of(*each) for each in zip(accuracy, spend, changed, strict=True)]
    every = [dip for dips in runs for dip in dips]
    if not every:
        return None

    means = np.full((len(runs), 3), np.nan)
    for row, dips in zip(means, runs, strict=True):
        if dips:
            row[:] = np.mean(
                [(dip.depth, dip.length, dip.money) for dip in dips], axis=0
            )
    depth, length, money = means.T
    daily = np.nanmean(accuracy, axis=1)
    by_seed = {"daily": daily, "depth": depth, "length": length, "money": money}
    return Dips(by_seed, len(every), sum(dip.recovered for dip in every))
