"""The money that a policy needs to reach another policy's accuracy, estimated from runs
at several budgets.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.analysis.formatting import grouped, interval, listed, percent
from headgate.analysis.intervals import (
    DECIDED,
    Difference,
    Estimate,
    Floats,
    student,
    t_quantile,
)
from headgate.errors import DataError

Row = Mapping[str, Any]
"""a row of a comparison: one policy at one budget"""
NEAR = 1.05
"""how many times more or less than the money of a budget still counts as that money"""
RESAMPLES = 4000
EQUAL = 1e-12
"""the difference below which two accuracies count as equal"""
UNKNOWN = "not known"
OURS = "headgate"
"""the policy whose saving is told and drawn"""
WIDE = 0.6
"""the widest interval, as a share of the rival's money, with which a saving is still
reported
"""


@dataclass(frozen=True)
class Need:
    """The money that a policy needs to reach an accuracy.

    Parameters
    ----------
    policy : str
        The name of the policy.
    measure : str
        Which accuracy of a run is meant.
    unit : str
        The currency, if it is known.
    accuracy : float
        The accuracy.
    money : Estimate or None
        The money per round, with its 95 % interval; None if it is unknown.
    ends : tuple of float
        The bounds of the money: from 0 if it is below the least budget, to infinity if
        no budget may suffice.
    """

    policy: str
    measure: str
    unit: str
    accuracy: float
    money: Estimate | None
    ends: tuple[float, float]

    @property
    def text(self) -> str:
        """The money as text, with its bounds as far as they are known.

        >>> Need("ours", "last", "$", 0.8, None, (0.0, 5.0)).text
        'less than $ 5.0'
        >>> Need("ours", "last", "", 0.8, Estimate(9.4, 8.4, 11.0), (8.4, 11.0)).text
        '9.4 (8.4 … 11.0)'
        """
        low, high = (amount(self.unit, end) for end in self.ends)
        if self.money is not None and self.money.low is not None:
            return f"{amount(self.unit, self.money.mean)} ({low} … {high})"
        if self.money is not None:
            return amount(self.unit, self.money.mean)
        if self.ends[1] == math.inf:
            return f"at least {low}" if self.ends[0] else UNKNOWN
        return f"less than {high}" if self.ends[0] == 0 else f"{low} … {high}"

    def row(self) -> dict[str, Any]:
        """Return the numbers, and the money as text."""
        return {
            "policy": self.policy,
            "measure": self.measure,
            "accuracy": self.accuracy,
            "money": None if self.money is None else self.money.mean,
            "low": self.ends[0],
            "high": self.ends[1],
            "unit": self.unit,
            "needs": self.text,
        }


@dataclass(frozen=True)
class Saving:
    """What a policy needs to reach the accuracy that a rival has at one budget.

    Parameters
    ----------
    policy, rival : str
        The names of both policies.
    measure : str
        Which accuracy of a run is meant.
    prices : str
        A short description of the prices.
    unit : str
        The currency, if it is known.
    budget : float
        The rival's budget per round.
    accuracy : float
        The rival's accuracy at this budget.
    rival_money : float
        The money that the rival really spends per round at this budget.
    money : Estimate or None
        The money that the policy needs per round for the same accuracy, with its 95 %
        interval; None if it is unknown.
    ends : tuple of float
        The bounds of the needed money: from 0 if it is below the least budget, to
        infinity if no budget may suffice.
    """

    policy: str
    rival: str
    measure: str
    prices: str
    unit: str
    budget: float
    accuracy: float
    rival_money: float
    money: Estimate | None
    ends: tuple[float, float]

    @property
    def share(self) -> Estimate | None:
        """The needed money as a share of the rival's money; None if it is unknown."""
        return None if self.money is None else self.money.scaled(1 / self.rival_money)

    @property
    def need(self) -> Need:
        """The money alone, without the rival."""
        return Need(
            self.policy,
            self.measure,
            self.unit,
            self.accuracy,
            self.money,
            self.ends,
        )

    def row(self) -> dict[str, Any]:
        """Return the numbers, with the money and its share of the rival's as text."""
        return {
            "prices": self.prices,
            "budget": self.budget,
            "rival": self.rival,
            "rival_money": self.rival_money,
            **self.need.row(),
            "share": None if self.share is None else self.share.mean,
            "of_rival": needed(self)[1],
        }


