"""What the theorems claim beside what is measured, as a page of Markdown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.experiments.rates import QUANTITIES, Rates
from headgate.experiments.reproduce.claims import Row
from headgate.experiments.reproduce.claims_page import claims_table
from headgate.experiments.reproduce.page import how_made
from headgate.experiments.reproduce.text import DASH, QUICK_WARNING, table


def theory_page(rates: Rates, rows: Sequence[Row], figure: Path, facts: Mapping[str, Any], more: Sequence[str] = ()) -> str:
    points = [[f"{p.T:,}", *(f"{getattr(p, name):.4g}" for name in QUANTITIES), f"{p.ceiling:.4g}"] for p in rates.points]
    fits = [
        [fit.quantity, fit.claim, DASH if fit.exponent is None else f"{fit.exponent:.2f} ± {fit.half_width or 0:.2f}"]
        for fit in rates.fits
    ]
    parts = [
        "# The theorems' rates, measured",
        *([QUICK_WARNING] if facts["quick"] else []),
        how_made(facts),
        f"ACDPP on the MNIST system with V = T^{rates.gamma:g} and ρ = 1 − T^−{rates.phi:g}, for growing T; exponents are "
        "fitted over the longer half of the horizons, with their 95 % interval. `headgate theory rates` measures the same.",
        f"![Measured rates](figures/{figure.name})",
        table(["quantity", "claim", "measured exponent of T"], fits),
        table(["T", *QUANTITIES, "ceiling"], points),
        *more,
        "## Claims",
        claims_table(rows),
    ]
    return "\n\n".join(parts) + "\n"
