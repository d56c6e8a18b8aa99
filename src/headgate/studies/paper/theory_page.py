"""What the theorems claim beside what is measured, as a page of Markdown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.analysis.markdown import table
from headgate.analysis.pages import figure, page
from headgate.analysis.provenance import how_made
from headgate.studies.paper.claims import ClaimRow
from headgate.studies.paper.claims_page import claims_table
from headgate.studies.paper.theory_checks import FIXED, SEEDS, Checks
from headgate.studies.theory.rates import MeasuredRates
from headgate.studies.theory.rates_view import FITS, LUCK, POINTS, fit_lines, how_fitted, point_lines


def theory_page(rates: MeasuredRates, checks: Checks, rows: Sequence[ClaimRow], drawn: Path, facts: dict[str, Any]) -> str:
    parts = [
        how_made(facts),
        f"ACDPP on the MNIST system with V = T^{rates.gamma:g} and ρ = 1 − T^−{rates.phi:g}, for growing T. "
        f"{how_fitted(rates.points)} {LUCK} `headgate theory rates` measures the same up to T = 100,000.",
        figure("Measured rates", f"figures/{drawn.name}"),
        table(FITS, fit_lines(rates.fits)),
        table(POINTS, point_lines(rates.points)),
        "## Other settings",
        f"{SEEDS} seeds. V and ρ that follow T otherwise, or not at all, and a K that is planned for each horizon "
        "(`headgate plan`) instead of Corollary 2's.",
    ]
    for other in checks.other:
        parts += [f"V = T^{other.gamma:g}, ρ = 1 − T^−{other.phi:g}:", table(FITS, fit_lines(other.fits[:3]))]
    parts += [f"V = {FIXED[0]:g}, ρ = {FIXED[1]:g} at every T:", table(FITS, fit_lines(checks.fixed))]
    planned = [
        [f"{point.T:,}", str(K), f"{point.buffer_violation:.0f}", f"{point.buffer_violation / point.T:.3f}"]
        for point, K in zip(checks.planned_points, checks.planned_K, strict=True)
    ]
    parts += ["The planned K:", table(["T", "K", "Vio_B(T), samples × rounds", "a round"], planned)]
    parts += [
        "Theorem 1 beside runs with learning: [excess_risk.md](excess_risk.md).",
        "## Claims",
        "The rules are those of [claims.md](claims.md).",
        claims_table(rows),
    ]
    return page("The theorems' rates, measured", *parts, quick=facts["quick"])
