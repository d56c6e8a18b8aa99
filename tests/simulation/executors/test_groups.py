"""Clients in groups of about the same size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate_kernels.batched import grouped


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=12),
    st.sampled_from([0.0, 3.0, 25.0, 1e6]),
)
def test_groups_hold_every_sample_once_and_fill_up_no_more_than_pays(sizes, overhead):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    groups = grouped(offsets, np.flatnonzero(sizes), overhead)
    seen = [int(row) for group in groups for row in group.rows[group.real]]
    assert sorted(seen) == list(range(offsets[-1]))
    for group in groups:
        assert group.rows.shape[1] == max(sizes[member] for member in group.members)
        for member, rows, real in zip(*group, strict=True):
            assert real.sum() == sizes[member]
            assert (
                (rows >= offsets[member]) & (rows < offsets[member + 1])
            ).all()  # it fills up with the client's own
    filled_up = [group.real.size - group.real.sum() for group in groups]
    assert all(rows <= overhead for rows in filled_up)
    for rows, group, following in zip(filled_up, groups, groups[1:], strict=False):
        assert rows + group.rows.shape[1] - following.rows.shape[1] > overhead