@dataclass(frozen=True)
class Frontier:
    """A policy's mean accuracy as a monotone function of the money that it spends.

    Parameters
    ----------
    money : array
        Mean money really spent per round over the seeds, ascending, (budgets,).
    by_seed : array
        Accuracies, (seeds, budgets).
    """

    money: Floats
    by_seed: Floats

    def accuracy(self, weights: Floats) -> Floats:
        """Return the mean accuracy at each budget, (resamples, budgets).

        `weights` of the seeds are (resamples, seeds). Isotonic regression makes the
        mean monotone: each value is the maximum over first budgets up to it of the
        minimum over last budgets from it of the mean between them.
        """
        means = weights @ self.by_seed
        resamples, count = means.shape
        sums = np.zeros((resamples, count + 1))
        sums[:, 1:] = means.cumsum(axis=-1)

        between = np.full((resamples, count, count), np.inf)
        for first in range(count):
            for last in range(first, count):
                total = sums[:, last + 1] - sums[:, first]
                between[:, first, last] = total / (last + 1 - first)
        lowest = np.minimum.accumulate(between[:, :, ::-1], axis=-1)[:, :, ::-1]
        monotone = [lowest[:, : at + 1, at].max(axis=-1) for at in range(count)]
        return np.stack(monotone, axis=-1)

    def money_for(self, wanted: Floats, curve: Floats) -> Floats:
        """Return the least money that reaches the accuracy `wanted`, (resamples,).

        It is interpolated in the logarithm of money. `curve` is the result of
        `accuracy`. The money is 0 if `wanted` is below the accuracy of the least
        budget, and infinite if no budget reaches it.
        """
        # the curve never falls, so this counts the budgets that do not suffice
        after = (curve < wanted[:, None] - EQUAL).sum(axis=-1)
        last = self.money.size - 1
        there, here = np.minimum(after, last), np.maximum(after - 1, 0)
        resamples = np.arange(len(curve))
        low, high = curve[resamples, here], curve[resamples, there]

        part = np.ones_like(low)
        np.divide(
            wanted - low,
            high - low,
            out=part,
            where=high > low,
        )
        money = np.log(self.money)
        found = np.exp(money[here] + part * (money[there] - money[here]))
        found[after > last] = np.inf
        least = np.where(wanted >= curve[:, 0] - EQUAL, self.money[0], 0.0)
        return np.where(after == 0, least, found)


def frontiers(
    rows: Sequence[Row],
    measure: str,
    least: int = 2,
) -> tuple[dict[str, Frontier], int]:
    """Return the frontier of each policy with at least `least` budgets, and the number
    of seeds.

    The seeds are those that all policies have learnt at all budgets.
    """
    known = [
        row
        for row in rows
        if not row["reference"] and row["learnt"] and row.get(f"{measure}_by_seed")
    ]
    if not known:
        return {}, 0
    seeds = sorted(set.intersection(*(set(row["learnt"]) for row in known)))
    known.sort(key=lambda row: row["spend"])

    made = {}
    for name, own in grouped(known, lambda row: str(row["policy"])).items():
        money = np.array([row["spend"] for row in own])
        values = [_by_seed(row, measure) for row in own]
        by_seed = np.array([[each[seed] for each in values] for seed in seeds])
        if len(set(money.tolist())) >= least:
            made[name] = Frontier(money, by_seed)
    return made, len(seeds)


def savings(
    rows: Sequence[Row],
    rival: str = "constant",
    measure: str = "last",
) -> list[Saving]:
    """Return what each other policy needs for the rival's accuracy.

    There is a result for each kind of price and each budget of the rival. Means are
    over the seeds that all policies have learnt. The interval is the 95 % percentile
    interval over seeds drawn with replacement, the same draw for all policies and
    budgets, expanded for few seeds (Hesterberg 2015).
    """
    by_price = grouped(rows, lambda row: row["prices"])
    return [
        saving
        for own in by_price.values()
        if any(row["policy"] == rival for row in own)
        for saving in _savings_at_price(own, rival, measure)
    ]


def _savings_at_price(
    own: Sequence[Row],
    rival: str,
    measure: str,
) -> list[Saving]:
    """Return the savings of rows that all have the same prices."""
    curves, seeds = frontiers(own, measure)
    if rival not in curves or not seeds:
        return []

    weights = _weights(seeds)
    accuracies = {name: curve.accuracy(weights) for name, curve in curves.items()}
    levels = accuracies.pop(rival)
    unit = str(own[0].get("unit") or "")
    rows = [row for row in own if row["policy"] == rival]
    budgets = sorted((row["spend"], row["budget"]) for row in rows)

    found = []
    for at, (spend, budget) in enumerate(budgets):
        for name, known in accuracies.items():
            money, ends = _needed(curves[name], known, levels[:, at], seeds, spend)
            saving = Saving(
                policy=name,
                rival=rival,
                measure=measure,
                prices=own[0]["prices"],
                unit=unit,
                budget=budget,
                accuracy=float(levels[0, at]),
                rival_money=spend,
                money=money,
                ends=ends,
            )
            found.append(saving)
    return found


