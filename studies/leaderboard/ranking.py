"""Who is ahead of whom: those who kept both limits, by one measure, with paired tests against the first.

And what each of them needs for constant admission's accuracy, where there are several budgets at the same prices.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from headgate.analysis.comparison import Offer
from headgate.analysis.intervals import DECIDED, Difference, student
from headgate.analysis.limits import holm
from headgate.analysis.savings import Saving, chosen_budget, savings
from studies.leaderboard.results import MEASURES, BoardGroup, BoardTable, Result, of_one_seed

RIVAL = "constant"
"""whose accuracy the others reach for less; as the paper prints it, not held to its money"""


@dataclass(frozen=True)
class Ranked:
    """A table of the leaderboard."""

    names: Sequence[str]
    """of those who kept both limits, the best first"""
    others: Sequence[str]
    """references, and who broke a limit: shown, not ranked"""
    gaps: Mapping[str, Mapping[str, Difference | None]]
    """by measure and name: less the first's, seed by seed; p after Holm's correction over the ranked policies"""

    def level(self, measure: str) -> list[str]:
        """Who cannot be told from the first."""
        return [name for name, gap in self.gaps[measure].items() if gap is None or gap.p is None or gap.p > 1 - DECIDED]


def ranked(standing: BoardTable, by: str) -> Ranked:
    rows = standing.rows
    fair = [name for name, row in rows.items() if row.kept_limits and not row.reference and getattr(row, by) is not None]
    names = sorted(fair, key=lambda name: getattr(rows[name], by)[0], reverse=True)
    others = [name for name in rows if name not in fair]
    gaps = {
        measure: holm({name: _gap(rows[name], rows[names[0]], measure) for name in names[1:]}) if names else {}
        for measure in MEASURES
    }
    return Ranked(names, others, gaps)


def _gap(one: Result, first: Result, measure: str) -> Difference | None:
    """None where models were lost and it is not told which."""
    both = of_one_seed([one, first], measure)
    return None if both is None else student(both[0] - both[1])


def needed(group: BoardGroup, by: str) -> list[list[Saving]]:
    """What each ranked policy needs for the accuracy of `RIVAL`, in the order of the ranks; a list for each kind of price with
    several budgets, at the budget of the recipe where it is among them."""
    rows = [
        {**asdict(row), "policy": name, "prices": offer.prices, "budget": offer.budget}
        for offer, standing in group.standings.items()
        for name, row in standing.rows.items()
        if name == RIVAL or (row.kept_limits and not row.reference)
    ]
    budgets = Counter((row["prices"], row["policy"]) for row in rows)
    # a policy with one budget tells nothing, and the others keep the seeds that it lost
    found = savings([row for row in rows if budgets[row["prices"], row["policy"]] > 1], RIVAL, by)
    chosen = [
        chosen_budget([one for one in found if one.prices == prices], group.compared[0].budget)
        for prices in dict.fromkeys(one.prices for one in found)
    ]
    places = [ranked(group.standings[Offer(own[0].prices, own[0].budget)], by).names for own in chosen]
    return [kept for own, names in zip(chosen, places, strict=True) if (kept := _by_rank(own, names))]


def _by_rank(found: Sequence[Saving], names: Sequence[str]) -> list[Saving]:
    return sorted((one for one in found if one.policy in names), key=lambda one: names.index(one.policy))
