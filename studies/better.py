"""What headgate closes of the gap between constant admission and the oracle, and the
leaderboard of every policy.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headgate.analysis.comparison import Offer, closed_share
from headgate.analysis.formatting import (
    DASH,
    grouped,
    interval,
    listed,
    percent,
    plus_minus,
)
from headgate.analysis.intervals import DECIDED, Difference, Estimate, ratio
from headgate.analysis.limits import holm
from headgate.analysis.savings import Row, paired
from headgate.escaping import code
from headgate.escaping import markdown as escape
from studies.comparisons import (
    BETTER,
    BY_AGE,
    GRIDS,
    HINDSIGHT,
    MEASURES,
    WANDER,
    Found,
    at,
    budget,
    clear,
    gap,
    rows_of,
    said,
    title,
)
from studies.pages import SAID, StudyContent, intervals

OF_MANY_PRICES = ("prices", "prices-lenet")
SAME_SETTING = ("ablations", *GRIDS)
"""of which another comparison says the same"""


def better_content(folder: Path) -> StudyContent:
    found = rows_of(BETTER, folder)
    shown = {
        name: [row for row in rows if row["budget"] == budget(name)]
        for name, rows in found.items()
        if name not in (*SAME_SETTING, *OF_MANY_PRICES)
    }
    ours = [at(rows, "headgate") for rows in shown.values()]
    series = {
        key: [Estimate(*row[f"closed_{key}"]).scaled(100) for row in ours]
        for key in MEASURES
    }
    draw = intervals([title(name) for name in shown], series, SAID["better"]["shows"])
    tried = {
        name.removeprefix("hindsight-"): rows
        for name, rows in rows_of(HINDSIGHT, folder).items()
    }
    known = {
        name: {key: in_hindsight(shown[name], rows, key) for key in MEASURES}
        for name, rows in tried.items()
    }
    numbers = _numbers(found, shown) | _of_hindsight(shown, known)
    by_age = {
        name: gap(at(rows, "age-25"), at(rows, "headgate"), "last")
        for name, rows in rows_of(BY_AGE, folder).items()
    }
    less = {
        title(name).removesuffix(", limits by age"): by_age.get(name, "not run")
        for name in BY_AGE
    }
    numbers["by_age"] = ", ".join(f"{name} {points}" for name, points in less.items())
    numbers |= _of_first_rounds(folder)
    electric = rows_of(["wander-ercot-lenet"], folder).values()
    for rule in ("even", "smooth-50"):
        numbers[rule] = (
            listed(
                [gap(at(own, rule), at(own, "headgate"), "last") for own in electric]
            )
            or "not run"
        )
    return StudyContent(_closed_lines(shown, known), numbers, draw)


def _of_first_rounds(folder: Path) -> dict[str, str]:
    """Return what other first purchases change, from the least to the most of all
    prices and budgets, by the last models and on the mean over rounds.
    """
    numbers = {}
    for rows in rows_of(["first-round"], folder).values():
        cells = grouped(rows, lambda row: (row["prices"], row["budget"])).values()
        for fill in (1, 2, 8):
            for key in ("last", "mean"):
                gaps = [
                    paired(at(cell, f"fill-{fill}"), at(cell, "headgate"), key)
                    for cell in cells
                ]
                ends = sorted(gap.mean for gap in gaps if gap is not None)
                decided = sum(clear(gap) != 0 for gap in gaps)
                numbers[f"fill_{fill}_{key}"] = (
                    f"{_signed(ends[0])} to {_signed(ends[-1])}"
                    f" ({decided} of {len(gaps)} clear)"
                )
    return numbers


def _signed(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−")


class InHindsight(NamedTuple):
    """What the best of the schedules that were tried comes to, by one measure."""

    schedule: str
    closed: Estimate | None
    of_it: Estimate | None
    """what headgate closes, as a part of what this schedule closes; None where it may
    close nothing
    """


Known = Mapping[str, Mapping[str, InHindsight]]
"""for each study, by measure"""


def in_hindsight(own: Sequence[Row], tried: Sequence[Row], key: str) -> InHindsight:
    """The schedule that is best on the seeds before the study's own, judged on those;
    without such seeds, best on these.
    """

    def by_seed(row: Row) -> dict[int, float]:
        return dict(zip(row["learnt"], row[f"{key}_by_seed"], strict=True))

    ends = [by_seed(at(own, policy)) for policy in ("headgate", "constant", "oracle")]
    first = min(ends[0])
    if all(min(row["learnt"]) >= first for row in tried):
        tried = [
            *tried,
            *(
                row
                for row in own
                if row["policy"] == "cheapest-first" != tried[0]["policy"]
            ),
        ]
    found = {row["policy"]: by_seed(row) for row in tried}
    before = {
        name: [value for seed, value in scores.items() if seed < first]
        for name, scores in found.items()
    }
    best = max(
        found,
        key=lambda name: float(np.mean(before[name] or list(found[name].values()))),
    )
    seeds = sorted(set.intersection(*map(set, (*ends, found[best]))))
    ours, low, high, top = (
        np.array([each[seed] for seed in seeds]) for each in (*ends, found[best])
    )
    closed, part = closed_share(top, low, high), ratio(ours - low, top - low)
    return InHindsight(
        best, closed, None if part.low is None or top.mean() <= low.mean() else part
    )


def share(closed: Estimate | None) -> str:
    """Return what is closed of a gap, in percent with its interval; constant admission
    and the oracle have none.
    """
    if closed is None:
        return DASH
    ends = " (– … –)" if closed.low is None and closed.mean not in (0.0, 1.0) else ""
    return f"{interval(closed.scaled(100), 0)}{ends} %"


def _of_hindsight(shown: Found, known: Known) -> dict[str, Any]:
    part = {
        name: each
        for name, own in known.items()
        if (each := own["last"].of_it) is not None
    }
    short = [
        f"{title(name)} ({share(part[name])})"
        for name in shown
        if name in part and part[name].mean < 0.8
    ]
    surely = sum((each.low or 0.0) >= 0.8 for each in part.values())
    return {
        "searched": len(part),
        "reached": len(part) - len(short),
        "surely": surely,
        "short": listed(short) or "none",
    }


def _closed_lines(shown: Found, known: Known) -> list[list[str]]:
    lines = []
    for name, rows in shown.items():
        headgate, constant, oracle = (
            at(rows, policy) for policy in ("headgate", "constant", "oracle")
        )
        lost = (
            f", {headgate['diverged']} more broke down" if headgate["diverged"] else ""
        )
        lines.append(
            [
                title(name),
                f"{headgate['seeds']}{lost}",
                " / ".join(
                    f"{100 * row['best'][0]:.2f}"
                    for row in (constant, headgate, oracle)
                ),
                *(share(Estimate(*headgate[f"closed_{key}"])) for key in MEASURES),
                (
                    f"{share(known[name]['last'].closed)},"
                    f" `{known[name]['last'].schedule}`"
                    if name in known
                    else DASH
                ),
                *(
                    share(known[name][key].of_it if name in known else None)
                    for key in MEASURES
                ),
                f"{headgate['spend']:.1f} of {headgate['budget']:g}",
            ]
        )
    return lines


def _numbers(found: Found, shown: Found) -> dict[str, Any]:
    released = at(found["mnist"], "released", 55.0)
    enough = [
        row
        for row in found["mnist"]
        if row["policy"] == "headgate" and row["best"][0] >= released["best"][0]
    ]
    least = min(
        enough or [at(found["mnist"], "headgate", 55.0)],
        key=lambda row: float(row["spend"]),
    )
    ours = [at(rows, "headgate") for rows in shown.values()]
    ends = sorted(round(100 * row["closed_last"][0]) for row in ours)
    parts = found["ablations"]
    return {
        "studies": len(shown),
        "least_closed": ends[0],
        "most_closed": ends[-1],
        "over": sum(
            row["overspent_runs"] + max(row["worst_excess"], 0) for row in ours
        ),
        "released": (
            f"{100 * released['best'][0]:.2f} % for {released['spend']:.2f} a round"
        ),
        "peak": released["peak_n"],
        "ours": f"{100 * least['best'][0]:.2f} % for {least['spend']:.2f}",
        "of_released": percent(least["spend"] / released["spend"]),
        "rivals": ", ".join(
            _best_rival(name, found) for name in GRIDS if name in found
        ),
        "foresight": gap(at(parts, "headgate"), at(parts, "cheapest-first"), "last"),
    } | dict(zip(("offers", "ahead", "behind"), beside_constant(found), strict=True))


def _best_rival(name: str, found: Found) -> str:
    """headgate less the best that ACDPP comes to with any of the settings tried, by the
    last models.
    """
    rivals = [
        row for row in found[name] if row["policy"].startswith("K") and row["last"]
    ]
    best = max(rivals, key=lambda row: float(row["last"][0]))
    ours = at([*found[name], *found.get(name.removeprefix("acdpp-"), ())], "headgate")
    study, _, settings = title(name).partition(", ACDPP with ")
    return f"{study} {gap(ours, best, 'last')} ({best['policy']} of {settings})"


def _offer(row: Row) -> Offer:
    return Offer(row["prices"], row["budget"])


def beside_constant(found: Found) -> tuple[int, int, int]:
    """Return the offers, and those in which headgate is clearly ahead of constant by
    all measures, or behind by any.

    Clear is p of at most 5 % in Student's paired test after Holm's correction over all
    of them.
    """
    tests: dict[tuple[str, Any, str], Difference | None] = {}
    for name, rows in found.items():
        if name not in SAME_SETTING:
            for offer, own in grouped(rows, _offer).items():
                for key in MEASURES:
                    tests[name, offer, key] = paired(
                        at(own, "headgate"), at(own, "constant"), key
                    )
    signs: dict[tuple[str, Any], list[float]] = {}
    for (name, offer, _), test in holm(tests).items():
        signs.setdefault((name, offer), []).append(
            test.mean if test is not None and _apart(test) else 0.0
        )
    ahead, behind = (
        sum(map(clear, signs.values()))
        for clear in (lambda own: min(own) > 0, lambda own: min(own) < 0)
    )
    return len(signs), ahead, behind


# the leaderboard

OURS, BY = "headgate", "last"
"""the policy that is recommended, and the measure that policies are ranked by"""


def ranked(rows: Mapping[str, Row]) -> tuple[list[str], dict[str, Difference | None]]:
    """Return those who kept both limits, the best first and without references, and
    what the others are less the first.

    That is taken seed by seed, with p after Holm's correction over the ranked policies.
    """
    fair = [
        name
        for name, row in rows.items()
        if row["kept_limits"] and not row["reference"] and row[BY] is not None
    ]
    names = sorted(fair, key=lambda name: float(rows[name][BY][0]), reverse=True)
    return names, holm(
        {name: paired(rows[name], rows[names[0]], BY) for name in names[1:]}
    )


def leaderboard_content(folder: Path) -> StudyContent:
    """Return the table of all tables in which at least two policies can be ranked."""
    lines, names, gaps = [], [], []
    found = rows_of((*BETTER, *WANDER), folder)
    for study, all_rows in found.items():
        tables = grouped(all_rows, _offer)
        for offer, own_rows in tables.items():
            rows = {row["policy"]: row for row in own_rows}
            ranks, behind = ranked(rows)
            if len(ranks) < 2:
                continue
            own, first, money = behind.get(OURS), ranks[0], offer.text(tables)
            names.append(f"{title(study)}, {money}")
            gaps.append(own)
            place = (
                f"{ranks.index(OURS) + 1} of {len(ranks)}" if OURS in ranks else DASH
            )
            level = (
                f"{sum(not _apart(each) for each in behind.values())} of {len(behind)}"
            )
            less = said(own, with_p=True, bold=_apart(own))
            row, lost = rows[first], rows[first]["diverged"]
            called = code(first) + (
                f", {lost} of {row['seeds'] + lost} models lost" if lost else ""
            )
            ended = f"{called} {plus_minus(Estimate(*row[BY]).scaled(100), 2)}"
            lines.append(
                [escape(title(study)), escape(money), ended, level, place, less]
            )
    numbers = {
        "by": BY,
        "tables": len(lines),
        "first": sum(line[4].startswith("1 of") for line in lines),
        "behind": sum(line[5].startswith("**") for line in lines),
        "policies": len({row["policy"] for rows in found.values() for row in rows}),
    }
    draw = intervals(
        names,
        {f"{OURS} less the first of the table": gaps},
        SAID["leaderboard"]["shows"],
    )
    return StudyContent(lines, numbers, draw)


def _apart(gap: Difference | None) -> bool:
    """Whether the two can be distinguished."""
    return gap is not None and gap.p is not None and gap.p <= 1 - DECIDED
