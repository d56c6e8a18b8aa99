"""What the theorems claim beside what is measured, as a page of Markdown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.analysis.markdown import DASH, QUICK_WARNING, table
from headgate.studies.paper.claims import Row
from headgate.studies.paper.claims_page import claims_table
from headgate.studies.paper.provenance import how_made
from headgate.studies.paper.theory_checks import FIXED, SEEDS, Checks
from headgate.studies.theory.rates import LEEWAY, QUANTITIES, Fit, Point, Rates

SHOWN = {
    "regret": "Reg(T)",
    "cost_violation": "Vio_S(T)",
    "buffer_violation": "Vio_B(T)",
    "omega1": "Ω_1(T)",
    "omega2": "Ω_2(T)",
    "omega3": "Ω_3(T)",
}


def theory_page(rates: Rates, checks: Checks, rows: Sequence[Row], figure: Path, facts: dict[str, Any]) -> str:
    parts = [
        "# The theorems' rates, measured",
        *([QUICK_WARNING] if facts["quick"] else []),
        how_made(facts),
        f"ACDPP on the MNIST system with V = T^{rates.gamma:g} and ρ = 1 − T^−{rates.phi:g}, for growing T; exponents are "
        "fitted over the longer horizons, with Student's 95 % interval. *Allowed* is what the claimed function of T itself "
        f"would show over the same horizons, plus {LEEWAY}. Vio_S is taken with the luck of the prices taken out. "
        "`headgate theory rates` measures the same up to T = 100,000.",
        f"![Measured rates](figures/{figure.name})",
        _fits(rates.fits),
        _points(rates.points),
        "## Other settings",
        f"{SEEDS} seeds. V and ρ that follow T otherwise, or not at all, and a K that is planned for each horizon "
        "(`headgate plan`) instead of Corollary 2's.",
    ]
    for other in checks.other:
        parts += [f"V = T^{other.gamma:g}, ρ = 1 − T^−{other.phi:g}:", _fits(other.fits[:3])]
    parts += [f"V = {FIXED[0]:g}, ρ = {FIXED[1]:g} at every T:", _fits(checks.fixed)]
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
    return "\n\n".join(parts) + "\n"


def _fits(fits: Sequence[Fit]) -> str:
    told = {True: "yes", False: "no", None: "not decided"}
    lines = [
        [
            SHOWN[fit.quantity],
            fit.claim,
            f"{fit.claimed_exponent + LEEWAY:.2f}",
            DASH if fit.exponent is None else f"{fit.exponent:.2f} ± {fit.half_width or 0:.2f}".replace("-", "−"),
            told[fit.holds],
        ]
        for fit in fits
    ]
    return table(["quantity", "claim", "allowed", "measured exponent of T", "within"], lines)


def _points(points: Sequence[Point]) -> str:
    lines = [[f"{p.T:,}", *(_number(getattr(p, name)) for name in QUANTITIES), _number(p.ceiling)] for p in points]
    return table(["T", *(SHOWN[name] for name in QUANTITIES), "ceiling of Reg(T)"], lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2f}"
