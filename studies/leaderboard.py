"""Every policy of every comparison at equal spend, ranked within the limits with paired tests."""

from collections.abc import Mapping
from pathlib import Path

from headgate.analysis.comparison import Offer
from headgate.analysis.formatting import DASH, plus_minus
from headgate.analysis.intervals import DECIDED, Difference, Estimate
from headgate.analysis.limits import holm
from headgate.analysis.savings import Row, paired
from headgate.escaping import code
from headgate.escaping import markdown as escape
from studies.comparisons import BETTER, p_text, rows_of, said, title
from studies.pages import StudyContent, intervals, table

OURS, BY = "headgate", "last"
"""the policy that is recommended, and the measure that policies are ranked by"""


def ranked(rows: Mapping[str, Row]) -> tuple[list[str], dict[str, Difference | None]]:
    """Return those who kept both limits, the best first and without references, and what the others are less the first.

    That is taken seed by seed, with p after Holm's correction over the ranked policies.
    """
    fair = [name for name, row in rows.items() if row["kept_limits"] and not row["reference"] and row[BY] is not None]
    names = sorted(fair, key=lambda name: float(rows[name][BY][0]), reverse=True)
    return names, holm({name: paired(rows[name], rows[names[0]], BY) for name in names[1:]})


def leaderboard_content(folder: Path) -> StudyContent:
    """Return the table of all tables in which at least two policies can be ranked."""
    lines, names, gaps = [], [], []
    found = rows_of(BETTER, folder)
    for study, all_rows in found.items():
        tables: dict[Offer, dict[str, Row]] = {}
        for row in all_rows:
            tables.setdefault(Offer(row["prices"], row["budget"]), {})[row["policy"]] = row
        for offer, rows in tables.items():
            ranks, behind = ranked(rows)
            if len(ranks) < 2:
                continue
            gap, first, budget = behind.get(OURS), ranks[0], offer.text(tables)
            names.append(f"{title(study)}, {budget}")
            gaps.append(gap)
            place = f"{ranks.index(OURS) + 1} of {len(ranks)}" if OURS in ranks else DASH
            level = f"{sum(not _apart(each) for each in behind.values())} of {len(behind)}"
            lines.append([escape(title(study)), escape(budget), _policy(first, rows[first]), level, place, _gap(gap)])
    header = ["data and model", "budget", f"first by {BY} (%)", "level with it"]
    header += [f"place of `{OURS}`", f"`{OURS}` less the first"]
    numbers = {
        "by": BY,
        "tables": len(lines),
        "first": sum(line[4].startswith("1 of") for line in lines),
        "behind": sum(line[5].startswith("**") for line in lines),
        "policies": len({row["policy"] for rows in found.values() for row in rows}),
    }
    shows = f"accuracy by {BY} (points, 95 % interval); no mark: {OURS} is first"
    draw = intervals(names, {f"{OURS} less the first of the table": gaps}, shows)
    return StudyContent(table(header, lines), numbers, draw)


def _policy(name: str, row: Row) -> str:
    lost = f", {row['diverged']} of {row['seeds'] + row['diverged']} models lost" if row["diverged"] else ""
    return f"{code(name)}{lost} {plus_minus(Estimate(*row[BY]).scaled(100), 2)}"


def _apart(gap: Difference | None) -> bool:
    """Whether the two can be distinguished."""
    return gap is not None and gap.p is not None and gap.p <= 1 - DECIDED


def _gap(gap: Difference | None) -> str:
    """In points, with p; bold where the two differ clearly."""
    bold = "**" if _apart(gap) else ""
    return f"{bold}{said(gap)}{bold}{p_text(gap)}"
