import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.control.policies.budgeted.base import divided, fair

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


def plainly_divided(total, wanted, places):
    """Whole parts first; then one by one to whom most is missing, round by round, the first client of equals first."""
    size, clients = sum(wanted), range(len(wanted))
    due = [total * each / size if size else 0.0 for each in wanted]
    whole = [min(int(due[m] + 1e-9), places[m]) for m in clients]
    while left := total - sum(whole):
        short = sorted((m for m in clients if whole[m] < places[m]), key=lambda m: whole[m] - due[m])
        for m in short[:left]:
            whole[m] += 1
    return whole


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=4, max_size=4), min_size=2, max_size=2), st.tuples(*[st.floats(0, 3)] * 2)
)
@example([[0, 0, 0, 4], [0, 0, 1, 0]], (1.0, 3.0))
def test_a_whole_total_is_divided_as_is_wanted_within_the_places(rows, parts):
    wanted = np.minimum(np.array(rows) / 8, BUFFER)
    most = int(BUFFER.sum())
    totals = [min(int(np.ceil(part * (row.sum() or most))), most) for part, row in zip(parts, wanted, strict=True)]
    found = divided(np.array(totals, dtype=float), wanted, BUFFER)
    assert found.tolist() == [plainly_divided(*each, BUFFER.tolist()) for each in zip(totals, wanted.tolist(), strict=True)]
