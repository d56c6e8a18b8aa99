"""How old held samples are, beside how many were bought: which of the two says what a policy closes, and how young money lets
them be.

A regular schedule renews the same share s of the places in every round, the oldest first. Its samples are (1/s − 1)/2 rounds
old in the mean, and it buys s of the places a round. So any policy has two regular schedules beside it: the one whose samples
are as old, and the one that buys as many.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from headgate.analysis.formatting import percent
from headgate.analysis.pages import table
from headgate.control.prices import PriceProcess
from headgate.control.rehearse import rehearse
from headgate.control.retention import Fifo
from headgate.control.types import Floats, Ints
from studies.better.response import schedules
from studies.better.seed_by_seed import Row
from studies.better.studies import study, title
from studies.leaderboard.results import MEASURES

BESIDE = {"response-logistic": "ablations", "response-lenet": "lenet", "response-cifar10": "cifar10"}
"""the regular schedules of a study, and the policies that are held against them"""
PATHS = 200
"""seeds whose prices stand for all prices, where the least age is looked for"""
Found = Mapping[str, Sequence[Row]]


def ages(admitted: Ints, held: Ints) -> Floats:
    """Rounds since held samples were admitted, mean over what each client holds after a round, where the newest are held.

    `admitted` and `held` are (..., T, M); NaN where nothing is held. A sample is older than j rounds where fewer than all that
    are held came in the last j + 1 rounds.
    """
    old = np.zeros(held.shape)
    newer = np.zeros(held.shape, dtype=np.int64)
    for j in range(held.shape[-2]):
        newer[..., j:, :] += admitted[..., : held.shape[-2] - j, :]
        left = np.maximum(held - newer, 0)
        if not left.any():
            break
        old += left
    return np.asarray(np.divide(old, held, out=np.full(held.shape, np.nan), where=held > 0))


@cache  # both tables ask for the same ages, and a rehearsal of all seeds takes a second
def mean_age(name: str, policy: str) -> float:
    """Of study `name` at its first budget, over seeds, rounds and clients, who count by what they hold. By rehearsal: no
    policy here listens."""
    _, e = study(name).points[0]
    told = rehearse(e.system, e.policies[policy], e.prices, np.asarray(e.seeds), e.rounds, by_client=True)
    admitted, held = told.admitted_by_client, told.held_by_client
    assert admitted is not None
    assert held is not None
    return float(np.nansum(ages(admitted, held) * held) / held.sum())


@dataclass(frozen=True)
class Regular:
    """What regular schedules close by the share of the places that they renew in a round."""

    shares: tuple[float, ...]
    closed: tuple[float, ...]

    def at(self, share: float) -> float:
        """Between two of them evenly in the logarithm of the share; beyond the least as between the last two."""
        x, y = np.log(np.array(self.shares)), np.array(self.closed)
        here = np.log(share)
        if here < x[0]:
            return float(y[0] + (here - x[0]) * (y[1] - y[0]) / (x[1] - x[0]))
        return float(np.interp(here, x, y))


def regular(name: str, rows: Sequence[Row], key: str) -> Regular:
    """Those of study `name`, the oracle among them: it renews all places in every round."""
    every_round = {policy: share for policy, (share, every) in schedules(name).items() if every == 1}
    own = {row["policy"]: row[f"closed_{key}"][0] for row in rows if row["policy"] in (*every_round, "oracle")}
    pairs = sorted((every_round.get(policy, 1.0), closed) for policy, closed in own.items())
    return Regular(*(tuple(column) for column in zip(*pairs, strict=True)))


@dataclass(frozen=True)
class Aged:
    """A policy that keeps the newest samples: how old they are, how many it bought, and what it closes."""

    policy: str
    age: float
    share: float
    """of the places, bought in a round in the mean"""
    closed: Mapping[str, float]


def aged(name: str, rows: Sequence[Row]) -> list[Aged]:
    """The policies of study `name` that keep to both limits and the newest samples, at its first budget."""
    _, e = study(name).points[0]
    own = [row for row in rows if row["budget"] == e.system.budget and row["kept_limits"] and not row["reference"]]
    kept = [row for row in own if type(e.policies[row["policy"]].retention(e.system)) is Fifo]
    places = e.rounds * int(e.system.buffer.sum())
    return [
        Aged(policy, mean_age(name, policy), row["N"] / places, {key: row[f"closed_{key}"][0] for key in MEASURES})
        for row in kept
        for policy in [row["policy"]]
    ]


def off(policies: Sequence[Aged], curves: Mapping[str, Regular], key: str) -> tuple[float, float]:
    """By how much the policies close another part than the regular schedule that buys as many samples, and than the one whose
    samples are as old: mean over policies, whichever is more."""
    gaps = [
        (abs(one.closed[key] - curves[key].at(one.share)), abs(one.closed[key] - curves[key].at(share_of_age(one.age))))
        for one in policies
    ]
    number, age = np.mean(gaps, axis=0)
    return float(number), float(age)


def age_table(found: Found) -> str:
    """Which says more of what policies close, a line for each study whose schedules were run."""
    lines = []
    for name, of in BESIDE.items():
        if name in found and of in found:
            policies, curves = aged(of, found[of]), {key: regular(name, found[name], key) for key in MEASURES}
            by = [off(policies, curves, key) for key in MEASURES]
            lines.append([title(name), str(len(policies)), *(f"{100 * number:.0f} / {100 * age:.0f}" for number, age in by)])
    return table(["study", "policies", *(f"off, {key}: by number / by age (points)" for key in MEASURES)], lines)


def least_table(found: Found) -> str:
    """Of nets: how young samples can be for the money, and what a regular schedule with samples as old closes."""
    lines = []
    for name, of in BESIDE.items():
        _, e = study(of).points[0]
        if name in found and of in found and not e.given.linear:
            ours = next(one for one in aged(of, found[of]) if one.policy == "headgate")
            least = least_age(e.prices, e.rounds, e.system.budget * e.rounds / float(e.system.buffer.sum()))
            curves = [regular(name, found[name], key) for key in MEASURES]
            at_least, at_ours = (" / ".join(percent(c.at(share_of_age(age))) for c in curves) for age in (least, ours.age))
            measured = " / ".join(percent(ours.closed[key]) for key in MEASURES)
            lines.append([title(name), f"{ours.age:.2f}", measured, at_ours, f"{least:.2f}", at_least])
    closes = "closes (best / last / mean)"
    header = ["study", "headgate's age (rounds)", closes, "such a schedule closes", "least age", "such a schedule would close"]
    return table(header, lines)


def share_of_age(age: float) -> float:
    """What a regular schedule renews whose samples are so old."""
    return 1.0 / (1.0 + 2.0 * age)


def least_age(prices: PriceProcess, rounds: int, money: float) -> float:
    """The least mean age over `rounds` rounds that `money` for each place pays for, prices being independent of each other.

    Places do not depend on each other, so one place is all: it is filled in round 1, and in every later round its sample is
    kept, one round older, or renewed. Least is the sum of its ages plus a price of money times the spend, by backward
    induction; that price is found by bisection. Who decides knows how prices are distributed and keeps to the money in the
    mean, so no policy that has to learn the prices, or to keep to the money in every run, is younger.
    """
    offered = np.sort(prices.path(np.arange(PATHS), 1, rounds + 1).ravel())
    low, high = 1e-6, 1e6  # of what a unit of money weighs in rounds of age
    for _ in range(60):
        rate = np.sqrt(low * high)
        low, high = (rate, high) if _played(offered, rounds, rate)[1] > money else (low, rate)
    return _played(offered, rounds, high)[0]


def _played(offered: Floats, rounds: int, rate: float) -> tuple[float, float]:
    """Mean age and spend of one place where a unit of money weighs as much as `rate` rounds of age."""
    sums = np.concatenate([[0.0], offered.cumsum()])
    older, bought = np.arange(1, rounds + 2), []
    value = np.zeros(rounds + 1)  # what is still to come, by age now; no place ever gets to the last
    for _ in range(rounds - 1):
        kept, renewed = older + np.append(value[1:], value[-1]), value[0]
        below = np.searchsorted(offered, (kept - renewed) / rate)  # how many prices are low enough to renew
        chance, spend = below / offered.size, sums[below] / offered.size
        value = (1 - chance) * kept + chance * renewed + rate * spend
        bought.append((chance, spend))
    at = np.zeros(rounds + 1)  # the chance of each age
    at[0], total, spent = 1.0, 0.0, float(offered.mean())
    for chance, spend in reversed(bought):
        spent += float(at @ spend)
        at = np.concatenate([[at @ chance], (at * (1 - chance))[:-1]])
        total += float(at @ np.arange(rounds + 1))
    return total / rounds, spent
