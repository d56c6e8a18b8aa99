"""Several runs and policies round by round, with differences and the settings that
differ.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.analysis.comparison import rows
from headgate.analysis.curves import EVALUATED, Series, line, rounded, thinned
from headgate.analysis.intervals import Floats, estimate, means
from headgate.analysis.limits import rankable
from headgate.analysis.runs import Ints, Runs
from headgate.analysis.savings import chosen_budget, savings, sentence
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


@dataclass(frozen=True, eq=False)
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
    """Return the lines, and their differences from the line with run and policy `to`,
    by default the first line.
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
    base = next(
        (
            i
            for i, line in enumerate(lines)
            if to[0] in (None, line.run) and to[1] in (None, line.policy)
        ),
        None,
    )
    if base is None and to != (None, None):
        raise SettingError(
            f"to_run = {str(to[0])[:100]}, to_policy = {str(to[1])[:100]}: no line of"
            " this comparison"
        )
    settings = differing({name: library.open(name).config for name in names})
    return RunComparison(
        metric=metric,
        runs=library.rows(names),
        lines=[
            _compared_line(line, runs) for line, runs in zip(lines, found, strict=True)
        ],
        base=base or 0,
        differences=[
            _difference(line, lines[base or 0])
            for i, line in enumerate(lines)
            if i != base
        ],
        settings=settings,
        savings=_savings(found, {each.key for each in settings}),
    )


def _savings(found: Sequence[Runs], differ: Set[str]) -> str:
    """Return a sentence on the money for the accuracy of constant admission; empty if
    runs leave it open or are too large.
    """
    known = [
        # with positive money and an accuracy for each seed: folders may hold any values
        one
        for one in rankable(found)
        if one.finished
        and 0 < one.spend.mean() < np.inf
        and np.isfinite(one.last).all()
    ]
    places = {(one.policy, one.budget) for one in known}
    large = max((len(one.seeds) for one in known), default=0) > MOST_SEEDS
    large = large or sum(len(one.seeds) * one.rounds for one in known) > MOST_CELLS
    others = any(
        key not in MONEY_ONLY and not key.startswith("policies.") for key in differ
    )
    if (
        large
        or others
        or len(places) < len(known)
        or "constant" not in {one.policy for one in known}
    ):
        return ""
    return sentence(chosen_budget(savings(rows(known), "constant", "last")))


def _line(runs: Runs, metric: str, points: int) -> Line:
    """Return the line of the runs that have begun. Metrics of learning leave out runs
    whose model diverged.
    """
    kept = runs.kept if metric in LEARNT else runs.begun
    values = line(runs, metric)[kept, : runs.complete]
    seeds = tuple(seed for seed, there in zip(runs.seeds, kept, strict=True) if there)
    ends = np.array(
        [
            row[np.isfinite(row)][-1] if np.isfinite(row).any() else np.nan
            for row in values
        ]
    )
    places = np.flatnonzero(np.isfinite(values).any(axis=0))
    places = places[thinned(places.size, points)]
    return Line(runs.folder, runs.policy, seeds, places + 1, values[:, places], ends)


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
    x, own, other = np.intersect1d(
        line.x, to.x, assume_unique=True, return_indices=True
    )
    _, mine, theirs = np.intersect1d(line.seeds, to.seeds, return_indices=True)
    gaps = line.values[np.ix_(mine, own)] - to.values[np.ix_(theirs, other)]
    return ComparedSeries(**_points(line, x, gaps, line.ends[mine] - to.ends[theirs]))


def _points(line: Line, x: Ints, values: Floats, ends: Floats) -> dict[str, Any]:
    """Return the points that have a mean, and the mean of the last values."""
    mean, half = means(values)
    known = np.isfinite(mean)
    drawn = {
        "x": rounded(x[known]),
        "mean": rounded(mean[known]),
        "half": rounded(half[known]),
    }
    end = estimate(ends).to_dict() if np.isfinite(ends).any() else None
    return {
        **drawn,
        "run": line.run,
        "policy": line.policy,
        "seeds": len(values),
        "end": end,
    }


def differing(configs: Mapping[str, Mapping[str, Any]]) -> list[DifferingSetting]:
    """Return the settings, by dotted key, that differ between runs. Policies are
    compared only if every run has them.

    >>> a = {"policies": {"acdpp": {"K": 3}, "dpp": {"V": 1.0}}, "system": {"buffers": [1, 2]}}
    >>> [each.key for each in differing({"a": a, "b": {"policies": {"acdpp": {"K": 4}}, "system": {"buffers": [1, 3]}}})]
    ['policies.acdpp.K', 'system.buffers']
    """
    shared = set.intersection(
        *(set(config.get("policies", {})) for config in configs.values())
    )
    leaves: list[dict[str, Any]] = []
    for config in configs.values():
        played = {
            name: own
            for name, own in config.get("policies", {}).items()
            if name in shared
        }
        leaves.append(dict(dotted({**config, "policies": played})))
    keys = dict.fromkeys(key for own in leaves for key in own)
    settings = [DifferingSetting(key, [own.get(key) for own in leaves]) for key in keys]
    return [
        each
        for each in settings
        if any(value != each.values[0] for value in each.values)
    ]
