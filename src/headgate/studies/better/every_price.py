"""headgate beside constant admission under every kind of price and on every data set: who is ahead, and what each paid."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headgate.analysis.formatting import DASH, listed, money, plus_minus
from headgate.analysis.intervals import Difference, student
from headgate.analysis.markdown import table
from headgate.analysis.pages import bullets
from headgate.escaping import markdown as escape
from headgate.studies.better.studies import AT_EQUAL_SPEND, GRIDS, title
from headgate.studies.leaderboard.results import MEASURES, ROWS, Result, of_one_seed

SAME_SETTING = ("ablations", *GRIDS)
"""of which another study tells the same"""


class Beside(NamedTuple):
    """The two of them with one budget."""

    study: str
    ours: Result
    constant: Result
    offered: float | None

    @property
    def gaps(self) -> dict[str, Difference | None]:
        """Ours less the other's, by measure."""
        both = {measure: of_one_seed([self.ours, self.constant], measure) for measure in MEASURES}
        return {measure: None if two is None else student(two[0] - two[1]) for measure, two in both.items()}

    @property
    def short(self) -> list[str]:
        """The measures by which ours is not ahead with a 95 % interval clear of zero."""
        return [measure for measure, gap in self.gaps.items() if gap is None or gap.low is None or gap.low <= 0]

    @property
    def behind(self) -> bool:
        """Whether there is a measure by which ours is clearly worse."""
        return any(gap is not None and gap.high is not None and gap.high < 0 for gap in self.gaps.values())

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
            made.append(Beside(study, ours, constant, price))
    return made


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
