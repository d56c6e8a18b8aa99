"""From finished runs to pages: everything a study says, and the claims table over all studies."""

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate import __version__
from headgate.errors import DataError
from headgate.experiments.rates import Rates
from headgate.experiments.reproduce.claims import (
    THEORY,
    Row,
    excess_risk_rows,
    row_from_json,
    row_to_json,
    study_rows,
    theory_rows,
)
from headgate.experiments.reproduce.claims_page import claims_page
from headgate.experiments.reproduce.figures import FLAVOURS, draw_study
from headgate.experiments.reproduce.numbers import as_json, curves_csv, study_numbers
from headgate.experiments.reproduce.outcomes import read_fates, read_outcomes
from headgate.experiments.reproduce.page import study_page
from headgate.experiments.reproduce.studies import NAMES, study_of
from headgate.experiments.reproduce.theory_page import theory_page
from headgate.records.reader import RunFolder

COMMAND = "headgate reproduce"


def check_pages(pages: Path, names: Sequence[str], quick: bool) -> None:
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
    found = [RunFolder.open(runs / folder) for folder in folders]
    facts = made_by(name, quick, found)
    known = pages / f"{name}.json"
    facts["elapsed_s"] = round(took_s, 1) if took_s is not None else _read(known).get("elapsed_s") if known.is_file() else None
    sides = {part: [one for (batch, _), one in outcomes.items() if batch == part] for part in FLAVOURS}
    figures = draw_study(name, {part: own for part, own in sides.items() if own}, pages / "figures")
    rows = study_rows(name, outcomes, facts["command"])
    numbers = study_numbers(study, outcomes, facts)
    machines = {run.name: {key: value for key, value in run.environment.items() if key != "platform"} for run in found}
    texts = {
        f"{name}.md": study_page(study, outcomes, read_fates(runs, folders), rows, figures, facts),
        f"{name}.csv": curves_csv(outcomes),
        f"{name}.json": as_json({**numbers, "runs": machines, "claims": [row_to_json(row) for row in rows]}),
    }
    return [*_write(pages, texts), *figures]


def conclude_theory(
    rates: Rates, answers: Mapping[str, tuple[str, str]] | None, pages: Path, quick: bool, took_s: float
) -> list[Path]:
    """Page and numbers of what the theorems claim; `answers` are what runs with learning said about Theorem 1."""
    from headgate.experiments.figures import draw_rates

    facts = {**made_by(THEORY, quick, []), "devices": ["cpu"], "elapsed_s": round(took_s, 1)}
    rows = [*theory_rows(rates, facts["command"]), *excess_risk_rows(answers, facts["command"])]
    figure = pages / "figures" / "theory-rates.svg"
    figure.parent.mkdir(parents=True, exist_ok=True)
    draw_rates(rates, figure)
    more = ["Theorem 1 beside runs with learning: [excess_risk.md](excess_risk.md)."] if answers is not None else []
    numbers = {"study": THEORY, **facts, "fits": [vars(fit) for fit in rates.fits], "points": [vars(p) for p in rates.points]}
    texts = {
        "theory.md": theory_page(rates, rows, figure, facts, more),
        "theory.json": as_json({**numbers, "claims": [row_to_json(row) for row in rows]}),
    }
    return [*_write(pages, texts), figure]


def conclude_claims(pages: Path) -> list[Path]:
    """The table over all studies, from the numbers that lie beside it; what has not been run is marked so."""
    rows: list[Row] = []
    facts = []
    for name in (*NAMES, THEORY):
        path = pages / f"{name}.json"
        if path.is_file():
            numbers = _read(path)
            rows += [row_from_json(raw) for raw in numbers["claims"]]
            facts.append({key: numbers[key] for key in ("study", "command", "date", "commit", "quick", "devices")})
        else:
            command = f"{COMMAND} {name}"
            rows += (
                [*theory_rows(None, command), *excess_risk_rows(None, command)]
                if name == THEORY
                else study_rows(name, {}, command)
            )
    together = {"made_by": facts, "claims": [row_to_json(row) for row in rows]}
    return _write(pages, {"claims.md": claims_page(rows, facts), "claims.json": as_json(together)})


def made_by(name: str, quick: bool, found: Sequence[RunFolder]) -> dict[str, Any]:
    """Command, commit, date and machines of a study."""
    devices = [f"{e.get('device')}, {e.get('executor')}, {e.get('dtype')}" for e in (run.environment for run in found)]
    return {
        "command": f"{COMMAND} {name}" + (" --quick" if quick else ""),
        "quick": quick,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "devices": list(dict.fromkeys(devices)),
    }


def commit() -> str:
    """The commit this code is at, or its version where it is no checkout."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return f"headgate {__version__}"
    return f"commit {done.stdout.strip()}"


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
