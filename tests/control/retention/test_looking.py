"""Rules that look at what the model says of samples, and CBRS, against a sample at a time."""

import runpy
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Balancer, Cbrs, Controller, Gss, Ode, Reservoir, System
from headgate.control.buffers import keeps_alone
from headgate.control.policies import Headgate
from headgate.control.randomness import Purpose, uniform
from headgate.control.retention import coordinated
from headgate.control.scores import Scores
from headgate.errors import SettingError
from headgate.testing import a_system, check_policy, check_retention

HERE = Path(__file__).parent
PLAIN = runpy.run_path(str(HERE / "plain_looking.py"))
Scripted = runpy.run_path(str(HERE / "scripted.py"))["Scripted"]
STORES = ((0, 2), (1,), ())
RULES = {
    "gss": (Gss, PLAIN["gss"], {}),
    "gss, a batch of 2": (Gss, PLAIN["gss"], {"batch": 2}),
    "balancer": (Balancer, PLAIN["balancer"], {}),
    "balancer, mostly easy": (Balancer, PLAIN["balancer"], {"easy": 0.8, "threshold": 0.5}),
    "cbrs": (Cbrs, PLAIN["cbrs"], {}),
    "ode": (Ode, PLAIN["ode"], {}),
    "ode, coordinated": (Ode, PLAIN["ode"], {"stores": STORES}),
}
EACH = pytest.mark.parametrize("rule", RULES)
SOME_ADMISSIONS = st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=12)


