"""Recipes and finished runs that a plan can start from, and the accuracy that these
runs had for its money.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.analysis.comparison import rows
from headgate.analysis.formatting import grouped
from headgate.analysis.intervals import Estimate
from headgate.analysis.savings import accuracy_for
from headgate.errors import DataError
from headgate.experiment import recipe_names
from headgate.experiment.recipes import read_recipe
from headgate.records.reader import RunFolder
from headgate.web.answers import runs_in
from headgate.web.compare import beyond_money, differing, sound
from headgate.web.runs import Library

WORLD = ("system.", "prices.", "run.rounds")
"""settings that a plan has in common with runs of the same world"""
MOST_LOOKED_AT = 40
"""largest number of finished runs to start from, the newest first"""


@dataclass(frozen=True)
class PlanStart:
    """A recipe to start from, or finished runs that differ only in money."""

    name: str
    system: dict[str, Any]
    prices: dict[str, Any]
    rounds: int
    bound: dict[str, Any]
    runs: tuple[str, ...] = ()
    budgets: tuple[float, ...] = ()
    data: str | None = None
    model: str | None = None


def recipes() -> list[PlanStart]:
    """Return the shipped recipes."""
    return [_start(name, read_recipe(name)[1]) for name in recipe_names()]


def finished_runs(library: Library) -> list[PlanStart]:
    """Return the newest finished runs, those of a sweep that differ only in money as
    one. Damaged ones are left out.
    """
    heads = [head for head in library.heads().values() if head.finished]
    heads.sort(key=lambda head: -head.started)
    sweeps = grouped(heads[:MOST_LOOKED_AT], lambda head: head.sweep or head.name)
    found = []
    for name, own in sweeps.items():
        try:
            found += _together(name, [library.open(head.name) for head in own])
        except DataError:
            continue
    return found


def _together(name: str, runs: list[RunFolder]) -> list[PlanStart]:
    differ = differing({run.name: run.config for run in runs})
    if beyond_money(each.key for each in differ):
        return [one for run in runs for one in _together(run.name, [run])]
    runs.sort(key=lambda run: run.system.budget)
    middle = runs[len(runs) // 2]
    start = replace(
        _start(name, middle.config),
        runs=tuple(run.name for run in runs),
        budgets=tuple(run.system.budget for run in runs),
        data=middle.kind("data"),
        model=middle.kind("model"),
    )
    return [start]


def _start(name: str, raw: Mapping[str, Any]) -> PlanStart:
    rounds = raw["run"]["rounds"]
    return PlanStart(name, raw["system"], raw["prices"], rounds, raw.get("bound", {}))


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of finished runs for the money of a plan."""

    policies: dict[str, Estimate | None]
    """test accuracy in the last tenth of the rounds, with its 95 % interval over seeds,
    of the policies that kept both limits; None for money far from that of the runs
    """
    differs: list[str]
    """settings in which the runs are not like the plan; then no accuracy is known"""


def accuracy(
    library: Library,
    names: Sequence[str],
    plan: Mapping[str, Any],
    money: float,
) -> Accuracy:
    """Return what the runs with these names reached for `money` a round.

    `plan` has the settings of the plan.
    """
    runs = [library.open(name) for name in names]
    other = differing({"": plan, **{run.name: run.config for run in runs}})
    keys = beyond_money(each.key for each in other if each.key.startswith(WORLD))
    if keys or not runs:
        return Accuracy({}, keys)

    found = [runs_in(library, run.name, name) for run in runs for name in run.policies]
    kept = [one for one in sound(found) if one.finished and not one.broken]
    return Accuracy(accuracy_for(rows(kept), money) if kept else {}, [])
