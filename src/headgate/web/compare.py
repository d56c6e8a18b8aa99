"""Several runs and policies round by round, with differences and the settings that
differ.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from headgate.analysis.comparison import opened, rows
from headgate.analysis.curves import EVALUATED, Series, line, rounded, thinned
from headgate.analysis.intervals import Floats, estimate, means
from headgate.analysis.limits import rankable
from headgate.analysis.runs import Ints, Runs
from headgate.analysis.savings import chosen_budget, savings
from headgate.errors import SettingError
from headgate.experiment.build import dotted
from headgate.web.answers import Metric, runs_in
from headgate.web.runs import Library

MOST_RUNS, MOST_LINES = 20, 40
MOST_SEEDS, MOST_CELLS = 200, 1_000_000
"""largest numbers of seeds and of runs times rounds for which savings are computed,
which then takes two seconds at most
"""
MONEY_ONLY = (
    "system.budget",
    "run.policies",
    "run.seeds",
    "run.first_seed",
    "training.target",
)
"""settings in which runs may differ for savings, besides the settings of policies"""
LEARNT = (*EVALUATED, "best_accuracy", "train_loss")


@dataclass(frozen=True)
class ComparedSeries(Series):
    """A line of a comparison, or the difference between two lines, seed by seed."""

    x: list[int]
    run: str
    policy: str
    seeds: int
    """number of seeds in a mean; for a difference, of seeds that both lines have"""
    end: dict[str, float | None] | None
    """last values: mean over runs, half its 80 % interval, and number of runs"""


@dataclass(frozen=True)
class ComparedLine(ComparedSeries):
    runs: int
    """number of runs, including those whose model diverged"""
    spend_per_round: float | None
    runs_over_budget: int
    dearest_share: float | None


@dataclass(frozen=True)
class DifferingSetting:
    key: str
    values: list[Any]


@dataclass(frozen=True)
class RunComparison:
    metric: str
    runs: list[dict[str, Any]]
    """rows as in the list of runs"""
    lines: list[ComparedLine]
    base: int
    """index of the line that is subtracted from the others"""
    differences: list[ComparedSeries]
    settings: list[DifferingSetting]
    savings: str
    """money that each policy needs for the accuracy of constant admission; empty if the
    runs do not determine it
    """


@dataclass(
    frozen=True,
    eq=False,
)
class Line:
    """A policy of a run: one value for each of its runs and each round that is
    drawn.
    """

    run: str
    policy: str
    seeds: tuple[int, ...]
    x: Ints
    values: Floats
    """array of shape (runs, rounds); NaN for missing values"""
    ends: Floats
    """last value of each run"""


def compare(
    library: Library,
    names: Sequence[str],
    policies: Sequence[str],
    metric: Metric,
    points: int,
    to: tuple[str | None, str | None] = (None, None),
) -> RunComparison:
    """Return the lines, and their differences from the line with run and policy `to`.

    By default it is the first line.
    """
    names = list(dict.fromkeys(names))
    found = [
        runs_in(library, name, policy)
        for name in names
        for policy in library.open(name).policies
        if not policies or policy in policies
    ]
    if len(found) > MOST_LINES:
        raise SettingError(
            f"runs, policies: {len(found)} lines; at most {MOST_LINES} can be compared,"
            " choose fewer"
        )

    lines = [_line(runs, metric, points) for runs in found]
    base = _place_of(lines, *to)
    others = [line for i, line in enumerate(lines) if i != base]
    settings = differing({name: library.open(name).config for name in names})
    return RunComparison(
        metric=metric,
        runs=library.rows(names),
        lines=list(map(_compared_line, lines, found)),
        base=base,
        differences=[_difference(line, lines[base]) for line in others],
        settings=settings,
        savings=_savings(found, {each.key for each in settings}),
    )


def _place_of(
    lines: Sequence[Line],
    run: str | None,
    policy: str | None,
) -> int:
    """Return the place of the first line with this run and this policy, if stated."""
    for place, each in enumerate(lines):
        if run in (None, each.run) and policy in (None, each.policy):
            return place
    if run is None and policy is None:
        return 0
    raise SettingError(
        f"to_run = {str(run)[:100]}, to_policy = {str(policy)[:100]}: no line of"
        " this comparison"
    )


def _savings(found: Sequence[Runs], differ: Set[str]) -> str:
    """Return a sentence on the money for the accuracy of constant admission.

    It is empty if the runs leave it open or are too large.
    """
    known = [one for one in sound(found) if one.finished]
    places = {(one.policy, one.budget) for one in known}
    comparable = (
        not beyond_money(differ)
        and len(places) == len(known)
        and "constant" in {one.policy for one in known}
    )
    if not comparable:
        return ""
    return opened(chosen_budget(savings(rows(known), "constant", "last")))


def beyond_money(keys: Iterable[str]) -> list[str]:
    """Return the settings that money alone does not explain."""
    of_money = (*MONEY_ONLY, "system.currency")
    return [
        key for key in keys if key not in of_money and not key.startswith("policies.")
    ]


def sound(found: Sequence[Runs]) -> list[Runs]:
    """Return the policies whose money is positive and whose seeds have an accuracy.

    Folders may hold any values. Runs that are too large together give none.
    """
    known = [
        one
        for one in rankable(found)
        if 0 < one.spend.mean() < np.inf and np.isfinite(one.last).all()
    ]
    seeds = max((len(one.seeds) for one in known), default=0)
    cells = sum(len(one.seeds) * one.rounds for one in known)
    return [] if seeds > MOST_SEEDS or cells > MOST_CELLS else known


def _line(
    runs: Runs,
    metric: str,
    points: int,
) -> Line:
    """Return the line of the runs that have begun.

    Metrics of learning leave out runs whose model diverged.
    """
    kept = runs.kept if metric in LEARNT else runs.begun
    values = line(runs, metric)[kept, : runs.complete]
    seen = np.isfinite(values)
    ends = np.full(len(values), np.nan)
    for i, (row, known) in enumerate(zip(values, seen, strict=True)):
        if known.any():
            ends[i] = row[known][-1]

    places = np.flatnonzero(seen.any(axis=0))
    places = places[thinned(places.size, points)]
    return Line(
        run=runs.folder,
        policy=runs.policy,
        seeds=tuple(compress(runs.seeds, kept)),
        x=places + 1,
        values=values[:, places],
        ends=ends,
    )


def _compared_line(own: Line, runs: Runs) -> ComparedLine:
    return ComparedLine(
        **_points(own, own.x, own.values, own.ends),
        runs=int(runs.begun.sum()),
        spend_per_round=float(runs.spend.mean()) if runs.complete else None,
        runs_over_budget=runs.runs_over_budget,
        dearest_share=runs.dearest_share if runs.complete else None,
    )


def _difference(line: Line, to: Line) -> ComparedSeries:
    """Return `line` minus `to`, for the rounds and seeds that both have."""
    x, own, other = np.intersect1d(line.x, to.x, return_indices=True)
    _, mine, theirs = np.intersect1d(line.seeds, to.seeds, return_indices=True)
    gaps = line.values[np.ix_(mine, own)] - to.values[np.ix_(theirs, other)]
    return ComparedSeries(**_points(line, x, gaps, line.ends[mine] - to.ends[theirs]))


def _points(
    line: Line,
    x: Ints,
    values: Floats,
    ends: Floats,
) -> dict[str, Any]:
    """Return the points that have a mean, and the mean of the last values."""
    mean, half = means(values)
    known = np.isfinite(mean)
    return {
        "x": rounded(x[known]),
        "mean": rounded(mean[known]),
        "half": rounded(half[known]),
        "run": line.run,
        "policy": line.policy,
        "seeds": len(values),
        "end": estimate(ends).to_dict() if np.isfinite(ends).any() else None,
    }


def differing(configs: Mapping[str, Mapping[str, Any]]) -> list[DifferingSetting]:
    """Return the settings, by dotted key, that differ between runs.

    Policies are compared only if every run has them.

    >>> one = {"policies": {"acdpp": {"K": 3}, "dpp": {"V": 1.0}}}
    >>> two = {"policies": {"acdpp": {"K": 4}}, "system": {"buffers": [1, 3]}}
    >>> [each.key for each in differing({"one": one, "two": two})]
    ['policies.acdpp.K', 'system.buffers']
    """
    policies = [config.get("policies", {}) for config in configs.values()]
    shared = set.intersection(*map(set, policies))
    leaves: list[dict[str, Any]] = []
    for config, own in zip(configs.values(), policies, strict=True):
        played = {name: table for name, table in own.items() if name in shared}
        leaves.append(dict(dotted({**config, "policies": played})))

    found = []
    for key in dict.fromkeys(key for own in leaves for key in own):
        values = [own.get(key) for own in leaves]
        if any(value != values[0] for value in values):
            found.append(DifferingSetting(key, values))
    return found
