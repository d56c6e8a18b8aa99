"""From finished runs to pages: everything a study says, and the claims table over all studies."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.analysis.outcomes import read_outcomes
from headgate.errors import DataError
from headgate.experiment import load
from headgate.records.reader import RunFolder
from headgate.studies.paper.claims import Row, row_from_json, row_to_json, study_rows
from headgate.studies.paper.claims_page import claims_page
from headgate.studies.paper.figures import FLAVOURS, draw_study
from headgate.studies.paper.numbers import as_json, curves_csv, study_numbers
from headgate.studies.paper.page import study_page
from headgate.studies.paper.provenance import COMMAND, facts_of, facts_of_now, machine
from headgate.studies.paper.studies import NAMES, study_of
from headgate.studies.paper.theory_checks import Checks
from headgate.studies.paper.theory_claims import THEORY, theory_rows
from headgate.studies.paper.theory_page import theory_page
from headgate.studies.paper.verdicts import rules_id
from headgate.studies.theory.outcome import ExcessRisk
from headgate.studies.theory.rates import Rates

FACTS = ("study", "command", "dates", "commits", "page_commit", "quick", "devices")
"""of a study, on the page of all claims"""


def check_pages(pages: Path, quick: bool) -> None:
    """A trial run never takes the place of real results, and is never mixed with them."""
    for name in (*NAMES, THEORY):
        path = pages / f"{name}.json"
        if path.is_file() and bool(_read(path).get("quick")) != quick:
            kind, other = ("a trial run", "real results") if quick else ("real results", "a trial run")
            raise DataError(f"{pages}: holds {other}, {kind} would be mixed with them; choose another --out or --pages")


def conclude_study(
    name: str, folders: Sequence[str], runs: Path, pages: Path, quick: bool, took_s: float | None = None
) -> list[Path]:
    """Page, numbers, curves and figures of one data set. `took_s`: how long its runs took, where they were run just now."""
    study, outcomes = study_of(name), read_outcomes(runs, folders)
    machines = [machine(RunFolder.open(runs / folder)) for folder in folders]
    scenes = {Path(folder).name: load(str(runs / folder / "config.toml")) for folder in folders}
    facts = facts_of(name, quick, machines)
    known = pages / f"{name}.json"
    facts["elapsed_s"] = round(took_s, 1) if took_s is not None else _read(known).get("elapsed_s") if known.is_file() else None
    sides = {part: [one for (batch, _), one in outcomes.items() if batch == part] for part in FLAVOURS}
    figures = draw_study(name, {part: own for part, own in sides.items() if own}, pages / "figures", quick)
    rows = study_rows(name, outcomes, facts["command"])
    numbers = study_numbers(study, outcomes, facts)
    judged = {"rules": rules_id(), "claims": [row_to_json(row) for row in rows]}
    texts = {
        f"{name}.md": study_page(study, outcomes, scenes, rows, figures, facts, machines),
        f"{name}.csv": curves_csv(outcomes, quick),
        f"{name}.json": as_json({**numbers, "runs": [vars(each) for each in machines], **judged}),
    }
    return [*_write(pages, texts), *figures]


def conclude_theory(
    rates: Rates, checks: Checks, runs: Sequence[ExcessRisk], pages: Path, quick: bool, took_s: float
) -> list[Path]:
    """Pages and numbers of what the theorems claim; `runs` are those with learning, beside which Theorem 1 is put."""
    from headgate.analysis.figures import draw_rates
    from headgate.studies.theory.page import write_page

    facts = facts_of_now(THEORY, quick, took_s)
    rows = theory_rows(rates, checks, runs, facts["command"])
    figure = pages / "figures" / "theory-rates.svg"
    written = _write(pages, {})
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
        "theory.md": theory_page(rates, checks, rows, figure, facts),
        "theory.json": as_json({**numbers, "claims": [row_to_json(row) for row in rows]}),
    }
    written += _write(pages, texts)
    return [*written, figure, *write_page(runs, pages, facts)]


def conclude_claims(pages: Path) -> list[Path]:
    """The table over all studies, from the numbers that lie beside it; what has not been run is marked so, and so is what was
    judged by other rules than those that the page prints."""
    rows: list[Row] = []
    facts = []
    for name in (*NAMES, THEORY):
        path, command = pages / f"{name}.json", f"{COMMAND} {name}"
        numbers = _read(path) if path.is_file() else {}
        if numbers.get("rules") == rules_id():
            rows += [row_from_json(raw) for raw in numbers["claims"]]
            facts.append(
                {key: numbers[key] for key in ("study", "command", "dates", "commits", "page_commit", "quick", "devices")}
            )
        else:
            rows += theory_rows(None, None, None, command) if name == THEORY else study_rows(name, {}, command)
    together = {"made_by": facts, "rules": rules_id(), "claims": [row_to_json(row) for row in rows]}
    return _write(pages, {"claims.md": claims_page(rows, facts), "claims.json": as_json(together)})


def _write(pages: Path, texts: Mapping[str, str]) -> list[Path]:
    try:
        pages.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (pages / name).write_text(text, "utf-8")
    except OSError as error:
        raise DataError(f"--pages {pages}: cannot be written ({error.strerror})") from None
    return [pages / name for name in texts]


def _read(path: Path) -> dict[str, Any]:
    try:
        numbers = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); delete it and run the study again") from None
    if not isinstance(numbers, dict):
        raise DataError(f"{path}: must hold a JSON object; delete it and run the study again")
    return numbers
