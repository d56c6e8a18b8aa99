"""Policies when the world moves: what each loses after a change, what being on the alert costs in vain, and what to keep."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from headgate.analysis.formatting import DASH, interval, listed
from headgate.analysis.intervals import Difference, Estimate
from headgate.analysis.limits import holm
from headgate.analysis.pages import beside, filled, table, write
from studies.better.seed_by_seed import Row, paired, rows_of_all, with_p
from studies.better.studies import title

PAGE = "drift.md"
MOVING = (
    "drift-sudden",
    "drift-gradual",
    "drift-recurring",
    "drift-wandering-sudden",
    "drift-wandering-recurring",
    "drift-fixed-sudden",
    "drift-fixed-recurring",
)
CALM, KEEPING = "drift-calm", "drift-keeping"
DRIFT = (*MOVING, CALM, KEEPING)
"""the comparisons, each a recipe better/NAME"""
OURS, RIVALS = "alert", ("headgate", "constant", "rccda")
SCALE = {"daily": 100.0, "depth": 100.0, "length": 1.0, "money": 1.0, "last": 100.0, "best": 100.0, "mean": 100.0}


def conclude_drift(folder: Path, quick: bool) -> list[Path]:
    """drift.md from the numbers beside it."""
    return write(folder, {PAGE: drift_page(rows_of_all(DRIFT, folder), quick)})


def drift_page(found: Mapping[str, Sequence[Row]], quick: bool = False) -> str:
    calm = {row["policy"]: row for row in found[CALM]}
    return filled(
        beside(__file__, "drift.md"),
        quick,
        seeds=calm[OURS]["seeds"],
        verdict=_verdict(found),
        costs="\n\n".join(f"### {title(name)}\n\n{_costs(found[name])}" for name in MOVING),
        paired=_paired(found),
        calm=_said(lead(calm[OURS], calm["headgate"], "mean"), "mean"),
        calm_table=_calm(found[CALM]),
        keeping=_costs(found[KEEPING]),
    )


def lead(one: Row, other: Row, key: str) -> Difference:
    """One less the other over the seeds that both have, in points, rounds or money."""
    return paired(one, other, key, SCALE[key])


def _value(row: Row, key: str, digits: int) -> str:
    return DASH if row.get(key) is None else interval(Estimate(*row[key]).scaled(SCALE[key]), digits)


def _limits(row: Row) -> str:
    return "reference" if row["reference"] else "kept" if row["kept_limits"] else "broken"


def _costs(rows: Sequence[Row]) -> str:
    header = ["policy", "daily (%)", "dip (points)", "lasts (rounds)", "recovered", "costs", "last (%)", "N", "money a round"]
    lines = [
        [
            f"`{row['policy']}`",
            *(_value(row, key, digits) for key, digits in (("daily", 2), ("depth", 1), ("length", 1))),
            f"{row['dips_recovered']} of {row['dips']}" if "dips" in row else DASH,
            _value(row, "money", 0),
            _value(row, "last", 2),
            f"{row['N']:.0f}",
            f"{row['spend']:.2f}",
            _limits(row),
        ]
        for row in rows
    ]
    return table([*header, "limits"], lines)


def _calm(rows: Sequence[Row]) -> str:
    lines = [
        [
            f"`{row['policy']}`",
            *(_value(row, key, 2) for key in ("best", "last", "mean")),
            f"{row['N']:.0f}",
            f"{row['spend']:.2f}",
            _limits(row),
        ]
        for row in rows
    ]
    return table(["policy", "best (%)", "last (%)", "mean (%)", "N", "money a round", "limits"], lines)


def _said(gap: Difference | None, key: str) -> str:
    if gap is None:
        return DASH
    unit = {"length": "rounds", "money": "money"}.get(key, "points")
    return with_p(gap, 2 if SCALE[key] == 100 else 1, unit)


def _paired(found: Mapping[str, Sequence[Row]]) -> str:
    """World by world; of a rival and a measure the tests in all worlds are one family."""
    worlds = {name: {row["policy"]: row for row in found[name]} for name in MOVING}
    keys = ("daily", "depth", "length", "money", "last")
    gaps = {
        (rival, key): holm({name: lead(rows[OURS], rows[rival], key) for name, rows in worlds.items()})
        for rival in RIVALS
        for key in keys
    }
    lines = []
    for name in MOVING:
        for rival in RIVALS:
            said = (_said(gaps[rival, key][name], key) for key in keys)
            lines.append([title(name).partition(":")[0], f"`{rival}`", *said])
    return table(["world", "beside", "daily", "dip", "lasts", "costs", "last"], lines)


def _gaps(one: Row, other: Row) -> tuple[Difference, Difference, Difference]:
    """What it loses less, how many rounds sooner it is back, and by how much it ends higher."""
    return lead(one, other, "daily"), _less(lead(one, other, "length")), lead(one, other, "last")


def _verdict(found: Mapping[str, Sequence[Row]]) -> str:
    """Whether it loses less, recovers sooner and ends higher than each rival, world by world: clear of zero, or not."""
    said = []
    worlds = {name: {row["policy"]: row for row in found[name]} for name in MOVING}
    for name, rows in worlds.items():
        parts = []
        for rival in RIVALS:
            daily, sooner, last = _gaps(rows[OURS], rows[rival])
            gaps = (daily, "loses", "less", "more"), (sooner, "is back", "sooner", "later"), (last, "ends", "higher", "lower")
            parts.append(f"`{rival}` it {listed([_judged(*each) for each in gaps])}")
        said.append(f"- **{title(name).partition(':')[0]}.** Beside {'; beside '.join(parts)}.")
    return f"{_counts(worlds.values())}\n\n" + "\n".join(said)


def _counts(worlds: Collection[Mapping[str, Row]]) -> str:
    """In how many worlds it loses less, is back sooner, and ends higher or lower: what it gains and what it gives up."""
    clear = []
    for rival in RIVALS:
        less, sooner, last = zip(*(_gaps(rows[OURS], rows[rival]) for rows in worlds), strict=True)
        ahead = [sum((gap.low or 0) > 0 for gap in gaps) for gaps in (less, sooner, last)]
        lower = sum((gap.high or 0) < 0 for gap in last)
        clear.append("beside `{}` {}, {}, {} and {}".format(rival, *ahead, lower))
    counted = (
        f"**Of {len(worlds)} worlds, in how many `{OURS}` clearly loses less, is back sooner, ends higher and ends lower:**"
    )
    return f"{counted} {'; '.join(clear)}."


def _less(gap: Difference) -> Difference:
    """The other way round."""
    low, high = (None if end is None else -end for end in (gap.high, gap.low))
    return Difference(-gap.mean, low, high, gap.runs, gap.p)


def _judged(gap: Difference, does: str, good: str, bad: str) -> str:
    if gap.low is None or gap.high is None or gap.low <= 0 <= gap.high:
        return f"{does} neither clearly {good} nor {bad}"
    return f"{does} {good if gap.mean > 0 else bad}"
