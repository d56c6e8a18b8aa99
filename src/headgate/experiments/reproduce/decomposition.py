"""Where the released policy's gain over constant admission comes from: the rule, more money, or more memory.

Both ways from constant admission to the released policy add up to the whole gain, seed by seed. One begins with the rule at
equal means, the other brings constant admission to the released policy's money and memory first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.experiments.reproduce.outcomes import Estimate, Outcome, difference
from headgate.experiments.reproduce.studies import EQUAL, RELEASED, WRITTEN

Outcomes = Mapping[tuple[str, str], Outcome]
WAYS = {
    "the rule first": (
        ("the rule, within budget and buffers", "released_fair"),
        ("memory beyond B_m", "released_budget"),
        ("money beyond C", "released"),
    ),
    "money and memory first": (
        ("money beyond C, within the buffers", "constant_spend"),
        ("memory beyond B_m", "constant_both"),
        ("the rule", "released"),
    ),
}


@dataclass(frozen=True)
class Step:
    """From one policy to the next."""

    what: str
    policy: str
    """reached by this step"""
    gain: Estimate
    """accuracy at the end, in points"""
    spend: float
    peak: int


@dataclass(frozen=True)
class Way:
    name: str
    steps: tuple[Step, ...]
    whole: Estimate


def equal_means_outcome(outcomes: Outcomes, policy: str) -> Outcome | None:
    """A policy of the comparison, which borrows what it can from the flavour it is run in."""
    home = WRITTEN if (EQUAL, "released") in outcomes else RELEASED
    return outcomes.get((EQUAL, policy)) or outcomes.get((home, policy))


def decompose(outcomes: Outcomes) -> list[Way]:
    """Both ways; empty where the comparison was not run."""
    names = {"constant", *(policy for steps in WAYS.values() for _, policy in steps)}
    found = {name: outcome for name in names if (outcome := equal_means_outcome(outcomes, name)) is not None}
    if found.keys() != names or (EQUAL, "released_fair") not in outcomes:
        return []
    ways = []
    for name, steps in WAYS.items():
        before, made = found["constant"], []
        for what, policy in steps:
            now = found[policy]
            gain = difference(now, before).scaled(100)
            made.append(Step(what, policy, gain, float(now.spend.mean()), now.peak))
            before = now
        ways.append(Way(name, tuple(made), difference(found["released"], found["constant"]).scaled(100)))
    return ways
