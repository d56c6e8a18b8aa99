"""The comparison of policies at equal spend: rows of numbers, and tables."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from rich.console import RenderableType

from headgate.analysis.curves import rounded
from headgate.analysis.display import StackedTable
from headgate.analysis.formatting import (
    DASH,
    counted,
    grouped,
    listed,
    percent,
    plus_minus,
)
from headgate.analysis.intervals import (
    DECIDED,
    Difference,
    Estimate,
    Floats,
    estimate,
    ratio,
    student,
)
from headgate.analysis.limits import conclusion, holm
from headgate.analysis.runs import MEASURES, Runs, summary_of_dips
from headgate.analysis.savings import (
    OURS,
    UNKNOWN,
    Row,
    Saving,
    amount,
    chosen_budget,
    needed,
    paired,
    savings,
    sentence,
)
from headgate.analysis.summary import DIPS, policy_table, summarise
from headgate.errors import DataError

BINDING = (0.125, 0.25, 0.5)
"""budgets to propose, as shares of what all places cost in a round, or of the least
budget beyond which accuracy no longer rises
"""
RIVAL = "constant"
"""the policy that all others are tested against"""
LAST = "last: mean test accuracy in the last tenth of the rounds"
INTERVALS = "± and (… …): 95 % intervals over seeds"
STAR = "*: differs from constant (paired test, p ≤ 0.05 after Holm's correction)"
KEPT = "Every policy kept its money and its buffers in every run."
UNFAIR = {
    "oracle": "ignores the budget, reference only",
    "clairvoyant": "knows all prices, reference only",
}
"""what references have that nobody has"""
SUM, PLACE = re.compile(r", sha256 [0-9a-f]{64}"), re.compile(r"(?<=file )\S*/")
"""what the text of recorded prices has beside the name of their file"""


def closed(
    one: Runs,
    constant: Runs,
    oracle: Runs,
    measure: str,
) -> Estimate | None:
    """Return the share of the gap between constant and the oracle that a policy closes.

    It is computed from means over the seeds that all three have learnt; None if there
    is no gap. The Fieller interval has no ends if the gap may be zero.
    """
    learnt = set(constant.learnt) & set(oracle.learnt)
    seeds = [seed for seed in one.learnt if seed in learnt]
    if not seeds:
        return None
    ours, low, high = (
        each.of_seeds(seeds).measure(measure) for each in (one, constant, oracle)
    )
    known = one.policy in (constant.policy, oracle.policy)
    return closed_share(ours, low, high, known)


def closed_share(
    ours: Floats,
    low: Floats,
    high: Floats,
    known: bool = False,
) -> Estimate | None:
    """Return the closed share from arrays, (seeds,); None if there is no gap.

    A share that is `known`, 0 or 1 by definition, has no interval.
    """
    if high.mean() <= low.mean():
        return None
    share = ratio(ours - low, high - low)
    return Estimate(share.mean, runs=share.runs) if known else share


class Offer(NamedTuple):
    """The prices and the budget that all policies of one comparison have."""

    prices: str
    budget: float

    def text(self, offers: Iterable["Offer"]) -> str:
        """Return the budget as text, with the prices if the offers differ in them."""
        prices = f", {self.prices}" if len({each.prices for each in offers}) > 1 else ""
        return f"{self.budget:g} a round{prices}"


def by_offer(found: Sequence[Runs]) -> dict[Offer, list[Runs]]:
    """Return the runs by offer, ordered by budget, or as run if prices differ.

    DataError is raised if they cannot be compared.
    """
    if not found:
        raise DataError("compare: there is no run to compare")
    kinds = sorted({str(one.data) for one in found})
    if len(kinds) > 1:
        raise DataError(f"compare: runs of {' and '.join(kinds)} cannot be compared")

    # within a budget the policy alone tells the runs apart
    named = [replace(one, label=one.policy) for one in found]
    if one_price(found):
        named.sort(key=lambda one: one.budget)
    return grouped(named, lambda one: Offer(one.prices, one.budget))


def rows(found: Sequence[Runs]) -> list[dict[str, Any]]:
    """Return one row for each budget and policy, with the values of every seed."""
    made = []
    for own in by_offer(found).values():
        named = {one.policy: one for one in own if one.learnt}
        constant, oracle = named.get("constant"), named.get("oracle")
        for one in own:
            row = _row(one)
            for measure in MEASURES:
                share = None
                if constant and oracle and one.learnt:
                    share = closed(one, constant, oracle, measure)
                row |= _measured(one, measure, share)
            made.append(row | _dips(one))
    return made


def _row(one: Runs) -> dict[str, Any]:
    """Return the money, the memory and the seeds of one row."""
    known = summarise(one)
    of_runs = ("prices", "unit", "budget", "policy", "reference", "rounds")
    of_summary = ("price_paid", "price_offered", "peak_n", "paid", "N", "kept_limits")
    delay = {"delay": one.delay} if one.delay else {}
    return {
        **{name: getattr(one, name) for name in of_runs},
        **delay,
        **{name: getattr(known, name) for name in of_summary},
        "seeds": len(one.learnt),
        "diverged": known.lost,
        "learnt": list(one.learnt),
        "spend": known.spend_per_round,
        "worst_spend": float(one.spend.max()),
        "overspent_runs": known.runs_over_budget,
        "worst_excess": known.peak_excess,
    }


def _measured(
    one: Runs,
    measure: str,
    share: Estimate | None,
) -> dict[str, Any]:
    values = one.measure(measure)
    return {
        measure: estimate(values).three if one.learnt else None,
        f"closed_{measure}": None if share is None else share.three,
        f"{measure}_by_seed": [round(float(value), 6) for value in values],
    }


def _dips(one: Runs) -> dict[str, Any]:
    """Return the dips of one row; nothing if the world does not change."""
    dips = summary_of_dips(one)
    if dips is None:
        return {}
    by_seed = {
        f"{name}_by_seed": rounded(np.round(values, 6), 17)
        for name, values in dips.by_seed.items()
    }
    return {
        **{name: estimate(values).three for name, values in dips.by_seed.items()},
        "dips": dips.count,
        "dips_recovered": dips.recovered,
        **by_seed,
    }


def several_budgets(found: Sequence[Runs]) -> bool:
    """Return whether the runs are finished and differ only in policy and budget."""
    kinds = {(str(one.data), one.prices) for one in found}
    budgets = {one.budget for one in found}
    finished = all(one.finished for one in found)
    return len(kinds) == 1 and len(budgets) > 1 and finished


def one_price(found: Sequence[Runs]) -> bool:
    """Return whether all runs have the same prices, so that money can be compared."""
    return len({one.prices for one in found}) == 1


def opened(saved: Sequence[Saving]) -> str:
    """Return the sentence on savings, beginning with a capital letter or headgate."""
    text = sentence(saved)
    return text if text.startswith(OURS) else text[:1].upper() + text[1:]


# tables


def comparison_tables(
    found: Sequence[Runs],
    rows: Sequence[Row],
    budget: float | None = None,
) -> list[RenderableType]:
    """Return a sentence and a table of the policies at one budget, then notes.

    There is one table for each kind of price. If the world changes, tables of what the
    changes cost at each budget precede the notes.
    """
    things: list[RenderableType] = []
    by_price = grouped(rows, lambda row: row["prices"])
    for prices, own in by_price.items():
        saved = chosen_budget(savings(own, RIVAL), budget)
        if saved:
            things += _flat(own, saved)
            things.append(f"{opened(saved)}\n")
        things.append(f"{_given(found, prices)}\n")
        at = _shown_budget(own, saved, budget)
        shown = [row for row in own if row["budget"] == at]
        things.append(_at_budget(shown, saved))
    things += queue_costs(rows)
    if any("dips" in row for row in rows):
        things += _summaries(by_offer(found), DIPS)
    return [*_loose(found), *things, _notes(rows)]


def queue_costs(rows: Sequence[Row]) -> list[str]:
    """Return a line for each policy and budget that was compared with a delay and
    without: what the slow queue costs in accuracy and money.
    """
    said = []
    at_once = {
        (row["prices"], row["budget"], row["policy"]): row
        for row in rows
        if "delay" not in row and row["learnt"]
    }
    for row in rows:
        delay = row.get("delay", "")
        prices = row["prices"].removesuffix(delay).removesuffix(", ")
        before = at_once.get((prices, row["budget"], row["policy"]))
        if delay and before and row["learnt"]:
            gap = plus_minus(paired(row, before, "last"), 1, signs=True)
            paid, once = row["price_paid"], before["price_paid"]
            dearer = percent(round(paid / once, 2) - 1) if paid and once else DASH
            at = amount(row.get("unit") or "", row["budget"])
            said.append(
                f"{delay}, {row['policy']} at {at} a round: {gap} points, labels"
                f" {dearer} dearer"
            )
    return ["\n".join(["Beside no delay:", *said, ""])] if said else []


def _loose(found: Sequence[Runs]) -> list[str]:
    """Return a sentence if budgets pay for all places in every round, and budgets that
    do not; nothing if all bind.
    """
    said = []
    for prices, own in grouped(found, lambda one: one.prices).items():
        costs = [one.column("price").mean() * one.buffers.sum() for one in own]
        cost, unit = float(np.mean(costs)), own[0].unit
        loose = sorted({one.budget for one in own if one.budget >= cost})
        if loose:
            named = listed([amount(unit, each) for each in loose])
            at = f" ({prices})" if len({one.prices for one in found}) > 1 else ""
            said.append(
                f"Money never binds at {named} a round{at}: all places cost"
                f" {amount(unit, cost)}, so policies buy alike. Budgets that bind:"
                f" --budgets {_below(cost)}.\n"
            )
    return said


def _below(money: float) -> str:
    """Return lower budgets than this money, as `--budgets` takes them."""
    return ",".join(f"{share * money:.2g}" for share in BINDING)


def _flat(own: Sequence[Row], saved: Sequence[Saving]) -> list[str]:
    """Return a sentence if accuracy no longer rises with money, so that what a policy
    needs is not known, and budgets at which it rises; nothing otherwise.
    """
    lost = [one.policy for one in saved if needed(one)[0] == UNKNOWN]
    rival = [row for row in own if row["policy"] == saved[0].rival and row["learnt"]]
    rival.sort(key=lambda row: row["spend"])
    flat = [row for row in rival if not _rises(row, rival[-1])]
    if not lost or len(flat) < 2:
        return []
    unit = saved[0].unit
    at = listed([amount(unit, row["budget"]) for row in flat])
    least, most = (f"{100 * row['last'][0]:.1f}" for row in (flat[0], flat[-1]))
    sentence = (
        f"Accuracy no longer rises with money at {at} a round ({saved[0].rival}:"
        f" {least} to {most} %), so what {listed(lost)} would need for it is"
        f" {UNKNOWN}. Lower budgets tell more: --budgets {_below(flat[0]['budget'])}."
    )
    return [f"{sentence}\n"]


def _rises(one: Row, richer: Row) -> bool:
    """Return whether a policy is shown to be more accurate with more money."""
    rise = paired(richer, one, "last")
    return rise.low is None or rise.low > 0


def _given(found: Sequence[Runs], prices: str) -> str:
    """Return how many clients there are, and what the prices were."""
    clients = [counted(len(one.buffers), "client") for one in found[:1]]
    plain = PLACE.sub("", SUM.sub("", prices))
    return "; ".join([*clients, f"price of a sample: {plain}"])


def _shown_budget(
    own: Sequence[Row],
    saved: Sequence[Saving],
    budget: float | None,
) -> float:
    """Return the budget at which policies are shown: by default the last one."""
    if saved:
        return saved[0].budget
    budgets = [float(row["budget"]) for row in own]
    if budget is not None and budget in budgets:
        return budget
    return budgets[-1]


def wide_tables(found: Sequence[Runs]) -> list[RenderableType]:
    """Return all columns of the summary for each offer, and the conclusion."""
    return [*_summaries(by_offer(found)), conclusion(found)]


def _summaries(
    offers: Mapping[Offer, Sequence[Runs]], only: Sequence[str] = ()
) -> list[StackedTable]:
    return [
        policy_table(f"Budget {offer.text(offers)}", [*map(summarise, own)], only=only)
        for offer, own in offers.items()
    ]


def _at_budget(
    own: Sequence[Row],
    saved: Sequence[Saving],
) -> RenderableType:
    """Return a table of all policies at one budget, at most 80 characters wide."""
    gaps = _gaps(own)
    header = ["policy", "last (%)"]
    if gaps:
        header.append(f"difference\nto {RIVAL}")
    if saved:
        header += [f"for {percent(saved[0].accuracy, 1)}", f"of {RIVAL}'s"]
    else:
        header.append("spent a round")

    needs = {one.policy: needed(one) for one in saved}
    lines = []
    for row in own:
        line = [row["policy"], _last(row)]
        if gaps:
            line.append(_gap_text(gaps.get(row["policy"])))
        spent = amount(row.get("unit") or "", row["spend"])
        if saved:
            line += needs.get(row["policy"], (spent, _of_rival(row)))
        else:
            line.append(spent)
        lines.append(line)

    first = own[0]
    money = amount(first.get("unit") or "", first["budget"])
    rounds = counted(first["rounds"], "round")
    seeds = counted(first["seeds"] + first["diverged"], "seed")
    return StackedTable(f"at {money} a round, {rounds}, {seeds}", header, lines)


def _gaps(own: Sequence[Row]) -> dict[str, Difference | None]:
    """Return the tested differences of the policies from constant admission."""
    learnt = [row for row in own if row["learnt"]]
    rivals = [row for row in learnt if row["policy"] == RIVAL]
    if not rivals:
        return {}
    apart = {
        row["policy"]: paired(row, rivals[0], "last")
        for row in learnt
        if row["policy"] != RIVAL and not row["reference"]
    }
    return holm(apart)


def _last(row: Row) -> str:
    """Return the accuracy in the last tenth of the rounds, with its 95 % interval."""
    if row["last"] is None:
        return DASH
    return plus_minus(student(100 * np.array(row["last_by_seed"])), 1)


def _gap_text(gap: Difference | None) -> str:
    if gap is None:
        return DASH
    different = gap.p is not None and gap.p <= 1 - DECIDED
    return plus_minus(gap, 1, signs=True) + ("*" if different else " ")


def _of_rival(row: Row) -> str:
    """Return the share of the rival's money of a policy without a saving."""
    if row["reference"]:
        return "reference"
    return "100 %" if row["policy"] == RIVAL and row["learnt"] else DASH


def _notes(rows: Sequence[Row]) -> str:
    """Return what the columns mean, and which policies kept to money and buffers."""
    references = list(dict.fromkeys(row["policy"] for row in rows if row["reference"]))
    policies = [row for row in rows if not row["reference"]]
    broken = list(
        dict.fromkeys(row["policy"] for row in policies if not row["kept_limits"])
    )
    notes = [LAST, INTERVALS]
    if any(row["policy"] == RIVAL for row in rows):
        notes.append(STAR)
    notes += [f"{name}: {UNFAIR.get(name, 'reference only')}" for name in references]
    kept = KEPT
    if broken:
        kept = f"Over its money or its buffers in some run: {listed(broken)}."
    return "\n".join([*(f"{note}." for note in notes), kept])
