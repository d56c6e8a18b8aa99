"""What the theorems claim beside what is measured, as a page of Markdown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.analysis.formatting import by_column
from headgate.analysis.markdown import table
from headgate.analysis.pages import beside, filled
from headgate.analysis.provenance import how_made
from headgate.studies.paper.claims import ClaimRow
from headgate.studies.paper.claims_page import claims_table
from headgate.studies.paper.theory_checks import FIXED, GRAIN, SEEDS, Checks
from headgate.studies.theory.rates import MeasuredRates
from headgate.studies.theory.rates_view import FITS, LUCK, POINTS, fit_lines, how_fitted, point_lines


def theory_page(rates: MeasuredRates, checks: Checks, rows: Sequence[ClaimRow], drawn: Path, facts: dict[str, Any]) -> str:
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
