"""Since when places are taken, beside one sample after the other."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, System
from headgate.control.files import load_ledger, save_ledger
from headgate.control.policies import Headgate
from headgate.control.slot_ages import Windows, by_client, by_place, kind_of, renewed


@st.composite
def windows(draw, places=(1, 2, 5, 12, 130)):
    """Places since when they are taken, limits, what clients held and hold, of some runs and clients, and the round."""
    runs, limit = draw(st.integers(1, 3)), np.array(draw(st.lists(st.sampled_from(places), min_size=1, max_size=9)))
    shape = runs, len(limit)
    rng, t = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.sampled_from([1, 127, 128, 1001, 40_000]))
    born = rng.integers(0, t, (*shape, limit.max())).astype(draw(st.sampled_from([kind_of(t), np.int32])))
    old = rng.choice([0, 2**32, *rng.integers(0, draw(st.sampled_from([50, 2**33, 2**52])), 5)], shape)
    full = draw(st.booleans())
    end = old + (limit if full else rng.integers(0, limit + 1, shape))
    last = end + rng.integers(0, draw(st.sampled_from([2, 13, 300])), shape) * rng.integers(0, 2, shape)
    first = np.maximum(last - limit, old + (0 if full else rng.integers(0, 2, shape) * rng.integers(0, end - old + 1)))
    return born, t, limit, Windows(old, end), Windows(first, last)


def one_after_the_other(born, t, limit, held, holds):
    """Since when each place is taken, how many left, since when they were there, and how many came and went."""
    after, sums = born.astype(np.int32), np.zeros((3, len(born)), dtype=np.int64)
    for r, m in np.ndindex(held.begin.shape):
        old, end, first, last = (int(each[r, m]) for each in (*held, *holds))
        for i in range(old, min(end, first)):
            sums[:2, r] += 1, born[r, m, i % limit[m]]
        for i in range(max(end, first), last):
            after[r, m, i % limit[m]] = t
        sums[2, r] += max(first - end, 0)
    return after, *sums


@settings(max_examples=150)
@given(windows(), st.booleans())
def test_it_is_one_sample_after_the_other(given, places_first):
    born, t, *others = given
    before, whole = born.copy(), by_client(by_place(born)) if places_first else born
    found = renewed(whole, t, *others)
    assert found.born.dtype == kind_of(t)
    for own, expected in zip(found, one_after_the_other(*given), strict=True):
        assert np.array_equal(own, expected)
    assert np.array_equal(whole, before)


def test_rounds_are_held_in_the_narrowest_type_and_read_from_a_file_in_any(tmp_path):
    controller = Controller(System(np.array([3, 5]), 1000.0, 200), Headgate())
    ledger, kinds, known = controller.open(), [], set()
    for t in range(1, 131):
        ledger = controller.post(ledger, controller.decide(ledger, 1.0 + t % 3))
        kinds.append(ledger.contents.born.dtype)
        known |= set(ledger.contents.born.ravel().tolist())
        if t in (3, 130):
            save_ledger(ledger, tmp_path / "ledger")
            again = load_ledger(tmp_path / "ledger", controller)
            assert np.array_equal(again.contents.born, ledger.contents.born)
            follows = [controller.post(each, controller.decide(each, 1.0)) for each in (ledger, again)]
            assert np.array_equal(*(each.contents.born for each in follows))
            assert np.array_equal(*(each.uses for each in follows))
            assert len({each.contents.born.dtype for each in follows}) == 1
    assert kinds == [np.int8] * 127 + [np.int16] * 3
    assert max(known) == 130
