"""Buying rules against slow plain versions, and what is true of every one of them."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control.scores import Scores
from headgate.control.selection import KINDS, ByLot, FirstCome, KCentre, Offered, Selection, Vessal
from headgate.control.selection.rule import check_selection_asks, chosen
from headgate.errors import SettingError

PLAIN = runpy.run_path(str(Path(__file__).parent / "plain_choices.py"))
farthest, most_unsure, vessal = (PLAIN[name] for name in ("farthest", "most_unsure", "vessal"))
CLASSES, WIDTH, HELD = 3, 4, 3


@st.composite
def offers(draw):
    """Clients with windows of all sizes, some places empty; what the model says may be of few values, with many equal."""
    clients, window = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    there = random.random((clients, window)) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    steps = np.cumsum(random.integers(1, 4, (clients, window)), axis=1) - 1
    position = np.where(there, steps, -1)
    count = random.integers(0, there.sum(axis=1) + 1)
    coarse = draw(st.booleans())

    def values(*shape):
        return random.integers(-2, 3, shape).astype(float) if coarse else random.normal(size=shape)

    def placed(array):
        return np.where(there.reshape(*there.shape, *[1] * (array.ndim - 2)), array, 0.0)

    scores = Scores(
        entropy=placed(np.abs(values(clients, window))),
        margin=placed(np.abs(values(clients, window))),
        guess=placed(values(clients, window, CLASSES)),
        features=placed(values(clients, window, WIDTH)),
    )
    held_there = random.random((clients, HELD)) < 0.6
    held = np.where(held_there[..., None], values(clients, HELD, WIDTH), 0.0)
    seed, client = random.integers(0, 9, (clients, 1)), np.arange(clients)[:, None]
    return Offered(position, count[:, None], seed, client, scores, held, held_there)


def row_of(offered, row):
    """One client by itself, without empty places behind its last."""
    own = slice(row, row + 1)
    scores = Scores(*(None if each is None else each[own] for each in offered.scores))
    return Offered(*(each[own] for each in offered[:4]), scores, offered.held[own], offered.held_there[own])


@pytest.mark.parametrize("rule", [kind() for kind in KINDS.values()], ids=KINDS)
@given(offered=offers())
def test_as_many_as_ordered_the_same_alone_and_nothing_is_changed(rule, offered):
    before = [np.array(each) for each in (*offered[:4], offered.held)]
    takes = chosen(rule, offered)
    assert np.array_equal(takes.sum(axis=1), offered.ordered[:, 0])
    assert not (takes & ~offered.there).any()
    for row in range(len(takes)):
        assert np.array_equal(chosen(rule, row_of(offered, row))[0], takes[row])
    assert all(np.array_equal(*pair) for pair in zip(before, (*offered[:4], offered.held), strict=True))


def places(offered, row):
    return np.flatnonzero(offered.there[row])


@given(offers())
def test_by_uncertainty(offered):
    entropy, margin = (chosen(KINDS[name](), offered) for name in ("entropy", "margin"))
    for row, count in enumerate(offered.ordered[:, 0]):
        own = places(offered, row)
        by_entropy = most_unsure(offered.scores.entropy[row, own].tolist(), count)
        by_margin = most_unsure((-offered.scores.margin[row, own]).tolist(), count)
        assert np.flatnonzero(entropy[row]).tolist() == own[by_entropy].tolist()
        assert np.flatnonzero(margin[row]).tolist() == own[by_margin].tolist()


@settings(deadline=None)
@given(offers(), st.sampled_from([0.01, 1.0, 1000.0]))
def test_vessal(offered, ridge):
    takes, draws = chosen(Vessal(ridge), offered), offered.draw()
    for row, count in enumerate(offered.ordered[:, 0]):
        own = places(offered, row)
        if own.size:
            found = vessal(offered.scores.guess[row, own], offered.scores.features[row, own], draws[row, own], count, ridge)
            assert np.flatnonzero(takes[row]).tolist() == own[found].tolist()


@pytest.mark.parametrize(("at_once", "clients"), [(100, 2), (10, 1)])  # of six samples, each with each
def test_vessal_in_pieces_is_vessal(monkeypatch, at_once, clients):
    """As many clients at once as there is room for, and at least one."""
    random = np.random.default_rng(1)
    scores = Scores(guess=random.normal(size=(20, 6, 3)), features=random.normal(size=(20, 6, 4)))
    each = np.arange(20)[:, None]
    offered = Offered(np.tile(np.arange(6), (20, 1)), np.full((20, 1), 2), each * 0, each, scores)
    whole, plain, sizes = chosen(Vessal(), offered), Vessal._of_some, []
    monkeypatch.setattr("headgate.control.selection.vessal.AT_ONCE", at_once)
    monkeypatch.setattr(Vessal, "_of_some", lambda *given: sizes.append(len(given[-1])) or plain(*given))
    assert np.array_equal(chosen(Vessal(), offered), whole)
    assert sizes == [clients] * (20 // clients)


def test_vessal_prefers_what_is_unlike_what_was_bought():
    """Nine samples of one kind and one of another, again and again: the odd one is bought far more often than one in five."""
    runs = 400
    features = np.tile(np.repeat([[1.0, 0.0]], 10, axis=0), (runs, 1, 1))
    odd = np.arange(runs) % 10
    features[np.arange(runs), odd] = [0.0, 1.0]
    scores = Scores(guess=np.ones((runs, 10, 1)), features=features)
    offered = Offered(
        np.tile(np.arange(10), (runs, 1)), np.full((runs, 1), 2), np.arange(runs)[:, None], np.zeros((runs, 1), int), scores
    )
    takes = chosen(Vessal(), offered)
    assert takes[np.arange(runs), odd].mean() > 0.3
    assert takes.sum() == 2 * runs


def test_vessal_without_anything_to_tell_samples_apart_draws_lots():
    runs, each = 400, np.arange(400)[:, None]
    scores = Scores(guess=np.ones((runs, 10, 1)), features=np.zeros((runs, 10, 2)))
    takes = chosen(Vessal(), Offered(np.tile(np.arange(10), (runs, 1)), np.full((runs, 1), 2), each, each * 0, scores))
    assert np.abs(takes.mean(axis=0) - 0.2).max() < 0.1


@given(offers())
def test_k_centre(offered):
    takes = chosen(KCentre(), offered)
    for row, count in enumerate(offered.ordered[:, 0]):
        own = places(offered, row)
        found = farthest(offered.scores.features[row, own], offered.held[row, offered.held_there[row]], count)
        assert np.flatnonzero(takes[row]).tolist() == own[found].tolist()


def test_lots_are_fair_and_of_their_address():
    clients = np.arange(3000)[:, None]
    offered = Offered(np.tile(np.arange(100, 108), (3000, 1)), np.full((3000, 1), 2), clients * 0 + 7, clients)
    takes = chosen(ByLot(), offered)
    assert np.abs(takes.mean(axis=0) - 0.25).max() < 0.03
    later = offered._replace(position=offered.position + 8)
    assert not np.array_equal(chosen(ByLot(), later), takes)
    assert np.array_equal(chosen(FirstCome(), offered), np.tile([True] * 2 + [False] * 6, (3000, 1)))
    assert np.unique(offered._replace(position=offered.position - 100).draw()).size == offered.position.size


def test_who_looks_and_who_asks_for_what_is_held():
    for kind in KINDS.values():
        check_selection_asks(kind())
    assert {name for name, kind in KINDS.items() if kind().looks is True} == {"entropy", "margin", "vessal", "coreset"}
    assert {name for name, kind in KINDS.items() if kind().looks is False} == {"first", "random"}
    assert [name for name, kind in KINDS.items() if kind().beside_held] == ["coreset"]


class Told(Selection):
    """Says what it was told to say."""

    def __init__(self, answer):
        object.__setattr__(self, "answer", answer)

    def chooses(self, offered):
        return self.answer


class Greedy(Selection):
    def chooses(self, offered):
        return offered.there


class Peeking(Selection):
    scores = ("loss",)

    def chooses(self, offered):
        return offered.there


class Beside(Selection):
    beside_held = True

    def chooses(self, offered):
        return offered.there


def test_what_is_refused():
    offered = Offered(np.array([[3, 4, -1]]), np.array([[1]]), np.array([[0]]), np.array([[0]]))
    with pytest.raises(SettingError, match=r"Greedy\.chooses: chooses 2 of 2 samples where 1 are ordered"):
        chosen(Greedy(), offered)
    for answer in (np.array([[1, 0, 0]]), np.array([True, False, False])):
        with pytest.raises(SettingError, match=rf"must return true or false for each of \(1, 3\), returned {answer.dtype}"):
            chosen(Told(answer), offered)
    with pytest.raises(SettingError, match="no empty place"):
        chosen(Told(np.array([[True, False, True]])), offered._replace(ordered=np.array([[2]])))
    with pytest.raises(SettingError, match=r"Peeking\.scores = .*must be a tuple of entropy, margin, guess, features"):
        check_selection_asks(Peeking())
    with pytest.raises(SettingError, match=r'Beside\.beside_held: needs "features"'):
        check_selection_asks(Beside())
    with pytest.raises(SettingError, match=r"ridge = 0\.0: must be"):
        Vessal(ridge=0.0)
