"""The claims of the theory: rates, formulas, and Theorem 1 beside runs with learning, each as a row of the table."""

from collections.abc import Sequence

import numpy as np

from headgate.analysis.intervals import Estimate, estimate
from headgate.analysis.pages import beside, words
from headgate.studies.paper.claims import ClaimRow
from headgate.studies.paper.theory_checks import FIXED, OTHER, Checks, worst_lemma1
from headgate.studies.paper.verdicts import FAILS, HOLDS, UNDECIDED, UNTESTABLE, Finding, decide, missing
from headgate.studies.theory.judge import STRONG, SURROGATE, rankings, variance_step
from headgate.studies.theory.outcome import ExcessRisk, Point, Stage
from headgate.studies.theory.rates import LEEWAY, Fit, MeasuredRates

THEORY = "theory"
EXPONENT = "exponent of T (95 %)"
THEORY_RULES = beside(__file__, "theory_rules.md").format(
    leeway=LEEWAY, others=" and ".join(f"({gamma}, {phi})" for gamma, phi in OTHER), strong=STRONG
)
RUNS = ("inequality", "informative", "ranks", "mismatch", "step_size")
RELEASED_RATES = "V and the interval are fixed there, whatever T is"
RELEASED_FORMULA = "a formula, the same in both flavours: see as written"


def theory_rows(
    rates: MeasuredRates | None, checks: Checks | None, runs: Sequence[ExcessRisk] | None, command: str
) -> list[ClaimRow]:
    """All claims of the theory; what was not measured is marked so."""
    found: dict[str, tuple[Finding, Finding]] = {}
    fits = {fit.quantity: fit for fit in rates.fits} if rates is not None else {}
    for name in ("regret", "cost_violation", "buffer_violation", "omega1", "omega2", "omega3"):
        if name in fits:
            found[name] = _exponent(fits[name], _aside(name, fits[name].holds)), _untestable(RELEASED_RATES)
    for key, name in (("sublinear", "regret"), ("vio-sublinear", "cost_violation")):
        if name in fits:
            found[key] = _sublinear([(0.5, 0.5)], [fits[name]]), _untestable(RELEASED_RATES)
    if rates is not None and checks is not None and rates.fits:
        found |= _of_checks(rates, checks)
    if runs:
        found |= _of_runs(runs)
    none = missing(), missing()
    return [
        ClaimRow(f"theory-{key}", THEORY, text.format(V=FIXED[0], rho=FIXED[1]), place, paper, *found.get(key, none), command)
        for key, (text, place, paper) in words(__file__, "theory_claims.toml").items()
    ]


# MeasuredRates


def _value(fit: Fit) -> Estimate | None:
    if fit.exponent is None or fit.half_width is None:
        return None if fit.exponent is None else Estimate(fit.exponent)
    return Estimate(fit.exponent, fit.exponent - fit.half_width, fit.exponent + fit.half_width)


def _exponent(fit: Fit, note: str = "") -> Finding:
    value = _value(fit)
    if value is None:
        zero = "zero at the longest horizons" if fit.holds else "zero or infinite at some of the long horizons, so no exponent"
        return Finding(HOLDS if fit.holds else UNTESTABLE, None, "", "; ".join(filter(None, (zero, note))))
    verdict = {True: HOLDS, False: FAILS, None: UNDECIDED}[fit.holds]
    line = f"line at {fit.claimed_exponent + LEEWAY:.2f}"
    return Finding(verdict, value, EXPONENT, "; ".join(filter(None, (line, note))))


def _sublinear(pairs: Sequence[tuple[float, float]], fits: Sequence[Fit]) -> Finding:
    values = [_value(fit) for fit in fits]
    seen = [value for value in values if value is not None]
    said = ", ".join(
        f"({gamma:g}, {phi:g}): {'zero' if value is None else f'{value.mean:.2f}'}"
        for (gamma, phi), value in zip(pairs, values, strict=True)
    )
    note = f"(γ, φ) {said}" if len(pairs) > 1 else ""
    none = [HOLDS if fit.holds else UNDECIDED for fit in fits if fit.exponent is None]
    if not seen:
        return Finding(none[0], None, "", "zero at every long horizon" if none[0] == HOLDS else "no exponent")
    verdicts = [*none, *(decide(value, 1.0, above=False) for value in seen)]
    worst = FAILS if FAILS in verdicts else UNDECIDED if set(verdicts) != {HOLDS} else HOLDS
    return Finding(worst, max(seen, key=lambda value: value.mean), EXPONENT, note)


