"""A plan as it is shown, in a terminal and in a notebook, and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from headgate.analysis.formatting import by_column, counted, number
from headgate.analysis.rehearsal import broken_limits, summarise
from headgate.analysis.shown import a_table, plain_text
from headgate.control.plan import Plan
from headgate.experiment import Experiment

POINT = ("K", "rate", "V", "rho")
VALUES = ("bound", "oracle_bound", "regret", "cost_violation", "buffer_violation")


def plan_json(experiment: Experiment, name: str, made: Plan) -> dict[str, Any]:
    """What `headgate plan --format json` prints; null where a policy has no such number, or follows a schedule."""
    summary = summarise(experiment, name, made.rehearsal)
    return {
        "policy": name,
        **{each: made.setting(each) for each in POINT},
        "spend": made.spend,
        "peak_spend": made.peak_spend,
        "bound": made.bound,
        "oracle_bound": made.oracle_bound,
        "regret": made.regret,
        "cost_violation": summary.cost_violation,
        "buffer_violation": summary.buffer_violation,
        "peak_buffer": made.peak_buffer,
        "why": made.why,
        "warning": broken_limits(summary, made.policy),
    }


def plan_lines(experiment: Experiment, name: str, made: Plan) -> list[tuple[str, str]]:
    """Label and value of everything that is said of the planned point."""
    system, said = experiment.system, plan_json(experiment, name, made)
    units = {"K": " rounds", "rate": " samples a round"}
    lines = [(key, f"{said[key]:.6g}{units.get(key, '')}") for key in POINT if said[key] is not None]
    lines += [
        ("expected spend", f"{made.spend:.2f} a round of a budget of {system.budget:g}"),
        ("most costly round", f"{made.peak_spend:,.2f}, {made.peak_spend / system.budget:.1f} times a round's budget"),
        *((key.replace("_", " "), number(said[key])) for key in VALUES),
        (
            "peak buffer",
            f"{counted(made.peak_buffer, 'sample')} at client {made.peak_client}, B_m = {system.buffer[made.peak_client]}",
        ),
    ]
    tried = zip(("Corollary 2, ceiling", "Corollary 2, floor"), made.corollary or (), strict=False)
    points = [*tried, *([("finite-horizon search", made.search)] if made.search is not None else [])]
    return lines + [(label, f"K = {point.K}, rate {point.rate:.6g}") for label, point in points]


def plan_shown(experiment: Experiment, name: str, made: Plan) -> Sequence[RenderableType]:
    """The planned point, what else was tried, and in red what breaks a limit."""
    title = f"{experiment.name}: {name} planned for {made.rounds} rounds, {len(made.rehearsal.price)} seeds rehearsed"
    things: list[RenderableType] = [a_table(title, ("", ""), plan_lines(experiment, name, made))]
    if made.candidates:
        columns = by_column(
            made.candidates,
            ("K", lambda c: f"{c.K}{' ←' if made.setting('K') == c.K else ''}"),
            ("rate", lambda c: f"{c.rate:.4g}"),
            ("spend a round", lambda c: f"{c.spend:.2f}"),
            ("bound", lambda c: number(c.bound)),
            ("constant's bound", lambda c: number(c.ck_bound)),
            ("Vio_S", lambda c: number(c.cost_violation)),
            ("Vio_B", lambda c: number(c.buffer_violation)),
            ("peak n_m", lambda c: str(c.peak_buffer)),
        )
        things.append(a_table("Rehearsed", *columns))
    things.append(plain_text(f"Why: {made.why}."))
    warning = plan_json(experiment, name, made)["warning"]
    kept = "Keeps the budget and every buffer in all rehearsed runs."
    few = scarce(experiment)
    return [*things, Text(warning, style="bold red") if warning else Text(kept), *([Text(few, style="yellow")] if few else [])]


def scarce(experiment: Experiment) -> str:
    """Said where all the money of a run buys fewer samples than there are places; else nothing."""
    system, price = experiment.system, experiment.given.mean_price
    bought, enough = system.budget * experiment.rounds / price, system.memory * price / experiment.rounds
    if bought >= system.memory:
        return ""
    return (
        f"All the money buys about {bought:.3g} samples, and there are {system.memory} places: the bound tells little then. "
        f"From a budget of {enough:.3g} a round on the buffers can be filled once."
    )
