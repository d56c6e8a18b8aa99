"""Results as tables, for the terminal and for notebooks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from headgate.analysis.compare.page import opened, several_budgets
from headgate.analysis.compare.page import rows as rows_of
from headgate.analysis.compare.scores import Offer
from headgate.analysis.formatting import DASH, counted, listed, money, number, percent, plus_minus, signed
from headgate.analysis.intervals import DECIDED, Difference, Estimate
from headgate.analysis.limits import Place, conclusion, holm
from headgate.analysis.rehearsal import Summary
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.savings import Row, Saving, amount, chosen_budget, needed, paired, savings
from headgate.analysis.shown import a_table, plain_text
from headgate.analysis.summary import breakdown_note, columns, summarise
from headgate.experiment import Experiment
from headgate.records.reader import RunFolder

if TYPE_CHECKING:
    from headgate.learning.datasets import DatasetEntry

NARROW = ("Best", "Last", "Daily", "Spend a round", "Limits")
"""columns of a finished run unless all are asked for"""
BOUND = (
    "Money and memory are those of a run. The bound is Theorem 1's: it tells settings of one policy apart, not policies; "
    "headgate compare does, by learning."
)
RIVAL = "constant"
"""against which all policies are tested"""
LAST = "last: test accuracy in the last tenth of the rounds, mean over seeds ± 80 % interval"
STAR = "; *: differs from constant (paired test over seeds, p ≤ 0.05 after Holm's correction); intervals of money are 95 %"
VAGUE = 1.0
"""half the width of an interval of what is closed, beyond which it says nothing"""


def summaries_shown(experiment: Experiment, summaries: Sequence[Summary]) -> list[RenderableType]:
    """Rehearsed policies, one a line."""
    e = experiment
    size = f"{counted(summaries[0].rounds, 'round')}, {counted(len(e.seeds), 'seed')}"
    title = f"{e.name}: {size}, budget {e.system.budget:g} a round, {e.system.clients} clients with room for {e.system.memory}"
    names = "policy,spend a round,over budget,Vio_S,Vio_B,mean n,peak n,max n_m-B_m,N,N_eff,free,mean p,bound,regret"
    lines = [
        [
            s.policy,
            money(s.spend_per_round),
            f"{s.runs_over_budget} of {s.runs}, {percent(s.dearest_share)}",
            *map(number, (s.cost_violation, s.buffer_violation, s.mean_n, s.peak_n)),
            signed(s.peak_excess),
            *map(number, (round(s.N), round(s.n_eff), s.free, s.mean_penalty, s.bound, s.regret)),
        ]
        for s in summaries
    ]
    return [a_table(title, names.split(","), lines), plain_text(BOUND)]


def comparison_shown(rows: Sequence[Row], budget: float | None = None, measure: str = "last") -> list[RenderableType]:
    """For each kind of price the sentence, then a table of the policies at one budget: what each learnt and what it needs."""
    shown: list[RenderableType] = []
    for prices in dict.fromkeys(row["prices"] for row in rows):
        own = [row for row in rows if row["prices"] == prices]
        saved = chosen_budget(savings(own, RIVAL, measure), budget)
        at = saved[0].budget if saved else budget if budget in {row["budget"] for row in own} else own[-1]["budget"]
        called = f", {prices}" if len({row["prices"] for row in rows}) > 1 else ""
        table = _at_budget([row for row in own if row["budget"] == at], saved, measure, called)
        shown += [*[f"{opened(saved)}\n"] * bool(saved), table]
    shown += [_dips_shown(rows)] * any("dips" in row for row in rows)
    return [*shown, _notes(rows)]


def _at_budget(own: Sequence[Row], saved: Sequence[Saving], measure: str, called: str) -> RenderableType:
    """All policies with the same money, in columns that fit 80 characters."""
    rival = next((row for row in own if row["policy"] == RIVAL and row["learnt"]), None)
    others = [row for row in own if row is not rival and rival is not None and row["learnt"]]
    gaps = holm({row["policy"]: paired(row, rival, measure) for row in others if not row["reference"]})  # type: ignore[arg-type]
    needs = {one.policy: needed(one) for one in saved}
    header = ["policy", f"{measure} (%)", *[f"less {RIVAL}"] * bool(gaps)]
    header += [f"for {percent(saved[0].accuracy, 1)}", f"of {RIVAL}'s"] if saved else ["spent a round"]
    lines = []
    for row in own:
        spent = amount(row.get("unit") or "", row["spend"])
        plain = (spent, "reference" if row["reference"] else "100 %" if row is rival else DASH)
        line = [row["policy"], _points(row[measure], 1), *[_starred(gaps.get(row["policy"]))] * bool(gaps)]
        lines.append([*line, *(needs.get(row["policy"], plain) if saved else (spent,))])
    first = own[0]
    size = f"{counted(first['rounds'], 'round')}, {counted(first['seeds'] + first['diverged'], 'seed')}"
    return a_table(f"at {amount(first.get('unit') or '', first['budget'])} a round{called}, {size}", header, lines)


def _starred(gap: Difference | None) -> str:
    """A star where the two differ."""
    return (
        DASH if gap is None else plus_minus(gap, 1, signs=True) + ("*" if gap.p is not None and gap.p <= 1 - DECIDED else " ")
    )


def _notes(rows: Sequence[Row]) -> str:
    """What the columns mean, and who kept to the money and the buffers."""
    broken = list(dict.fromkeys(row["policy"] for row in rows if not row["kept_limits"] and not row["reference"]))
    references = list(dict.fromkeys(row["policy"] for row in rows if row["reference"]))
    beyond = f" {listed(references)} is no policy to use: it spends or knows what nobody has." if references else ""
    kept = (
        f"over its money or its buffers in some run: {listed(broken)}."
        if broken
        else "every policy kept its money and its buffers in every run."
    )
    star = STAR if any(row["policy"] == RIVAL for row in rows) else ""
    return f"{LAST}{star}. {kept[:1].upper()}{kept[1:]}{beyond}"


def comparison_wide(rows: Sequence[Row], places: Mapping[Offer, list[Place]]) -> list[RenderableType]:
    """All columns: a table for each budget and kind of price, and then who is best where."""
    measures = [place.measure for place in next(iter(places.values()))]
    learnt = [f"{measure} %" for measure in measures]
    closed = [f"closed, {measure}" for measure in measures]
    header = ["policy", *learnt, *closed, "spend a round", "paid a sample", "over budget", "n_m-B_m", "limits"]
    tables: list[RenderableType] = []
    for offer in places:
        lines = [
            [
                row["policy"],
                *(_points(row[measure]) for measure in measures),
                *(_share(row[f"closed_{measure}"]) for measure in measures),
                money(row["spend"]),
                money(row["price_paid"]),
                f"{row['overspent_runs']} of {row['seeds'] + row['diverged']}, {percent(row['worst_spend'] / offer.budget)}",
                signed(row["worst_excess"]),
                "reference" if row["reference"] else "kept" if row["kept_limits"] else "broken",
            ]
            for row in rows
            if Offer(row["prices"], row["budget"]) == offer
        ]
        tables.append(a_table(f"budget {offer.said(places)}", header, lines))
    best = [
        [offer.said(places), place.measure, place.best.policy if place.best else "nobody", ", ".join(place.level_with) or DASH]
        for offer, own in places.items()
        for place in own
    ]
    return [*tables, a_table("best within the limits", ["budget", "by", "policy", "not told apart (p > 0.05)"], best)]


def _dips_shown(rows: Sequence[Row]) -> RenderableType:
    """Where the world changed: one line a budget and policy."""
    header = ["budget", "policy", "daily %", "dip, points", "lasts, rounds", "recovered", "costs"]
    lines = [
        [
            f"{row['budget']:g}",
            row["policy"],
            _points(row["daily"]),
            _points(row["depth"]),
            plus_minus(Estimate(*row["length"])),
            f"{row['dips_recovered']} of {row['dips']}",
            money(row["money"][0]),
        ]
        for row in rows
        if "dips" in row
    ]
    return a_table("after changes of the world", header, lines)


def _points(value: list[float | None] | None, digits: int = 2) -> str:
    return DASH if value is None else plus_minus(Estimate(*value).scaled(100), digits)  # type: ignore[arg-type]


def _share(value: list[float | None] | None) -> str:
    """What is closed of a gap; a dash where the gap is so small that its share could be anything."""
    if value is None:
        return DASH
    share = Estimate(*value)  # type: ignore[arg-type]
    if share.half is not None and share.half > VAGUE:
        return DASH
    return f"{plus_minus(share.scaled(100), 0)} %"


def run_shown(run: RunFolder, found: Sequence[Runs], wide: bool = False) -> list[RenderableType]:
    """The closing table of a run: never accuracy without what it cost and held; and what to take from it."""
    summaries = [summarise(one, run.target) for one in found]
    shown = [column for column in columns(run.target, summaries) if wide or column.title in NARROW]
    title = f"{run.name}: {counted(run.rounds, 'round')}, {counted(len(run.seeds), 'seed')}"
    lines = [[summary.policy, *(column.text(summary) for column in shown)] for summary in summaries]
    notes = [note for note in (breakdown_note([run]), conclusion(found)) if note]
    return [a_table(title, ["policy", *(column.title for column in shown)], lines), *notes]


def runs_shown(runs: Sequence[RunFolder], wide: bool = False) -> list[RenderableType]:
    """One run after the other; and where they were played at several budgets, what each policy needs for the same accuracy."""
    found = {run.path: read_runs([run]) for run in runs}
    every = [one for own in found.values() for one in own]
    if several_budgets(every) and not wide:
        return comparison_shown(rows_of(every))
    return [thing for run in runs for thing in run_shown(run, found[run.path], wide)]


def list_shown(rows: Sequence[dict[str, Any]]) -> list[RenderableType]:
    """Runs, one a line."""
    lines = [
        [
            row["name"],
            _state(row),
            row["data"] or DASH,
            f"{row['best_policy'] or DASH} {percent(row['best_accuracy'], 1)}" if row["best_policy"] else DASH,
            percent(row["spend_share"]) + (f", {row['spend_policy']} broke {row['broken']}" if row["broken"] else ""),
        ]
        for row in rows
    ]
    return [a_table("", ["run", "state", "data", "best within limits", "spent"], lines)]


def _state(row: Row) -> str:
    """finished, or how far it is; and what went wrong."""
    said = row["state"] if row["state"] == "finished" else f"{row['state']} {row['round']}/{row['rounds']}"
    return said + (f", {row['lost']} lost" if row["lost"] else "") + (", unreadable" if row["problem"] else "")


def datasets_shown(found: Sequence["DatasetEntry"], folder: Path) -> list[RenderableType]:
    lines = [
        [
            each.name,
            each.format or DASH,
            *(DASH if count is None else f"{count:,}" for count in (each.train, each.test)),
            each.problem or str(each.path or "embedded"),
        ]
        for each in found
    ]
    return [a_table(f"data sets in {folder}", ("name", "format", "train", "test", "where, or why not"), lines)]
