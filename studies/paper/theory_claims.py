"""The claims of the theory: rates, formulas, and Theorem 1 beside runs with learning,
each as a row of the table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from headgate.analysis.intervals import Estimate, estimate
from headgate.analysis.pages import beside, words
from headgate.control.policies import Acdpp
from headgate.control.policy import better_of_corollary
from headgate.control.prices import PriceProcess
from headgate.control.rehearse import rehearse
from headgate.control.types import Ints, System
from headgate.experiment import Experiment, load
from headgate.theory.bound import BoundConstants, penalty
from headgate.theory.comparison import ck_bound, optimal_K, saturated
from headgate.theory.labels import paper
from headgate.theory.reuse import ck_uniformity
from studies.paper.claims import ClaimRow
from studies.paper.errata.numbers import FRESH, printed_uniformity, stale_over_fresh
from studies.paper.verdicts import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNTESTABLE,
    VACUOUS,
    Finding,
    decide,
    joined,
    missing,
)
from studies.theory.excess_risk import (
    STRONG,
    ExcessRisk,
    Point,
    Stage,
    at_equal_spend,
    surrogate_ranks,
    variance_step,
)
from studies.theory.rates import (
    LEEWAY,
    Fit,
    MeasuredRates,
    fit_points,
    horizons,
    measure,
    measure_points,
)

OTHER = ((0.7, 0.3), (0.3, 0.6), (0.1, 0.8), (0.1, 0.9))
"""(γ, φ) beside the (½, ½) of the main table"""
GRAIN = 1000
"""parts of a sample that they are counted in: with a large φ whole ones leave memory
empty for a round, the bound infinite
"""
FIXED = (10.0, 0.9)
"""V and ρ that do not follow T: those of T = 100"""
SEEDS = 4
BUDGETS = tuple(range(40, 81))
"""for which Corollary 2's candidates are looked at"""
THEORY = "theory"
EXPONENT = "exponent of T (range)"
THEORY_RULES = beside(__file__, "theory_rules.md").format(
    leeway=LEEWAY,
    others=", ".join(f"({gamma}, {phi})" for gamma, phi in OTHER),
    grain=GRAIN,
    strong=STRONG,
)
CLAIMS: dict[str, Any] = words(__file__, "theory_claims.toml")
VERDICTS = {True: HOLDS, False: FAILS, None: UNDECIDED}
"""by whether a fit holds"""
FASTER = "grows faster over these horizons"
RELEASED_RATES = "V and the interval are fixed there, whatever T is"
RELEASED_FORMULA = "a formula, the same in both flavours: see as written"


def rules_id() -> str:
    """Changes whenever the rules do, so that verdicts of different rules are never put
    into one table unmarked.
    """
    return sha256(f"{THEORY_RULES}{CLAIMS['see']}".encode()).hexdigest()[:12]


Findings = Mapping[str, tuple[Finding, Finding]]
"""by claim, as written and as released"""


def theory_rows(found: Findings, command: str) -> list[ClaimRow]:
    """All claims of the theory in the words of now; what was not measured is marked
    so.
    """
    none = missing(), missing()
    return [
        ClaimRow(
            f"theory-{key}",
            THEORY,
            text.format(V=FIXED[0], rho=FIXED[1]),
            place,
            paper,
            *found.get(key, none),
            command,
        )
        for key, (text, place, paper) in (
            (key, said) for key, said in CLAIMS.items() if key != "see"
        )
    ]


def of_rates(rates: MeasuredRates) -> Findings:
    fits = {fit.quantity: fit for fit in rates.fits}
    found = {name: _exponent(fit, name) for name, fit in fits.items()}
    for key, name in (("sublinear", "regret"), ("vio-sublinear", "cost_violation")):
        if name in fits:
            found[key] = _sublinear(key, [rates], [fits[name]])
    return _as_written(found, RELEASED_RATES)


def _as_written(found: Mapping[str, Finding], why: str) -> Findings:
    """With the reason why they cannot be tested as released."""
    return {
        key: (finding, Finding(UNTESTABLE, note=why)) for key, finding in found.items()
    }