def labels(runs, clients, positions):
    """Up to three classes, unevenly."""
    return np.take([0, 0, 0, 1, 1, 2], (positions * 7 + clients * 3 + positions // 5) % 6)


def scores(runs, clients, positions, asked=()):
    """Small whole numbers, so that sums are exact: signs of cosines and equal values are the same whoever adds them up."""

    places = 16 * positions[:, None] + np.arange(8)
    drawn = uniform(runs[:, None], Purpose.PRICE, places, clients[:, None])
    least, most = np.array([0, -2, -2, -2, -1, -1, -1, -1]), np.array([4, 2, 2, 2, 2, 2, 2, 2])
    numbers = np.floor(least + (most + 1 - least) * drawn)
    return Scores(loss=numbers[:, 0], error=numbers[:, 1:4], features=numbers[:, 4:])


def each_of(found):
    """Sample by sample, as plain lists."""
    return [
        {name: values[i].tolist() for name, values in found._asdict().items() if values is not None}
        for i in range(len(found.loss))
    ]


@EACH
@pytest.mark.parametrize("capacity", [1, 3, a_system().buffer])
def test_every_rule_passes_the_public_check(rule, capacity):
    make, _, more = RULES[rule]
    if "stores" in more:
        more = {"stores": ((0,), (1, 2), (), (0, 1, 2), (7,))}
    check_retention(make(capacity, **more), rounds=16)


@pytest.mark.parametrize("rule", [Gss(), Balancer(), Cbrs(), Ode()])
def test_buyers_pass_the_public_check_with_every_rule(rule):
    check_policy(Headgate(rule=rule), rounds=24)


@EACH
@settings(deadline=None, max_examples=40)
@given(SOME_ADMISSIONS, st.lists(st.integers(1, 7), min_size=3, max_size=3), st.integers(0, 50))
def test_the_same_as_a_sample_at_a_time(rule, arrivals, capacity, seed):
    """Of three clients in two runs, and of each client by itself."""
    make, plainly, more = RULES[rule]
    made, seeds = make(tuple(capacity), **more), np.array([seed, seed + 1])
    system = System(np.full(3, 5), 1.0)
    controller = Controller(system, Scripted(made, arrivals), 2, seeds, labels, scores)
    ledger, since = controller.open(), {}
    held = {(r, m): [] for r in range(2) for m in range(3)}
    for _ in arrivals:
        before, ledger = ledger, controller.post(ledger, controller.decide(ledger, 1.0))
        for r, m in held:
            arriving = list(range(before.admitted[r, m], ledger.admitted[r, m]))
            if not arriving:
                continue
            could = [*held[r, m], *arriving]
            since.update(dict.fromkeys([(m, i) for i in arriving], ledger.t))
            position, whose = np.array(could, dtype=np.int64), np.full(len(could), m)
            age = np.array([ledger.t - since[m, i] for i in could], dtype=np.int64)
            named = labels(None, whose, position)
            found = scores(np.full(len(could), r), whose, position)
            alone = keeps_alone(made, capacity[m], int(seeds[r]), m, position, age, named, found)
            plain = [dict(zip(could, each, strict=True)) for each in (named.tolist(), each_of(found))]
            held[r, m] = plainly(held[r, m], arriving, capacity[m], int(seeds[r]), m, *plain, **more)
            assert [int(i) for i in ledger.places[r, m] if i >= 0] == held[r, m]
            assert [i for i, stays in zip(could, alone, strict=True) if stays] == held[r, m]


@pytest.mark.parametrize("rule", [Gss(3), Balancer(3), Ode(3)])
def test_without_a_model_lots_decide_as_in_a_reservoir(rule):
    places = []
    for each in (rule, Reservoir(3)):
        controller = Controller(System(np.full(2, 5), 1.0), Scripted(each, [[4, 2], [2, 5], [1, 1]]), 3, labels=labels)
        ledger = controller.open()
        for _ in range(3):
            ledger = controller.post(ledger, controller.decide(ledger, 1.0))
        places.append(ledger.places)
    assert np.array_equal(*places)


def kept_by(rule, classes, runs, at_once=1):
    """What one client holds in the end in each run, when so many come in a round."""
    named = np.array(classes)
    sizes = [len(each) for each in np.array_split(named, -(-len(named) // at_once))]
    arrivals = [[size] for size in sizes]
    controller = Controller(
        System([9], 1.0), Scripted(rule, arrivals), runs, labels=lambda runs, clients, positions: named[positions]
    )
    ledger = controller.open()
    for _ in arrivals:
        ledger = controller.post(ledger, controller.decide(ledger, 1.0))
    return ledger.places[:, 0]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 9), st.integers(1, 6), st.integers(0, 20))
def test_class_sizes_are_those_of_cbrs_however_the_samples_come(classes, room, at_once, seed):
    """Against the algorithm as published, which counts: the same sizes; all of a class, the most, or one less."""
    literal = PLAIN["literal_cbrs"](classes, room, seed)
    expected = sorted(Counter(classes[i] for i in literal).values())
    ever = Counter(classes)
    found = kept_by(Cbrs(room), classes, 3, at_once)
    assert np.array_equal(found, kept_by(Cbrs(room), classes, 3))
    for places in found:
        sizes = Counter(classes[i] for i in places.tolist() if i >= 0)
        assert sorted(sizes.values()) == expected
        most = max(sizes.values())
        assert all(sizes[c] == ever[c] or sizes[c] >= most - 1 for c in ever)


def test_of_a_class_every_sample_that_came_is_as_likely():
    """Twelve of a common class and two of a rare one, for five places: the rare ones stay, the others are a reservoir."""
    classes = [0] * 6 + [1] + [0] * 4 + [1] + [0] * 2
    runs = 4000
    found = np.bincount(kept_by(Cbrs(5), classes, runs).ravel(), minlength=14)
    common, share = [i for i, c in enumerate(classes) if c == 0], 3 / 12
    assert found[6] == found[11] == runs
    assert np.all(abs(found[common] - runs * share) < 5 * np.sqrt(runs * share * (1 - share)))


def test_gss_keeps_what_points_elsewhere():
    """One whose gradient is like one held never enters; one that points away from all may."""
    away = Scores(error=np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), features=np.array([[1.0, 0.0], [0.9, 0.1], [0.5, 0.0]]))
    position, age = np.arange(3), np.array([1, 1, 0])
    for seed in range(30):
        assert keeps_alone(Gss(2), 2, seed, 0, position, age, None, away).tolist() == [True, True, False]
    away.features[2] = [-1.0, 0.0]
    entered = [keeps_alone(Gss(2), 2, seed, 0, position, age, None, away)[2] for seed in range(400)]
    assert all(entered)  # its score is 0: it wins against anybody


def test_ode_values_what_pulls_with_the_rest():
    pulls = Scores(error=np.ones((4, 1)), features=np.array([[1.0], [2.0], [-1.0], [0.5]]))
    stays = keeps_alone(Ode(2), 2, 0, 0, np.arange(4), np.array([1, 1, 1, 0]), np.zeros(4, int), pulls)
    assert stays.tolist() == [True, True, False, False]
    stays = keeps_alone(Ode(2), 2, 0, 0, np.arange(4), np.array([1, 1, 1, 0]), np.array([0, 0, 1, 1]), pulls)
    assert stays.tolist() == [False, True, False, True]


def seen_by_a_client(classes):
    return st.lists(st.integers(0, 5), min_size=classes, max_size=classes)


@settings(max_examples=60)
@given(st.integers(1, 6).flatmap(lambda k: st.lists(seen_by_a_client(k), min_size=1, max_size=8)), st.integers(1, 6))
def test_classes_are_shared_out(counts, least):
    stores = coordinated(counts, least)
    assert len(stores) == len(counts)
    for y in range(len(counts[0])):
        seeing = [m for m, own in enumerate(counts) if own[y]]
        storing = [m for m, own in enumerate(stores) if y in own]
        assert set(storing) <= set(seeing)
        assert len(storing) >= min(least, len(seeing))  # those given nothing else may store it as well
    for own, has in zip(stores, counts, strict=True):
        assert list(own) == sorted(set(own))
        assert bool(own) == any(has)
    rarest = min(range(len(counts[0])), key=lambda y: (sum(own[y] for own in counts), y))
    most = sorted((m for m in range(len(counts)) if counts[m][rarest]), key=lambda m: (-counts[m][rarest], m))[:least]
    assert all(rarest in stores[m] for m in most)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gss(batch=0), "batch = 0"),
        (lambda: Gss(batch=2.5), "batch = 2.5"),
        (lambda: Balancer(easy=1.5), "easy = 1.5"),
        (lambda: Balancer(threshold=float("nan")), "threshold = nan"),
        (lambda: Ode(stores=((0,), (-1,))), r"stores[1] = [-1]"),
        (lambda: Controller(System([3, 4, 5], 1.0), Headgate(rule=Ode(stores=((0,),)))), "stores has 1 entries for 3 clients"),
        (
            lambda: Controller(System([30_000] * 9, 1.0), Headgate(rule=Gss())),
            "capacity = 30000: the cosines of so many samples",
        ),
        (lambda: coordinated([[1, -1]]), "coordinated"),
        (lambda: coordinated([[1, 1]], least=0), "coordinated"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(SettingError) as refusal:
        make()
    assert message in str(refusal.value)
