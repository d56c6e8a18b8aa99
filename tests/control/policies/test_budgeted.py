"""What a buyer makes of a share of the places; test_headgate_rule.py judges what it
buys, and what round 1 may cost.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.control import System
from headgate.control.policies import Headgate
from headgate.control.policies.budgeted.base import BudgetedPolicy, divided, fair
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse
from headgate.errors import SettingError

from ..playing import played


@dataclass(frozen=True, eq=False, kw_only=True)
class Says(BudgetedPolicy):
    said: list

    def wanted(self, view, memory):
        return np.array(self.said), memory


def first_round(shares, **settings):
    return next(
        played(
            System(np.array([3, 5]), 9.0, 10),
            Says(said=shares, **settings),
            [[[1.0, 2.0]]],
        )
    )


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        (
            [0.5, 0.5],
            r"shares of shape \(2,\) for 1 runs and 2 clients; needs \(1, 2\)",
        ),
        ([[0.5, 1.7]], "a share of 1.7 of the places; must lie between 0 and 1"),
        ([[-0.2, 0.9]], "a share of -0.2 of"),
        ([[-0.6, 1.3]], "a share of -0.6 of"),  # the worst is named
        ([[-0.2, 2.0]], "a share of 2 of"),
        ([[0.5, np.nan]], "a share of nan of"),
        ([[1.0, 1.0 + 1e-8]], "a share of 1 of"),
    ],
)
def test_shares_that_cannot_be_meant_are_refused(shares, message):
    with pytest.raises(SettingError, match=message):
        first_round(shares)


def test_what_rounding_adds_to_a_share_is_not_refused():
    assert first_round([[0.0, 1.0 + 1e-9]], fairness=1.0, fill=0.0)[
        0
    ].admitted.tolist() == [[0, 5]]


@pytest.mark.parametrize(
    ("days", "setting", "money"),
    [
        (365, {}, 2000.0),
        (365, {"fill": 5.0}, 2500.0),
        (365, {"smooth": 0.25}, 2000.0),
        (6, {}, 1500.0),
    ],
)
def test_the_first_day_costs_at_most_four_days_budgets(days, setting, money):
    """200 cameras with 500 places each, $500 a day, labels from $0.10 to $10. In six
    days it costs half of the money.
    """
    system, policy = System(np.full(200, 500), 500.0, days), Headgate(**setting)
    first = rehearse(system, policy, Uniform(0.1, 10.0), np.arange(20), 1).spend
    assert (
        money - 10 < first.min() < first.max() <= policy.money_to_fill(system) == money
    )


PLACES = np.array([3, 1, 7, 4])
SHARES = st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4)


@given(st.lists(SHARES, min_size=1, max_size=30), st.floats(0.0, 1.0))
def test_shares_stay_within_their_bands_whatever_is_wanted(rounds, tolerance):
    bought = np.zeros((1, 4))
    due = PLACES / PLACES.sum()
    for shares in rounds:
        wanted = np.array([shares]) * PLACES
        given = fair(wanted, bought, PLACES, tolerance)
        assert given.sum() == pytest.approx(wanted.sum())
        assert np.all(given >= -1e-9)
        assert np.all(given <= PLACES + 1e-9)
        bought = bought + given
        total = bought.sum()
        assert np.all(np.abs(bought - due * total) <= tolerance * due * total + 1e-9)


def plainly_divided(total, wanted, places):
    """Whole parts first; then one by one to whom most is missing, round by round, the
    first client of equals first.
    """
    size, clients = sum(wanted), range(len(wanted))
    due = [total * each / size if size else 0.0 for each in wanted]
    whole = [min(int(due[m] + 1e-9), places[m]) for m in clients]
    while left := total - sum(whole):
        short = sorted(
            (m for m in clients if whole[m] < places[m]),
            key=lambda m: whole[m] - due[m],
        )
        for m in short[:left]:
            whole[m] += 1
    return whole


@given(
    st.lists(
        st.lists(st.integers(0, 40), min_size=4, max_size=4), min_size=2, max_size=2
    ),
    st.tuples(*[st.floats(0, 3)] * 2),
)
@example([[0, 0, 0, 4], [0, 0, 1, 0]], (1.0, 3.0))
def test_a_whole_total_is_divided_as_is_wanted_within_the_places(rows, parts):
    wanted = np.minimum(np.array(rows) / 8, PLACES)
    most = int(PLACES.sum())
    totals = [
        min(int(np.ceil(part * (row.sum() or most))), most)
        for part, row in zip(parts, wanted, strict=True)
    ]
    found = divided(np.array(totals, dtype=float), wanted, PLACES)
    assert found.tolist() == [
        plainly_divided(*each, PLACES.tolist())
        for each in zip(totals, wanted.tolist(), strict=True)
    ]
