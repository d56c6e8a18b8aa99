"""Whole samples: sums are exact, shares stay within one sample, nothing is lost."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.control.apportion import MOST_SORTED, _smallest, apportion, whole_total

shares = (
    st.lists(st.integers(0, 30), min_size=1, max_size=12)
    .filter(any)
    .map(lambda w: np.array(w, dtype=np.int64))
)
totals = st.lists(st.integers(0, 60), min_size=1, max_size=60)


@given(
    shares,
    st.lists(
        st.tuples(st.integers(0, 60), st.sets(st.integers(0, 11))),
        min_size=1,
        max_size=30,
    ),
)
@example(np.array([3, 3, 3, 3]), [(2, set()), (5, {0, 1}), (22, {3})])  # away, owed one
@example(np.ones(8, int), [(2, set()), (3, {2, 3, 4, 5, 6, 7})])  # two there take three
def test_who_is_away_keeps_its_credit_and_the_others_share_its_part(weights, rounds):
    credit, whole = np.zeros((1, len(weights)), dtype=np.int64), int(weights.sum())
    for total, away in rounds:
        there = np.where(np.isin(np.arange(len(weights)), list(away)), 0, weights)
        given_, after = apportion(
            np.array([total if there.any() else 0]), credit, there, whole=whole
        )
        assert given_.sum() == total * there.any()
        assert not given_[0, there == 0].any()
        assert np.array_equal(after[0, there == 0], credit[0, there == 0])
        assert after.sum() == 0
        part = total * whole * there / max(there.sum(), 1)
        assert np.all(np.abs(after - credit + given_ * whole - part) <= 1)
        credit = after


@given(shares, totals)
def test_sums_are_exact_and_every_client_stays_within_one_sample(weights, sizes):
    credit = np.zeros((1, len(weights)), dtype=np.int64)
    got, whole, so_far = np.zeros(len(weights), dtype=np.int64), int(weights.sum()), 0
    for total in sizes:
        given_, credit = apportion(np.array([total]), credit, weights)
        assert given_.sum() == total
        assert np.all(given_ >= 0)
        got, so_far = got + given_[0], so_far + total
        assert np.array_equal(
            credit[0], so_far * weights - got * whole
        )  # the credit is the exact difference
        assert np.all(np.abs(credit) < whole)  # in samples: below one
        assert np.all(got[weights == 0] == 0)


@given(st.lists(st.floats(0, 20), min_size=1, max_size=60))
@example([0.1] * 10)  # which is one sample
def test_whole_samples_follow_the_real_ones_with_less_than_one_left_over(asked):
    carry, got = np.zeros(1), 0
    for i, wish in enumerate(asked):
        total, carry, _ = whole_total(np.array([wish]), carry)
        got += int(total[0])
        assert -1e-6 < carry[0] < 1
        assert got == math.floor(math.fsum(asked[: i + 1]) + 1e-9)


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=6).filter(any), st.integers(1, 60)
)
def test_each_sample_goes_to_whom_the_next_is_due_earliest(weights, count):
    """The sample after its first g is due to a client at (g + 1)·Σ shares/share; it may
    have it once it is owed part of it.
    """
    whole, got = sum(weights), [0] * len(weights)
    credit = np.zeros((1, len(weights)), dtype=np.int64)
    for handed_out in range(1, count + 1):
        due = {
            m: Fraction((got[m] + 1) * whole, own)
            for m, own in enumerate(weights)
            if own * handed_out > got[m] * whole
        }
        got[min(due, key=lambda m: (due[m], m))] += 1
        _, credit = apportion(np.array([1]), credit, np.array(weights))
        assert (
            handed_out * np.array(weights) - np.array(got) * whole
        ).tolist() == credit[0].tolist()


def one_at_a_time(total, credit, shares, room):
    """As `apportion` serves whole credits, the largest first, and hands out what room
    turned away; one sample a step.
    """
    owed, whole = credit + total * shares, int(shares.sum())
    given_ = np.minimum(np.maximum(owed // whole, 0), room)
    for m in sorted(range(len(owed)), key=lambda m: (owed[m], -m)):
        given_[m] -= min(given_[m], max(given_.sum() - total, 0))
    left = int(total - given_.sum())
    while left > 0:
        rest = owed - given_ * whole
        open_to_more = (shares > 0) & (given_ < room)
        due = np.where(open_to_more, (whole - rest) / np.maximum(shares, 1), np.inf)
        entitled = open_to_more & (rest > 0)
        due = np.where(entitled | (left > entitled.sum()), due, np.inf)
        chosen = np.argsort(due, kind="stable")[
            : min(left, int(np.isfinite(due).sum()))
        ]
        given_[chosen] += 1
        left -= chosen.size
    return given_


ROOMS = st.lists(
    st.one_of(st.integers(0, 3), st.integers(0, 200)), min_size=12, max_size=12
)


@given(
    shares,
    st.lists(
        st.tuples(ROOMS, st.one_of(st.integers(0, 9), st.integers(0, 2000))),
        min_size=1,
        max_size=6,
    ),
)
@example(np.array([1, 10**6]), [([10**9, 1], 10**9)])  # at once, not one by one
def test_what_room_turns_away_is_handed_out_at_once_as_one_by_one(weights, rounds):
    """Round after round: who was kept back is owed samples and others are ahead."""
    credit = np.zeros((1, len(weights)), dtype=np.int64)
    for places, wanted in rounds:
        room = np.array(places[: len(weights)])
        total = min(wanted, int(room[weights > 0].sum()))
        given_, after = apportion(np.array([total]), credit, weights, room[None])
        assert given_.sum() == total
        assert np.all((given_ >= 0) & (given_ <= room))
        assert (
            wanted > 2000
            or given_[0].tolist()
            == one_at_a_time(total, credit[0], weights, room).tolist()
        )
        assert np.array_equal(after, credit + total * weights - given_ * weights.sum())
        credit = after


@pytest.mark.parametrize("clients", [MOST_SORTED, MOST_SORTED + 1])
@given(seed=st.integers(0, 2**32 - 1))
def test_many_clients_are_served_as_if_all_were_sorted(clients, seed):
    """Above `MOST_SORTED` clients the edge is searched for; the choice is that of a
    sort, the first of equals first.
    """
    rng = np.random.default_rng(seed)
    values = rng.choice([1.0, 2.0, 3.0, np.inf], (3, clients))
    count = rng.integers(0, MOST_SORTED + 5, 3)
    expected = np.zeros(values.shape, dtype=np.int64)
    for row, most, chosen in zip(values, count, expected, strict=True):
        order = sorted(range(clients), key=lambda m: (row[m], m))
        chosen[[m for m in order[:most] if row[m] < np.inf]] = 1
    assert np.array_equal(_smallest(values, count), expected)


@pytest.mark.parametrize(
    ("asked", "most", "expected"),
    [(1000.0, 100, (100, 0.0, 99.5)), (5.0, 0, (0, 0.5, 0.0))],
)
def test_what_lies_beyond_the_limit_lapses(asked, most, expected):
    assert (
        tuple(
            each[0]
            for each in whole_total(
                np.array([asked]), np.array([0.5]), np.array([most])
            )
        )
        == expected
    )


@pytest.mark.parametrize("with_room", [False, True])
@given(st.integers(0, 2**32 - 1))
def test_rows_do_not_meet(with_room, seed):
    """Some have less to give than whole credits ask for, some fill up, some hand out a
    few, some nothing.
    """
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, 7)
    weights[0] = 1
    credit = np.zeros((6, 7), dtype=np.int64)
    alone = [np.zeros((1, 7), dtype=np.int64) for _ in range(6)]
    for _ in range(12):
        room = rng.integers(0, rng.choice([2, 9, 40], (6, 1)), (6, 7))
        total = (
            room[:, weights > 0].sum(axis=-1) * rng.choice([0.0, 0.1, 0.5, 1.0], 6)
        ).astype(np.int64)
        given_, credit = apportion(total, credit, weights, room if with_room else None)
        assert np.array_equal(given_.sum(axis=-1), total)
        for r in range(6):
            row = slice(r, r + 1)
            own, alone[r] = apportion(
                total[row], alone[r], weights, room[row] if with_room else None
            )
            assert np.array_equal(own[0], given_[r])