# rates and formulas


def _exponent(fit: Fit, key: str = "", *notes: str) -> Finding:
    value = fit.value
    if value is None:
        zero = "zero at the longest horizons" if fit.holds else fit.why
        return Finding(
            HOLDS if fit.holds else UNTESTABLE, None, "", joined(zero, *notes)
        )
    verdict = VERDICTS[fit.holds]
    line = f"line at {fit.claimed_exponent + LEEWAY:.2f}"
    if verdict == FAILS and not _see(key):
        return Finding(
            FASTER,
            value,
            EXPONENT,
            joined(line, "no measured slope refutes an O(·)", *notes),
        )
    return _with_see(key, Finding(verdict, value, EXPONENT, joined(line, *notes)))


def _see(key: str) -> str:
    return str(CLAIMS["see"].get(key, ""))


def _with_see(key: str, found: Finding) -> Finding:
    return (
        replace(found, note=joined(found.note, _see(key)))
        if found.verdict == FAILS
        else found
    )


def _sublinear(
    key: str, every: Sequence[MeasuredRates], fits: Sequence[Fit]
) -> Finding:
    """The largest exponent, beside 1; one that there is not counts as well. What to
    read beside it stands in any case.
    """
    none = {True: HOLDS, False: UNDECIDED, None: UNDECIDED}
    verdicts = [
        decide(fit.value, 1.0, above=False) if fit.value else none[fit.holds]
        for fit in fits
    ]
    found = _worst(every, fits, verdicts)
    return replace(found, note=joined(found.note, _see(key)))


def _worst(
    every: Sequence[MeasuredRates],
    fits: Sequence[Fit],
    verdicts: Sequence[str],
    lines: bool = False,
) -> Finding:
    """The largest exponent, or with `lines` the one farthest above its own line; each
    is in the note.
    """
    said = []
    for one, fit in zip(every, fits, strict=True):
        shown = (fit.why or "none") if fit.exponent is None else f"{fit.exponent:.2f}"
        line = f", line {fit.claimed_exponent + LEEWAY:.2f}" if lines else ""
        said.append(f"({one.gamma:g}, {one.phi:g}): {shown}{line}")
    note = f"(γ, φ) {'; '.join(said)}" if len(every) > 1 else ""
    verdict = (
        FAILS if FAILS in verdicts else UNDECIDED if UNDECIDED in verdicts else HOLDS
    )
    seen = [fit for fit in fits if fit.exponent is not None]
    if not seen:
        return Finding(verdict, None, "", note or "zero at every long horizon")
    worst = max(
        seen, key=lambda fit: (fit.exponent or 0.0) - lines * fit.claimed_exponent
    )
    return Finding(verdict, worst.value, EXPONENT, note)


def of_any_setting(every: Sequence[MeasuredRates]) -> dict[str, Finding]:
    """What is claimed for any γ and φ, of those that were tried."""
    found = dict[str, Finding]()
    for key, name in (("any-regret", "regret"), ("any-vio", "cost_violation")):
        fits = [fit for one in every for fit in one.fits if fit.quantity == name]
        as_claimed = _worst(
            every, fits, [VERDICTS[fit.holds] for fit in fits], lines=True
        )
        found |= {
            key: _sublinear(key, every, fits),
            f"{key}-rate": _with_see(f"{key}-rate", as_claimed),
        }
    return found


def rehearsed(seeds: int) -> tuple[Experiment, Acdpp]:
    experiment = load("mnist", ['run.policies=["acdpp"]', f"run.seeds={seeds}"])
    policy = experiment.policies["acdpp"]
    assert isinstance(policy, Acdpp)
    return experiment, policy


def other_horizons(quick: bool) -> list[int]:
    return horizons(10, 100) if quick else horizons(100, 10_000)


