"""Policies under concept drift: what each loses after a change, and what being on the
alert costs in vain.
"""

from itertools import product
from pathlib import Path

from headgate.analysis.limits import holm
from headgate.analysis.savings import Row, paired
from studies.comparisons import Found, clear, gap, rows_of, said, title
from studies.pages import SAID, StudyContent, intervals, table

_TWO = [
    f"{prices}-{drift}"
    for prices in ("wandering", "fixed")
    for drift in ("sudden", "recurring")
]
MOVING = tuple(f"drift-{drift}" for drift in ("sudden", "gradual", "recurring", *_TWO))
CALM = "drift-calm"
STREAMS = tuple(
    f"streams-{each}"
    for each in (
        "1",
        "10",
        "50",
        "200",
        "flow-50",
        "lenet-1",
        "lenet-50",
        "lenet-flow-50",
    )
)
"""where the next sample depends on the last one"""
BESIDE = SAID["drift"]["beside"]
DRIFT = (*MOVING, CALM, "drift-keeping", *STREAMS)
OURS, RIVALS = "alert", ("headgate", "constant", "rccda")
KEYS = {"daily": 100.0, "depth": 100.0, "length": 1.0, "money": 1.0, "last": 100.0}
"""measures under drift, and what makes them points, rounds or money"""


def drift_content(folder: Path) -> StudyContent:
    found = rows_of(DRIFT, folder)
    drifts = {name: {row["policy"]: row for row in found[name]} for name in MOVING}
    gaps = {
        (rival, key): holm(
            {
                name: paired(rows[OURS], rows[rival], key, KEYS[key])
                for name, rows in drifts.items()
            }
        )
        for rival in RIVALS
        for key in KEYS
    }
    names = {name: title(name).partition(":")[0] for name in MOVING}
    lines = []
    for name, rival in product(MOVING, RIVALS):
        told = (
            said(gaps[rival, key][name], 2 if scale == 100 else 1, with_p=True)
            for key, scale in KEYS.items()
        )
        lines.append([names[name], f"`{rival}`", *told])
    series = {f"less {rival}": list(gaps[rival, "daily"].values()) for rival in RIVALS}
    draw = intervals(list(names.values()), series, SAID["drift"]["shows"])
    calm = {row["policy"]: row for row in found[CALM]}
    numbers = {
        "drifts": len(MOVING),
        "seeds": calm[OURS]["seeds"],
        "calm": gap(calm[OURS], calm["headgate"], "mean"),
        **{rival: counts(drifts, rival) for rival in RIVALS},
    }
    streams, more = dependent(found)
    return StudyContent(
        lines,
        {**numbers, "streams": streams},
        draw,
        more=f"## Dependent streams\n\n{more}",
    )


def dependent(found: Found) -> tuple[dict[str, str], str]:
    """What dependence does to whole buffers and to the newest: every difference by its
    name, and a table of them.
    """
    numbers, lines = dict[str, str](), []
    for name in (name for name in STREAMS if name in found):
        rows = {row["policy"]: row for row in found[name]}
        rows = {"whole": rows["headgate"], **rows}
        for key in ("best", "last"):
            gaps = [gap(rows[one], rows[other], key) for one, other in BESIDE.values()]
            lines.append(
                [
                    title(name).partition(", ")[2],
                    key,
                    f"{100 * rows['whole'][key][0]:.1f}",
                    *gaps,
                ]
            )
            numbers |= {
                f"{name} {key} {which}": each
                for which, each in zip(BESIDE, gaps, strict=True)
            }
    return numbers, table(["stream", "by", "whole (%)", *BESIDE], lines)


def counts(drifts: dict[str, dict[str, Row]], rival: str) -> str:
    """Under how many kinds of drift it clearly loses less, is back sooner, ends higher
    and ends lower.
    """
    asked = (("daily", 1), ("length", -1), ("last", 1), ("last", -1))
    signs = {
        key: [
            clear(paired(rows[OURS], rows[rival], key, KEYS[key]))
            for rows in drifts.values()
        ]
        for key, _ in asked
    }
    return " / ".join(str(signs[key].count(sign)) for key, sign in asked)
