"""The outcome as a page of Markdown with its figure, and every number of it as JSON and CSV."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headgate.analysis import pages
from headgate.analysis.formatting import DASH, interval, plain
from headgate.analysis.intervals import Estimate, means
from headgate.analysis.pages import how_made, table
from headgate.theory.bound import BoundConstants, generalisation_gap, mismatch
from studies.paper.claims import ClaimRow
from studies.paper.claims_page import claims_table
from studies.theory.constants import Constants, exact_mismatch, informative_from
from studies.theory.figure import draw
from studies.theory.judge import at_equal_spend, kept, rankings, remarks, variance_step
from studies.theory.outcome import RELEASED, ExcessRisk, Point, Stage

NAME = "excess_risk"


def write_page(outcomes: Sequence[ExcessRisk], rows: Sequence[ClaimRow], folder: Path, facts: dict[str, Any]) -> list[Path]:
    """excess_risk.md, .json, .csv and .svg in a folder, which is made if need be; `rows`: the claims that runs decide."""
    points = pl.DataFrame([row for outcome in outcomes for row in point_rows(outcome)])
    texts = {
        f"{NAME}.md": page(outcomes, rows, facts),
        f"{NAME}.json": pages.as_json(as_json(outcomes, facts)),
        f"{NAME}.csv": points.write_csv(float_precision=6),
    }
    paths = [*pages.write(folder, texts), folder / f"{NAME}.svg"]
    draw(outcomes, paths[-1])
    return paths


def page(outcomes: Sequence[ExcessRisk], rows: Sequence[ClaimRow], facts: dict[str, Any]) -> str:
    stages = [
        f"## {outcome.name}, η = {stage.lr:g}\n\n{_scene(outcome, stage)}\n\n{_points(outcome, stage)}\n\n{_ranks(stage)}"
        for outcome in outcomes
        for stage in outcome.stages
    ]
    return pages.filled(
        pages.beside(__file__, "page.md"),
        quick=any(outcome.quick for outcome in outcomes),
        made=how_made(facts),
        claims=claims_table(rows),
        remarks=pages.bullets(said for outcome in outcomes for said in remarks(outcome)),
        balls=_balls(outcomes),
        bias=", ".join(f"{outcome.bias:.1e} ({outcome.name})" for outcome in outcomes),
        constants=_constants(outcomes),
        stages="\n\n".join(stages),
        variance=_variance(outcomes),
    )


def _balls(outcomes: Sequence[ExcessRisk]) -> str:
    rows = []
    for outcome in outcomes:
        farthest = max(stage.seen.radius for stage in outcome.stages)
        for ball in outcome.sensitivity:
            used = "**" if ball.ridge == outcome.optima[0].ridge else ""
            cells = (f"{ball.ridge:.0e}", f"{ball.radius:.2f}", f"{ball.risk:.4f}", f"{100 * ball.accuracy:.1f} %")
            shift = f"{outcome.rounds * (outcome.sensitivity[1].risk - ball.risk):+.2f}".replace("-", "−")
            rows.append([outcome.name, *(f"{used}{cell}{used}" for cell in cells), shift, f"{farthest:.2f}"])
    header = ["data", "ridge", "radius ‖θ*‖", "F(θ*)", "labelled right", "change of every E_T", "largest ‖θ_t‖ of all runs"]
    gap = max(each.gap for outcome in outcomes for each in outcome.optima)
    slope = max(each.gradient for outcome in outcomes for each in outcome.optima)
    return (
        f"Bold is what is used; first seed. {_separable(outcomes)} Gradient norms at θ* are at most {slope:.1e}, which puts "
        f"the regularised risk within {gap:.0e} of its minimum.\n\n{table(header, rows)}"
    )


def _separable(outcomes: Sequence[ExcessRisk]) -> str:
    apart = [outcome.name for outcome in outcomes if outcome.sensitivity[-1].accuracy > 1 - 1e-9]
    if not apart:
        return "F(θ*) still falls where the ball grows."
    names = " and ".join(apart)
    return f"A linear model labels every image of {names} right, so without a ball F has no minimiser: its infimum is 0."


def _constants(outcomes: Sequence[ExcessRisk]) -> str:
    rows = []
    for outcome in outcomes:
        for stage in outcome.stages:
            for name, c in (("estimated", stage.estimated), ("assured", stage.assured)):
                rows.append([outcome.name, f"{stage.lr:g}", name, *_constant_cells(c.bound, c)])
    rows.append(["any", DASH, "released", *_constant_cells(RELEASED, None)])
    return table(["data", "η", "constants", "D", "σ", "loss bound B", "G", "L", "1/L", "Pdim", "C_2"], rows)


def _constant_cells(k: BoundConstants, c: Constants | None) -> list[str]:
    own = [DASH] * 3 if c is None else [f"{c.G:.3g}", f"{c.L:.3g}", f"{1 / c.L:.2g}"]
    return [f"{k.D:.3g}", f"{k.sigma:.3g}", f"{k.loss:.3g}", *own, f"{k.pdim:,.0f}", f"{k.C2:,.3g}"]


def _scene(outcome: ExcessRisk, stage: Stage) -> str:
    full, bare = kept(outcome, stage, C2=True), kept(outcome, stage, C2=False)
    seeds = len(stage.points[0].risk)
    inside = "No run leaves the ball." if stage.contained else "Some run leaves the ball, where the theorem says nothing."
    return (
        f"{outcome.rounds} rounds, {seeds} seeds, E = {outcome.steps}. {inside} A model that never learns gathers "
        f"{outcome.idle:.0f}, T·B is {outcome.rounds * stage.estimated.bound.loss:,.0f}. The bound is {full.least:,.0f} to "
        f"{full.most:,.0f} times the measured risk, {bare.least:,.0f} to {bare.most:,.0f} times without C_2."
    )


def parts_of_bound(point: Point, k: BoundConstants) -> dict[str, float]:
    """Σ over rounds of each term of Theorem 1, mean over seeds."""
    uneven = mismatch(point.n, point.n_eff)
    summed = {
        "mismatch": k.D * k.sigma * np.sqrt(uneven) + k.eta * k.sigma**2 * uneven,
        "generalisation": generalisation_gap(point.N, point.n_eff / point.N, k),
        "C2": np.full_like(point.n, k.C2),
    }
    return {name: float(values.sum(axis=1).mean()) for name, values in summed.items()}


def point_rows(outcome: ExcessRisk) -> Iterator[dict[str, Any]]:
    """One row per step size and point."""
    for stage in outcome.stages:
        for point in stage.points:
            k = stage.estimated.bound
            measured, half = means(point.measured[:, None])
            bound = float(point.bound(k).sum(axis=1).mean())
            yield {
                "data": outcome.name,
                "lr": stage.lr,
                "policy": point.policy,
                "budget": point.budget,
                "spend": float(point.spend.mean()),
                "n": float(point.n.mean()),
                "N": float(point.N[:, -1].mean()),
                "excess": float(measured[0]),
                "excess_half": None if np.isnan(half[0]) else float(half[0]),  # one seed has no interval
                "excess_test_last": float(point.test_excess.mean()),
                "bound": bound,
                "bound_over_excess": bound / float(measured[0]),
                **{f"bound_{name}": value for name, value in parts_of_bound(point, k).items()},
                "bound_pdim_100_without_C2": float(point.bound(stage.few().without_C2()).sum(axis=1).mean()),
                "bound_assured": float(point.bound(stage.assured.bound).sum(axis=1).mean()),
                "bound_released": float(point.bound(RELEASED).sum(axis=1).mean()),
                "surrogate_released": float(point.penalty(RELEASED).sum(axis=1).mean()),
                "surrogate_estimated": float(point.penalty(k).sum(axis=1).mean()),
            }


def _points(outcome: ExcessRisk, stage: Stage) -> str:
    rows = [row for row in point_rows(outcome) if row["lr"] == stage.lr]
    shown = {
        "spend": ("spend", ".1f"),
        "mean n": ("n", ".0f"),
        "N(T)": ("N", ",.0f"),
        "measured E_T": ("excess", ".1f"),
        "test, last round": ("excess_test_last", ".3f"),
        "bound": ("bound", ",.0f"),
        "of it mismatch": ("bound_mismatch", ",.0f"),
        "Pdim term": ("bound_generalisation", ",.0f"),
        "C_2": ("bound_C2", ",.0f"),
        "bound, Pdim 100, no C_2": ("bound_pdim_100_without_C2", ",.0f"),
        "bound, released": ("bound_released", ",.0f"),
        "Σp, released": ("surrogate_released", ",.0f"),
    }
    lines = []
    for row in sorted(rows, key=lambda row: row["excess"]):
        half = row["excess_half"]
        cells = [
            f"{row[key]:{digits}}" + (f" ± {half:.1f}" if key == "excess" and half is not None else "")
            for key, digits in shown.values()
        ]
        lines.append([row["policy"], f"{row['budget']:g}", *cells])
    return f"Best first; ± is half the 80 % interval of the mean.\n\n{table(['policy', 'C', *shown], lines)}"


def _ranks(stage: Stage) -> str:
    same = at_equal_spend(stage)
    everywhere, alike = rankings(stage, stage.points), rankings(stage, same) if len(same) > 2 else {}
    rows = []
    for name, own in everywhere.items():
        found = [own[:3], own[3:], *([alike[name][:3]] if alike else [])]
        cells = [interval(Estimate(*each), 2).replace("nan", DASH) for each in found]
        rows.append([name, *cells, *([] if alike else [DASH])])
    header = ["what ranks", f"Spearman, {len(stage.points)} points", "Kendall", f"Spearman, {len(same)} points of equal spend"]
    return f"Agreement of ranks with the measured E_T; intervals: middle 80 % over seeds drawn again.\n\n{table(header, rows)}"


def _variance(outcomes: Sequence[ExcessRisk]) -> str:
    rows = []
    for outcome in outcomes:
        for point in outcome.stages[0].points:
            step, n, n_eff = variance_step([point]), point.n, point.n_eff
            shares = [f"{100 * share:.0f} %" for share in (step.broken, step.none_allowed)]
            last = [f"{float(values[:, -1].mean()):.5f}" for values in (exact_mismatch(n, n_eff), mismatch(n, n_eff))]
            rows.append([outcome.name, point.label, *shares, f"{step.ratio:.2f}".replace("inf", "–"), *last])
    header = ["data", "point", "rounds above", "rounds above with nothing allowed", "mean ratio", "last round: exact"]
    return table([*header, "allowed"], rows)


def as_json(outcomes: Sequence[ExcessRisk], facts: dict[str, Any]) -> Any:
    return plain({**facts, "outcomes": [_outcome_json(outcome) for outcome in outcomes]})


def _named(source: object, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _outcome_json(outcome: ExcessRisk) -> dict[str, Any]:
    return {
        "data": outcome.name,
        **_named(outcome, "quick", "rounds", "seeds", "L"),
        "never_learning": outcome.idle,
        "bias_of_memory_weights": outcome.bias,
        "optima": [_named(each, "risk", "radius", "gradient", "ridge") for each in outcome.optima],
        "test_optimum": _named(outcome.test_optimum, "risk", "radius"),
        "sensitivity": [_named(each, "ridge", "radius", "risk", "accuracy") for each in outcome.sensitivity],
        "informative_from": {str(int(pdim)): informative_from(pdim) for pdim in (RELEASED.pdim, float(outcome.parameters))},
        "variance_step": variance_step(outcome.stages[0].points),
        "remarks": remarks(outcome),
        "stages": [
            {
                **_named(stage, "lr", "contained", "seen"),
                "constants": _named(stage, "estimated", "assured"),
                "inequality": {name: kept(outcome, stage, C2) for name, C2 in (("whole", True), ("without_C2", False))},
                "ranks": rankings(stage, stage.points),
            }
            for stage in outcome.stages
        ],
        "points": list(point_rows(outcome)),
    }
