"""From finished runs to results, and from results to the pages of the paper: its
experiments, its theory, its claims.
"""

import csv
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from re import sub
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from headgate.analysis.curves import COLOURS
from headgate.analysis.formatting import DASH, interval, percent, plus_minus
from headgate.analysis.intervals import Estimate, student
from headgate.analysis.pages import UNRECORDED, facts_of, this_code, write
from headgate.records.reader import RunFolder
from studies.comparisons import read_finished
from studies.figures import STYLE, save_figure
from studies.pages import (
    SAID,
    StudyContent,
    compact,
    read_numbers,
    runs_of,
    wrapped_bullets,
)
from studies.paper.batches import NAMES, RELEASED, WHOLE, WRITTEN, about, batches
from studies.paper.claims import ClaimRow, finding_of, judge_all, row_to_json
from studies.paper.outcomes import (
    CURVES,
    curve_rows,
    policy_numbers,
    read_control,
    sides_of,
)
from studies.paper.theory_claims import THEORY, Findings, rules_id, theory_rows
from studies.paper.verdicts import NOT_RUN, Finding
from studies.theory.rates import AtHorizon, Fit, MeasuredRates, draw_rates, fit_lines

COMMAND = "python -m studies reproduce"
POLICIES, FLAVOURS = SAID["paper"]["policies"], SAID["paper"]["flavours"]
"""what they are called, by their names and by run folder; a curve has the colour of its
policy's place
"""
PRECISE = ("×", "exponent", "points below", "left", "Spearman", "η")
"""units whose numbers want two digits"""


def _command(name: str, quick: bool) -> str:
    return f"{COMMAND} {name}" + (" --quick" if quick else "")


# what is kept of runs


def keep_study(
    data: str, folders: Sequence[Path], results: Path, quick: bool
) -> list[Path]:
    """Write NAME.json, what every policy came to, and NAME.csv, its curve; what lies
    there of other run folders is kept.
    """
    outcomes = [one for folder in folders for one in read_finished([folder])]
    opened = [RunFolder.open(folder) for folder in folders]
    before, other = (
        read_numbers(results / f"{data}.json"),
        {run.name for run in batches(data)} - {run.name for run in opened},
    )
    kept = {
        name: [each for each in before.get(name, []) if each["batch"] in other]
        for name in ("policies", "runs")
    }
    facts = facts_of(_command(data, quick), opened, quick)
    if kept["runs"]:
        facts["computing_s"] = round(before["computing_s"] + facts["computing_s"], 1)
        facts |= {
            name: sorted({*before[name], *facts[name]})
            for name in ("commits", "dates", "devices")
        }
    numbers = {
        "study": data,
        **facts,
        "policies": [*kept["policies"], *map(policy_numbers, outcomes)],
        "runs": [
            *kept["runs"],
            *(
                {"batch": each.name, "rounds": each.rounds, **each.environment}
                for each in opened
            ),
        ],
    }
    text = compact(numbers).replace(',{"batch"', ',\n{"batch"') + "\n"
    old = csv.reader(
        (results / f"{data}.csv").read_text("utf-8").splitlines()
        if kept["runs"]
        else ()
    )
    rows = [CURVES, *(row for row in old if row[0] in other), *curve_rows(outcomes)]
    csv.writer(curves := StringIO(), lineterminator="\n").writerows(rows)
    return write(results, {f"{data}.json": text, f"{data}.csv": curves.getvalue()})


def keep_theory(
    rates: MeasuredRates, found: Findings, results: Path, quick: bool, took_s: float
) -> list[Path]:
    """Write theory.json."""
    command, today = _command(THEORY, quick), time.strftime("%Y-%m-%d")
    made = {
        "commits": [this_code()],
        "dates": [today],
        "devices": ["cpu"],
        "computing_s": round(took_s, 1),
    }
    numbers = {
        "study": THEORY,
        **facts_of(command, (), quick),
        **made,
        "rules": rules_id(),
        "gamma": rates.gamma,
        "phi": rates.phi,
        "fits": [vars(fit) for fit in rates.fits],
        "points": [vars(point) for point in rates.points],
        "claims": [row_to_json(row) for row in theory_rows(found, command)],
    }
    return write(results, {"theory.json": compact(numbers)})


