"""The summary of each policy of a run: numbers, JSON and the columns of a table."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.analysis.display import StackedTable
from headgate.analysis.formatting import (
    DASH,
    accuracy,
    money,
    money_in,
    number,
    percent,
    plus_minus,
    signed,
)
from headgate.analysis.intervals import Estimate, Floats, estimate
from headgate.analysis.pages import words
from headgate.analysis.runs import Runs, broken_limits, summary_of_dips
from headgate.errors import SettingError
from headgate.records.reader import RunFolder
from headgate.theory.comparison import buffer_violation, cost_violation

DIP_FIELDS = {
    "daily": "daily_accuracy",
    "depth": "dip_depth",
    "length": "dip_length",
    "money": "dip_money",
}


@dataclass(
    frozen=True,
    kw_only=True,
)
class PolicySummary:
    """The results of one policy over its runs or rehearsals.

    They cover the rounds that all runs have reached. Accuracies cover the runs whose
    model was not lost, all else covers every run. Means are over runs; violations are
    the paper's, of the mean over runs. A field is None if nothing was measured.

    Parameters
    ----------
    policy : str
        The name of the policy.
    reference : bool
        Whether the policy uses knowledge or money that nobody has; it is then shown but
        never ranked.
    runs : int
        The number of runs that have begun.
    lost : int
        The number of runs whose model diverged.
    rounds : int
        The number of rounds that every run has reached.
    budget : float
        The budget of a round.
    best_accuracy : Estimate
        The highest test accuracy of a run.
    last_accuracy : Estimate
        The mean test accuracy over the evaluations in the last tenth of the rounds.
    mean_accuracy : Estimate
        The mean of the highest test accuracy so far over the evaluated rounds.
    target : float
        The test accuracy whose first round is reported.
    reached : int
        The number of runs whose accuracy reached the target.
    first_round : float
        The mean first round with the target accuracy over the runs that reached it.
    spend_per_round, spend_share : float
        The money spent per round, and as a share of the budget.
    paid : float
        The total money of a run.
    price_paid, price_offered : float
        The mean price paid for an admitted sample, and over rounds and runs.
    unit : str
        The currency; empty if the recipe states none and the prices are not recorded
        ones.
    runs_over_budget : int
        The number of runs that spent more than the budget of all requested rounds.
    dearest_share : float
        The largest total spend of a run, as a share of the budget of all requested
        rounds.
    kept_limits : bool
        Whether money and memory stayed within their limits in every run, client and
        round.
    cost_violation, buffer_violation : float
        The paper's measures.
    peak_n : int
        The most samples that all clients together held.
    peak_excess : int
        The largest n_m(t) − B_m of any client, round and run.
    N, n_eff : float
        The distinct and the effective samples at the end.
    bound : float
        The bound summed over rounds; None if a round of a run has no bound, for example
        one without any sample.
    daily_accuracy : Estimate
        The mean accuracy on the current concepts over the evaluated rounds; like the
        dips, None if the world never changes.
    dip_depth, dip_length, dip_money : Estimate
        How far accuracy falls after a change, for how many rounds, and the money spent
        in them.
    dips, dips_recovered : int
        The number of dips, and of those that were recovered.
    paid_for_looks : float
        The part of `paid` for looks, if clients look at samples before they buy.
    mean_n : float
        The samples that all clients hold, mean over rounds and runs; this and the
        fields below are known of rehearsals only.
    free : float
        The number of samples that were admitted at no cost.
    mean_penalty, regret : float
        The mean penalty and the regret of Theorem 1.
    """

    policy: str
    reference: bool = False
    runs: int
    lost: int = 0
    rounds: int
    budget: float
    best_accuracy: Estimate | None = None
    last_accuracy: Estimate | None = None
    mean_accuracy: Estimate | None = None
    target: float | None = None
    reached: int = 0
    first_round: float | None = None
    spend_per_round: float | None
    spend_share: float | None
    paid: float | None = None
    price_paid: float | None = None
    price_offered: float | None = None
    unit: str = ""
    runs_over_budget: int
    dearest_share: float | None
    kept_limits: bool
    cost_violation: float | None
    buffer_violation: float | None
    peak_n: int | None
    peak_excess: int | None
    N: float | None
    n_eff: float | None
    bound: float | None
    daily_accuracy: Estimate | None = None
    dip_depth: Estimate | None = None
    dip_length: Estimate | None = None
    dip_money: Estimate | None = None
    dips: int | None = None
    dips_recovered: int | None = None
    paid_for_looks: float | None = None
    mean_n: float | None = None
    free: float | None = None
    mean_penalty: float | None = None
    regret: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in a form that JSON can hold."""
        return {
            name: each.to_dict() if isinstance(each, Estimate) else each
            for name, each in vars(self).items()
        }