def of_other_settings(
    rates: MeasuredRates, quick: bool, tick: Callable[[int], None] = lambda t: None
) -> Findings:
    """What the theorems say beside their main rates, measured: other settings of V and
    ρ, fixed ones, and a planned K.
    """
    experiment, policy = rehearsed(2 if quick else SEEDS)
    Ts, costs, k = other_horizons(quick), experiment.prices, experiment.bound
    every = [
        rates,
        *(
            measure(experiment, policy, Ts, *pair, tick=tick, grain=GRAIN)
            for pair in OTHER
        ),
    ]
    chosen: list[int] = []

    def fixed(system: System, T: int) -> Acdpp:
        K, rate = better_of_corollary(system, costs.mean(T), k)
        return replace(policy, K=K, rate=rate, V=FIXED[0], rho=FIXED[1])

    def planned(system: System, T: int) -> Acdpp:
        found = offline_choice(
            replace(policy, V=T**0.5, rho=1 - T**-0.5, bound=k),
            system,
            costs,
            experiment.seeds,
            T,
        )
        chosen.append(found.required("K"))
        return found

    by_fixed, by_plan = (
        measure_points(experiment, Ts, choose, tick) for choose in (fixed, planned)
    )
    linear = fit_points(
        by_fixed, "regret", "O(T/V) + O(1/(1-rho)) + O(log T)", lambda T: T
    )
    violation = fit_points(by_fixed, "cost_violation", "O(√(V·T + V/(1-rho)))", np.sqrt)
    overfull = fit_points(by_plan, "buffer_violation", "O(1)", np.ones_like)
    kept = ", ".join(f"{point.buffer_violation:.0f}" for point in by_plan)
    planned_for = (
        f"K = {', '.join(map(str, chosen))} at T ="
        f" {', '.join(f'{point.T:,}' for point in by_plan)}"
    )
    points = [*by_fixed, *by_plan, *(point for one in every for point in one.points)]
    found = {
        **of_any_setting(every),
        "fixed-regret": Finding(
            VACUOUS,
            linear.value,
            EXPONENT,
            "with V fixed O(T/V) is O(T): no bounded penalty can break it",
        ),
        "fixed-vio": _exponent(violation),
        "planned-buffer": _exponent(
            overfull, "", f"{planned_for}: violation {kept} sample-rounds"
        ),
        "lemma1": lemma1(np.array([point.lemma1 for point in points])),
    }
    return _as_written(found, RELEASED_RATES)


@paper("rem:buffer-violation")
def offline_choice(
    policy: Acdpp, system: System, costs: PriceProcess, seeds: Ints, T: int
) -> Acdpp:
    """Remark 3's choice of K: near that of eq:kstep-opt-problem, the least rehearsed
    bound of those that keep the buffers.
    """
    mean, k, both = (
        costs.mean(T),
        policy.required("bound"),
        optimal_K(costs.mean(T), system.buffer, system.budget),
    )
    points = [
        saturated(K, mean, system.buffer, system.budget)
        for K in range(1, min(T, 4 * both[0].K) + 1)
    ]
    best = min(points, key=lambda point: ck_bound(point.K, point.rate, T, k).sum()).K
    tried: dict[tuple[bool, float], Acdpp] = {}
    for K in sorted({*range(max(best - 2, 1), best + 3), *(point.K for point in both)}):
        own = replace(
            policy, K=K, rate=saturated(K, mean, system.buffer, system.budget).rate
        )
        found = rehearse(system, own, costs, seeds, T)
        tried.setdefault(
            (
                found.buffer_violation() > 0.1 * system.all_places,
                found.bound(k).sum(axis=-1).mean(),
            ),
            own,
        )
        if (
            system.budget * T < k.pdim * mean
            and better_of_corollary(system, mean, k).K == K
        ):
            # where the money buys fewer samples than Pdim, the bound cannot tell
            return own
    return tried[min(tried)]


