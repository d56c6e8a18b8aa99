"""Rules under which a buffer is no window of the stream."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import ClassBalanced, Controller, Fifo, Report, Reservoir
from headgate.control.buffers import keeps_alone
from headgate.control.policies import Below, Constant, Headgate, Threshold
from headgate.control.types import SampleView
from headgate.testing import a_system

from ..playing import after, arriving, goes_on
from .plain_replacement import class_balanced, reservoir

SYSTEM = a_system()
BUFFER = SYSTEM.buffer
RULES = {
    "reservoir": (Reservoir, reservoir),
    "class-balanced": (ClassBalanced, class_balanced),
}
EACH = pytest.mark.parametrize("rule", RULES)
SOME_ADMISSIONS = st.lists(
    st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=20
)


def classes(clients, positions):
    """Of client 0 all are one class; the others have up to three, unevenly."""
    return np.take(
        [0, 0, 0, 1, 1, 2], (positions * 7 + clients * 3 + positions // 5) % 6
    ) * (clients > 0)


def labels(runs, clients, positions):
    return classes(clients, positions)


@EACH
@settings(deadline=None, max_examples=40)
@given(
    SOME_ADMISSIONS,
    st.lists(st.integers(1, 7), min_size=3, max_size=3),
    st.integers(0, 50),
)
def test_the_same_as_a_sample_at_a_time(rule, arrivals, capacity, seed):
    """Samples, uses and those never used, of three clients in two runs; and each client
    by itself.
    """
    make, plainly = RULES[rule]
    made, seeds = make(tuple(capacity)), [seed, seed + 1]
    held, uses = (
        {(r, m): [] for r in range(2) for m in range(3)},
        [Counter(), Counter()],
    )
    since, before = {}, np.zeros(3, dtype=np.int64)
    for ledger in arriving(made, arrivals, seeds, 3, labels):
        for r, m in held:
            came = list(range(before[m], ledger.admitted[r, m]))
            could = [*held[r, m], *came]
            since.update(dict.fromkeys([(m, i) for i in came], ledger.t))
            position, age = (
                np.array(could, dtype=np.int64),
                np.array([ledger.t - since[m, i] for i in could], dtype=np.int64),
            )
            named = dict(
                zip(could, classes(np.full(len(could), m), position), strict=True)
            )
            alone = keeps_alone(
                made,
                capacity[m],
                seeds[r],
                m,
                position,
                age,
                np.array(list(named.values())),
            )
            held[r, m] = plainly(held[r, m], came, capacity[m], seeds[r], m, named)
            assert [i for i in ledger.places[r, m].tolist() if i >= 0] == held[r, m]
            assert held[r, m] == [
                i for i, stays in zip(could, alone, strict=True) if stays
            ]
            assert len(held[r, m]) == ledger.occupancy[r, m]
            uses[r].update((m, i) for i in held[r, m])
        for r, counted in enumerate(uses):
            assert ledger.uses[r] == counted.total()
            assert ledger.squared_uses[r] == sum(count**2 for count in counted.values())
            assert ledger.unused[r] == ledger.admitted[r].sum() - len(counted)
        before = ledger.admitted[0]


RUNS = 6000


def test_the_reservoir_is_vitters():
    """The i-th sample enters with probability B/i, and whoever leaves is any one of the
    others: all sets equally likely.
    """
    states = [
        ledger.places[:, 0]
        for ledger in arriving(Reservoir(2), [[1]] * 6, range(RUNS), 1)
    ]
    sets, counts = np.unique(states[-1], axis=0, return_counts=True)
    assert len(sets) == 15  # pairs of six
    assert (
        (counts - RUNS / 15) ** 2 / (RUNS / 15)
    ).sum() < 36.1  # χ² with 14 degrees of freedom, 1 in 1000
    for i in range(2, 6):
        entered = (states[i] == i).any(axis=1)
        chance = 2 / (i + 1)
        assert abs(entered.sum() - RUNS * chance) < 5 * np.sqrt(
            RUNS * chance * (1 - chance)
        )
        first_left = (states[i - 1][entered, :1] != states[i][entered]).all(axis=1)
        assert abs(first_left.sum() - entered.sum() / 2) < 5 * np.sqrt(
            entered.sum() / 4
        )


POLICIES = {
    **{kind.__name__: kind for kind in (Headgate, Below)},
    "Threshold": partial(Threshold, limit=4.0),
    "Constant": partial(Constant, rate=9.0, K=1),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_what_is_bought_does_not_depend_on_what_is_kept(policy):
    """Nobody takes what was never used for what was never bought; all rules with a
    capacity hold as many.
    """
    prices = 1 + 9 * np.random.default_rng(3).random((60, 2))
    ledgers = {}
    for name, rule in {
        "fifo": Fifo(BUFFER),
        **{name: make(BUFFER) for name, (make, _) in RULES.items()},
    }.items():
        ledgers[name] = after(Controller(a_system(60), policy(rule=rule), 2), prices)
    for ledger in ledgers.values():
        for name in ("admitted", "dropped", "spent", "debt"):
            assert np.array_equal(
                getattr(ledger, name), getattr(ledgers["fifo"], name)
            ), name
    paid = ledgers["fifo"].admitted.sum(axis=-1)
    assert np.array_equal(ledgers["fifo"].distinct, paid)
    assert np.all(ledgers["reservoir"].distinct < paid)
    assert np.array_equal(
        ledgers["reservoir"].distinct + ledgers["reservoir"].unused, paid
    )


@EACH
def test_clients_that_admit_less_than_ordered(rule):
    """The reports decide what arrives."""
    controller = Controller(
        SYSTEM,
        Constant(rate=9, K=1, rule=RULES[rule][0](BUFFER)),
        2,
        np.array([7, 9]),
    )
    prices = [np.array([2.0, 3.0])] * 20
    for _, ledger in goes_on(
        controller,
        prices,
        report=lambda orders: Report(orders.admitted // (1 + orders.t % 3)),
        samples=SampleView(labels),
    ):
        assert (ledger.contents.labels is not None) == (rule == "class-balanced")
        assert np.array_equal((ledger.places >= 0).sum(axis=-1), ledger.occupancy)
        assert np.all(ledger.occupancy <= BUFFER)
        assert np.all(ledger.places < ledger.admitted[..., None])