def money_for(
    rows: Sequence[Row],
    accuracy: float,
    measure: str = "last",
) -> list[Need]:
    """Return the money per round that each policy needs for a mean accuracy."""
    curves, seeds = frontiers(rows, measure)
    weights = _weights(seeds) if seeds else np.empty((0, 0))
    wanted = np.full(len(weights), accuracy)
    unit = str(rows[0].get("unit") or "") if rows else ""
    found = []
    for name, curve in curves.items():
        known = curve.accuracy(weights)
        money, ends = _needed(curve, known, wanted, seeds, None)
        found.append(Need(name, measure, unit, accuracy, money, ends))
    return found


def paired(
    one: Row,
    other: Row,
    key: str,
    scale: float = 100.0,
) -> Difference:
    """Return one policy's value minus the other's over their common seeds.

    It is multiplied by `scale`, by default to percentage points.
    """
    ours, theirs = _by_seed(one, key), _by_seed(other, key)
    gaps = [
        ours[seed] - theirs[seed]
        for seed in ours
        if ours[seed] is not None and theirs.get(seed) is not None
    ]
    if not gaps:
        raise DataError(f"{one['policy']} and {other['policy']} have no seed in common")
    return student(scale * np.array(gaps))


def accuracy_for(
    rows: Sequence[Row],
    money: float,
    measure: str = "last",
) -> dict[str, Estimate | None]:
    """Return the mean accuracy that each policy reaches for this money per round.

    Between two budgets it is interpolated in the logarithm of money. It is None for
    money that no budget of the policy comes near.
    """
    curves, seeds = frontiers(rows, measure, least=1)
    return {name: _reached(curve, seeds, money) for name, curve in curves.items()}


def _reached(
    curve: Frontier,
    seeds: int,
    money: float,
) -> Estimate | None:
    """Return the accuracy for this money, with its 95 % interval over the seeds."""
    least, most = curve.money[0] / NEAR, curve.money[-1] * NEAR
    if not seeds or not least <= money <= most:
        return None
    known = curve.accuracy(_weights(seeds))
    known_money = np.log(curve.money)
    found = np.array([np.interp(math.log(money), known_money, each) for each in known])
    mean = float(found[0])
    if seeds == 1:
        return Estimate(mean)
    tail = expanded_tail(seeds)
    low, high = np.quantile(found[1:], [tail, 1 - tail], method="nearest").tolist()
    return Estimate(mean, low, high, seeds)


def _by_seed(row: Row, key: str) -> dict[int, Any]:
    return dict(zip(row["learnt"], row[f"{key}_by_seed"], strict=True))


def _weights(seeds: int) -> Floats:
    """Return the weights of the seeds, (1 + resamples, seeds).

    They are equal in the first row; in the others they count how often each is drawn.
    """
    chances = np.full(seeds, 1 / seeds)
    drawn = np.random.default_rng(0).multinomial(seeds, chances, RESAMPLES)
    return np.concatenate([np.ones((1, seeds)), drawn]) / seeds


def _needed(
    curve: Frontier,
    accuracies: Floats,
    wanted: Floats,
    seeds: int,
    beside: float | None,
) -> tuple[Estimate | None, tuple[float, float]]:
    """Return the money, None if unknown or too uncertain, and its bounds.

    `beside` is the rival's money or None.
    """
    needs = curve.money_for(wanted, accuracies)
    least, most = float(curve.money[0]), float(curve.money[-1])
    need = float(needs[0])
    if seeds == 1 and need == math.inf:
        return None, (most, math.inf)
    if seeds == 1 and need == 0:
        return None, (0.0, least)
    if seeds == 1:
        return Estimate(need), (need, need)

    tail = expanded_tail(seeds)
    ends = np.quantile(needs[1:], [tail, 1 - tail], method="nearest")
    low, high = ends.tolist()
    if need == math.inf:
        return None, (min(low, most), math.inf)
    if need == 0:
        return None, (0.0, max(high, least))
    low = max(low, least)
    if high == math.inf or (beside is not None and high - low > WIDE * beside):
        return None, (low, high)
    return Estimate(need, low, high, seeds), (low, high)


