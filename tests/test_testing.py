"""The public checks can fail: each fault is planted and must be found, with a message
that names its cause.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import numpy as np
import pytest

from headgate.control import (
    AdmissionPolicy,
    AdmissionRequest,
    KStep,
    Reservoir,
    Retention,
    Selection,
)
from headgate.control.prices import Uniform
from headgate.errors import SettingError
from headgate.testing import (
    check_policy,
    check_prices,
    check_retention,
    check_selection,
)


class Honest(AdmissionPolicy):
    def retention(self, system):
        return KStep(3)

    def start(self, system, runs):
        return {"seen": np.zeros(runs)}

    def admit(self, view, memory):
        return AdmissionRequest(np.full(view.debt.shape, 2.5)), {
            "seen": memory["seen"] + view.price
        }


class Forgetful(Honest):
    """Keeps what it needs in itself, not in its memory."""

    rounds = 0

    def admit(self, view, memory):
        self.rounds += 1
        return (
            AdmissionRequest(np.full(view.debt.shape, float(self.rounds % 5))),
            memory,
        )


class Vandal(Honest):
    def admit(self, view, memory):
        memory["seen"] += 1.0
        return AdmissionRequest(np.full(view.debt.shape, 2.5)), memory


class BeginsAtInfinity(Honest):
    """The lowest price so far, of no price at the beginning."""

    def start(self, system, runs):
        return {"lowest": np.full(runs, np.inf)}

    def admit(self, view, memory):
        lowest = np.minimum(memory["lowest"], view.price)
        return AdmissionRequest(np.full(view.debt.shape, 2.5)), {"lowest": lowest}


def faulty(
    name,
    asks=lambda view: np.full(view.debt.shape, 2.5),
    after=lambda view, memory: memory,
):
    """An honest policy but for what it asks for, or what it makes of its memory."""
    return type(
        name,
        (Honest,),
        {
            "admit": lambda self, view, memory: (
                AdmissionRequest(asks(view)),
                after(view, memory),
            )
        },
    )()


def remembers(name, after):
    return faulty(
        name,
        after=lambda view, memory: (
            after(memory["seen"]) if "seen" in memory else memory
        ),
    )


NO_ARRAY = type(
    "NoArray", (Honest,), {"start": lambda self, system, runs: {"seen": []}}
)()
FOUND = [
    (Forgetful(), "decide is not repeatable"),
    (Vandal(), "decide changed memory of the ledger"),
    (
        faulty(
            "Gossip", lambda view: np.full(view.debt.shape, float(view.price.mean()))
        ),
        "run 0 decides differently alone",
    ),
    (
        faulty(
            "Unstable", lambda view: np.random.default_rng().random(view.debt.shape) * 9
        ),
        "decide is not repeatable",
    ),
    (
        remembers("NotFinite", lambda seen: {"seen": np.full_like(seen, np.nan)}),
        "round 1: .*seen.* not finite",
    ),
    (BeginsAtInfinity(), "round 1: .*lowest.* not finite"),
]
REFUSED = [
    (
        remembers("Names", lambda seen: {"saw": seen}),
        r"Names: the memory has the names \['saw'\], `start` gave \['seen'\]",
    ),
    (
        faulty("Adds", after=lambda view, memory: {**memory, "extra": view.price}),
        "round 1: .*names",
    ),
    (
        remembers("Grows", lambda seen: {"seen": np.append(seen, 0.0)}),
        r"seen.* is float64\[4\], `start` gave float64\[3\]",
    ),
    (
        remembers("Type", lambda seen: {"seen": seen.astype("f4")}),
        r"seen.* is float32\[3\], `start` gave float64\[3\]",
    ),
    (
        remembers("Lists", lambda seen: {"seen": list(seen)}),
        r"round 1: Lists: memory\['seen'\] must be an array, is list",
    ),
    (
        remembers("NoDict", lambda seen: None),
        "round 1: NoDict: the memory must be a dict of arrays, is NoneType",
    ),
    (NO_ARRAY, r"NoArray.start: memory\['seen'\] must be an array, is list"),
]
"""what no controller can use is refused at once"""


@pytest.mark.parametrize(
    ("kind", "policy", "message"),
    [
        *((AssertionError, *each) for each in FOUND),
        *((SettingError, *each) for each in REFUSED),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Honest) else "",
)
def test_faulty_policies_are_found(kind, policy, message):
    check_policy(Honest())
    with pytest.raises(kind, match=message):
        check_policy(policy)


def test_what_a_policy_raises_is_its_own_with_a_note_beside_it():
    with pytest.raises(ValueError, match="ambiguous") as raised:
        check_policy(
            faulty(
                "TakesARunForAll",
                lambda view: view.debt if view.price < 4 else view.price,
            )
        )
    assert raised.value.__notes__ == [
        "in round 1, in TakesARunForAll.admit: arrays of view and memory hold all 3"
        " runs"
    ]


@dataclass(frozen=True, eq=False)
class Rule(Retention):
    """The newest stay, but for a fault."""

    fault: Callable = lambda rank, given: rank

    def rank(self, given):
        return self.fault(-given.position, given)


@pytest.mark.parametrize(
    ("kind", "fault", "message"),
    [
        (
            SettingError,
            lambda rank, given: rank[:, :-1],
            r"Rule.rank: must return a number for each of \(\d+, \d+\), .* int64",
        ),
        (
            SettingError,
            lambda rank, given: rank * np.nan,
            "Rule.rank: must return a number .*with some that are not a number",
        ),
        (
            SettingError,
            lambda rank, given: rank.astype(str),
            "Rule.rank: must return a number for each of .*, returned <U",
        ),
        (
            AssertionError,
            lambda rank, given: -rank if np.ptp(given.seed) else rank,
            "run 0 keeps other samples alone",
        ),
        (
            AssertionError,
            lambda rank, given: np.random.default_rng().random(rank.shape),
            "asked twice, the rule keeps other",
        ),
    ],
    ids=["wrong shape", "not a number", "text", "depends on other runs", "unstable"],
)
def test_faulty_retention_is_found(kind, fault, message):
    check_retention(Rule())
    check_retention(Reservoir())
    with pytest.raises(kind, match=message):
        check_retention(Rule(fault=fault))


@dataclass(frozen=True, eq=False)
class Choice(Selection):
    fault: Callable = lambda value, offered: value
    scores: ClassVar[tuple[str, ...]] = ("entropy",)

    def rank(self, offered):
        return -self.fault(offered.scores.entropy, offered)


ASKED = count(1)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            lambda value, offered: np.add(value, 1.0, out=value),
            "changed what it was given",
        ),
        (
            lambda value, offered: value + next(ASKED) * offered.draw() % 0.3,
            "asked twice, the rule chooses other samples",
        ),
        (
            lambda value, offered: value * (offered.position - offered.position.mean()),
            "chooses other samples alone",
        ),
    ],
    ids=["changes", "unstable", "others"],
)
def test_faulty_buying_rules_are_found(fault, message):
    check_selection(Choice())
    with pytest.raises(AssertionError, match=message):
        check_selection(Choice(fault))


class Prices(Uniform):
    def path(self, seeds, start, stop):
        path = super().path(seeds, start, stop)
        return self.twist(path, seeds, start)


@pytest.mark.parametrize(
    ("twist", "message"),
    [
        (lambda self, path, seeds, start: path - 5, "negative"),
        (lambda self, path, seeds, start: path + start, "starts"),
        (lambda self, path, seeds, start: path * len(seeds) / 200, "other seeds"),
        (lambda self, path, seeds, start: path * 0.9, "mean"),
        (lambda self, path, seeds, start: path[:, ::-1], "starts|asked"),
        (lambda self, path, seeds, start: path[:, :-1], "shape"),
    ],
)
def test_faulty_prices_are_found(twist, message):
    with pytest.raises(AssertionError, match=message):
        check_prices(type("Twisted", (Prices,), {"twist": twist})(1.0, 10.0))
