"""The money with which a policy reaches another's accuracy: from runs at several budgets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.analysis.formatting import grouped, interval, listed, percent
from headgate.analysis.intervals import DECIDED, Difference, Estimate, Floats, student, t_quantile
from headgate.errors import DataError

Row = Mapping[str, Any]
"""of a comparison: one policy at one budget"""
RESAMPLES = 4000
ROUNDING = 1e-12
UNKNOWN = "cannot be told"
WIDE = 0.6
"""width of a share's interval, beyond which the share cannot be told"""


@dataclass(frozen=True)
class Saving:
    """What a policy needs to reach the accuracy that a rival has at one budget."""

    policy: str
    rival: str
    measure: str
    prices: str
    unit: str
    budget: float
    """the rival's, a round"""
    accuracy: float
    """the rival's at this budget"""
    rival_money: float
    """what the rival really spends there, a round"""
    money: Estimate | None
    """what the policy spends a round where it is as accurate, with the 95 % interval; None where that is not known"""
    ends: tuple[float, float]
    """between which amounts it lies: from 0 where it is below the least budget, to infinity where none may reach it"""

    @property
    def share(self) -> Estimate | None:
        """The same as a share of the rival's money."""
        return None if self.money is None else self.money.scaled(1 / self.rival_money)


@dataclass(frozen=True)
class Frontier:
    """A policy's mean accuracy over the money that it really spends, made monotone."""

    money: Floats
    """a round, mean over seeds, ascending, (budgets,)"""
    by_seed: Floats
    """accuracies, (seeds, budgets)"""

    def accuracy(self, weights: Floats) -> Floats:
        """Mean accuracy at each budget, (resamples, budgets), where seeds weigh `weights`, (resamples, seeds).

        Made monotone by isotonic regression: the highest over beginnings of the lowest over ends of the means between them.
        """
        means, count = weights @ self.by_seed, self.money.size
        sums = np.concatenate([np.zeros((len(means), 1)), means.cumsum(axis=-1)], axis=-1)
        between = np.full((len(means), count, count), np.inf)
        for first in range(count):
            for last in range(first, count):
                between[:, first, last] = (sums[:, last + 1] - sums[:, first]) / (last + 1 - first)
        lowest = np.minimum.accumulate(between[:, :, ::-1], axis=-1)[:, :, ::-1]
        return np.stack([lowest[:, : at + 1, at].max(axis=-1) for at in range(count)], axis=-1)

    def money_for(self, wanted: Floats, curve: Floats) -> Floats:
        """The least money with which the accuracy is `wanted`, (resamples,), by interpolation in the logarithm of money.

        `curve` is what `accuracy` returned. Zero where `wanted` is below the least budget's accuracy, infinite where no budget
        reaches it.
        """
        money = np.log(self.money)
        after = (curve < wanted[:, None] - ROUNDING).sum(axis=-1)  # the curve never falls
        there, here = np.minimum(after, money.size - 1), np.maximum(after - 1, 0)
        low, high = (np.take_along_axis(curve, at[:, None], axis=-1)[:, 0] for at in (here, there))
        part = np.divide(wanted - low, high - low, out=np.ones_like(low), where=high > low)
        found = np.exp(money[here] + part * (money[there] - money[here]))
        at_least = np.where(wanted >= curve[:, 0] - ROUNDING, self.money[0], 0.0)
        return np.where(after == 0, at_least, np.where(after == money.size, np.inf, found))


def frontiers(rows: Sequence[Row], measure: str) -> tuple[dict[str, Frontier], int]:
    """Each policy's, of the seeds that all of them have learnt at all budgets, and the number of these seeds."""
    own = [row for row in rows if not row["reference"] and row["learnt"] and row.get(f"{measure}_by_seed")]
    seeds = sorted(set.intersection(*(set(row["learnt"]) for row in own))) if own else []
    made = {}
    for name, each in grouped(sorted(own, key=lambda row: row["spend"]), lambda row: str(row["policy"])).items():
        money, by_seed = [row["spend"] for row in each], [_by_seed(row, measure) for row in each]
        if len(set(money)) > 1:
            made[name] = Frontier(np.array(money), np.array([[values[seed] for values in by_seed] for seed in seeds]))
    return made, len(seeds)


def savings(rows: Sequence[Row], rival: str = "constant", measure: str = "last") -> list[Saving]:
    """For each kind of price and budget of the rival, what each other policy needs for the rival's accuracy.

    Means are over the seeds that all policies have learnt. The interval is the 95 % percentile interval over seeds drawn with
    replacement, the same draw for all policies and budgets, expanded for few seeds (Hesterberg 2015).
    """
    found: list[Saving] = []
    for prices in dict.fromkeys(row["prices"] for row in rows):
        own = [row for row in rows if row["prices"] == prices]
        curves, seeds = frontiers(own, measure) if any(row["policy"] == rival for row in own) else ({}, 0)
        if rival not in curves or not seeds:
            continue
        weights = _weights(seeds)
        accuracies = {name: curve.accuracy(weights) for name, curve in curves.items()}
        levels = accuracies[rival]
        budgets = sorted((row["spend"], row["budget"]) for row in own if row["policy"] == rival)
        for at, (spend, budget) in enumerate(budgets):
            for name, curve in curves.items():
                if name != rival:
                    accuracy = float(levels[0, at])
                    money, ends = _needed(curve, accuracies[name], levels[:, at], seeds, spend)
                    unit = str(own[0].get("unit") or "")
                    found.append(Saving(name, rival, measure, prices, unit, budget, accuracy, spend, money, ends))
    return found


