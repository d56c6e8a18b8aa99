import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.policies.buying.fairness import fair

BUFFER = np.array([3, 1, 7, 4])
SHARES = st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4)


@given(st.lists(SHARES, min_size=1, max_size=30), st.floats(0.0, 1.0))
def test_shares_stay_within_their_bands_whatever_is_wanted(rounds, tolerance):
    bought = np.zeros((1, 4))
    due = BUFFER / BUFFER.sum()
    for shares in rounds:
        wanted = np.array([shares]) * BUFFER
        given = fair(wanted, bought, BUFFER, tolerance)
        assert given.sum() == pytest.approx(wanted.sum())
        assert np.all(given >= -1e-9)
        assert np.all(given <= BUFFER + 1e-9)
        bought = bought + given
        total = bought.sum()
        assert np.all(np.abs(bought - due * total) <= tolerance * due * total + 1e-9)


def test_without_tolerance_everybody_gets_the_share_of_their_buffer():
    given = fair(np.array([[3.0, 0.0, 0.0, 0.0]]), np.zeros((1, 4)), BUFFER, 0.0)
    assert given == pytest.approx((BUFFER / 5)[None])


def test_with_room_in_all_bands_what_is_wanted_is_given():
    wanted = np.array([[3.0, 1.0, 0.0, 4.0]])
    assert fair(wanted, BUFFER[None] * 100, BUFFER, 0.2) == pytest.approx(wanted)
    assert fair(np.zeros((1, 4)), np.zeros((1, 4)), BUFFER, 0.2) == pytest.approx(np.zeros((1, 4)))