# the paper's experiments


def paper_content(results: Path) -> StudyContent:
    """Return what each policy learnt, spent and held on each data set, in both
    flavours.
    """
    found = {
        name: numbers
        for name in NAMES
        if (numbers := read_numbers(results / f"{name}.json"))
    }
    lines = []
    for name, numbers in found.items():
        for one in (
            one
            for one in numbers["policies"]
            if one["batch"] in FLAVOURS and one["accuracy"]
        ):
            called = [
                about(name)["title"],
                FLAVOURS[one["batch"]],
                POLICIES.get(one["policy"], one["policy"]),
            ]
            shares = (
                Estimate(*one["accuracy"]).scaled(100),
                Estimate(*one["spend"]).scaled(100 / one["budget"]),
            )
            fullest = f"{percent(one['fullest_mean'])} / {percent(one['fullest_peak'])}"
            lines.append([*called, str(one["seeds"]), *map(interval, shares), fullest])
    judged, _, _ = judged_claims(results)
    numbers = {
        name: _in_short(name, judged) + _longer(found[name]) if name in found else ""
        for name in NAMES
    }
    return StudyContent(
        lines, numbers, partial(draw_curves, results=results), _made(found.values())
    )


def _in_short(name: str, judged: Sequence[ClaimRow]) -> str:
    """The gain over constant admission in both flavours, what it cost, and what is left
    of it within both limits.
    """
    rows = {
        row.key.removeprefix(f"{name}-"): row for row in judged if row.study == name
    }
    said = []
    for flavour in (WRITTEN, RELEASED):
        gain, cost = (
            getattr(rows[key], flavour).value for key in ("gain-constant", "cost")
        )
        fair = (
            getattr(rows["gain-fair"], flavour).value if "gain-fair" in rows else None
        )
        if gain is None or cost is None:
            continue
        text = (
            f"as {flavour} ACDPP gains {interval(gain, signs=True)} points on constant"
            f" admission for {cost.mean:.1f} %"
        )
        held = (
            ""
            if fair is None
            else f", and {interval(fair, signs=True)} held to both limits"
        )
        said.append(f"{text} of the budget{held}")
    return "; ".join(said)


def _longer(numbers: Mapping[str, Any]) -> str:
    """What headgate gains with all images, seed by seed, on constant admission and on
    the tuned ACDPP.
    """
    ends = {
        one["policy"]: np.array(one["final_by_seed"])
        for one in numbers["policies"]
        if one["batch"] == WHOLE
    }
    gaps = [
        (student(100 * (ends["headgate"] - ends[name])), POLICIES[name])
        for name in ("constant", "acdpp_tuned")
        if ends
    ]
    gains = " and ".join(
        f"{plus_minus(gap, 1, signs=True)} points on {name}" for gap, name in gaps
    )
    return f"; {FLAVOURS[WHOLE]}, headgate gains {gains}" if gains else ""


