"""Control's compiled loops say what numpy's say, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Report, System
from headgate.control import buffers as buffers_module
from headgate.control.apportion import apportion
from headgate.control.policies import Acdpp, Constant, Headgate
from headgate.control.renewed import Windows, by_client, kind_of, renewed
from headgate.control.retention import KStep
from headgate.control.types import LEDGER_ARRAYS
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.simulation import engine

many_clients = pytest.importorskip("headgate.simulation.many_clients")
LOOPS = many_clients.LOOPS


def same(found, expected):
    for own, other in zip(found, expected, strict=True):
        assert own.dtype == other.dtype
        assert np.array_equal(own, other)


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    clients=st.sampled_from([1, 7, 400]),
    short=st.sampled_from([None, 2, 9, 40]),
    most=st.sampled_from([2, 9, 10**6]),
)
def test_samples_are_apportioned_as_by_numpy(seed, clients, short, most):
    """Round after round, with and without room, with clients that have no share, in runs that get all, some or nothing."""
    rng = np.random.default_rng(seed)
    shares = rng.integers(0, most, clients)
    shares[0] = 1
    credit = np.zeros((3, clients), dtype=np.int64)
    for _ in range(6):
        room = None if short is None else rng.integers(0, short, (3, clients))
        fits = np.full(3, 10 * clients) if room is None else room[:, shares > 0].sum(axis=-1)
        total = (fits * rng.choice([0.0, 0.1, 0.5, 0.9, 1.0], 3)).astype(np.int64)
        found = LOOPS.apportion(total, credit, shares, room)
        same(found, apportion(total, credit, shares, room))
        credit = found[1]


@given(seed=st.integers(0, 2**32 - 1), kinds=st.sampled_from([1, 3, 50, 10**6]), around=st.sampled_from([1, 4]))
def test_the_edge_is_found_wherever_the_sample_says_to_look(seed, kinds, around):
    rng = np.random.default_rng(seed)
    due = rng.integers(0, kinds, 500) / 7
    due[rng.random(500) < rng.choice([0.0, 0.3, 0.9])] = np.inf
    ordered, before = np.sort(due), (many_clients.SAMPLE, many_clients.AROUND)
    many_clients.SAMPLE, many_clients.AROUND = 30, around
    try:
        for left in {1, int((due < np.inf).sum()), int(rng.integers(1, 501))}:
            if 0 < left <= (due < np.inf).sum():
                edge, ties = many_clients._edge(due, left)
                assert edge == ordered[left - 1]
                assert ties == left - (due < edge).sum()
    finally:
        many_clients.SAMPLE, many_clients.AROUND = before


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    places=st.lists(st.sampled_from([1, 2, 5, 12, 128]), min_size=1, max_size=9),
    more=st.sampled_from([1, 130]),
    t=st.sampled_from([1, 127, 128, 1001, 40_000]),
    far=st.sampled_from([50, 2**33, 2**52]),
    come=st.sampled_from([2, 13, 300]),
    full=st.booleans(),
)
def test_places_are_renewed_as_by_numpy(seed, places, more, t, far, come, full):
    """Full ones and others, of whom some lose samples by age, some get more than there is room for, some nothing."""
    rng, limit = np.random.default_rng(seed), np.array([*places, more])
    shape = 2, len(limit)
    born = by_client(rng.integers(0, t, (limit.max(), *shape)).astype(rng.choice([kind_of(t), np.int32])))
    old = rng.choice([0, 2**32, *rng.integers(0, far, 5)], shape)
    end = old + (limit if full else rng.integers(0, limit + 1, shape))
    last = end + rng.integers(0, come, shape) * rng.integers(0, 2, shape)
    first = np.maximum(last - limit, old + (0 if full else rng.integers(0, 2, shape) * rng.integers(0, end - old + 1)))
    given, block = (born, t, limit, Windows(old, end), Windows(first, last)), many_clients.BLOCK
    many_clients.BLOCK = 4
    try:
        same(LOOPS.renewed(*given), renewed(*given))
    finally:
        many_clients.BLOCK = block


@pytest.mark.parametrize(
    "policy",
    [
        Headgate(),
        Headgate(smooth=0.25, ahead=5.0, turnover=0.4),
        Headgate(rule=KStep(3, capacity="buffer"), turnover=0.5),
        Acdpp(rate=300.0, K=4, V=1e4, burst="buffer"),
        Constant(rate=700.0, K=4, capacity=3),
    ],
)
def test_ledgers_are_the_same(policy, monkeypatch):
    """Also where some clients admit less than they were told."""
    monkeypatch.setattr(buffers_module, "MANY", 0)
    monkeypatch.setattr(many_clients, "BLOCK", 64)
    system = System(np.resize([8, 9, 3, 11, 1], 200), 2000.0, 40)
    plain, compiled = (Controller(system, policy, 2, loops=loops) for loops in (None, LOOPS))
    ledgers, rng = [plain.open(), compiled.open()], np.random.default_rng(0)
    for t in range(40):
        price, tells = rng.uniform(1, 10, 2), rng.random((2, 200)) < 0.8
        for which, controller in enumerate((plain, compiled)):
            orders = controller.decide(ledgers[which], price)
            ledgers[which] = controller.post(ledgers[which], orders, Report(orders.admitted * tells) if t % 4 == 3 else None)
        same(*([getattr(each, name) for name in LEDGER_ARRAYS] for each in ledgers))
        if ledgers[0].contents.born is not None:
            same(*([each.contents.born] for each in ledgers))
    assert ledgers[0].ever.min() > 2 * system.memory


def test_of_very_many_clients_control_is_compiled_and_the_record_is_the_same(monkeypatch):
    settings = ["system.clients=300", "system.budget=1650", "training.cohort=20", "run.rounds=8", "training.steps=2"]
    experiment, data, seen = load("million", settings), load_dataset("digits"), []
    for least in (301, 300):
        monkeypatch.setattr(engine, "COMPILED", least)
        monkeypatch.setattr(buffers_module, "MANY", 0)
        simulation = engine.Simulation(experiment, data)
        assert all((each.loops is LOOPS) == (least == 300) for each in simulation.controllers.values())
        seen.append([simulation.step().metrics for _ in range(8)])
    assert seen[0] == seen[1]


def test_without_numba_control_goes_on_with_numpy(monkeypatch):
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    assert engine.loops_of(10**6) is None
