"""Results as tables for the terminal."""

import math
import sys

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headgate.config import Experiment
from headgate.control.plan import Plan
from headgate.experiments.rates import Rates
from headgate.experiments.rehearsal import Summary


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, show_header=any(columns))
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i and column else "left", no_wrap=i == 0)
    return table


def _show(table: Table) -> None:
    """Tables keep their columns when the output is not a terminal."""
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(table)


def print_summaries(experiment: Experiment, summaries: list[Summary]) -> None:
    e = experiment
    table = _table(
        f"{e.name}: {summaries[0].rounds} rounds, {len(e.seeds)} seeds, budget {e.system.budget:g} a round, "
        f"{e.system.clients} clients with room for {e.system.memory}",
        "policy",
        "spend a round",
        "of budget",
        "Vio_S",
        "Vio_B",
        "mean n",
        "peak n",
        "max n_m-B_m",
        "N",
        "N_eff",
        "free",
        "mean p",
        "bound",
        "regret",
    )
    for s in summaries:
        table.add_row(
            s.policy,
            f"{s.spend_per_round:.2f}",
            f"{100 * s.spend_per_round / s.budget:.0f} %",
            _number(s.cost_violation),
            _number(s.buffer_violation),
            f"{s.mean_n:.1f}",
            f"{s.peak_n}",
            f"{s.peak_excess:+d}",
            f"{s.N:,.0f}",
            f"{s.n_eff:,.0f}",
            _number(s.free),
            _number(s.mean_penalty),
            _number(s.bound),
            _number(s.regret),
        )
    _show(table)


def print_plan(experiment: Experiment, made: Plan) -> None:
    chosen, system = made.chosen, experiment.system
    up, down = made.corollary
    table = _table(f"{experiment.name}: plan for {made.rounds} rounds, {len(experiment.seeds)} seeds rehearsed", "", "")
    for label, value in (
        ("K", f"{chosen.K} rounds"),
        ("rate", f"{chosen.rate:.6g} samples a round"),
        ("V", _number(made.V)),
        ("rho", f"{made.rho:.6g}"),
        ("expected spend", f"{chosen.spend:.2f} a round of a budget of {system.budget:g}"),
        ("bound", _number(chosen.bound)),
        ("oracle's bound", _number(made.oracle_bound)),
        ("regret", _number(chosen.regret)),
        ("cost violation", _number(chosen.cost_violation)),
        ("buffer violation", _number(chosen.buffer_violation)),
        (
            "peak buffer",
            f"{chosen.peak_buffer} samples at client {chosen.peak_client}, B_m = {system.buffer[chosen.peak_client]}",
        ),
        ("Corollary 2, ceiling", f"K = {up.K}, rate {up.rate:.6g}"),
        ("Corollary 2, floor", f"K = {down.K}, rate {down.rate:.6g}"),
        ("finite-horizon search", f"K = {made.search.K}, rate {made.search.rate:.6g}"),
    ):
        table.add_row(label, value)
    _show(table)
    tried = _table("Rehearsed", "K", "rate", "spend a round", "bound", "constant's bound", "Vio_S", "Vio_B", "peak n_m")
    for c in made.candidates:
        tried.add_row(
            f"{c.K}{' ←' if c is chosen else ''}",
            f"{c.rate:.4g}",
            f"{c.spend:.2f}",
            _number(c.bound),
            _number(c.ck_bound),
            _number(c.cost_violation),
            _number(c.buffer_violation),
            str(c.peak_buffer),
        )
    _show(tried)
    print(f"Why: {made.why}.")


def print_rates(rates: Rates) -> None:
    table = _table(
        f"V = T^{rates.gamma:g}, rho = 1 - T^-{rates.phi:g}",
        "T",
        "V",
        "rho",
        "Reg",
        "ceiling",
        "Vio_S",
        "Vio_B",
        "Ω_1",
        "Ω_2",
        "Ω_3",
    )
    for p in rates.points:
        values = (p.regret, p.ceiling, p.cost_violation, p.buffer_violation, p.omega1, p.omega2, p.omega3)
        table.add_row(f"{p.T:,}", f"{p.V:.4g}", f"{p.rho:.5f}", *map(_number, values))
    _show(table)
    fits = _table("Exponents of T", "quantity", "measured", "claimed", "exponent claimed", "verdict")
    verdicts = {True: "holds", False: "does not hold", None: "cannot be told"}
    for fit in rates.fits:
        measured = "zero" if fit.exponent is None else f"{fit.exponent:.3f} ± {fit.half_width:.3f}"
        fits.add_row(fit.quantity, measured, fit.claim, f"{fit.claimed_exponent:g}", verdicts[fit.holds])
    _show(fits)
