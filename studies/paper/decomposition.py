"""Where the released policy's gain over constant admission comes from: the rule, more money, or more memory.

Both ways from constant admission to the released policy add up to the whole gain, over the seeds that all of them have. One
begins with the rule at equal means, the other brings constant admission to the released policy's money and memory first, so
what a step is worth lies between the two orders.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from headgate.analysis.intervals import Estimate
from headgate.analysis.pages import words
from headgate.analysis.runs import Runs, difference
from studies.paper.batches import EQUAL, RELEASED, WRITTEN
from studies.paper.outcomes import Outcomes

WAYS: dict[str, list[tuple[str, str]]] = words(__file__)["ways"]


class GainStep(NamedTuple):
    """From one policy to the next."""

    what: str
    to: Runs
    gain: Estimate
    """accuracy at the end, in points"""


class Way(NamedTuple):
    name: str
    steps: list[GainStep]
    whole: Estimate


Side = TypeVar("Side")


def of_equal_means(found: Mapping[tuple[str, str], Side], policy: str) -> Side | None:
    """A policy of the comparison, which borrows what it can from the flavour it is run in."""
    home = WRITTEN if (EQUAL, "released") in found else RELEASED
    return found.get((EQUAL, policy)) or found.get((home, policy))


def decompose(outcomes: Outcomes) -> list[Way]:
    """Both ways; empty where the comparison was not run."""
    names = {"constant", *(policy for steps in WAYS.values() for _, policy in steps)}
    found = {name: outcome for name in names if (outcome := of_equal_means(outcomes, name)) is not None}
    if found.keys() != names or (EQUAL, "released_fair") not in outcomes:
        return []
    common = [seed for seed in found["constant"].learnt if all(seed in one.learnt for one in found.values())]
    if not common:
        return []
    found = {name: outcome.of_seeds(common) for name, outcome in found.items()}
    ways = []
    for name, steps in WAYS.items():
        before, made = found["constant"], []
        for what, policy in steps:
            made.append(GainStep(what, found[policy], difference(found[policy], before).scaled(100)))
            before = found[policy]
        ways.append(Way(name, made, difference(found["released"], found["constant"]).scaled(100)))
    return ways
