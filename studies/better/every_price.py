"""headgate beside constant admission under every kind of price and on every data set: who is ahead, and what each paid."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headgate.analysis.formatting import DASH, listed, money, plus_minus
from headgate.analysis.intervals import DECIDED, Difference, student
from headgate.analysis.limits import holm
from headgate.analysis.pages import bullets, table
from headgate.escaping import markdown as escape
from studies.better.studies import AT_EQUAL_SPEND, GRIDS, title
from studies.leaderboard.results import MEASURES, ROWS, Result, of_one_seed

SAME_SETTING = ("ablations", *GRIDS)
"""of which another study tells the same"""


class Beside(NamedTuple):
    """The two of them with one budget."""

    study: str
    ours: Result
    constant: Result
    offered: float | None
    gaps: Mapping[str, Difference | None]
    """ours less the other's, by measure; p after Holm's correction over the whole table"""

    @property
    def short(self) -> list[str]:
        """The measures by which ours is not clearly ahead."""
        return [measure for measure, gap in self.gaps.items() if _clear(gap) <= 0]

    @property
    def behind(self) -> bool:
        """Whether there is a measure by which ours is clearly worse."""
        return any(_clear(gap) < 0 for gap in self.gaps.values())

    @property
    def offer(self) -> str:
        """Prices and budget."""
        return f"{self.ours.prices or 'the same prices as the paper'}, budget {self.ours.budget:g}"


def pairs_in(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Beside]:
    """Every budget and kind of price of every study."""
    made = []
    for study in (study for study in AT_EQUAL_SPEND if study in found and study not in SAME_SETTING):
        rows = found[study]
        ends = {(row.prices, row.budget, row.policy): row for row in ROWS.validate_python(rows)}
        offered = {(row.get("prices"), row["budget"]): row.get("price_offered") for row in rows}
        for (prices, budget), price in offered.items():
            ours, constant = (ends[prices, budget, policy] for policy in ("headgate", "constant"))
            made.append(Beside(study, ours, constant, price, {}))
    every = holm({(place, each): _gap(pair, each) for place, pair in enumerate(made) for each in MEASURES})
    return [pair._replace(gaps={each: every[place, each] for each in MEASURES}) for place, pair in enumerate(made)]


def _gap(pair: Beside, measure: str) -> Difference | None:
    both = of_one_seed([pair.ours, pair.constant], measure)
    return None if both is None else student(both[0] - both[1])


def _clear(gap: Difference | None) -> float:
    """Its mean where it is clear of zero; else 0."""
    return gap.mean if gap is not None and gap.p is not None and gap.p <= 1 - DECIDED else 0.0


def prices_table(pairs: Sequence[Beside]) -> str:
    lines = [
        [
            f"[{title(each.study)}]({each.study}.md)",
            escape(each.ours.prices or "as the paper's"),
            f"{each.ours.budget:g}",
            *(DASH if gap is None else plus_minus(gap.scaled(100), 2, signs=True) for gap in each.gaps.values()),
            " / ".join(map(money, (each.offered, each.constant.price_paid, each.ours.price_paid))),
            "**" + listed(each.short) + "**" if each.short else "",
        ]
        for each in pairs
    ]
    header = ["study", "prices", "budget", *(f"{measure} (points)" for measure in MEASURES)]
    return table([*header, "a sample: offered / constant / headgate", "not clearly ahead by"], lines)


def exceptions(pairs: Sequence[Beside]) -> str:
    """Where headgate is not ahead of constant by every measure, study by study."""
    short: dict[str, list[str]] = {}
    for each in (each for each in pairs if each.short):
        short.setdefault(title(each.study), []).append(f"{escape(each.offer)} ({listed(each.short)})")
    ahead, behind = len(pairs) - sum(map(len, short.values())), sum(each.behind for each in pairs)
    said = f"In {ahead} of {len(pairs)} rows `headgate` is clearly ahead by all three, in {behind} clearly behind by any."
    named = bullets(f"{name}: {'; '.join(own)}" for name, own in short.items())
    return f"{said} Not clearly ahead:\n\n{named}\n\n" if named else f"{said} "
