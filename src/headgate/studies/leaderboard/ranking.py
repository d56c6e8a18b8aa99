"""Who is ahead of whom: those who kept both limits, by one measure, with paired tests against the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.analysis.intervals import DECIDED, Difference, student
from headgate.analysis.limits import holm
from headgate.studies.leaderboard.results import MEASURES, BoardTable, Result, of_one_seed


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
