"""Clients in groups of about the same size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.simulation.executors.types import grouped

sizes_and_overheads = given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.sampled_from([0.0, 3.0, 25.0, 1e6]))


@sizes_and_overheads
def test_groups_hold_every_sample_once_and_fill_up_with_the_client_s_own(sizes, overhead):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    groups = grouped(offsets, np.flatnonzero(sizes), overhead)
    seen = [int(row) for group in groups for row in group.rows[group.real]]
    assert sorted(seen) == list(range(offsets[-1]))
    for group in groups:
        assert group.rows.shape[1] == max(sizes[member] for member in group.members)
        for member, rows, real in zip(*group, strict=True):
            assert real.sum() == sizes[member]
            assert ((rows >= offsets[member]) & (rows < offsets[member + 1])).all()


def cheapest(sizes, overhead):
    """The least cost of all ways to cut, by trying each first cut."""
    if not sizes:
        return 0.0
    return min(cut * sizes[cut - 1] + overhead + cheapest(sizes[cut:], overhead) for cut in range(1, len(sizes) + 1))


@given(st.lists(st.integers(1, 20), max_size=9), st.sampled_from([0.0, 3.0, 25.0]))
def test_no_other_groups_waste_less(sizes, overhead):
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    groups = grouped(offsets, np.arange(len(sizes)), overhead)
    assert sum(group.rows.size + overhead for group in groups) == pytest.approx(cheapest(sorted(sizes), overhead))
