"""What a change of the world costs: how far accuracy falls, how long until it is back, and the money spent meanwhile.

A change begins in a round in which some client's concept is another one, after CALM rounds in which none was, and lasts until
the next one begins: changes of one client after the other, and gradual ones, are one. Its dip is as deep as accuracy falls
below what it was when last looked at before, and ends when 90 % of that are recovered.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from headgate.analysis.intervals import Floats
from headgate.analysis.runs import Ints, Runs
from headgate.records.tables import CHANGED

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
    return sorted(set.intersection(*each)) if each else []


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
