"""The leaderboard as a page of Markdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from headgate.analysis.comparison import Offer, share
from headgate.analysis.formatting import DASH, by_column, money, percent, plus_minus
from headgate.analysis.intervals import DECIDED, Difference, Estimate
from headgate.analysis.pages import beside, bullets, filled, runs_of, table, write
from headgate.analysis.savings import Saving, sentence
from headgate.analysis.savings import needed as text_of
from headgate.escaping import code
from headgate.escaping import markdown as escape
from studies.leaderboard.ranking import RIVAL, Ranked, needed, ranked
from studies.leaderboard.results import MEASURES, BoardGroup, BoardTable, ComparedStudy, Result

PAGE = "leaderboard.md"
OURS = "headgate"
"""the policy that is recommended"""
RANKED = "Ranks in the tables in which at least two policies kept their limits:"


def conclude_page(groups: Sequence[BoardGroup], folder: Path, by: str) -> Path:
    return write(folder, {PAGE: page(groups, by)})[0]


def page(groups: Sequence[BoardGroup], by: str) -> str:
    quick = any(one.made.quick for group in groups for one in group.compared)
    titled: dict[str, BoardGroup] = {}
    for group in groups:
        titled[group.title(titled)] = group
    needs = [_needs(title, group, own, by) for title, group in titled.items() for own in needed(group, by)]
    overview = "\n\n".join([*needs, RANKED, _overview(titled, by)])
    tables = "\n\n".join(_group(title, group, by) for title, group in titled.items())
    return filled(beside(__file__, "page.md"), quick, by=by, overview=overview, tables=tables)


def _needs(title: str, group: BoardGroup, found: Sequence[Saving], by: str) -> str:
    """What each policy needs for constant admission's accuracy."""
    offer = Offer(found[0].prices, found[0].budget)
    said = sentence([one for one in found if one.policy == OURS] or found)
    standing = group.standings[offer]
    columns = by_column(
        found,
        ("policy", lambda one: _policy(one.policy, standing)),
        (f"needs a round for the *{by}* of `{RIVAL}`", lambda one: text_of(one)[0]),
        (f"of what `{RIVAL}` spends", lambda one: text_of(one)[1]),
    )
    parts = [f"{escape(title)}, budget {escape(offer.text(group.standings))}, by *{by}*:\n{escape(said)}", table(*columns)]
    if not standing.rows[RIVAL].kept_limits:
        parts.append(f"`{RIVAL}` is the paper's, as printed: nothing holds it to its limits ({_why(standing.rows[RIVAL])}).")
    return "\n\n".join(parts)


def _overview(groups: Mapping[str, BoardGroup], by: str) -> str:
    """Where the recommended policy stands in each table in which two can be ranked."""
    lines = []
    for title, group in groups.items():
        for offer, standing in group.standings.items():
            found = ranked(standing, by)
            if len(found.names) < 2:
                continue
            place = found.names.index(OURS) + 1 if OURS in found.names else None
            gap = found.gaps[by].get(OURS)
            lines.append(
                [
                    escape(title),
                    escape(offer.text(group.standings)),
                    f"{_policy(found.names[0], standing)} {_points(standing.rows[found.names[0]], by)}",
                    f"{len(found.level(by))} of {len(found.names) - 1}",
                    DASH if place is None else f"{place} of {len(found.names)}",
                    DASH if gap is None else _gap(gap),
                ]
            )
    header = [
        "data and model",
        "budget",
        f"first by {by} (%)",
        "not told from it",
        f"place of `{OURS}`",
        f"`{OURS}` less the first",
    ]
    return table(header, lines)


def _group(title: str, group: BoardGroup, by: str) -> str:
    said = [f"## {escape(title)}", bullets(map(_made, group.compared))]
    for offer, standing in group.standings.items():
        said += [f"### Budget {escape(offer.text(group.standings))}", _table(standing, ranked(standing, by))]
    return "\n\n".join(said)


def _made(one: ComparedStudy) -> str:
    point = one.points[0][1]
    made = f"{runs_of(asdict(one.made))}; {'; '.join(one.made.devices)}"
    return f"{code(one.recipe)}: {point.rounds} rounds, {len(point.seeds)} seeds; {escape(made)}"


def _table(standing: BoardTable, found: Ranked) -> str:
    rows = standing.rows

    def learnt(measure: str) -> Callable[[str], str]:
        return lambda name: _points(rows[name], measure)

    def closed(measure: str) -> Callable[[str], str]:
        return lambda name: _share(getattr(rows[name], f"closed_{measure}"))

    def against(measure: str) -> Callable[[str], str]:
        return lambda name: _gap(found.gaps[measure].get(name))

    columns = by_column(
        [*found.names, *found.others],
        ("place", lambda name: str(found.names.index(name) + 1) if name in found.names else _why(rows[name])),
        ("policy", lambda name: _policy(name, standing)),
        *((f"{measure} (%)", learnt(measure)) for measure in MEASURES),
        *((f"closed, {measure}", closed(measure)) for measure in MEASURES),
        *((f"less the first, {measure}", against(measure)) for measure in MEASURES),
        ("money a round", lambda name: money(rows[name].spend)),
    )
    return table(*columns)


def _policy(name: str, standing: BoardTable) -> str:
    row = standing.rows[name]
    lost = f", {row.diverged} of {row.seeds + row.diverged} models lost" if row.diverged else ""
    return code(name) + (" (added)" if row.added else "") + lost


def _why(row: Result) -> str:
    """Why a policy is not ranked."""
    if row.reference:
        return "reference"
    runs = row.seeds + row.diverged
    broke = [f"money: {row.overspent_runs} of {runs} runs, up to {percent(row.worst_spend / row.budget)}"] * (
        row.overspent_runs > 0
    )
    broke += [f"memory: up to {row.worst_excess} too many"] * ((row.worst_excess or 0) > 0)
    return f"✗ {'; '.join(broke)}" if broke else DASH


def _points(row: Result, measure: str) -> str:
    value = getattr(row, measure)
    return DASH if value is None else plus_minus(Estimate(*value).scaled(100), 2)


def _share(closed: tuple[float, float | None, float | None] | None) -> str:
    return share(None if closed is None else Estimate(*closed))


def _gap(gap: Difference | None) -> str:
    """In points, with p; bold where the two are told apart."""
    if gap is None:
        return DASH
    said = plus_minus(gap.scaled(100), 2, signs=True)
    if gap.p is None:
        return said
    p = "p < 0.001" if gap.p < 0.001 else f"p = {gap.p:.2g}"
    return f"**{said}** ({p})" if gap.p <= 1 - DECIDED else f"{said} ({p})"