def lemma1(ratios: np.ndarray) -> Finding:
    """One case above the line is enough, an infinite one too: memory was empty in a
    round and the right side is finite.
    """
    finite = ratios[np.isfinite(ratios)]
    note = f"{len(ratios)} settings and horizons, with the drift constant of each round"
    if len(finite) < len(ratios):
        note += (
            f"; infinite at {len(ratios) - len(finite)} of them: memory was empty in a"
            " round"
        )
    value = (
        Estimate(float(finite.max()), float(finite.min()), float(finite.max()))
        if finite.size
        else None
    )
    return Finding(
        HOLDS if (ratios <= 1).all() else FAILS, value, "left / right (range)", note
    )


def of_formulas() -> Findings:
    """What can be computed."""
    experiment = load("mnist")
    off, dearest = printed_uniformity_error(10, 100), dearest_candidate(experiment)
    uneven = uneven_over_constant(experiment.bound)
    stale = {T: stale_over_fresh(FRESH, T) for T in (50, 100_000)}
    constants = (
        f"Dσ = {FRESH.D * FRESH.sigma:g}, ησ² = {FRESH.eta * FRESH.sigma**2:g}, B ="
        f" {FRESH.loss:g}, Pdim = {FRESH.pdim:g}"
    )
    ratios = ", ".join(f"{ratio:.2f} at T = {T:,}" for T, ratio in stale.items())
    beside_fresh = (
        f"first buffers kept for ever: {ratios}; {constants}, no N below Pdim"
    )
    only, fresh = (
        "as the text says feasible, the ceiling alone is left",
        min(stale.values()),
    )
    found = {
        "corollary1": _exact(
            100 * off,
            off < 1e-9,
            "% off at most",
            "K = 10, t = 10 … 100",
            _see("corollary1"),
        ),
        "corollary2": _exact(
            100 * dearest,
            dearest <= 1 + 1e-9,
            "% of C at most",
            "C = 40 … 80",
            only,
            _see("corollary2"),
        ),
        "fresh": _exact(
            fresh,
            fresh >= 1,
            "× the bound of fresh samples",
            beside_fresh,
            _see("fresh"),
        ),
        "constant-n": _exact(
            uneven,
            uneven >= 1,
            "× that of constant n, at least",
            "swings of 5 … 90 %, N = 10·n",
        ),
    }
    return _as_written(found, RELEASED_FORMULA)


def printed_uniformity_error(K: int, T: int) -> float:
    """Of eq:vck-exact as the paper prints it, over t = K..T."""
    t = np.arange(K, T + 1, dtype=np.float64)
    return float(np.abs(printed_uniformity(K, t) / ck_uniformity(K, t) - 1).max())


def dearest_candidate(experiment: Experiment, rounds: int = 1000) -> float:
    """Corollary 2 as printed, with saturated buffers, for many budgets."""
    memory, price = experiment.system.all_places, experiment.prices.mean(rounds)
    spends = []
    for budget in BUDGETS:
        ratio = price * memory / budget
        candidates = {int(np.ceil(ratio)), max(int(np.floor(ratio)), 1)}
        best = min(
            candidates,
            key=lambda K: float(
                ck_bound(K, memory / K, rounds, experiment.bound).sum()
            ),
        )
        spends.append(price * memory / best / budget)
    return max(spends)


def uneven_over_constant(
    k: BoundConstants, n: float = 100.0, N: float = 1000.0
) -> float:
    """Rounds with n·(1 + d) and n·(1 − d) samples in turn, beside n in every one, long
    after the beginning.
    """
    swings, mismatch_alone = np.linspace(0.05, 0.9, 18), replace(k, loss=0.0)
    more, less, even = (
        penalty(n * (1 + side * swings), N, mismatch_alone) for side in (1, -1, 0)
    )
    return float(((more + less) / (2 * even)).min())


def _exact(value: float, kept: bool, unit: str, *notes: str) -> Finding:
    note = joined("computed, no chance in it", *notes)
    return Finding(HOLDS if kept else FAILS, Estimate(value, value, value), unit, note)


# Theorem 1 beside runs


