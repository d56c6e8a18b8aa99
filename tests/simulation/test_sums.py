"""Sums that depend on nothing but the row itself."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from headgate.simulation.nets import sum_of_each


@given(st.integers(0, 300), st.integers(1, 5), st.integers(0, 2**31))
def test_the_sum_of_a_row_is_its_own(many, rows, seed):
    table = torch.randn(rows, many, generator=torch.Generator().manual_seed(seed)) * 100
    together = sum_of_each(table)
    for row, found in zip(table, together, strict=True):
        assert sum_of_each(row[None])[0] == found
        assert math.isclose(found, math.fsum(row.tolist()), rel_tol=1e-12, abs_tol=1e-9)
