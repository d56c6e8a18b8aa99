import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.learning.purchases import UseCounts


@given(rounds=st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 11)), max_size=15), max_size=12))
def test_use_counts_are_the_plain_ones(rounds):
    """Also from a saved table."""
    counts, plain = UseCounts(3, 12), np.zeros((3, 12), dtype=int)
    for used in rounds:
        runs, samples = np.array(used, dtype=np.int64).reshape(-1, 2).T
        counts.use(runs, samples)
        np.add.at(plain, (runs, samples), 1)
        assert (counts.distinct.tolist(), counts.total.tolist(), counts.squares.tolist()) == (
            (plain > 0).sum(axis=1).tolist(),
            plain.sum(axis=1).tolist(),
            (plain**2).sum(axis=1).tolist(),
        )
    keys, times = counts.table()
    assert keys.tolist() == np.flatnonzero(plain).tolist()
    assert times.tolist() == plain[plain > 0].tolist()
    again = UseCounts.restored(3, 12, keys, times)
    for name in ("distinct", "total", "squares"):
        assert np.array_equal(getattr(again, name), getattr(counts, name))
    more = np.array([0, 1]), np.array([3, 3])
    counts.use(*more)
    again.use(*more)
    assert all(np.array_equal(one, other) for one, other in zip(counts.table(), again.table(), strict=True))
