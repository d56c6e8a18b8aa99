"""Rules under which a buffer is no window of the stream."""

import runpy
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import (
    ClassBalanced,
    Controller,
    DynamicRatio,
    Fifo,
    Report,
    Reservoir,
    StaticRatio,
)
from headgate.control.buffers import keeps_alone
from headgate.control.files import load_ledger, save_ledger
from headgate.control.policies import Constant, Headgate, Pacing, Resolving
from headgate.testing import a_system

SYSTEM = a_system()
BUFFER = SYSTEM.buffer
PLAIN = runpy.run_path(str(Path(__file__).parent / "plain_replacement.py"))
played = runpy.run_path(str(Path(__file__).parent / "scripted.py"))["played"]
RULES = {
    "reservoir": (Reservoir, PLAIN["reservoir"]),
    "class-balanced": (ClassBalanced, PLAIN["class_balanced"]),
    "static": (lambda capacity: StaticRatio(capacity, 0.4), PLAIN["static"](0.4)),
    "all new": (lambda capacity: StaticRatio(capacity, 1.0), PLAIN["static"](1.0)),
    "dynamic": (DynamicRatio, PLAIN["dynamic"]),
}
EACH = pytest.mark.parametrize("rule", RULES)
SOME_ADMISSIONS = st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=20)


