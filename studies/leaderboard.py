"""Every policy of every comparison at equal spend, ranked within the limits with paired tests, and one's own beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headgate.analysis.comparison import Offer
from headgate.analysis.formatting import DASH, money, percent, plus_minus, prices_text
from headgate.analysis.intervals import DECIDED, Difference, Estimate
from headgate.analysis.limits import holm
from headgate.analysis.savings import Row, paired
from headgate.errors import DataError, SettingError
from headgate.escaping import code, shown
from headgate.escaping import markdown as escape
from headgate.experiment import Experiment, sweep_points
from headgate.reading import read_object
from studies import recipe, study_table
from studies.comparisons import BETTER, MEASURES, p_text, rows_in, said
from studies.pages import StudyContent, intervals, table

ADDED = "added"
"""the folder with what a user has added"""
OURS = "headgate"
"""the policy that is recommended"""
LONGEST = 60
"""characters of a name"""
NEEDED = {
    "policy", "prices", "budget", "reference", "seeds", "diverged", "rounds", "spend", "worst_spend", "overspent_runs",
    "worst_excess", "kept_limits", "learnt", *MEASURES, *(f"{measure}_by_seed" for measure in MEASURES),
}  # fmt: skip


def read_results(path: Path) -> Sequence[Row]:
    """Return the rows of a comparison."""
    rows = rows_in(read_object(path))
    if not rows or not all(isinstance(row, dict) and row.keys() >= NEEDED for row in rows):
        raise DataError(f"{path}: holds no results of a comparison")
    return rows


@dataclass(frozen=True)
class Board:
    """A comparison: its recipe, and the rows of each offer by policy, those that were added among them."""

    recipe: str
    tables: Mapping[Offer, Mapping[str, Row]]

    @property
    def title(self) -> str:
        return str(study_table(recipe(self.recipe)).get("title", Path(self.recipe).stem))

    def rows(self) -> list[Row]:
        return [row for rows in self.tables.values() for row in rows.values()]


def boards(results: Path, out: Path, more: Sequence[str] = ()) -> list[Board]:
    """Return the comparisons that have results, those of the studies and these recipes, with what was added in `out`."""
    names = dict.fromkeys([*(f"better/{name}" for name in BETTER), *more])
    return [_board(name, path, out) for name in names if (path := results / f"{Path(name).stem}.json").is_file()]


def _board(name: str, path: Path, out: Path) -> Board:
    """Refused where the results were made with another recipe."""
    tables: dict[Offer, dict[str, Row]] = {}
    added = [{**row, ADDED: True} for file in sorted((out / ADDED / path.stem).glob("*.json")) for row in read_results(file)]
    for row in (*read_results(path), *added):
        tables.setdefault(Offer(row["prices"], row["budget"]), {})[row["policy"]] = row
    for _, point in sweep_points(recipe(name)):
        own = tables.get(Offer(prices_text(point.tables()["prices"]), point.system.budget), {}).values()
        made = {(row["rounds"], row["seeds"] + row["diverged"]) for row in own}
        if made != {(point.rounds, len(point.seeds))}:
            raise DataError(f"{name}: its results were made with other rounds, seeds or budgets; make them again")
    return Board(name, tables)


class Ranking(NamedTuple):
    """A table of the leaderboard."""

    names: list[str]
    """of those who kept both limits, the best first"""
    others: list[str]
    """references, and who broke a limit: shown, not ranked"""
    gaps: Mapping[str, Difference | None]
    """less the first's, seed by seed; p after Holm's correction over the ranked policies"""

    def level(self) -> int:
        """Return how many cannot be distinguished from the first."""
        return sum(gap is None or gap.p is None or gap.p > 1 - DECIDED for gap in self.gaps.values())


def ranked(rows: Mapping[str, Row], by: str) -> Ranking:
    fair = [name for name, row in rows.items() if row["kept_limits"] and not row["reference"] and row[by] is not None]
    names = sorted(fair, key=lambda name: float(rows[name][by][0]), reverse=True)
    gaps = holm({name: paired(rows[name], rows[names[0]], by) for name in names[1:]}) if names else {}
    return Ranking(names, [name for name in rows if name not in fair], gaps)


def leaderboard_content(found: Sequence[Board], by: str, full: bool = False) -> StudyContent:
    """Return the table of all tables in which at least two policies can be ranked; each table itself where asked for."""
    lines, names, gaps = [], [], []
    for board in found:
        for offer, rows in board.tables.items():
            ranks = ranked(rows, by)
            if len(ranks.names) < 2:
                continue
            gap, first = ranks.gaps.get(OURS), ranks.names[0]
            place = ranks.names.index(OURS) + 1 if OURS in ranks.names else None
            budget = offer.text(board.tables)
            names.append(f"{board.title}, {budget}")
            gaps.append(gap)
            lines.append(
                [
                    escape(board.title),
                    escape(budget),
                    f"{_policy(first, rows[first])} {_points(rows[first], by)}",
                    f"{ranks.level()} of {len(ranks.names) - 1}",
                    DASH if place is None else f"{place} of {len(ranks.names)}",
                    _gap(gap),
                ]
            )
    header = ["data and model", "budget", f"first by {by} (%)", "level with it"]
    header += [f"place of `{OURS}`", f"`{OURS}` less the first"]
    numbers = {
        "by": by,
        "tables": len(lines),
        "first": sum(line[4].startswith("1 of") for line in lines),
        "behind": sum(line[5].startswith("**") for line in lines),
        "policies": len({row["policy"] for board in found for row in board.rows()}),
    }
    shows = f"accuracy by {by} (points, 95 % interval); no mark: {OURS} is first"
    draw = intervals(names, {f"{OURS} less the first of the table": gaps}, shows)
    more = "\n\n".join(_tables(board, by) for board in found if full or any(ADDED in row for row in board.rows()))
    return StudyContent(table(header, lines), numbers, draw, more=more)


def _tables(board: Board, by: str) -> str:
    parts = [f"## {escape(board.title)}", f"From {code(board.recipe)}."]
    for offer, rows in board.tables.items():
        found = ranked(rows, by)
        header = ["place", "policy", *(f"{key} (%)" for key in MEASURES), f"less the first, {by}", "money a round"]
        lines = [
            [
                str(found.names.index(name) + 1) if name in found.names else _why(rows[name]),
                _policy(name, rows[name]),
                *(_points(rows[name], key) for key in MEASURES),
                _gap(found.gaps.get(name)),
                money(rows[name]["spend"]),
            ]
            for name in (*found.names, *found.others)
        ]
        parts += [f"### Budget {escape(offer.text(board.tables))}", table(header, lines)]
    return "\n\n".join(parts)


def _policy(name: str, row: Row) -> str:
    lost = f", {row['diverged']} of {row['seeds'] + row['diverged']} models lost" if row["diverged"] else ""
    return code(name) + (" (added)" if ADDED in row else "") + lost


def _why(row: Row) -> str:
    """Why a policy is not ranked."""
    if row["reference"]:
        return "reference"
    over, runs = row["overspent_runs"], row["seeds"] + row["diverged"]
    broke = [f"money: {over} of {runs} runs, up to {percent(row['worst_spend'] / row['budget'])}"] * (over > 0)
    broke += [f"memory: up to {row['worst_excess']} too many"] * ((row["worst_excess"] or 0) > 0)
    return f"✗ {'; '.join(broke)}" if broke else DASH


def _points(row: Row, measure: str) -> str:
    return DASH if row[measure] is None else plus_minus(Estimate(*row[measure]).scaled(100), 2)


def _gap(gap: Difference | None) -> str:
    """In points, with p; bold where the two differ clearly."""
    bold = "**" if gap is not None and gap.p is not None and gap.p <= 1 - DECIDED else ""
    return f"{bold}{said(gap)}{bold}{p_text(gap)}"


# a policy of one's own


def points_for(board: Board, name: str, kind: str, settings: Sequence[str]) -> Sequence[tuple[str, Experiment]]:
    """Return the comparison's own experiments with this policy in place of its policies."""
    if not name or len(name) > LONGEST or not all(each.isalnum() or each in "-_" for each in name):
        raise SettingError(f"--name {shown(name)}: must be letters, digits, - and _, at most {LONGEST}")
    if any(row["policy"] == name and ADDED not in row for row in board.rows()):
        raise SettingError(f"--name {name}: {board.recipe} has a policy of that name; choose another")
    own = [f'policies.{name}={{kind = "{kind}"}}', *(f"policies.{name}.{each}" for each in settings)]
    return sweep_points(recipe(board.recipe), [*own, f'run.policies=["{name}"]'])
