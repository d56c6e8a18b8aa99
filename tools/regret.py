"""The numbers of docs/understand/regret.md: regret and violation of ACDPP and of rules that know nothing, and what is proven.

python tools/regret.py           writes the tables into the page
"""

import re
from pathlib import Path

import numpy as np

from headgate.cli.control import acdpp_of
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import claimed_rates
from headgate.theory.drift import admission_interval
from headgate.theory.interval import regret_ceiling, regret_floor, regret_of, spend_ceiling
from studies.theory.rates import Fit, horizons, measure

PAGE = Path(__file__).parent.parent / "docs" / "understand" / "regret.md"
PAIRS = ((0.5, 0.5), (0.7, 0.3), (0.3, 0.7), (0.1, 0.8), (0.1, 0.9))
K, RATE, MEMORY, PRICE = 10, 10.0, 100.0, 5.5


def measured() -> list[str]:
    lines = [
        "| γ, φ | Reg, measured | remark | Vio_S, measured | remark | proven | Reg of the ceiling | Vio_S of the ceiling |",
        "|---|---|---|---|---|---|---|---|",
    ]
    experiment, policy = acdpp_of("mnist", ["run.seeds=12"])
    for gamma, phi in PAIRS:
        found = measure(experiment, policy, horizons(100, 10_000), gamma, phi)
        regret, spend = ({fit.quantity: fit for fit in found.fits}[name] for name in ("regret", "cost_violation"))
        claims, last = claimed_rates(gamma, phi), found.points[-1]
        T = np.array([point.T for point in found.points[-len(found.points) // 2 :]])
        shape = T**phi * (2 + phi * np.log(T))
        proven = np.log(shape[-1] / shape[0]) / np.log(T[-1] / T[0])
        of_regret = last.regret / regret_ceiling(K, RATE, last.rho, last.T, experiment.bound)
        of_spend = last.cost_violation / spend_ceiling(RATE, last.rho, PRICE)
        lines.append(
            f"| {gamma:g}, {phi:g} | {told(regret)} | {claims.regret:.2f} | {told(spend)} | {claims.cost_violation:.2f} "
            f"| {proven:.2f} | {percent(of_regret)} | {percent(of_spend)} |"
        )
    return lines


def told(fit: Fit) -> str:
    return "–" if fit.exponent is None else f"{fit.exponent:.2f} ({fit.low:.2f} … {fit.high:.2f})"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if np.isfinite(share) else "–"


def rules() -> list[str]:
    T, k, draw = 10_000, BoundConstants(), np.random.default_rng(0)
    lines = ["| φ | floor | Λ_min | Λ̄ | at random | Λ_max | ceiling |", "|---|---|---|---|---|---|---|"]
    for phi in (0.1, 0.3, 0.5, 0.7, 0.9):
        rho = 1 - T**-phi
        lo, hi = admission_interval(np.arange(1, T + 1), RATE, rho)
        chosen = np.stack([lo, np.full(T, RATE), lo + (hi - lo) * draw.random(T), hi])
        ends = (regret_floor(K, RATE, rho, T, k), regret_ceiling(K, RATE, rho, T, k))
        values = [ends[0], *regret_of(chosen, K, MEMORY, k), ends[1]]
        lines.append(f"| {phi:g} | " + " | ".join(f"{value / 1e6:.2f}".replace("-", "−") for value in values) + " |")
    return lines


def main() -> None:
    page = PAGE.read_text("utf-8")
    for heading, lines in (("γ, φ", measured()), ("φ", rules())):
        print("\n".join(lines), flush=True)
        page = re.sub(rf"\| {heading} \|[^\n]*\n(\|[^\n]*\n)+", "\n".join(lines) + "\n", page)
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
