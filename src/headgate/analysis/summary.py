"""The summary of each policy of a run: as numbers, as JSON and in the columns of a
table.
"""

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


@dataclass(frozen=True, kw_only=True)
class PolicySummary:
    """The results of one policy over its runs or rehearsals, up to the round that all
    of them have reached. Accuracies cover the runs whose model was not lost, all else
    covers every run. Means are over runs; violations are the paper's, of the mean over
    runs. A field is None if nothing was measured."""

    policy: str
    reference: bool = False
    """whether the policy uses knowledge or money that nobody has; it is then shown but
    never ranked
    """
    runs: int
    """the number of runs that have begun"""
    lost: int = 0
    """the number of runs whose model diverged"""
    rounds: int
    """the number of rounds that every run has reached"""
    budget: float
    best_accuracy: Estimate | None = None
    """the highest test accuracy of a run"""
    last_accuracy: Estimate | None = None
    """the mean test accuracy over the evaluations in the last tenth of the rounds"""
    mean_accuracy: Estimate | None = None
    """the mean of the highest test accuracy so far over the evaluated rounds"""
    target: float | None = None
    reached: int = 0
    """the number of runs whose accuracy reached the target"""
    first_round: float | None = None
    """the mean first round with the target accuracy over the runs that reached it"""
    spend_per_round: float | None
    spend_share: float | None
    """the spend per round as a share of the budget"""
    paid: float | None = None
    """the total money of a run, mean over runs"""
    price_paid: float | None = None
    """the mean price paid for an admitted sample"""
    price_offered: float | None = None
    """the mean price over rounds and runs"""
    unit: str = ""
    """the currency; empty if the recipe states none and the prices are not recorded
    ones
    """
    runs_over_budget: int
    """the number of runs that spent more than the budget of all requested rounds"""
    dearest_share: float | None
    """the largest total spend of a run, as a share of the budget of all requested
    rounds
    """
    kept_limits: bool
    """whether money and memory stayed within their limits in every run, client and
    round
    """
    cost_violation: float | None
    buffer_violation: float | None
    peak_n: int | None
    peak_excess: int | None
    """the largest n_m(t) − B_m of any client, round and run"""
    N: float | None
    n_eff: float | None
    bound: float | None
    """the bound summed over rounds; None if a round of a run has no bound, for example
    one without any sample
    """
    daily_accuracy: Estimate | None = None
    """the mean accuracy on the current concepts over the evaluated rounds; like the
    dips, None if the world never changes
    """
    dip_depth: Estimate | None = None
    dip_length: Estimate | None = None
    dip_money: Estimate | None = None
    dips: int | None = None
    dips_recovered: int | None = None
    paid_for_looks: float | None = None
    """the part of `paid` for looks, if clients look at samples before they buy"""
    mean_n: float | None = None
    """the samples that all clients hold, mean over rounds and runs; this and the fields
    below are known of rehearsals only
    """
    free: float | None = None
    """the number of samples that were admitted at no cost, mean over runs"""
    mean_penalty: float | None = None
    regret: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in a form that JSON can hold."""
        return {
            name: each.to_dict() if isinstance(each, Estimate) else each
            for name, each in vars(self).items()
        }


def summarise(one: Runs, target: float | None = None) -> PolicySummary:
    """Return the summary of a policy's runs; `target` is a test accuracy above 0 and at
    most 1.
    """
    if target is not None and not 0 < target <= 1:
        raise SettingError(
            f"target = {target:g}: must be an accuracy above 0 and at most 1, as in 0.9"
            " for 90 %"
        )
    spend, held, changes, admitted = (
        _mean(one.spend),
        one.held,
        dict[str, Any](),
        one.column("admitted").sum(),
    )
    looks = (
        one.values["looks"][one.begun] if "looks" in one.values else np.empty((0, 0))
    )
    there = one.curve >= (math.inf if target is None else target)
    first = (
        one.t[there[there.any(axis=1)].argmax(axis=1)].astype(np.float64)
        if there.any()
        else np.empty(0)
    )
    if (dips := summary_of_dips(one)) is not None:
        changes = {
            DIP_FIELDS[name]: estimate(values) for name, values in dips.by_seed.items()
        }
        changes |= {"dips": dips.count, "dips_recovered": dips.recovered}
    best, last, mean = (
        estimate(each) if np.isfinite(each).any() else None
        for each in (one.best, one.last, one.mean)
    )
    return PolicySummary(
        policy=one.label,
        reference=one.reference,
        runs=int(one.begun.sum()),
        lost=one.lost_runs,
        rounds=one.complete,
        budget=one.budget,
        best_accuracy=best,
        last_accuracy=last,
        mean_accuracy=mean,
        target=target,
        reached=len(first),
        first_round=_mean(first),
        spend_per_round=spend,
        spend_share=None if spend is None or one.budget <= 0 else spend / one.budget,
        paid=_mean(one.spent_in_all),
        price_paid=(
            float(one.column("spend").sum() / admitted) if admitted > 0 else None
        ),
        price_offered=_mean(one.column("price")),
        unit=one.unit,
        runs_over_budget=one.runs_over_budget,
        dearest_share=one.dearest_share if one.complete else None,
        kept_limits=not one.broken,
        cost_violation=(
            cost_violation(one.column("spend"), one.budget) if one.complete else None
        ),
        buffer_violation=(
            None
            if held is None
            else buffer_violation(held.sum(axis=1), one.buffers, held.shape[1])
        ),
        peak_n=one.peak("n"),
        peak_excess=one.peak_excess,
        N=_mean(one.column("N")[:, -1]) if one.complete else None,
        n_eff=_mean(one.column("n_eff")[:, -1]) if one.complete else None,
        bound=_mean(one.column("bound").sum(axis=1)) if one.complete else None,
        **changes,
        paid_for_looks=(
            _mean(np.nansum(looks, axis=1)) if np.isfinite(looks).any() else None
        ),
    )


def _mean(values: Floats) -> float | None:
    """Return the mean; None if there are no values or one of them is infinite or
    NaN.
    """
    return float(values.mean()) if values.size and np.isfinite(values).all() else None


def breakdown_note(runs: Sequence[RunFolder]) -> str:
    """Return a note on runs whose model diverged or ended no better than guessing;
    empty if there are none.
    """
    notes = []
    for run in runs:
        for what, found in (
            ("diverged", run.state["diverged"]),
            ("no better than guessing", run.state.get("guessing", [])),
        ):
            by_policy = Counter(one["policy"] for one in found)
            notes += [
                f"{count} of {policy} {what}" for policy, count in by_policy.items()
            ]
    return f"Runs that broke down: {', '.join(notes)}." if notes else ""


def columns(
    target: float | None, summaries: Sequence[PolicySummary] = ()
) -> dict[str, str]:
    """Return the titles of the columns after the policy's name, without those that no
    summary has a value for.
    """
    left_out = ["Lost"] * (not any(one.lost for one in summaries)) + [AT_TARGET] * (
        target is None
    )
    left_out += [
        name
        for name, field in SOMETIMES.items()
        if all(getattr(one, field) is None for one in summaries)
    ]
    titles = {name: name for name in TEXTS if name not in left_out}
    return (
        titles
        if target is None
        else titles | {AT_TARGET: f"{AT_TARGET} {100 * target:g}\u00a0%"}
    )


def summary_table(
    summaries: Sequence[PolicySummary], target: float | None
) -> dict[str, list[Any]]:
    """Return the results as the page and the report show them: the columns, and the
    cells of each policy.
    """
    known, meanings = columns(target, summaries), words(__file__)["columns"]
    return {
        "columns": [
            {"title": title, "meaning": meanings[name]} for name, title in known.items()
        ],
        "rows": [
            [
                {
                    "text": TEXTS[name](each),
                    "broken": name in BROKEN and BROKEN[name](each),
                }
                for name in known
            ]
            for each in summaries
        ],
    }


def policy_table(
    title: str,
    summaries: Sequence[PolicySummary],
    target: float | None = None,
    only: Sequence[str] = (),
) -> StackedTable:
    """Return a table with a line for each policy, in the columns `only` or, if it is
    empty, in all.
    """
    shown = {
        name: text
        for name, text in columns(target, summaries).items()
        if not only or name in only
    }
    lines = [
        [each.policy, *(TEXTS[name](each) for name in shown)] for each in summaries
    ]
    return StackedTable(title, ["policy", *shown.values()], lines)


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
