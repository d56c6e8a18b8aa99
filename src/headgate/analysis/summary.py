"""What each policy of a run came to: as numbers, in sentences and in the columns of a table."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.curves import PolicyRuns, read_policies
from headgate.analysis.intervals import means
from headgate.errors import SettingError
from headgate.records.reader import RunFolder
from headgate.theory.comparison import buffer_violation, cost_violation

TOLERANCE = 0.02
"""so much above the budget still counts as equal spend"""
DASH = "–"


# Numbers


class Estimate(NamedTuple):
    """A mean over runs with the half width of its 80 % interval; one run has no interval."""

    mean: float
    half: float | None
    runs: int

    @property
    def low(self) -> float | None:
        return None if self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        return None if self.half is None else self.mean + self.half


@dataclass(frozen=True)
class PolicySummary:
    """One policy over its runs that did not diverge. Means are over runs; violations are the paper's, of the mean over runs.
    None where nothing was measured. Intervals: see `intervals.means`."""

    policy: str
    runs: int
    diverged: int
    """runs left out of every number here"""
    rounds: int
    """that every run has reached"""
    budget: float
    final_accuracy: Estimate | None
    """at each run's last evaluation"""
    best_accuracy: Estimate | None
    """the running best at the end"""
    mean_accuracy: float | None
    """over all evaluated rounds"""
    target: float | None
    reached: int
    """runs whose accuracy reached the target"""
    first_round: float | None
    """at which they did, mean over these runs"""
    spend_per_round: float | None
    cost_violation: float | None
    buffer_violation: float | None
    peak_n: int | None
    peak_excess: int | None
    """largest n_m(t) − B_m of any client, round and run"""
    N: float | None
    n_eff: float | None
    bound: float | None
    """sum over rounds; none where a round has none, as one without a sample"""

    @property
    def spend_share(self) -> float | None:
        """Realised spend in % of the budget."""
        return None if self.spend_per_round is None or not self.budget else 100 * self.spend_per_round / self.budget

    @property
    def overspent(self) -> bool:
        """Too far above the budget in the mean for its accuracy to be compared at equal spend."""
        return self.spend_per_round is not None and self.spend_per_round > (1 + TOLERANCE) * self.budget


def policy_summaries(run: RunFolder, target: float | None = None) -> list[PolicySummary]:
    """What each policy of a run came to; `target` is an accuracy between 0 and 1."""
    check_target(target)
    return [summarise(policy, target) for policy in read_policies([run])]


def check_target(target: float | None) -> None:
    if target is not None and not 0 < target <= 1:
        raise SettingError(f"target = {target:g}: must be an accuracy above 0 and at most 1, as in 0.9 for 90 %")


def summarise(policy: PolicyRuns, target: float | None) -> PolicySummary:
    values, some = policy.values, policy.rounds > 0
    best, held = policy.best_so_far, policy.occupancy
    first = _first_rounds(best, target)
    return PolicySummary(
        policy=policy.name,
        runs=policy.runs,
        diverged=policy.diverged,
        rounds=policy.rounds,
        budget=policy.budget,
        final_accuracy=_estimate(_last(values["test_accuracy"])),
        best_accuracy=_estimate(_last(best)),
        mean_accuracy=_mean(np.array([_mean(row) for row in values["test_accuracy"]], dtype=np.float64)),
        target=target,
        reached=len(first),
        first_round=_mean(first),
        spend_per_round=_mean(values["spend"]),
        cost_violation=cost_violation(values["spend"], policy.budget) if some else None,
        buffer_violation=buffer_violation(held.sum(axis=1), policy.buffers, held.shape[1]) if held.size else None,
        peak_n=_peak(values["n"]),
        peak_excess=_peak(held - policy.buffers),
        N=_mean(_last(values["N"])),
        n_eff=_mean(_last(values["n_eff"])),
        bound=_finite(values["bound"].sum(axis=1).mean()) if some else None,
    )


def _first_rounds(best: NDArray[np.float64], target: float | None) -> NDArray[np.int64]:
    """The round in which each run that reaches the target does so."""
    there = best >= (math.inf if target is None else target)
    return there[there.any(axis=1)].argmax(axis=1) + 1 if there.any() else np.array([], dtype=np.int64)