def money_for(rows: Sequence[Row], accuracy: float, measure: str = "last") -> dict[str, Estimate | None]:
    """What each policy spends a round where its mean accuracy is `accuracy`; None where no budget tells."""
    curves, seeds = frontiers(rows, measure)
    weights = _weights(seeds) if seeds else np.empty((0, 0))
    wanted = np.full(len(weights), accuracy)
    return {name: _needed(curve, curve.accuracy(weights), wanted, seeds, None)[0] for name, curve in curves.items()}


def paired(one: Row, other: Row, key: str, scale: float = 100.0) -> Difference:
    """One less the other over the seeds that both have, in points, or as `scale` says."""
    ours, theirs = (_by_seed(row, key) for row in (one, other))
    both = [seed for seed in ours if ours[seed] is not None and theirs.get(seed) is not None]
    if not both:
        raise DataError(f"{one['policy']} and {other['policy']} have no seed in common")
    return student(scale * np.array([ours[seed] - theirs[seed] for seed in both]))


def _by_seed(row: Row, key: str) -> dict[int, Any]:
    return dict(zip(row["learnt"], row[f"{key}_by_seed"], strict=True))


def _weights(seeds: int) -> Floats:
    """How much each seed counts, (1 + resamples, seeds): all alike first, then as often as it was drawn."""
    drawn = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES)
    return np.concatenate([np.ones((1, seeds)), drawn]) / seeds


def _needed(
    curve: Frontier, accuracies: Floats, wanted: Floats, seeds: int, beside: float | None
) -> tuple[Estimate | None, tuple[float, float]]:
    """The money with its interval, and the interval alone where it says too little; `beside` is the rival's money."""
    needs = curve.money_for(wanted, accuracies)
    least, need = float(curve.money[0]), float(needs[0])
    if need == math.inf:
        return None, (float(curve.money[-1]), math.inf)
    if seeds == 1:
        return (Estimate(need), (need, need)) if need else (None, (0.0, least))
    tail = 0.5 * math.erfc(t_quantile(seeds - 1, DECIDED) * math.sqrt(seeds / (seeds - 1)) / math.sqrt(2))  # of a normal value
    low, high = (float(end) for end in np.quantile(needs[1:], [tail, 1 - tail], method="nearest"))
    if need == 0:
        return None, (0.0, max(high, least))
    low = max(low, least)
    if high == math.inf or (beside is not None and high - low > WIDE * beside):
        return None, (low, high)
    return Estimate(need, low, high, seeds), (low, high)


# in words


def chosen_budget(found: Sequence[Saving], budget: float | None = None) -> list[Saving]:
    """Those at this budget of the rival, or at the middle one of those at which most is known."""
    by_budget = grouped(found, lambda one: one.budget)
    if budget in by_budget:
        return by_budget[budget]
    known = {each: sum(one.money is not None for one in own) for each, own in by_budget.items()}
    most = [each for each in sorted(known) if known[each] == max(known.values())]
    return by_budget[most[len(most) // 2]] if most else []


def amount(unit: str, value: float) -> str:
    """
    >>> amount("", 9.41), amount("$", 0.00123), amount("", 549.0)
    ('9.4', '$ 0.0012', '549')
    """
    digits = 0 if value >= 100 else 1 if value >= 1 else 1 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{unit} {value:,.{digits}f}".strip()


def sentence(found: Sequence[Saving]) -> str:
    """What each policy needs for the rival's accuracy, in one sentence; empty where nothing was found."""
    if not found:
        return ""
    first = found[0]
    called = {"constant": "constant admission"}.get(first.rival, first.rival)
    reached = f"{called} reaches {percent(first.accuracy, 1)} for {amount(first.unit, first.rival_money)} a round"
    needs = []
    for one in found:
        money, share = needed(one)
        known = one.ends[1] < math.inf
        needs.append(f"{one.policy} needs {money}, {share} of it" if known else f"for {one.policy} that {UNKNOWN}")
    return f"{reached}; {listed(needs)}."


def needed(one: Saving) -> tuple[str, str]:
    """The money and its share of the rival's with the 95 % interval, as text.

    >>> needed(Saving("a", "b", "last", "", "$", 20.0, 0.85, 20.0, Estimate(9.4, 8.4, 11.0), (8.4, 11.0)))
    ('$ 9.4', '47 (42 … 55) %')
    >>> needed(Saving("a", "b", "last", "", "", 20.0, 0.85, 20.0, None, (0.0, 5.0)))
    ('less than 5.0', 'less than 25 %')
    >>> needed(Saving("a", "b", "last", "", "", 20.0, 0.85, 20.0, None, (8.0, math.inf)))
    ('cannot be told', 'at least 40 %')
    """
    low, high = (end / one.rival_money for end in one.ends)
    if one.money is not None and one.share is not None:
        return amount(one.unit, one.money.mean), f"{interval(one.share.scaled(100), 0)} %"
    if low == 0 and high < math.inf:
        return f"less than {amount(one.unit, one.ends[1])}", f"less than {percent(high)}"
    return UNKNOWN, f"at least {percent(low)}" if high == math.inf else f"{100 * low:.0f} … {percent(high)}"