def _of_checks(rates: MeasuredRates, checks: Checks) -> dict[str, tuple[Finding, Finding]]:
    pairs = [(rates.gamma, rates.phi), *((other.gamma, other.phi) for other in checks.other)]
    by_name = {
        name: [next(fit for fit in one.fits if fit.quantity == name) for one in (rates, *checks.other)]
        for name in ("regret", "cost_violation")
    }
    low, high = worst_lemma1(
        [*rates.points, *checks.fixed_points, *checks.planned_points, *(p for other in checks.other for p in other.points)]
    )
    kept = ", ".join(f"{point.buffer_violation:.0f}" for point in checks.planned_points)
    chosen = ", ".join(str(K) for K in checks.planned_K)
    horizons = ", ".join(f"{point.T:,}" for point in checks.planned_points)
    fresh = min(checks.fresh.values())
    said = ", ".join(f"{ratio:.3f} with Pdim = {pdim:,.0f}" for pdim, ratio in checks.fresh.items())
    rates_alone = {
        "any-regret": _sublinear(pairs, by_name["regret"]),
        "any-vio": _sublinear(pairs, by_name["cost_violation"]),
        "fixed-regret": _exponent(checks.fixed[0], "a bound that grows like T allows it"),
        "fixed-vio": _exponent(checks.fixed[1]),
        "planned-buffer": _exponent(checks.planned, f"K = {chosen} at T = {horizons}: violation {kept} sample-rounds"),
        "lemma1": _computed(
            Estimate(high, low, high), high <= 1, "left / right (range)", "with the drift constant of each round"
        ),
    }
    off, spend, uneven = 100 * checks.uniformity, 100 * checks.floor_spend, checks.uneven
    beside_fresh = f"first buffers kept for ever, 50 rounds: {said}; erratum 18"
    formulas = {
        "corollary1": _exact(off, checks.uniformity < 1e-9, "% off at most", "K = 10, t = 10 … 100: erratum 1"),
        "corollary2": _exact(spend, checks.floor_spend <= 1 + 1e-9, "% of C at most", "C = 40 … 80: erratum 7"),
        "fresh": _exact(fresh, fresh >= 1, "× the bound of fresh samples", beside_fresh),
        "constant-n": _exact(uneven, uneven >= 1, "× that of constant n, at least", "swings of 5 … 90 %, N = 10·n"),
    }
    made = {key: (finding, _untestable(RELEASED_RATES)) for key, finding in rates_alone.items()}
    return made | {key: (finding, _untestable(RELEASED_FORMULA)) for key, finding in formulas.items()}


def _computed(value: Estimate, kept: bool, unit: str, note: str) -> Finding:
    return Finding(HOLDS if kept else FAILS, value, unit, note)


def _exact(value: float, kept: bool, unit: str, note: str) -> Finding:
    return _computed(Estimate(value, value, value), kept, unit, f"computed, no chance in it; {note}")


def _untestable(why: str) -> Finding:
    return Finding(UNTESTABLE, note=why)


def _aside(name: str, holds: bool | None) -> str:
    if name in ("regret", "omega3") and holds is False:
        return "Ω_3 is Θ(√(T log T)): erratum 14"
    return ""


# Theorem 1 beside runs


def of_runs(rows: Sequence[ClaimRow]) -> list[ClaimRow]:
    """The claims that runs with learning decide."""
    return [row for row in rows if row.key.removeprefix(f"{THEORY}-") in RUNS]


def _of_runs(runs: Sequence[ExcessRisk]) -> dict[str, tuple[Finding, Finding]]:
    sides = [_bounds(runs, released=False), _bounds(runs, released=True)]
    ranked = _ranks(runs)
    steps = [(run.stages[0].lr * run.L, run.name) for run in runs]
    steepest, where = max(steps)
    step = Finding(
        HOLDS if steepest <= 1 else FAILS,
        Estimate(steepest, min(steps)[0], steepest),
        "η·L (range over data)",
        f"largest on {where}; the theorem states no such condition",
    )
    return {
        "inequality": (sides[0][0], sides[1][0]),
        "informative": (sides[0][1], sides[1][1]),
        "ranks": (ranked, _untestable("one order of all policies, the released one among them: see as written")),
        "mismatch": (_mismatch(runs, released=False), _mismatch(runs, released=True)),
        "step_size": (step, _untestable("these runs train alike in both flavours")),
    }


def _chosen(stage: Stage, released: bool) -> list[Point]:
    return [point for point in stage.points if (point.policy == "released") == released]


def _bounds(runs: Sequence[ExcessRisk], released: bool) -> tuple[Finding, Finding]:
    """The bound over the measured risk, and over what never learning gathers, each where it is least."""
    above, idle = [], []
    for run in runs:
        for stage in run.stages:
            for point in _chosen(stage, released):
                bound = point.bound(stage.estimated.without_C2()).sum(axis=1)
                where = f"{run.name}, η = {stage.lr:g}, {point.label}"
                above.append((estimate(bound / point.measured), where))
                idle.append((estimate(bound / run.idle), where))
    if not above:
        return missing(), missing()
    found = []
    for values, over, upward in ((above, "× the measured risk", True), (idle, "× never learning", False)):
        value, where = min(values, key=lambda each: each[0].mean)
        note = f"least of {len(values)} points: {where}"
        found.append(Finding(decide(value, 1.0, above=upward), value, over, note))
    return found[0], found[1]


def _ranks(runs: Sequence[ExcessRisk]) -> Finding:
    values = []
    for run in runs:
        for stage in run.stages:
            own = rankings(stage, stage.points)[SURROGATE]
            where = f"{run.name}, η = {stage.lr:g}, {len(stage.points)} points"
            values.append((Estimate(own.spearman, own.spearman_low, own.spearman_high), where))
    value, where = min(values, key=lambda each: each[0].mean)
    rest = ", ".join(f"{each.mean:.2f}" for each, _ in values)
    return Finding(decide(value, STRONG), value, "Spearman", f"least of {rest}: {where}")


def _mismatch(runs: Sequence[ExcessRisk], released: bool) -> Finding:
    values = []
    for run in runs:
        points = _chosen(run.stages[0], released)
        if points:
            ratios = np.array([variance_step(points, seed).ratio for seed in range(len(points[0].n))])
            broken = variance_step(points).broken
            values.append((estimate(ratios), f"{run.name}: above in {100 * broken:.0f} % of rounds"))
    if not values:
        return missing()
    value, where = max(values, key=lambda each: each[0].mean)
    return Finding(decide(value, 1.0, above=False), value, "× the allowed", where)