def _last(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each run's last value that was measured; runs without one are left out."""
    return np.array([row[~np.isnan(row)][-1] for row in values if not np.isnan(row).all()], dtype=np.float64)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _mean(values: NDArray[Any]) -> float | None:
    measured = values[~np.isnan(values)]
    return float(measured.mean()) if measured.size else None


def _peak(values: NDArray[Any]) -> int | None:
    measured = values[~np.isnan(values)]
    return int(measured.max()) if measured.size else None


def _estimate(values: NDArray[np.float64]) -> Estimate | None:
    if not values.size:
        return None
    mean, half = means(values)
    return Estimate(float(mean), None if np.isnan(half) else float(half), len(values))


def equal_spend_note(summaries: Sequence[PolicySummary]) -> str:
    """Whose accuracy is not comparable at equal spend, in one sentence; empty where nothing was spent yet."""
    over = [
        f"{s.policy} spent {_spend(s)} a round, {_above(s)} above its budget of {s.budget:g}" for s in summaries if s.overspent
    ]
    if over:
        return f"Not comparable at equal spend: {'; '.join(over)}."
    if all(s.spend_per_round is None for s in summaries):
        return ""
    return f"No policy spent more than {100 * TOLERANCE:g} % above its budget in the mean."


def _above(s: PolicySummary) -> str:
    return "far" if s.spend_share is None else f"{s.spend_share - 100:,.1f} %"


def breakdown_note(runs: Sequence[RunFolder]) -> str:
    """Which runs learnt nothing: their model stopped being finite, or ended no better than guessing. Empty where none did."""
    said = []
    for run in runs:
        for what, found in (("diverged", run.state["diverged"]), ("no better than guessing", run.state.get("guessing", []))):
            by_policy = Counter(one["policy"] for one in found)
            said += [f"{count} of {policy} {what}" for policy, count in by_policy.items()]
    return f"Runs that broke down: {', '.join(said)}." if said else ""


def headline(summaries: Sequence[PolicySummary]) -> str:
    """The best policy that kept to its budget, in one sentence; empty where there is none."""
    fair = [s for s in summaries if s.best_accuracy is not None and not s.overspent]
    if not fair:
        return ""
    best, *rest = sorted(fair, key=lambda s: s.best_accuracy.mean if s.best_accuracy else 0.0, reverse=True)
    ahead = f", before {rest[0].policy} with {percent(rest[0].best_accuracy)}" if rest else ""
    return f"Highest test accuracy within budget: {best.policy} with {percent(best.best_accuracy)}{ahead}."


# Numbers as text


def number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "−")


def percent(value: Estimate | float | None) -> str:
    """A fraction in percent, with its interval where it has one."""
    if value is None:
        return DASH
    if not isinstance(value, Estimate):
        return f"{100 * value:.1f} %"
    return f"{100 * value.mean:.1f} %" if value.half is None else f"{100 * value.mean:.1f} ± {100 * value.half:.1f} %"


def duration(seconds: float) -> str:
    """
    >>> duration(3725), duration(75.2), duration(4.21)
    ('1 h 2 min', '1 min 15 s', '4.2 s')
    """
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{seconds:.1f} s"


def _first_round(s: PolicySummary) -> str:
    return DASH if s.first_round is None else f"{s.first_round:.1f} ({s.reached} of {s.runs})"


class Column(NamedTuple):
    title: str
    meaning: str
    text: Callable[[PolicySummary], str]


def columns(target: float | None, diverged: bool = False) -> list[Column]:
    """What is said of a policy beside its name, on the page and in a terminal."""
    at_target = Column(
        f"Round at {100 * (target or 0):g}\u00a0%",
        "first round whose accuracy reaches this target, mean over the runs that do, and how many do",
        _first_round,
    )
    return [
        Column("Runs", "seeds that count", lambda s: str(s.runs)),
        *([Column("Diverged", "runs whose model was lost; they are in no other number", _diverged)] if diverged else []),
        Column("Best accuracy", "best test accuracy of a run, mean over runs ± 80 % interval of this mean", _best),
        Column("Final accuracy", "test accuracy at the last evaluation, mean over runs ± 80 % interval", _final),
        Column("Mean accuracy", "test accuracy, mean over all evaluated rounds and runs", lambda s: percent(s.mean_accuracy)),
        *([at_target] if target is not None else []),
        Column("Spend a round", "money really spent, mean over rounds and runs", _spend),
        Column("Of budget", "the same in % of the budget", share),
        Column("Vio_S", "money above the budget over all rounds, in the mean over runs", lambda s: number(s.cost_violation)),
        Column("Vio_B", "samples above the buffers, summed over rounds and clients", lambda s: number(s.buffer_violation)),
        Column("Peak n", "most samples in memory, all clients together", lambda s: number(s.peak_n)),
        Column("Max n_m\u00a0−\u00a0B_m", "most samples that one client held above its buffer", _excess),
        Column("N", "distinct samples at the end", lambda s: number(_whole(s.N))),
        Column(
            "N_eff",
            "effective samples at the end, less than N when some are used more often",
            lambda s: number(_whole(s.n_eff)),
        ),
        Column("Bound", "learning bound, summed over rounds", lambda s: number(s.bound)),
    ]


def _whole(value: float | None) -> float | None:
    return value if value is None or not math.isfinite(value) else round(value)


def _diverged(s: PolicySummary) -> str:
    return str(s.diverged)


def _best(s: PolicySummary) -> str:
    return percent(s.best_accuracy)


def _final(s: PolicySummary) -> str:
    return percent(s.final_accuracy)


def _spend(s: PolicySummary) -> str:
    return DASH if s.spend_per_round is None else f"{s.spend_per_round:,.2f}"


def share(s: PolicySummary) -> str:
    return DASH if s.spend_share is None else f"{s.spend_share:,.0f} %"


def _excess(s: PolicySummary) -> str:
    return DASH if s.peak_excess is None else f"{s.peak_excess:+,d}".replace("-", "−")
