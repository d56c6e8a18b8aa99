import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.randomness import Purpose, uniform
from headgate.errors import SettingError
from headgate.learning import streams
from headgate.learning.partition import Pairs
from headgate.learning.streams import Stream

OWNED = [np.array([5, 7, 9]), np.array([1, 2, 3, 4, 6, 8])]


def samples(stream, client, first, last):
    """The sample numbers at positions first ≤ i < last of a client's stream."""
    positions = np.arange(first, last)
    return stream.at(np.full_like(positions, client), positions).samples


def rows(stream):
    """Row of the training set for every sample number."""
    clients = np.repeat(np.arange(stream.lengths.size), stream.lengths)
    return stream.owners.rows(clients, np.arange(clients.size) - stream.starts[clients])


def test_reshuffle_passes_over_everything_each_time_in_a_new_order():
    stream = Stream(OWNED, seed=4, kind="reshuffle")
    passes = [samples(stream, 1, 6 * p, 6 * p + 6) for p in range(8)]
    assert all(sorted(rows(stream)[p]) == [1, 2, 3, 4, 6, 8] for p in passes)
    assert len({tuple(p) for p in passes}) > 4


@pytest.mark.parametrize("kind", ["reshuffle", "replacement"])
def test_a_position_does_not_depend_on_how_it_is_asked_for(kind):
    forward, backward = Stream(OWNED, 4, kind), Stream(OWNED, 4, kind)
    late = samples(backward, 0, 20, 25)
    assert np.array_equal(samples(forward, 0, 0, 25)[20:], late)
    assert np.array_equal(samples(backward, 0, 0, 5), samples(forward, 0, 0, 5))
    assert not np.array_equal(samples(Stream(OWNED, 5, kind), 1, 0, 30), samples(forward, 1, 0, 30))


def test_replacement_draws_evenly():
    stream = Stream(OWNED, 1, "replacement")
    counts = np.unique(samples(stream, 1, 0, 6000), return_counts=True)[1]
    assert counts.shape == (6,)
    assert abs(counts - 1000).max() < 150


def test_stop_ends_after_one_pass():
    stream = Stream(OWNED, 1, "stop")
    assert stream.lengths.tolist() == [3, 6]
    assert sorted(rows(stream)[samples(stream, 0, 0, 3)]) == [5, 7, 9]
    with pytest.raises(SettingError, match=r"data\.stream = stop: the stream of client 0 ends after 3 samples"):
        samples(stream, 0, 0, 4)
    with pytest.raises(SettingError, match=r"data.stream = loop"):
        Stream(OWNED, 1, "loop")


def plainly(owned, seed, kind, client, position):
    """The row at a position, one at a time."""
    length = len(owned[client])
    if kind == "replacement":
        return owned[client][int(uniform(seed, Purpose.STREAM, position, client) * length)]
    first = position // length * length
    draws = [float(uniform(seed, Purpose.STREAM, first + i, client)) for i in range(length)]
    return owned[client][sorted(range(length), key=draws.__getitem__)[position - first]]


@given(
    st.sampled_from(["reshuffle", "replacement"]),
    st.integers(0, 3),
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=8), min_size=1, max_size=4),
)
def test_many_positions_at_once_are_those_one_by_one(kind, seed, rounds):
    owned = [*OWNED, np.array([11])]
    stream = Stream(owned, seed, kind)
    for asked in rounds:  # one after the other: what is kept from one call must be right in the next
        clients, positions = np.array(asked, dtype=np.int64).reshape(-1, 2).T
        served = stream.at(clients, positions)
        assert served.rows.tolist() == [plainly(owned, seed, kind, *each) for each in asked]
        assert np.array_equal(rows(stream)[served.samples], served.rows)


def test_what_is_kept_of_passes_stays_small(monkeypatch):
    monkeypatch.setattr(streams, "KEPT", 50)
    stream, other = Stream(OWNED, 4, "reshuffle"), Stream(OWNED, 4, "reshuffle")
    both, most = np.array([0, 0, 1, 1]), 0
    for t in range(1000):
        positions = np.array([2 * t, 2 * t + 1, 3 * t, 3 * t + 1])
        assert np.array_equal(stream.at(both, positions).rows, other.at(both[::-1], positions[::-1]).rows[::-1])
        most = max(most, stream._passes.orders.size)
    assert 30 < most <= 50


@given(st.integers(1, 30), st.integers(0, 4), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 60)), max_size=20))
def test_owners_worked_out_when_wanted_serve_the_same(clients, seed, asked):
    labels = np.arange(70) * 7919 % 70 % 7
    rule = Pairs(per_class=4)
    written, lazy = (Stream(own(labels, clients, seed, {}), seed, "reshuffle") for own in (rule.split, rule.owners))
    assert np.array_equal(written.lengths, lazy.lengths)
    assert np.array_equal(rows(written), rows(lazy))
    who, where = np.array([each for each in asked if each[0] < clients], dtype=np.int64).reshape(-1, 2).T
    for ours, theirs in zip(written.at(who, where), lazy.at(who, where), strict=True):
        assert np.array_equal(ours, theirs)
