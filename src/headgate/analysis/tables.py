"""Results as tables, for the terminal and for notebooks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from headgate.analysis.compare.scores import Offer
from headgate.analysis.formatting import DASH, counted, money, number, percent, plus_minus, signed
from headgate.analysis.intervals import Estimate
from headgate.analysis.limits import Place, conclusion
from headgate.analysis.rehearsal import Summary
from headgate.analysis.runs import Runs
from headgate.analysis.shown import a_table, plain_text
from headgate.analysis.summary import breakdown_note, columns, summarise
from headgate.experiment import Experiment
from headgate.records.reader import RunFolder

if TYPE_CHECKING:
    from headgate.learning.datasets import Found

BOUND = (
    "Money and memory are those of a run. The bound is Theorem 1's: it tells settings of one policy apart, not policies; "
    "headgate compare does, by learning."
)
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


def comparison_shown(rows: Sequence[dict[str, Any]], places: Mapping[Offer, list[Place]]) -> list[RenderableType]:
    """A table for each budget and kind of price, and then who is best where."""
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
    if any("dips" in row for row in rows):
        tables.append(_dips_shown(rows))
    best = [
        [offer.said(places), place.measure, place.best.policy if place.best else "nobody", ", ".join(place.level_with) or DASH]
        for offer, own in places.items()
        for place in own
    ]
    return [*tables, a_table("best within the limits", ["budget", "by", "policy", "not told apart (p > 0.05)"], best)]


def _dips_shown(rows: Sequence[dict[str, Any]]) -> RenderableType:
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


def _points(value: list[float | None] | None) -> str:
    return DASH if value is None else plus_minus(Estimate(*value).scaled(100), 2)  # type: ignore[arg-type]


def _share(value: list[float | None] | None) -> str:
    """What is closed of a gap; a dash where the gap is so small that its share could be anything."""
    if value is None:
        return DASH
    share = Estimate(*value)  # type: ignore[arg-type]
    if share.half is not None and share.half > VAGUE:
        return DASH
    return f"{plus_minus(share.scaled(100), 0)} %"


def run_shown(run: RunFolder, found: Sequence[Runs]) -> list[RenderableType]:
    """The closing table of a run: never accuracy without what it cost and held; and what to take from it."""
    summaries = [summarise(one, run.target) for one in found]
    shown = [column for column in columns(run.target, summaries) if column.title not in ("N_eff", "Bound")]  # in the report
    title = f"{run.name}: {counted(run.rounds, 'round')}, {counted(len(run.seeds), 'seed')}"
    lines = [[summary.policy, *(column.text(summary) for column in shown)] for summary in summaries]
    notes = [note for note in (breakdown_note([run]), conclusion(found)) if note]
    return [a_table(title, ["policy", *(column.title for column in shown)], lines), *notes]


def list_shown(rows: Sequence[dict[str, Any]]) -> list[RenderableType]:
    """Runs, one a line."""
    names = "run,state,rounds,data,model,policies,seeds,best within the limits,by,spend of budget,others over budget"
    lines = [
        [
            row["name"],
            row["state"] + (f", {row['lost']} lost" if row["lost"] else "") + (", unreadable" if row["problem"] else ""),
            f"{row['round']}/{row['rounds']}",
            row["data"] or DASH,
            row["model"] or DASH,
            str(len(row["policies"])),
            str(row["seeds"]),
            percent(row["best_accuracy"], 1),
            row["best_policy"] or DASH,
            percent(row["spend_share"]) + (f", {row['spend_policy']} broke {row['broken']}" if row["broken"] else ""),
            str(len(row["over_budget"])),
        ]
        for row in rows
    ]
    return [a_table("", names.split(","), lines)]


def datasets_shown(found: Sequence["Found"], folder: Path) -> list[RenderableType]:
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