def of_runs(runs: Sequence[ExcessRisk]) -> Findings:
    sides = [_bounds(runs, released=False), _bounds(runs, released=True)]
    steps = [(run.stages[0].lr * run.L, run.name) for run in runs]
    steepest, where = max(steps)
    step = Finding(
        HOLDS if steepest <= 1 else FAILS,
        Estimate(steepest, min(steps)[0], steepest),
        "η·L (range over data)",
        f"largest on {where}; the theorem states no such condition",
    )
    one_order = Finding(
        UNTESTABLE,
        note="one order of all policies, the released one among them: see as written",
    )
    return {
        "inequality": (sides[0][0], sides[1][0]),
        "informative": (sides[0][1], sides[1][1]),
        "ranks": (_ranks(runs, lambda stage: stage.points), one_order),
        "ranks-equal": (_ranks(runs, at_equal_spend), one_order),
        "mismatch": (_mismatch(runs, released=False), _mismatch(runs, released=True)),
        "step_size": (
            step,
            Finding(UNTESTABLE, note="these runs train alike in both flavours"),
        ),
    }


def _chosen(stage: Stage, released: bool) -> list[Point]:
    return [point for point in stage.points if (point.policy == "released") == released]


def _bounds(runs: Sequence[ExcessRisk], released: bool) -> tuple[Finding, Finding]:
    """The bound over the measured risk, and over what never learning gathers, each
    where it is least.

    The inequality cannot fail while its bound is above T·B: no loss exceeds B.
    """
    above, idle, trivial = [], [], []
    for run in runs:
        for stage in run.stages:
            k = replace(stage.estimated, C2=0.0)
            for point in _chosen(stage, released):
                bound = point.bound(k)
                where = (
                    f"{run.name}, η = {stage.lr:g}, {point.policy}, C ="
                    f" {point.budget:g}"
                )
                above.append((estimate(bound / point.measured), where))
                idle.append((estimate(bound / run.idle), where))
                trivial.append(float(bound.min()) / (run.rounds * k.loss))
    if not above:
        return missing(), missing()
    found = []
    for values, over, upward in (
        (above, "× the measured risk", True),
        (idle, "× never learning", False),
    ):
        value, where = min(values, key=lambda each: each[0].mean)
        note = f"least of {len(values)} points: {where}"
        found.append(Finding(decide(value, 1.0, above=upward), value, over, note))
    if min(trivial) >= 1:
        note = (
            f"the bound is at least {min(trivial):.1f} times T·B, above which no risk"
            f" can be; {found[0].note}"
        )
        found[0] = replace(found[0], verdict=VACUOUS, note=note)
    return found[0], found[1]


def _ranks(
    runs: Sequence[ExcessRisk], of: Callable[[Stage], Sequence[Point]]
) -> Finding:
    """The least rank correlation of all data sets and step sizes."""
    values = []
    for run in runs:
        for stage in run.stages:
            points = of(stage)
            if len(points) > 2:
                values.append(
                    (
                        surrogate_ranks(points),
                        f"{run.name}, η = {stage.lr:g}, {len(points)} points",
                    )
                )
    if not values:
        return Finding(UNTESTABLE, note="too few points")
    value, where = min(values, key=lambda each: each[0].mean)
    rest = ", ".join(f"{each.mean:.2f}" for each, _ in values)
    return Finding(
        decide(value, STRONG), value, "Spearman", f"least of {rest}: {where}"
    )


def _mismatch(runs: Sequence[ExcessRisk], released: bool) -> Finding:
    values = []
    for run in runs:
        points = _chosen(run.stages[0], released)
        if points:
            ratios = np.array(
                [variance_step(points, seed)[1] for seed in range(len(points[0].n))]
            )
            broken, _ = variance_step(points)
            values.append(
                (
                    estimate(ratios),
                    f"{run.name}: above in {100 * broken:.0f} % of rounds",
                )
            )
    if not values:
        return missing()
    value, where = max(values, key=lambda each: each[0].mean)
    return _with_see(
        "mismatch",
        Finding(decide(value, 1.0, above=False), value, "× the allowed", where),
    )
