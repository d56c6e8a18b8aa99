"""What a policy learnt for what it took: how much of the gap to the oracle it closed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headgate.analysis.intervals import Estimate, Floats, ratio
from headgate.analysis.runs import Runs
from headgate.errors import DataError


def closed(one: Runs, constant: Runs, oracle: Runs, measure: str) -> Estimate | None:
    """The part of the gap between constant admission and the oracle, of means over the seeds that all three have learnt;
    None where there is no gap. The interval is Fieller's, over these seeds; it has no ends where the gap may be none."""
    ends = (one, constant, oracle)
    seeds = [seed for seed in one.learnt if seed in constant.learnt and seed in oracle.learnt]
    if not seeds:
        return None
    ours, low, high = (end.of_seeds(seeds).measure(measure) for end in ends)
    return closed_share(ours, low, high, known=one is constant or one is oracle)


def closed_share(ours: Floats, low: Floats, high: Floats, known: bool = False) -> Estimate | None:
    """The same of arrays, (seeds,); `known`: it is 0 or 1 by definition, so it has no interval."""
    if high.mean() <= low.mean():
        return None
    share = ratio(ours - low, high - low)
    return Estimate(share.mean, runs=share.runs) if known else share


class Offer(NamedTuple):
    """What all policies that are compared have: the same prices and the same money."""

    prices: str
    budget: float

    def said(self, offers: Iterable["Offer"]) -> str:
        """With its prices where those of the others differ."""
        prices = f", {self.prices}" if len({each.prices for each in offers}) > 1 else ""
        return f"{self.budget:g} a round{prices}"


def by_offer(found: Sequence[Runs]) -> dict[Offer, list[Runs]]:
    """In order of the budgets, or as they were run where prices differ too; refused where runs cannot be compared."""
    if not found:
        raise DataError("compare: there is no run to compare")
    kinds = sorted({str(one.data) for one in found})
    if len(kinds) > 1:
        raise DataError(f"compare: runs of {' and '.join(kinds)} cannot be compared")
    offers: dict[Offer, list[Runs]] = {}
    one_price = len({one.prices for one in found}) == 1
    for one in sorted(found, key=lambda one: one.budget) if one_price else found:
        offers.setdefault(Offer(one.prices, one.budget), []).append(one)
    return offers