def draw_curves(path: Path, results: Path) -> None:
    """Draw test accuracy over rounds, best so far, as written and as released: the
    paper's Figure 1.
    """
    curves: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for name in (name for name in NAMES if (results / f"{name}.csv").is_file()):
        for row in csv.DictReader(
            (results / f"{name}.csv").read_text("utf-8").splitlines()
        ):
            if row["batch"] in (WRITTEN, RELEASED):
                own = curves.setdefault((row["batch"], name, row["policy"]), [])
                own.append((float(row["round"]), 100 * float(row["accuracy"])))
    with plt.rc_context(STYLE):
        drawn, grid = plt.subplots(
            2, len(NAMES), figsize=(13, 7), squeeze=False, layout="constrained"
        )
        for axes, flavour, name in (
            (grid[i][j], f, n)
            for i, f in enumerate((WRITTEN, RELEASED))
            for j, n in enumerate(NAMES)
        ):
            for colour, (policy, label) in zip(COLOURS, POLICIES.items(), strict=False):
                if points := curves.get((flavour, name, policy)):
                    axes.plot(
                        *zip(*points, strict=True),
                        color=colour,
                        label=label,
                        linewidth=1.5,
                    )
            axes.set(
                title=f"{about(name)['title']}, as {flavour}",
                xlabel="round",
                ylabel="best so far (%)",
            )
        handles = {
            text: handle
            for axes in grid.flat
            for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        drawn.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=6,
            fontsize=9,
        )
        save_figure(drawn, path)


# the theory


def theory_content(results: Path) -> StudyContent:
    """Return how fast each quantity grows beside the claim, and what runs say of
    Theorem 1.
    """
    numbers = read_numbers(results / "theory.json")
    fits = [Fit(**each) for each in numbers["fits"]]
    points = [AtHorizon(**each) for each in numbers["points"]]
    rates = MeasuredRates(
        tuple(points), tuple(fits), numbers.get("gamma", 0.5), numbers.get("phi", 0.5)
    )
    claims = {
        raw["key"].removeprefix("theory-"): _value(finding_of(raw["written"]))
        for raw in numbers["claims"]
    }
    said = {key.replace("-", "_"): value for key, value in claims.items()}
    said |= {
        "within": str(sum(fit.holds is True for fit in fits)),
        "fits": str(len(fits)),
    }
    said["spans"] = f"{points[0].T:,} to {points[-1].T:,}"
    return StudyContent(
        fit_lines(fits), said, partial(draw_rates, rates), _made([numbers])
    )


# all claims


def judged_claims(
    results: Path,
) -> tuple[list[ClaimRow], dict[str, Any], dict[str, dict[str, Any]]]:
    """Return every claim with its verdict, the number of tests with the largest p that
    counts, and the results they rest on.

    What has not been run is marked so, and so are claims of the theory that were judged
    by other rules than those of now.
    """
    found = {
        name: numbers
        for name in (*NAMES, THEORY)
        if (numbers := read_numbers(results / f"{name}.json"))
    }
    if found.get(THEORY, {}).get("rules") != rules_id():
        found.pop(THEORY, None)
    quick = any(numbers["quick"] for numbers in found.values())
    sides = {
        name: sides_of(found[name], read_control(results, name))
        for name in found
        if name != THEORY
    }
    rows, tests, alpha = judge_all(sides, lambda name: _command(name, quick))
    known = found.get(THEORY, {}).get("claims", [])
    findings = {
        raw["key"].removeprefix("theory-"): (
            finding_of(raw[WRITTEN]),
            finding_of(raw[RELEASED]),
        )
        for raw in known
    }
    return (
        [*rows, *theory_rows(findings, _command(THEORY, quick))],
        {"tests": tests, "alpha": alpha},
        found,
    )


def claims_content(results: Path) -> StudyContent:
    """Return a line for each claim; claims.json, which `keep_claims` writes, has the
    reasons, the money and the tests.
    """
    judged, tests, found = judged_claims(results)
    theirs = [row for row in judged if not row.own]
    lines = [
        [
            row.claim,
            row.paper,
            *(
                cell
                for side in (row.written, row.released)
                for cell in (_value(side), _verdict(side))
            ),
        ]
        for row in judged
    ]
    counts = dict[str, str]()
    for side in (WRITTEN, RELEASED):
        kinds = Counter(verdict_kind(getattr(row, side).verdict) for row in theirs)
        counts[side] = ", ".join(
            f"{count} {kind}" for kind, count in sorted(kinds.items())
        )
    numbers = {
        "claims": len(theirs),
        "tests": tests["tests"],
        "alpha": f"{tests['alpha']:.2g}",
        **counts,
    }
    departures = wrapped_bullets(_departures(found))
    more = (
        f"## Where our runs depart from the text\n\n{departures}" if departures else ""
    )
    return StudyContent(lines, numbers, None, _made(found.values()), more)