def summarise(one: Runs, target: float | None = None) -> PolicySummary:
    """Return the summary of a policy's runs.

    Parameters
    ----------
    one : Runs
        The runs.
    target : float, optional
        A test accuracy above 0 and at most 1, whose first round is wanted.

    Returns
    -------
    PolicySummary
        The summary.

    Raises
    ------
    SettingError
        If the target is no such accuracy.
    """
    if target is not None and not 0 < target <= 1:
        raise SettingError(
            f"target = {target:g}: must be an accuracy above 0 and at most 1, as in 0.9"
            " for 90 %"
        )
    first = _first_rounds(one, math.inf if target is None else target)
    return PolicySummary(
        policy=one.label,
        reference=one.reference,
        runs=int(one.begun.sum()),
        lost=one.lost_runs,
        rounds=one.complete,
        budget=one.budget,
        best_accuracy=_estimate(one.best),
        last_accuracy=_estimate(one.last),
        mean_accuracy=_estimate(one.mean),
        target=target,
        reached=len(first),
        first_round=_mean(first),
        unit=one.unit,
        runs_over_budget=one.runs_over_budget,
        kept_limits=not one.broken,
        peak_n=one.peak("n"),
        peak_excess=one.peak_excess,
        **_money(one),
        **_at_the_end(one),
        **_dips(one),
    )


def _first_rounds(one: Runs, target: float) -> Floats:
    """Return the first round with the target accuracy of each run that reached it."""
    there = one.curve >= target
    if not there.any():
        return np.empty(0)
    first = there[there.any(axis=1)].argmax(axis=1)
    return np.asarray(one.t[first], dtype=np.float64)


def _estimate(values: Floats) -> Estimate | None:
    return estimate(values) if np.isfinite(values).any() else None


def _money(one: Runs) -> dict[str, Any]:
    """Return what was spent, and the prices."""
    spend, admitted = _mean(one.spend), float(one.column("admitted").sum())
    share = looks = price = None
    if spend is not None and one.budget > 0:
        share = spend / one.budget
    if admitted > 0:
        price = float(one.column("spend").sum() / admitted)
    if "looks" in one.values:
        paid = one.values["looks"][one.begun]
        looks = _mean(np.nansum(paid, axis=1)) if np.isfinite(paid).any() else None
    return {
        "spend_per_round": spend,
        "spend_share": share,
        "paid": _mean(one.spent_in_all),
        "paid_for_looks": looks,
        "price_paid": price,
        "price_offered": _mean(one.column("price")),
    }


def _at_the_end(one: Runs) -> dict[str, Any]:
    """Return what is known once all runs have completed a round."""
    violation = None
    if one.held is not None:
        held = one.held.sum(axis=1)
        violation = buffer_violation(held, one.buffers, one.held.shape[1])
    if not one.complete:
        unknown = ("dearest_share", "cost_violation", "N", "n_eff", "bound")
        return {**dict.fromkeys(unknown), "buffer_violation": violation}
    return {
        "dearest_share": one.dearest_share,
        "cost_violation": cost_violation(one.column("spend"), one.budget),
        "buffer_violation": violation,
        "N": _mean(one.column("N")[:, -1]),
        "n_eff": _mean(one.column("n_eff")[:, -1]),
        "bound": _mean(one.column("bound").sum(axis=1)),
    }


def _dips(one: Runs) -> dict[str, Any]:
    dips = summary_of_dips(one)
    if dips is None:
        return {}
    known = {DIP_FIELDS[name]: estimate(each) for name, each in dips.by_seed.items()}
    return {**known, "dips": dips.count, "dips_recovered": dips.recovered}


def _mean(values: Floats) -> float | None:
    """Return the mean; None if there are no values or one of them is not finite."""
    return float(values.mean()) if values.size and np.isfinite(values).all() else None


def breakdown_note(runs: Sequence[RunFolder]) -> str:
    """Return a note on runs whose model diverged or ended no better than guessing."""
    notes = []
    for run in runs:
        broken = {
            "diverged": run.state["diverged"],
            "no better than guessing": run.state.get("guessing", []),
        }
        for what, found in broken.items():
            by_policy = Counter(one["policy"] for one in found)
            notes += [f"{n} of {policy} {what}" for policy, n in by_policy.items()]
    return f"Runs that broke down: {', '.join(notes)}." if notes else ""


