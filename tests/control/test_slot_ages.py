"""Since when places are taken, beside one sample after the other."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Fifo, System
from headgate.control.buffers import Buffers, kind_of
from headgate.control.files import load_ledger, save_ledger
from headgate.control.policies import Headgate
from headgate.control.types import Contents

from .playing import after, goes_on


@st.composite
def windows(draw, places=(1, 2, 5, 12, 130)):
    """Places since when they are taken, limits, what clients held and hold, of some
    runs and clients, and the round.
    """
    runs, limit = (
        draw(st.integers(1, 3)),
        np.array(draw(st.lists(st.sampled_from(places), min_size=1, max_size=9))),
    )
    shape = runs, len(limit)
    rng, t = (
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        draw(st.sampled_from([1, 127, 128, 1001, 40_000])),
    )
    born = rng.integers(0, t, (*shape, limit.max())).astype(
        draw(st.sampled_from([kind_of(t), np.int32]))
    )
    old = rng.choice(
        [0, 2**32, *rng.integers(0, draw(st.sampled_from([50, 2**33, 2**52])), 5)],
        shape,
    )
    full = draw(st.booleans())
    end = old + (limit if full else rng.integers(0, limit + 1, shape))
    last = end + rng.integers(
        0, draw(st.sampled_from([2, 13, 300])), shape
    ) * rng.integers(0, 2, shape)
    first = np.maximum(
        last - limit,
        old
        + (0 if full else rng.integers(0, 2, shape) * rng.integers(0, end - old + 1)),
    )
    return born, t, limit, (old, end), (first, last)


def one_after_the_other(born, t, limit, held, holds):
    """Since when each place is taken, how many came and went, and how often those that
    left were used.
    """
    after, unused, uses = (
        born.astype(np.int32),
        np.zeros(len(born), dtype=np.int64),
        np.zeros(len(born), dtype=np.int64),
    )
    for r, m in np.ndindex(held[0].shape):
        old, end, first, last = (int(each[r, m]) for each in (*held, *holds))
        for i in range(old, min(end, first)):
            uses[r] += t - born[r, m, i % limit[m]]
        for i in range(max(end, first), last):
            after[r, m, i % limit[m]] = t
        unused[r] += max(first - end, 0)
    return after, unused, uses


@settings(max_examples=150)
@given(windows(), st.booleans())
def test_it_is_one_sample_after_the_other(given, places_first):
    born, t, limit, (old, end), (first, last) = given
    before = born.copy()
    if places_first:
        born = np.moveaxis(np.ascontiguousarray(np.moveaxis(born, -1, 0)), 0, -1)
    runs = len(born)
    buffers = Buffers(Fifo(tuple(limit)), System(limit, 1.0), runs, np.arange(runs))
    contents, *counts = buffers.settle(
        SimpleNamespace(contents=Contents(born=born), dropped=old, admitted=end),
        t,
        first,
        last,
    )
    assert contents.born is born or contents.born.dtype == kind_of(t)
    for own, expected in zip(
        (contents.born, *counts), one_after_the_other(*given), strict=True
    ):
        assert np.array_equal(np.broadcast_to(own, expected.shape), expected)
    assert np.array_equal(born, before)


def test_rounds_are_held_in_the_narrowest_type_and_read_from_a_file_in_any(tmp_path):
    controller = Controller(System(np.array([3, 5]), 1000.0, 200), Headgate())
    ledgers = [ledger for _, ledger in goes_on(controller, 1.0 + np.arange(1, 131) % 3)]
    for ledger in (ledgers[2], ledgers[-1]):
        save_ledger(ledger, tmp_path / "ledger")
        one, other = (
            after(controller, [1.0], each)
            for each in (ledger, load_ledger(tmp_path / "ledger", controller))
        )
        assert np.array_equal(one.uses, other.uses)
        assert np.array_equal(one.contents.born, other.contents.born)
        assert one.contents.born.dtype == other.contents.born.dtype
    kinds = [ledger.contents.born.dtype for ledger in ledgers]
    assert kinds == [np.int8] * 127 + [np.int16] * 3
    assert ledger.contents.born.max() == 130
