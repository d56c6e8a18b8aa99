import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.randomness import Purpose, uniform
from headgate.errors import SettingError
from headgate.learning import streams
from headgate.learning.partition import Pairs
from headgate.learning.streams import RESHUFFLE, MarkovStream, Replacement, Stop, Stream

OWNED = [np.array([5, 7, 9]), np.array([1, 2, 3, 4, 6, 8])]
LABELS = np.array([0, 0, 0, 1, 1, 0, 2, 1, 2, 0, 1, 1])
RULES = [
    RESHUFFLE,
    Replacement(),
    MarkovStream(1),
    MarkovStream(2.5),
    MarkovStream(100),
]


def samples(stream, client, first, last):
    """The sample numbers at positions first ≤ i < last of a client's stream."""
    positions = np.arange(first, last)
    return stream.at(np.full_like(positions, client), positions).samples


def rows(stream):
    """Row of the training set for every sample number."""
    clients = np.repeat(np.arange(stream.lengths.size), stream.lengths)
    return stream.owners.rows(clients, np.arange(clients.size) - stream.starts[clients])


def test_stop_ends_after_one_pass():
    stream = Stream(OWNED, 1, Stop())
    assert stream.lengths.tolist() == [3, 6]
    assert sorted(rows(stream)[samples(stream, 0, 0, 3)]) == [5, 7, 9]
    with pytest.raises(
        SettingError,
        match=r"data\.stream = stop: the stream of client 0 ends after 3 samples",
    ):
        samples(stream, 0, 0, 4)


def plainly(owned, seed, rule, client, position):
    """The row at a position, one at a time."""
    length = len(owned[client])
    if isinstance(rule, Replacement):
        return owned[client][
            int(uniform(seed, Purpose.STREAM, position, client) * length)
        ]
    first = position // length * length
    draws = [
        float(uniform(seed, Purpose.STREAM, first + i, client)) for i in range(length)
    ]
    if isinstance(rule, MarkovStream):
        cut, inside = (
            [
                float(uniform(seed, Purpose.STREAM_RUN, 2 * (first + i) + j, client))
                for i in range(length)
            ]
            for j in (0, 1)
        )
        runs = []
        for label in sorted(set(LABELS[owned[client]].tolist())):
            own = [i for i in range(length) if LABELS[owned[client][i]] == label]
            head = min(own, key=cut.__getitem__)
            for i in [head, *sorted({*own} - {head}, key=inside.__getitem__)]:
                if i == head or cut[i] < 1 / rule.mixing:
                    runs.append([])
                runs[-1].append(i)
        return owned[client][
            [i for run in sorted(runs, key=lambda run: draws[run[0]]) for i in run][
                position - first
            ]
        ]
    return owned[client][sorted(range(length), key=draws.__getitem__)[position - first]]


@given(
    st.sampled_from(RULES),
    st.integers(0, 3),
    st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=8),
        min_size=1,
        max_size=4,
    ),
)
def test_many_positions_at_once_are_those_one_by_one(rule, seed, rounds):
    owned = [*OWNED, np.array([11])]
    stream = Stream(owned, seed, rule, LABELS)
    for asked in (
        rounds
    ):  # one after the other: what is kept from one call must be right in the next
        clients, positions = np.array(asked, dtype=np.int64).reshape(-1, 2).T
        served = stream.at(clients, positions)
        assert served.rows.tolist() == [
            plainly(owned, seed, rule, *each) for each in asked
        ]
        assert np.array_equal(rows(stream)[served.samples], served.rows)


# streams whose next sample depends on the last one


@given(
    st.integers(0, 50),
    st.sampled_from([1, 1.5, 7, 1e6]),
    st.lists(st.integers(0, 4), min_size=1, max_size=60).map(np.array),
)
def test_every_pass_has_every_image_once_and_every_class_in_its_share(
    seed, mixing, labels
):
    """So nothing comes again before its class is used up; with a mixing time of 1 it is
    `reshuffle`.
    """
    n = len(labels)
    came = samples(
        Stream([np.arange(n)], seed, MarkovStream(mixing), labels), 0, 0, 4 * n
    ).reshape(4, n)
    assert (np.sort(came, axis=1) == np.arange(n)).all()
    runs = 1 + (np.diff(labels[came], axis=1) != 0).sum(axis=1)
    assert mixing < 1e6 or (runs == len(set(labels.tolist()))).all()
    assert mixing > 1 or np.array_equal(
        came.ravel(), samples(Stream([np.arange(n)], seed), 0, 0, 4 * n)
    )


@pytest.mark.parametrize("mixing", [1, 4, 20, 100])
def test_classes_forget_as_a_chain_with_that_mixing_time_does(mixing):
    """Correlation (1 − 1/mixing)^k at lag k; and either half of a pass has the client's
    shares.
    """
    share = np.array([0.5, 0.3, 0.2])
    labels = np.repeat(np.arange(3), (20_000 * share).astype(int))
    streams = [
        Stream([np.arange(20_000)], seed, MarkovStream(mixing), labels)
        for seed in range(6)
    ]
    came = np.stack([labels[samples(stream, 0, 0, 20_000)] for stream in streams])
    by_chance = (share**2).sum()
    for k in (1, 2, 10, 40, 200):
        same = (came[:, k:] == came[:, :-k]).mean()
        assert (same - by_chance) / (1 - by_chance) == pytest.approx(
            (1 - 1 / mixing) ** k, abs=0.04
        ), k
    for half in (came[:, :10_000], came[:, 10_000:]):
        assert np.bincount(half.ravel()) / half.size == pytest.approx(share, abs=0.03)


def test_what_is_kept_of_passes_stays_small(monkeypatch):
    monkeypatch.setattr(streams, "KEPT", 50)
    stream, other = Stream(OWNED, 4), Stream(OWNED, 4)
    both, most = np.array([0, 0, 1, 1]), 0
    for t in range(200):
        positions = np.array([2 * t, 2 * t + 1, 3 * t, 3 * t + 1])
        assert np.array_equal(
            stream.at(both, positions).rows,
            other.at(both[::-1], positions[::-1]).rows[::-1],
        )
        most = max(most, sum(map(len, stream._orders.values())))
    assert 30 < most <= 50


@given(
    st.integers(1, 30),
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 29), st.integers(0, 60)), max_size=20),
)
def test_owners_worked_out_when_wanted_serve_the_same(clients, seed, asked):
    labels = np.arange(70) * 7919 % 70 % 7
    rule = Pairs(per_class=4)
    written, lazy = (
        Stream(own(labels, clients, seed, {}), seed)
        for own in (rule.split, rule.owners)
    )
    assert np.array_equal(written.lengths, lazy.lengths)
    assert np.array_equal(rows(written), rows(lazy))
    who, where = (
        np.array([each for each in asked if each[0] < clients], dtype=np.int64)
        .reshape(-1, 2)
        .T
    )
    for ours, theirs in zip(written.at(who, where), lazy.at(who, where), strict=True):
        assert np.array_equal(ours, theirs)