def classes(clients, positions):
    """Of client 0 all are one class; the others have up to three, unevenly."""
    return np.take([0, 0, 0, 1, 1, 2], (positions * 7 + clients * 3 + positions // 5) % 6) * (clients > 0)


def labels(runs, clients, positions):
    return classes(clients, positions)


def kept(ledger, run, client):
    return [int(i) for i in ledger.places[run, client] if i >= 0]


@EACH
@settings(deadline=None, max_examples=40)
@given(SOME_ADMISSIONS, st.lists(st.integers(1, 7), min_size=3, max_size=3), st.integers(0, 50))
def test_the_same_as_a_sample_at_a_time(rule, arrivals, capacity, seed):
    """Samples, uses and those never used, of three clients in two runs; and each client by itself."""
    make, plainly = RULES[rule]
    made, seeds = make(tuple(capacity)), [seed, seed + 1]
    held, uses = {(r, m): [] for r in range(2) for m in range(3)}, [Counter(), Counter()]
    since, before = {}, np.zeros(3, dtype=np.int64)
    for ledger in played(made, arrivals, seeds, 3, labels):
        for r, m in held:
            arriving = list(range(before[m], ledger.admitted[r, m]))
            could = [*held[r, m], *arriving]
            since.update(dict.fromkeys([(m, i) for i in arriving], ledger.t))
            position, age = np.array(could, dtype=np.int64), np.array([ledger.t - since[m, i] for i in could], dtype=np.int64)
            named = dict(zip(could, classes(np.full(len(could), m), position), strict=True))
            alone = keeps_alone(made, capacity[m], seeds[r], m, position, age, np.array(list(named.values())))
            held[r, m] = plainly(held[r, m], arriving, capacity[m], seeds[r], m, named)
            assert kept(ledger, r, m) == held[r, m] == [i for i, stays in zip(could, alone, strict=True) if stays]
            assert len(held[r, m]) == ledger.occupancy[r, m]
            uses[r].update((m, i) for i in held[r, m])
        for r, counted in enumerate(uses):
            assert ledger.uses[r] == counted.total()
            assert ledger.squared_uses[r] == sum(count**2 for count in counted.values())
            assert ledger.unused[r] == ledger.admitted[r].sum() - len(counted)
        before = ledger.admitted[0]


@settings(deadline=None, max_examples=40)
@given(SOME_ADMISSIONS, st.integers(1, 7), st.integers(0, 50))
def test_classes_are_as_even_as_they_can_be(arrivals, capacity, seed):
    """A class may have two more than another only where that one has lost nothing."""
    before = [[], [], []]
    ends = np.zeros(3, dtype=np.int64)
    for ledger in played(ClassBalanced(capacity), arrivals, [seed], 3, labels):
        for m in range(3):
            now = kept(ledger, 0, m)
            could = [*before[m], *range(ends[m], ledger.admitted[0, m])]
            had, has = (
                np.bincount(classes(np.full(len(each), m), np.array(each, dtype=np.int64)), minlength=3)
                for each in (could, now)
            )
            if len(now) < len(could):
                assert len(now) == capacity
                for few in np.flatnonzero(has < had):
                    assert has[few] >= has.max() - 1
            before[m] = now
        ends = ledger.admitted[0]


def test_a_new_sample_is_not_dropped_while_an_old_one_of_its_class_is_there():
    for ledger in played(ClassBalanced(4), [[4, 4, 4], [3, 3, 3], [1, 1, 1]], range(50), 3):  # no labels: one class
        assert ledger.unused.tolist() == [0] * 50
    newest = ledger.places[:, :, -1]
    assert np.all(newest == 7)


RUNS = 6000


@pytest.mark.parametrize("rule", [Reservoir, DynamicRatio])
@pytest.mark.parametrize("arrivals", [[3, 4, 1, 6, 0, 2], [16], [1] * 16, [2, 5, 5, 4]])
def test_every_sample_is_as_likely_to_be_in_memory(rule, arrivals):
    """Within five standard deviations, for 5 places and 16 samples, however they came."""
    *_, ledger = played(rule(5), [[n] for n in arrivals], range(RUNS), 1)
    found = np.bincount(ledger.places.ravel(), minlength=16)
    share = 5 / 16
    assert found.sum() == 5 * RUNS
    assert np.all(abs(found - RUNS * share) < 5 * np.sqrt(RUNS * share * (1 - share)))


def test_the_reservoir_is_vitters():
    """The i-th sample enters with probability B/i, and whoever leaves is any one of the others: all sets equally likely."""
    states = [ledger.places[:, 0] for ledger in played(Reservoir(2), [[1]] * 6, range(RUNS), 1)]
    sets, counts = np.unique(states[-1], axis=0, return_counts=True)
    assert len(sets) == 15  # pairs of six
    assert ((counts - RUNS / 15) ** 2 / (RUNS / 15)).sum() < 36.1  # χ² with 14 degrees of freedom, 1 in 1000
    for i in range(2, 6):
        entered = (states[i] == i).any(axis=1)
        chance = 2 / (i + 1)
        assert abs(entered.sum() - RUNS * chance) < 5 * np.sqrt(RUNS * chance * (1 - chance))
        first_left = (states[i - 1][entered, :1] != states[i][entered]).all(axis=1)
        assert abs(first_left.sum() - entered.sum() / 2) < 5 * np.sqrt(entered.sum() / 4)


def test_a_reservoir_does_not_depend_on_the_rounds():
    *_, slowly = played(Reservoir(4), [[1]] * 30, range(20), 1)
    *_, at_once = played(Reservoir(4), [[7], [0], [23]], range(20), 1)
    assert np.array_equal(slowly.places, at_once.places)


def test_ratios_are_kept():
    """Static: so many of the places in every round, rounded by lot. Dynamic: the share of all samples ever admitted."""
    taken = {}
    for rule in (StaticRatio(10, 0.25), DynamicRatio(10)):
        states = [ledger.places[:, 0] for ledger in played(rule, [[10], [8], [8], [1]], range(RUNS), 1)]
        taken[type(rule)] = [(states[t] >= first).sum(axis=1) for t, first in ((1, 10), (2, 18), (3, 26))]
    for count in taken[StaticRatio][:2]:
        assert set(count) == {2, 3}
        assert count.mean() == pytest.approx(2.5, abs=5 * 0.5 / np.sqrt(RUNS))
    assert set(taken[StaticRatio][2]) == {1}  # no more came
    for count, share in zip(taken[DynamicRatio], (8 / 18, 8 / 26, 1 / 27), strict=True):
        assert set(count) == {int(10 * share), int(10 * share) + 1}
        assert count.mean() == pytest.approx(10 * share, abs=5 * 0.5 / np.sqrt(RUNS))


@pytest.mark.parametrize("policy", [Headgate, Resolving, Pacing])
def test_what_is_bought_does_not_depend_on_what_is_kept(policy):
    """Buyers count what they bought, not what was used; occupancies are the same under all rules with a capacity."""
    prices = 1 + 9 * np.random.default_rng(3).random((60, 2))
    ledgers = {}
    for name, rule in {"fifo": Fifo(BUFFER), **{name: make(BUFFER) for name, (make, _) in RULES.items()}}.items():
        controller = Controller(a_system(60), policy(rule=rule), 2)
        ledger = controller.open()
        for price in prices:
            ledger = controller.post(ledger, controller.decide(ledger, price))
        ledgers[name] = ledger
    for ledger in ledgers.values():
        for name in ("admitted", "dropped", "spent", "debt"):
            assert np.array_equal(getattr(ledger, name), getattr(ledgers["fifo"], name)), name
    paid = ledgers["fifo"].admitted.sum(axis=-1)
    assert np.array_equal(ledgers["fifo"].distinct, paid)
    assert np.all(ledgers["reservoir"].distinct < paid)
    assert np.array_equal(ledgers["reservoir"].distinct + ledgers["reservoir"].unused, paid)


@EACH
def test_clients_that_admit_less_than_ordered(rule, tmp_path):
    """The reports decide what arrives; a ledger that was in a file goes on to the same bits."""
    controller = Controller(SYSTEM, Constant(rate=9, K=1, rule=RULES[rule][0](BUFFER)), 2, np.array([7, 9]), labels)
    ledger = controller.open()
    for t in range(20):
        orders = controller.decide(ledger, np.array([2.0, 3.0]))
        report = Report(orders.admitted // (1 + t % 3))
        if t % 4 == 0:
            save_ledger(ledger, tmp_path / "ledger.npz")
            loaded = load_ledger(tmp_path / "ledger.npz", controller)
            again = controller.post(loaded, controller.decide(loaded, np.array([2.0, 3.0])), report)
        ledger = controller.post(ledger, orders, report)
        if t % 4 == 0:
            assert (ledger.contents.labels is not None) == (rule == "class-balanced")
            for array, other in zip(ledger.contents[1:], again.contents[1:], strict=True):
                assert np.array_equal(array, other)
                assert array is other is None or array.dtype == other.dtype
        assert np.array_equal((ledger.places >= 0).sum(axis=-1), ledger.occupancy)
        assert np.all(ledger.occupancy <= BUFFER)
        assert np.all(ledger.places < ledger.admitted[..., None])


def test_other_seeds_keep_other_samples():
    def places(seed):
        *_, ledger = played(Reservoir(3), [[5, 5]] * 6, [seed], 2)
        return ledger.places[0]

    assert not np.array_equal(places(1), places(2))
    assert not np.array_equal(places(1)[0], places(1)[1])
