"""Measured rates as tables, for the terminal and for pages, and as a figure."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from headgate.analysis.curves import COLOURS
from headgate.analysis.display import StackedTable, show
from headgate.analysis.figures import STYLE, save_figure
from headgate.analysis.formatting import interval, number
from headgate.analysis.intervals import Estimate
from studies.theory.rates import LEEWAY, AtHorizon, Fit, MeasuredRates, fitted

SHOWN = {
    "regret": "Reg(T)",
    "cost_violation": "Vio_S(T)",
    "buffer_violation": "Vio_B(T)",
    "omega1": "Ω_1(T)",
    "omega2": "Ω_2(T)",
    "omega3": "Ω_3(T)",
}
LUCK = (
    "Vio_S is taken with the luck of the prices taken out: less Λ̄·(mean price − c̄), whose expectation is nil. "
    "`headgate plan` shows it as it comes."
)
POINTS = ["T", "V", "ρ", *SHOWN.values(), "ceiling of Reg(T)"]
FITS = ["quantity", "claim", "allowed", "measured exponent of T (range)", "within"]


def point_lines(points: Sequence[AtHorizon]) -> list[list[str]]:
    return [
        [f"{p.T:,}", f"{p.V:.4g}", f"{p.rho:.5f}", *(number(getattr(p, name)) for name in (*SHOWN, "ceiling"))] for p in points
    ]


def fit_lines(fits: Sequence[Fit]) -> list[list[str]]:
    told = {True: "yes", False: "no", None: "not decided"}
    return [
        [
            SHOWN[fit.quantity],
            fit.claim,
            f"{fit.claimed_exponent + LEEWAY:.2f}",
            fit.why if fit.exponent is None else interval(Estimate(fit.exponent, fit.low, fit.high), 2),
            told[fit.holds],
        ]
        for fit in fits
    ]


def print_rates(rates: MeasuredRates) -> None:
    show(StackedTable(f"V = T^{rates.gamma:g}, rho = 1 - T^-{rates.phi:g}", POINTS, point_lines(rates.points)))
    if rates.fits:
        show(StackedTable("Exponents of T", FITS, fit_lines(rates.fits)))
        print(how_fitted(rates.points).replace("*", ""))
    print(LUCK)


def how_fitted(points: Sequence[AtHorizon]) -> str:
    """Over which horizons, and what is allowed."""
    used = points[fitted([point.T for point in points])]
    return (
        f"Exponents are fitted over T = {used[0].T:,} to {used[-1].T:,}; the range is that from one horizon to the next, no "
        "interval of chance. *Allowed* is what the claimed function of T itself would show over the same horizons, "
        f"plus {LEEWAY}."
    )


def draw_rates(rates: MeasuredRates, path: Path) -> None:
    """Measured values over T, each with the slope that the paper claims for it."""
    T = np.array([point.T for point in rates.points], dtype=np.float64)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
        for axes, fit, colour in zip(grid.flat, rates.fits, COLOURS, strict=False):
            values = np.abs([getattr(point, fit.quantity) for point in rates.points])
            seen = values > 0
            axes.set(title=SHOWN[fit.quantity], xlabel="T", xscale="log")
            measured = "measured" if fit.exponent is None else f"measured, T^{fit.exponent:.2f}"
            axes.plot(T[seen], values[seen], "o-", color=colour, label=measured)
            if seen.any():
                axes.set(yscale="log")
                anchor = np.flatnonzero(seen)[-1]
                shape = np.log(T) if fit.claim == "O(log T)" else T**fit.claimed_exponent
                claim = values[anchor] * shape / shape[anchor]
                axes.plot(T, claim, "--", color="grey", label=f"claimed {fit.claim}")
            else:
                axes.annotate("zero at every T", (0.5, 0.5), xycoords="axes fraction", ha="center")
            if fit.quantity == "regret":
                axes.plot(T, [point.ceiling for point in rates.points], ":", color="black", label="ceiling, eq:omega-master")
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=8)
        save_figure(figure, path)
