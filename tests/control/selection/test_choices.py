"""Buying rules against slow plain versions, and what is true of every one of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.randomness import Purpose
from headgate.control.ranking import Candidates, chosen
from headgate.control.scores import Scores
from headgate.control.selection import KINDS, ByLot, Selection
from headgate.errors import SettingError


def most_unsure(entropies, count):
    """The places of the highest, the earlier of equals first."""
    return sorted(
        sorted(range(len(entropies)), key=lambda i: (-entropies[i], i))[:count]
    )


@st.composite
def offers(draw):
    """Clients with windows of all sizes, some places empty; what the model says may be
    of few values, with many equal.
    """
    clients, window = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    there = random.random((clients, window)) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    steps = np.cumsum(random.integers(1, 4, (clients, window)), axis=1) - 1
    position = np.where(there, steps, -1)
    count = random.integers(0, there.sum(axis=1) + 1)
    coarse = draw(st.booleans())

    def values():
        return np.where(
            there,
            (
                random.integers(0, 3, there.shape)
                if coarse
                else np.abs(random.normal(size=there.shape))
            ),
            0.0,
        )

    scores = Scores(entropy=values(), margin=values())
    seed, client = random.integers(0, 9, (clients, 1)), np.arange(clients)[:, None]
    return Candidates(
        position, count[:, None], seed, client, scores=scores, purpose=Purpose.SELECTION
    )


@given(offers())
def test_by_uncertainty(offered):
    entropy, margin = (chosen(KINDS[name](), offered) for name in ("entropy", "margin"))
    for row, count in enumerate(offered.room[:, 0]):
        own = np.flatnonzero(offered.there[row])
        by_entropy = most_unsure(offered.scores.entropy[row, own].tolist(), count)
        by_margin = most_unsure((-offered.scores.margin[row, own]).tolist(), count)
        assert np.flatnonzero(entropy[row]).tolist() == own[by_entropy].tolist()
        assert np.flatnonzero(margin[row]).tolist() == own[by_margin].tolist()


def test_lots_are_fair_and_of_their_address():
    clients = np.arange(3000)[:, None]
    position, room = np.tile(np.arange(100, 108), (3000, 1)), np.full((3000, 1), 2)
    offered = Candidates(
        position, room, clients * 0 + 7, clients, purpose=Purpose.SELECTION
    )
    takes = chosen(ByLot(), offered)
    assert np.abs(takes.mean(axis=0) - 0.25).max() < 0.03
    later = offered._replace(position=offered.position + 8)
    assert not np.array_equal(chosen(ByLot(), later), takes)
    assert (
        np.unique(offered._replace(position=offered.position - 100).draw()).size
        == offered.position.size
    )


def test_who_looks():
    assert [name for name, kind in KINDS.items() if kind().looks] == [
        "entropy",
        "margin",
        "adaptive",
    ]


class Peeking(Selection):
    scores = ("loss",)

    def rank(self, candidates):
        return candidates.position


class Beside(Selection):
    beside_held = True

    def rank(self, candidates):
        return candidates.position


def test_what_is_refused():
    with pytest.raises(
        SettingError,
        match=(
            r"Peeking\.scores = .*must be a tuple of entropy, margin, guess, features"
        ),
    ):
        Peeking().check()
    with pytest.raises(SettingError, match=r'Beside\.beside_held: needs "features"'):
        Beside().check()
