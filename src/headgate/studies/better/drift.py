"""Policies when the world moves: what each loses after a change, what being on the alert costs in vain, and what to keep."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.analysis.formatting import DASH, interval, listed
from headgate.analysis.intervals import Difference, Estimate
from headgate.analysis.markdown import table
from headgate.analysis.pages import beside, filled, write
from headgate.studies.better.seed_by_seed import Row, paired, rows_of_all, with_p
from headgate.studies.better.studies import title

PAGE = "drift.md"
MOVING = ("drift-sudden", "drift-gradual", "drift-recurring")
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


def _said(gap: Difference, key: str) -> str:
    unit = {"length": "rounds", "money": "money"}.get(key, "points")
    return with_p(gap, 2 if SCALE[key] == 100 else 1, unit)


def _paired(found: Mapping[str, Sequence[Row]]) -> str:
    lines = []
    for name in MOVING:
        rows = {row["policy"]: row for row in found[name]}
        for rival in RIVALS:
            gaps = {key: lead(rows[OURS], rows[rival], key) for key in ("daily", "depth", "length", "money", "last")}
            lines.append([title(name).partition(":")[0], f"`{rival}`", *(_said(gap, key) for key, gap in gaps.items())])
    return table(["world", "beside", "daily", "dip", "lasts", "costs", "last"], lines)


def _verdict(found: Mapping[str, Sequence[Row]]) -> str:
    """Whether it loses less, recovers sooner and ends higher than each rival, world by world: clear of zero, or not."""
    said, clear = [], {rival: [0, 0] for rival in RIVALS}
    for name in MOVING:
        rows = {row["policy"]: row for row in found[name]}
        parts = []
        for rival in RIVALS:
            daily, length, last = (lead(rows[OURS], rows[rival], key) for key in ("daily", "length", "last"))
            gaps = (
                (daily, "loses", "less", "more"),
                (_less(length), "is back", "sooner", "later"),
                (last, "ends", "higher", "lower"),
            )
            parts.append(f"`{rival}` it {listed([_judged(*each) for each in gaps])}")
            for place, gap in enumerate((daily, _less(length))):
                clear[rival][place] += gap.low is not None and gap.low > 0
        said.append(f"- **{title(name).partition(':')[0]}.** Beside {'; beside '.join(parts)}.")
    counts = listed([f"{less} and {sooner} beside `{rival}`" for rival, (less, sooner) in clear.items()])
    return (
        f"**Of {len(MOVING)} worlds, in how many `{OURS}` clearly loses less, and is clearly back sooner:** {counts}. "
        "*Clearly* is with a 95 % interval that is clear of zero.\n\n" + "\n".join(said)
    )


def _less(gap: Difference) -> Difference:
    """The other way round."""
    low, high = (None if end is None else -end for end in (gap.high, gap.low))
    return Difference(-gap.mean, low, high, gap.runs, gap.p)


def _judged(gap: Difference, does: str, good: str, bad: str) -> str:
    if gap.low is None or gap.high is None or gap.low <= 0 <= gap.high:
        return f"{does} neither clearly {good} nor {bad}"
    return f"{does} {good if gap.mean > 0 else bad}"
