"""Every policy of every comparison at equal spend, ranked within the limits with paired tests, and one's own beside them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

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
from studies.comparisons import BETTER, MEASURES, keep_rows, p_text, rows_in, said
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
class ComparedStudy:
    """A recipe and what came of it."""

    recipe: str
    rows: Sequence[Row]
    points: Sequence[tuple[str, Experiment]]

    @property
    def title(self) -> str:
        return str(study_table(recipe(self.recipe)).get("title", Path(self.recipe).stem))

    def by_point(self) -> list[tuple[Experiment, list[Row]]]:
        """Return the rows of each point; refused where they were made with another recipe."""
        found = []
        for _, point in self.points:
            own = [row for row in self.rows if Offer(row["prices"], row["budget"]) == offer_of(point)]
            if not own or any(
                (row["rounds"], row["seeds"] + row["diverged"]) != (point.rounds, len(point.seeds)) for row in own
            ):
                raise DataError(f"{self.recipe}: its results were made with other rounds, seeds or budgets; make them again")
            found.append((point, own))
        return found


def offer_of(point: Experiment) -> Offer:
    return Offer(prices_text(point.tables()["prices"]), point.system.budget)


def compared_in(results: Path, more: Sequence[str] = ()) -> list[ComparedStudy]:
    """Return the comparisons that have results: those of the studies, and these recipes."""
    names = dict.fromkeys([*(f"better/{name}" for name in BETTER), *more])
    paths = {name: results / f"{Path(name).stem}.json" for name in names}
    return [
        ComparedStudy(name, read_results(path), sweep_points(recipe(name))) for name, path in paths.items() if path.is_file()
    ]


@dataclass
class BoardGroup:
    """Comparisons that differ in budget, prices and policies alone: of one data set, model and training."""

    compared: list[ComparedStudy] = field(default_factory=list)
    tables: dict[Offer, dict[str, Row]] = field(default_factory=dict)
    """the rows with each offer, by policy"""
    settings: dict[tuple[Offer, str], Any] = field(default_factory=dict)

    def title(self, others: Mapping[str, object]) -> str:
        """Return what the titles of its comparisons begin with alike; all of them where another group is called so."""
        parts = [each.title.split(", ") for each in self.compared]
        alike = [names[0] for names in zip(*parts, strict=False) if len(set(names)) == 1]
        short = ", ".join(alike or parts[0])
        own = [each.title.removeprefix(f"{short}, ") for each in self.compared]
        return f"{short}: {', '.join(own)}" if short in others else short

    def enter(self, offer: Offer, row: Row, settings: Any, source: str) -> None:
        """Add a row. A policy of the same settings is the same one; another one of its name gets its recipe's beside it."""
        other = (offer, row["policy"]) in self.settings and settings != self.settings[offer, row["policy"]]
        name = f"{row['policy']} ({source})" if other else row["policy"]
        if name not in self.tables.setdefault(offer, {}):
            self.tables[offer][name], self.settings[offer, name] = row, settings


def grouped(found: Sequence[ComparedStudy], added: Mapping[str, Sequence[Row]]) -> dict[str, BoardGroup]:
    """Return the groups by title, in the order of the comparisons; `added` by the recipe's file name without its ending."""
    groups: dict[str, BoardGroup] = {}
    for one in found:
        for point, rows in one.by_point():
            group = groups.setdefault(_setting(point), BoardGroup())
            group.compared += [] if one in group.compared else [one]
            offer, policies = offer_of(point), point.tables()["policies"]
            for row in rows:
                group.enter(offer, row, policies.get(row["policy"]), one.recipe)
            for row in added.get(Path(one.recipe).stem, ()):
                if Offer(row["prices"], row["budget"]) == offer:
                    group.enter(offer, {**row, ADDED: True}, row, ADDED)
    titled: dict[str, BoardGroup] = {}
    for group in groups.values():
        titled[group.title(titled)] = group
    return titled


