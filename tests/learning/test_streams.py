import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import SettingError
from headgate.learning.streams import Stream, UseCounts

OWNED = [np.array([5, 7, 9]), np.array([1, 2, 3, 4, 6, 8])]


def test_reshuffle_passes_over_everything_each_time_in_a_new_order():
    stream = Stream(OWNED, seed=4, kind="reshuffle")
    passes = [stream.samples(1, 6 * p, 6 * p + 6) for p in range(8)]
    assert all(sorted(stream.rows[p]) == [1, 2, 3, 4, 6, 8] for p in passes)
    assert len({tuple(p) for p in passes}) > 4


@pytest.mark.parametrize("kind", ["reshuffle", "replacement"])
def test_a_position_does_not_depend_on_how_it_is_asked_for(kind):
    forward, backward = Stream(OWNED, 4, kind), Stream(OWNED, 4, kind)
    late = backward.samples(0, 20, 25)
    assert np.array_equal(forward.samples(0, 0, 25)[20:], late)
    assert np.array_equal(backward.samples(0, 0, 5), forward.samples(0, 0, 5))
    assert not np.array_equal(Stream(OWNED, 5, kind).samples(1, 0, 30), forward.samples(1, 0, 30))


def test_replacement_draws_evenly():
    stream = Stream(OWNED, 1, "replacement")
    counts = np.unique(stream.samples(1, 0, 6000), return_counts=True)[1]
    assert counts.shape == (6,)
    assert abs(counts - 1000).max() < 150


def test_stop_ends_after_one_pass():
    stream = Stream(OWNED, 1, "stop")
    assert stream.lengths.tolist() == [3, 6]
    assert sorted(stream.rows[stream.samples(0, 0, 3)]) == [5, 7, 9]
    with pytest.raises(SettingError, match="client 0: its stream ends after 3 samples"):
        stream.samples(0, 0, 4)
    with pytest.raises(SettingError, match=r"data.stream = loop"):
        Stream(OWNED, 1, "loop")


@given(st.lists(st.lists(st.integers(0, 11), max_size=15), max_size=12))
def test_use_counts_are_the_plain_ones(rounds):
    uses, plain = UseCounts(2, 12), np.zeros(12, dtype=int)
    for samples in rounds:
        uses.use(1, np.array(samples, dtype=np.int64))
        for sample in samples:
            plain[sample] += 1
    assert uses.counts[1].tolist() == plain.tolist()
    assert not uses.counts[0].any()
    for each in (uses, UseCounts.restored(uses.counts)):
        assert (each.distinct[1], each.total[1], each.squares[1]) == ((plain > 0).sum(), plain.sum(), (plain**2).sum())
