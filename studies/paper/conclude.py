"""From finished runs to pages: everything a study says, and the claims table over all studies."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.analysis.formatting import by_column
from headgate.analysis.pages import (
    as_json,
    beside,
    facts_of,
    facts_of_now,
    filled,
    how_made,
    machine,
    of_one_sort,
    read_numbers,
    table,
    write,
)
from headgate.experiment import load
from headgate.records.reader import RunFolder
from studies.paper.batches import NAMES, WRITTEN
from studies.paper.claims import ClaimRow, judge_all, row_from_json, row_to_json, study_rows
from studies.paper.claims_page import claims_page, claims_table
from studies.paper.control import read_control
from studies.paper.figures import FLAVOURS, draw_study
from studies.paper.numbers import curves_csv, study_numbers
from studies.paper.outcomes import read_outcomes, sides_of
from studies.paper.page import study_page
from studies.paper.theory_checks import FIXED, GRAIN, SEEDS, Checks
from studies.paper.theory_claims import THEORY, of_runs, rules_id, theory_rows
from studies.theory.outcome import ExcessRisk
from studies.theory.rates import MeasuredRates
from studies.theory.rates_view import FITS, LUCK, POINTS, fit_lines, how_fitted, point_lines

COMMAND = "python -m studies reproduce"
FACTS = ("study", "command", "dates", "commits", "quick", "devices")
"""of a study, on the page of all claims"""


def check_pages(pages: Path, quick: bool) -> None:
    """A trial run never takes the place of real results, and is never mixed with them."""
    for name in (*NAMES, THEORY):
        of_one_sort(pages / f"{name}.json", quick)


def conclude_study(data: str, folders: Sequence[Path], pages: Path, quick: bool, took_s: float | None = None) -> list[Path]:
    """Page, numbers, curves and figures of one data set. `took_s`: how long its runs took, where they were run just now."""
    outcomes = read_outcomes(folders)
    machines = [machine(RunFolder.open(folder)) for folder in folders]
    scenes = {folder.name: load(str(folder / "config.toml")) for folder in folders}
    facts = facts_of(_command(data, quick), machines, quick)
    known = read_numbers(pages / f"{data}.json")
    facts["elapsed_s"] = known.get("elapsed_s") if took_s is None else round(took_s, 1)
    sides = {part: [one for (batch, _), one in outcomes.items() if batch == part] for part in FLAVOURS}
    figures = draw_study(data, {part: own for part, own in sides.items() if own}, pages / "figures", quick)
    numbers = study_numbers(data, outcomes, facts) | {"runs": [vars(each) for each in machines]}
    rows = study_rows(data, sides_of(numbers, read_control(pages, data)), facts["command"])
    texts = {
        f"{data}.md": study_page(data, outcomes, scenes, rows, facts, machines),
        f"{data}.csv": curves_csv(outcomes, quick),
        f"{data}.json": as_json(numbers),
    }
    return [*write(pages, texts), *figures]


def ended(numbers: dict[str, Any]) -> dict[str, Any]:
    """Where a study's curves as written ended, for whoever compares them with the paper's."""
    own = [each for each in numbers["policies"] if each["batch"] == WRITTEN and each["accuracy"]]
    return {
        "rounds": own[0]["rounds"],
        "seeds": own[0]["seeds"] + own[0]["diverged"],
        "accuracy": {each["policy"]: each["accuracy"][0] for each in own},
    }


def _command(name: str, quick: bool) -> str:
    return f"{COMMAND} {name}" + (" --quick" if quick else "")


def conclude_theory(
    rates: MeasuredRates, checks: Checks, runs: Sequence[ExcessRisk], pages: Path, quick: bool, took_s: float
) -> list[Path]:
    """Pages and numbers of what the theorems claim; `runs` are those with learning, beside which Theorem 1 is put."""
    from studies.theory.page import write_page
    from studies.theory.rates_view import draw_rates

    facts = facts_of_now(_command(THEORY, quick), took_s, quick)
    rows = theory_rows(rates, checks, runs, facts["command"])
    figure = pages / "figures" / "theory-rates.svg"
    figure.parent.mkdir(parents=True, exist_ok=True)
    draw_rates(rates, figure)
    numbers = {
        "study": THEORY,
        **facts,
        "rules": rules_id(),
        "fits": [vars(fit) for fit in rates.fits],
        "points": [vars(point) for point in rates.points],
    }
    texts = {
        "theory.md": _theory_page(rates, checks, rows, figure, facts),
        "theory.json": as_json({**numbers, "claims": [row_to_json(row) for row in rows]}),
    }
    return [*write(pages, texts), figure, *write_page(runs, of_runs(rows), pages, facts)]


def conclude_claims(pages: Path) -> list[Path]:
    """The table over all studies, from the numbers that lie beside it. What has not been run is marked so, and so are claims
    of the theory that were judged by other rules than those that the page prints."""
    found = {name: numbers for name in (*NAMES, THEORY) if (numbers := read_numbers(pages / f"{name}.json"))}
    if found.get(THEORY, {}).get("rules") != rules_id():
        found.pop(THEORY, None)
    control = {name: read_control(pages, name) for name in found if name != THEORY}
    quick = any(numbers["quick"] for numbers in found.values())
    judged = judge_all({name: sides_of(found[name], own) for name, own in control.items()}, lambda name: _command(name, quick))
    known = {row.key: row for row in map(row_from_json, found.get(THEORY, {}).get("claims", []))}
    for row in theory_rows(None, None, None, _command(THEORY, quick)):  # their words are those of now
        own = known.get(row.key, row)
        judged.rows.append(replace(row, written=own.written, released=own.released))
    facts = [
        {key: numbers[key] for key in FACTS} | ({"ended": ended(numbers)} if name != THEORY else {})
        for name, numbers in found.items()
    ]
    rows = [row_to_json(row) for row in judged.rows]
    told = {"made_by": facts, "tests": judged.tests, "alpha": judged.alpha, "claims": rows}
    return write(pages, {"claims.md": claims_page(judged, facts, control), "claims.json": as_json(told)})


def _theory_page(rates: MeasuredRates, checks: Checks, rows: Sequence[ClaimRow], drawn: Path, facts: dict[str, Any]) -> str:
    """What the theorems claim beside what is measured."""
    others = [(f"T^{each.gamma:g}", f"1 − T^−{each.phi:g}", each.fits[:3]) for each in checks.other]
    others.append((f"{FIXED[0]:g}", f"{FIXED[1]:g} at every T", checks.fixed))
    planned = by_column(
        zip(checks.planned_points, checks.planned_K, strict=True),
        ("T", lambda each: f"{each[0].T:,}"),
        ("K", lambda each: str(each[1])),
        ("Vio_B(T), samples × rounds", lambda each: f"{each[0].buffer_violation:.0f}"),
        ("a round", lambda each: f"{each[0].buffer_violation / each[0].T:.3f}"),
    )
    return filled(
        beside(__file__, "theory_page.md"),
        facts["quick"],
        made=how_made(facts),
        gamma=f"{rates.gamma:g}",
        phi=f"{rates.phi:g}",
        fitted=how_fitted(rates.points),
        luck=LUCK,
        drawn=drawn.name,
        fits=table(FITS, fit_lines(rates.fits)),
        points=table(POINTS, point_lines(rates.points)),
        seeds=str(SEEDS),
        grain=str(GRAIN),
        others="\n\n".join(f"V = {V}, ρ = {rho}:\n\n{table(FITS, fit_lines(fits))}" for V, rho, fits in others),
        planned=table(*planned),
        claims=claims_table(rows),
    )