def expanded_tail(seeds: int) -> float:
    """Return the share of resamples that lie beyond each end of a 95 % interval.

    For few seeds the percentile interval of the bootstrap is too narrow: resampled
    means have only (n − 1)/n of the unbiased variance, and their tails are those of a
    normal value, not of Student's t. The expanded interval of Hesterberg (2015), "What
    Teachers Should Know About the Bootstrap", The American Statistician 69 (4), takes
    both into account: its ends are the quantiles of the resamples at α and 1 − α, where
    a standard normal value exceeds √(n/(n − 1)) times Student's quantile with
    probability α.

    >>> round(expanded_tail(10), 4), round(expanded_tail(1000), 4)
    (0.0086, 0.0248)
    """
    student_quantile = t_quantile(seeds - 1, DECIDED)
    expanded = student_quantile * math.sqrt(seeds / (seeds - 1))
    return 0.5 * math.erfc(expanded / math.sqrt(2))


# in words


def chosen_budget(found: Sequence[Saving], budget: float | None = None) -> list[Saving]:
    """Return the savings at this budget of the rival, or at one that tells the most.

    This is the middle one of the budgets with the most known savings.
    """
    by_budget = grouped(found, lambda one: one.budget)
    if budget in by_budget:
        return by_budget[budget]
    known = {
        each: sum(one.money is not None for one in own)
        for each, own in by_budget.items()
    }
    most = [each for each in sorted(known) if known[each] == max(known.values())]
    return by_budget[most[len(most) // 2]] if most else []


def amount(unit: str, value: float) -> str:
    """Return an amount of money as text, with the decimals that its size needs.

    >>> amount("", 9.41), amount("$", 0.00123), amount("", 549.0)
    ('9.4', '$ 0.0012', '549')
    """
    digits = 0
    if 0 < value < 1:
        digits = 1 - math.floor(math.log10(value))
    elif 1 <= value < 100:
        digits = 1
    return f"{unit} {value:,.{digits}f}".strip()


def sentence(found: Sequence[Saving]) -> str:
    """Return one sentence on what headgate needs for the rival's accuracy.

    Without headgate it is about all policies. It is empty if there are no savings.
    """
    if not found:
        return ""
    first = found[0]
    called = "constant admission" if first.rival == "constant" else first.rival
    accuracy = percent(first.accuracy, 1)
    spent = amount(first.unit, first.rival_money)
    ours = [one for one in found if one.policy == OURS]
    if ours:
        money, share = needed(ours[0])
        if money == UNKNOWN:
            return (
                f"no saving of {OURS} is shown: {called} reaches {accuracy} for {spent}"
                f" a round, and what {OURS} needs for that is not known; more seeds or"
                " other budgets may tell."
            )
        return (
            f"{OURS} reaches the accuracy of {called} for {share} of the money:"
            f" {money} a round in place of {spent}, for {accuracy}."
        )
    needs = listed([_need(one) for one in found])
    return f"{called} reaches {accuracy} for {spent} a round; {needs}."


def _need(one: Saving) -> str:
    if one.ends[1] == math.inf:
        return f"for {one.policy} that is {UNKNOWN}"
    money, share = needed(one)
    return f"{one.policy} needs {money}, {share} of it"


def needed(one: Saving) -> tuple[str, str]:
    """Return the money, and its share of the rival's money, as text.

    A share has its 95 % interval.

    >>> from dataclasses import replace
    >>> ends = (8.0, math.inf)
    >>> found = Saving("a", "b", "last", "", "", 20.0, 0.85, 20.0, None, ends)
    >>> needed(found)
    ('not known', 'at least 40 %')
    >>> needed(replace(found, ends=(0.0, 40.0)))
    ('not known', 'not known')
    >>> needed(replace(found, ends=(0.0, 5.0)))
    ('less than 5.0', 'less than 25 %')
    >>> needed(replace(found, money=Estimate(9.4, 8.4, 11.0), unit="$"))
    ('$ 9.4', '47 (42 … 55) %')
    """
    if one.money is not None and one.share is not None:
        share = f"{interval(one.share.scaled(100), 0)} %"
        return amount(one.unit, one.money.mean), share
    low, high = (end / one.rival_money for end in one.ends)
    if low == 0 and high > 1:
        return UNKNOWN, UNKNOWN
    if high == math.inf:
        return UNKNOWN, f"at least {percent(low)}"
    if low == 0:
        most = amount(one.unit, one.ends[1])
        return f"less than {most}", f"less than {percent(high)}"
    return UNKNOWN, f"{100 * low:.0f} … {percent(high)}"