def columns(
    target: float | None, summaries: Sequence[PolicySummary] = ()
) -> dict[str, str]:
    """Return the titles of the columns after the policy's name.

    Columns that no summary has a value for are left out.
    """
    titles = {name: name for name in TEXTS}
    for name, field in SOMETIMES.items():
        if all(getattr(one, field) is None for one in summaries):
            del titles[name]
    if not any(one.lost for one in summaries):
        del titles["Lost"]
    if target is None:
        del titles[AT_TARGET]
    else:
        titles[AT_TARGET] += f" {100 * target:g}\u00a0%"
    return titles


def summary_table(
    summaries: Sequence[PolicySummary], target: float | None
) -> dict[str, list[Any]]:
    """Return the columns, and the cells of each policy, for the page and the report."""
    titles = columns(target, summaries)
    meanings = words(__file__)["columns"]
    return {
        "columns": [
            {"title": title, "meaning": meanings[name]}
            for name, title in titles.items()
        ],
        "rows": [[_cell(name, each) for name in titles] for each in summaries],
    }


def _cell(name: str, one: PolicySummary) -> dict[str, Any]:
    broken = name in BROKEN and BROKEN[name](one)
    return {"text": TEXTS[name](one), "broken": broken}


def policy_table(
    title: str,
    summaries: Sequence[PolicySummary],
    target: float | None = None,
    only: Sequence[str] = (),
) -> StackedTable:
    """Return a table with a line for each policy, in all columns or those in `only`."""
    titles = columns(target, summaries)
    shown = [name for name in titles if not only or name in only]
    lines = [
        [each.policy, *(TEXTS[name](each) for name in shown)] for each in summaries
    ]
    return StackedTable(title, ["policy", *(titles[name] for name in shown)], lines)


DIPS = ("Daily", "Dip", "Dip lasts", "Dip costs")
SOMETIMES = {**dict.fromkeys(DIPS, "dips"), "For looks": "paid_for_looks"}
"""columns that are left out if no policy has the field"""
AT_TARGET, OVER_BUDGET, EXCESS = "Round at", "Over budget", "Max n_m\u00a0−\u00a0B_m"
TEXTS: dict[str, Callable[[PolicySummary], str]] = {
    "Runs": lambda s: str(s.runs),
    "Lost": lambda s: str(s.lost),
    "Best": lambda s: accuracy(s.best_accuracy),
    "Last": lambda s: accuracy(s.last_accuracy),
    "Mean": lambda s: accuracy(s.mean_accuracy),
    "Daily": lambda s: accuracy(s.daily_accuracy),
    "Dip": lambda s: accuracy(s.dip_depth),
    "Dip lasts": lambda s: (
        f"{plus_minus(s.dip_length)} ({s.dips_recovered} of {s.dips})"
        if s.dip_length
        else DASH
    ),
    "Dip costs": lambda s: money_in(s.unit, s.dip_money.mean if s.dip_money else None),
    AT_TARGET: lambda s: (
        DASH
        if s.first_round is None
        else f"{s.first_round:.1f} ({s.reached} of {s.runs})"
    ),
    "Spend a round": lambda s: money(s.spend_per_round),
    "Limits": lambda s: (
        "reference"
        if s.reference
        else (
            "kept"
            if s.kept_limits
            else f"over: {broken_limits(s.runs_over_budget, s.peak_excess)}"
        )
    ),
    "Paid in all": lambda s: money_in(s.unit, s.paid),
    "For looks": lambda s: money_in(s.unit, s.paid_for_looks),
    "Paid a sample": lambda s: (
        DASH
        if s.price_paid is None
        else f"{money_in(s.unit, s.price_paid)} of {money(s.price_offered)}"
    ),
    OVER_BUDGET: lambda s: (
        f"{s.runs_over_budget} of {s.runs}, {percent(s.dearest_share)}"
        if s.runs
        else DASH
    ),
    "Vio_S": lambda s: number(s.cost_violation),
    "Vio_B": lambda s: number(s.buffer_violation),
    "Peak n": lambda s: number(s.peak_n),
    EXCESS: lambda s: signed(s.peak_excess),
    "N": lambda s: number(s.N),
    "N_eff": lambda s: number(s.n_eff),
    "Bound": lambda s: number(s.bound),
}
BROKEN: dict[str, Callable[[PolicySummary], bool]] = {
    "Limits": lambda s: not s.reference and not s.kept_limits,
    OVER_BUDGET: lambda s: s.runs_over_budget > 0,
    EXCESS: lambda s: (s.peak_excess or 0) > 0,
}
"""functions that return whether a policy broke the limit that a column reports"""