def _setting(point: Experiment) -> str:
    """All that an experiment is but its budget, its prices and its policies. A target changes nothing."""
    tables = point.tables()
    told = {key: table for key, table in tables.items() if key not in ("policies", "prices", "bound")}
    told["system"] = {key: value for key, value in told["system"].items() if key != "budget"}
    told["run"] = {key: value for key, value in told["run"].items() if key not in ("policies", "folder")}
    told["training"] = {key: value for key, value in told["training"].items() if key != "target"}
    return json.dumps(told, sort_keys=True)


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


def leaderboard_content(groups: Mapping[str, BoardGroup], by: str, full: bool = False) -> StudyContent:
    """Return the table of all tables in which at least two policies can be ranked; each table itself where asked for."""
    lines, names, gaps = [], [], []
    for title, group in groups.items():
        for offer, rows in group.tables.items():
            found = ranked(rows, by)
            if len(found.names) < 2:
                continue
            gap, first = found.gaps.get(OURS), found.names[0]
            place = found.names.index(OURS) + 1 if OURS in found.names else None
            budget = offer.text(group.tables)
            names.append(f"{title}, {budget}")
            gaps.append(gap)
            lines.append(
                [
                    escape(title),
                    escape(budget),
                    f"{_policy(first, rows[first])} {_points(rows[first], by)}",
                    f"{found.level()} of {len(found.names) - 1}",
                    DASH if place is None else f"{place} of {len(found.names)}",
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
        "policies": len({name for group in groups.values() for rows in group.tables.values() for name in rows}),
    }
    shows = f"accuracy by {by} (points, 95 % interval); no mark: {OURS} is first"
    draw = intervals(names, {f"{OURS} less the first of the table": gaps}, shows)
    shown_full = {title: group for title, group in groups.items() if full or any(ADDED in row for row in _rows(group))}
    more = "\n\n".join(_tables(title, group, by) for title, group in shown_full.items())
    return StudyContent(table(header, lines), numbers, draw, more=more)


def _rows(group: BoardGroup) -> list[Row]:
    return [row for rows in group.tables.values() for row in rows.values()]


def _tables(title: str, group: BoardGroup, by: str) -> str:
    parts = [f"## {escape(title)}", f"From {', '.join(code(each.recipe) for each in group.compared)}."]
    for offer, rows in group.tables.items():
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
        parts += [f"### Budget {escape(offer.text(group.tables))}", table(header, lines)]
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


def points_for(compared: ComparedStudy, name: str, kind: str, settings: Sequence[str]) -> Sequence[tuple[str, Experiment]]:
    """Return the comparison's own experiments with this policy in place of its policies."""
    if not name or len(name) > LONGEST or not all(each.isalnum() or each in "-_" for each in name):
        raise SettingError(f"--name {shown(name)}: must be letters, digits, - and _, at most {LONGEST}")
    if name in {row["policy"] for row in compared.rows}:
        raise SettingError(f"--name {name}: {compared.recipe} has a policy of that name; choose another")
    own = [f'policies.{name}={{kind = "{kind}"}}', *(f"policies.{name}.{each}" for each in settings)]
    return sweep_points(recipe(compared.recipe), [*own, f'run.policies=["{name}"]'])


def added_folder(compared: ComparedStudy, out: Path) -> Path:
    return out / ADDED / Path(compared.recipe).stem


def keep_added(compared: ComparedStudy, name: str, runs: Sequence[Path], out: Path, command: str) -> Path:
    """Write what was added beside the others that were, by recipe."""
    return keep_rows(runs, added_folder(compared, out), name, command)


def read_added(out: Path) -> dict[str, list[Row]]:
    """Return what was added so far, by the recipe's file name without its ending."""
    found: dict[str, list[Row]] = {}
    for path in sorted((out / ADDED).glob("*/*.json")):
        found.setdefault(path.parent.name, []).extend(read_results(path))
    return found