def keep_claims(results: Path) -> list[Path]:
    """Write claims.json: every claim with its numbers, its reasons and the command that
    judges it.
    """
    judged, tests, found = judged_claims(results)
    facts = ("study", "command", "dates", "commits", "quick", "devices")
    made_by = [{key: own[key] for key in facts} for own in found.values()]
    kept = {"made_by": made_by, **tests, "claims": [row_to_json(row) for row in judged]}
    return write(results, {"claims.json": compact(kept)})


def verdict_kind(verdict: str) -> str:
    """Return a verdict without its numbers, in the plural.

    >>> verdict_kind("holds only with overspend of 4 %"), verdict_kind("does not hold")
    ('hold only with overspend', 'do not hold')
    """
    return (
        sub(r"( of \d+ %| \(.*\))$", "", verdict)
        .replace("holds", "hold")
        .replace("does not", "do not")
    )


def _value(finding: Finding) -> str:
    if finding.value is None:
        return DASH
    digits = 2 if finding.unit.startswith(PRECISE) else 1
    if finding.at_least:
        return f"≥ {finding.value.mean:.{digits}f} {finding.unit}"
    return (
        f"{interval(finding.value, digits, signs=finding.unit == 'points')}"
        f" {finding.unit}".strip()
    )


def _verdict(finding: Finding) -> str:
    return finding.verdict if finding.verdict == NOT_RUN else f"**{finding.verdict}**"


def _departures(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What each data set's recipe says of itself, and how far its runs got beside the
    paper's target.
    """
    for name in (name for name in NAMES if name in found):
        said, known = (
            about(name),
            [one for one in found[name]["policies"] if one["accuracy"]],
        )
        yield from (f"{said['title']}: {each}" for each in said["differs"])
        for batch in (WRITTEN, WHOLE):
            own = [
                one
                for one in known
                if one["batch"] == batch and one["policy"] in ("oracle", "acdpp")
            ]
            ends = ", ".join(
                f"{POLICIES[one['policy']]} at {percent(one['accuracy'][0], 1)}"
                for one in own
            )
            if own:
                horizon = (
                    f"{said['title']}: T = {own[0]['rounds']}, where the text gives"
                    " none"
                )
                yield (
                    f"{horizon}; then, {FLAVOURS[batch]}, {ends}. Its target is"
                    f" {percent(said['target'])}."
                )
        top = max(
            (one for one in known if one["policy"] == "oracle"),
            key=lambda one: float(one["accuracy"][0]),
        )
        if top["accuracy"][0] < said["target"]:
            ended = (
                f"{top['batch']} with {top['rounds']} rounds ends at"
                f" {percent(top['accuracy'][0], 1)}"
            )
            yield (
                f"{said['title']}: no oracle gets there; the best, of {ended} (seeds:"
                f" {top['seeds']})."
            )


def _made(found: Any) -> list[str]:
    return [
        f"`{each['command']}`; runs: {runs_of(each)} on"
        f" {'; '.join(each['devices'])}.{_doubts(each)}"
        for each in found
    ]


def _doubts(facts: dict[str, Any]) -> str:
    """Return a warning where the runs are not all of one clean commit."""
    commits: list[str] = facts["commits"]
    clean = {each.removesuffix("-dirty").removesuffix("+changes") for each in commits}
    doubts = ["The runs come from different commits."] * (len(clean) > 1)
    doubts += ["Some runs were made with uncommitted changes."] * (
        not clean.issuperset(commits)
    )
    doubts += ["Some runs do not say from which commit they are."] * (
        UNRECORDED in commits
    )
    return f" **{' '.join(doubts)}**" if doubts else ""
