"""A monthly budget holds whatever the clock says: a month never goes back, and its base
is what was spent when it began.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import Books, Delivery, System
from headgate.books import moments
from headgate.control.policies import Headgate
from headgate.errors import SettingError

from .kept import one_more, queries

MONTH = 100.0
DATES = [f"2026-{month:02}-{day:02}" for month in (10, 11, 12) for day in (1, 15, 28)]


def spent_by_month(folder, dates, report=lambda own, t: None):
    """What each calendar month cost, where a round counts in the later of its date's
    month and the latest so far.
    """
    cost, month = {}, ""
    with Books(
        folder, System([8, 9, 10], budget=40.0, horizon=60), Headgate(fill=8.0)
    ) as own:
        own.amend(month=MONTH)
        for t, when in enumerate(dates, 1):
            before = own.ledger.spent[0]
            own.begin(3.0, when=when)
            own.settle(report(own, t))
            month = max(month, when[:7])
            cost[month] = cost.get(month, 0.0) + float(own.ledger.spent[0] - before)
        own.audit()
    return cost


@pytest.mark.parametrize(
    ("dates", "costs"),
    [
        (["2026-11-01"] * 10 + ["2026-10-31"] + ["2026-11-02"] * 10, {"2026-11": 99.0}),
        (["2026-11-01", "2026-12-01"] * 10, {"2026-11": 81.0, "2026-12": 99.0}),
        (
            ["2026-11-01"] * 5 + ["2027-11-01"] * 5 + ["2026-11-02"] * 10,
            {"2026-11": 99.0, "2027-11": 99.0},
        ),
        (
            ["2026-11-01"] * 9
            + ["2026-12-01"] * 9
            + ["2026-11-30"] * 9
            + ["2026-12-02"],
            {"2026-11": 99.0, "2026-12": 99.0},
        ),
    ],
    ids=[
        "one step back",
        "to and fro",
        "a year ahead and back",
        "back at the end of a month",
    ],
)
def test_a_clock_that_steps_back_opens_no_month_again(place, dates, costs):
    assert spent_by_month(place, dates) == costs


@settings(max_examples=25)
@given(st.lists(st.sampled_from(DATES), min_size=1, max_size=25))
def test_no_month_costs_more_than_its_budget_in_whatever_order_dates_come(
    module_place, dates
):
    costs = spent_by_month(one_more(module_place), dates)
    assert max(costs.values()) <= MONTH


def test_two_names_of_one_moment_are_in_one_month(place):
    dates = ["2026-11-30T23:00:00-12:00", "2026-12-01T11:00:00+00:00"] * 6
    with Books(
        place, System([8, 9, 10], budget=40.0, horizon=60), Headgate(fill=8.0)
    ) as own:
        own.amend(month=MONTH)
        for when in dates:
            own.begin(3.0, when=when)
            own.settle()
        assert own.audit().spent <= MONTH
        assert {line.time for line in own.statement().lines} == {
            "2026-12-01T11:00:00+00:00"
        }


def test_the_clock_of_this_machine_may_step_back_too(place, monkeypatch):
    with Books(
        place, System([8, 9, 10], budget=40.0, horizon=60), Headgate(fill=8.0)
    ) as own:
        own.amend(month=MONTH)
        for now in ["2026-11-20T09:00:00+00:00"] * 8 + [
            "2026-10-31T09:00:00+00:00"
        ] * 8:
            monkeypatch.setattr("headgate.books.books.now", lambda now=now: now)
            own.begin(3.0)
            own.settle()
        assert own.audit().spent <= MONTH
    assert moments.now() > "2026"


def test_a_month_goes_on_after_the_accounts_are_opened_again(place):
    system = System([8, 9, 10], budget=40.0, horizon=60)
    for when in ["2026-11-01"] * 4 + ["2026-12-01"] * 4 + ["2026-11-30"] * 4:
        with Books(place, system, Headgate(fill=8.0)) as own:
            if not own.ledger.t:
                own.amend(month=MONTH)
            own.begin(3.0, when=when)
        with Books(
            place, system, Headgate(fill=8.0)
        ) as own:  # as after a kill between the two
            own.begin(9.0, when="2027-06-01")
            own.settle()
            assert own.audit().spent <= (2 if when > "2026-11-01" else 1) * MONTH


def test_samples_of_november_that_are_told_in_december_are_paid_in_december(place):
    """The limit of November keeps the money of its open orders, that of December pays
    for them.
    """

    def report(own, t):
        if t < 5:
            return {}
        if t > 5:
            return None
        return {
            client: Delivery(orders[1], round=1)
            for client, orders in own.under_way().items()
        }

    costs = spent_by_month(place, ["2026-11-01"] * 4 + ["2026-12-01"] * 10, report)
    assert costs["2026-11"] == 0.0
    assert 0 < costs["2026-12"] <= MONTH


def test_a_limit_that_is_lifted_holds_no_more(place):
    with Books(
        place, System([8, 9, 10], budget=40.0, horizon=60), Headgate(fill=8.0)
    ) as own:
        own.amend(month=50.0)
        own.begin(3.0, when="2026-11-01")
        own.settle()
        assert own.statement().spent <= 50
        own.amend(month=0)
        for _ in range(5):
            own.begin(1.0, when="2026-11-02")
            own.settle()
        assert own.audit().spent > 50


def test_begin_reads_no_past_round_to_find_the_month(place):
    """The cost of a month's limit does not grow: as many statements after 30 rounds as
    after three.
    """
    asked = []
    with Books(
        place, System([8, 9, 10], budget=40.0, horizon=60), Headgate(fill=8.0)
    ) as own:
        own.amend(month=MONTH)
        for _ in range(30):
            with queries(own) as found:
                own.begin(3.0, when="2026-11-01")
            own.settle()
            asked.append(found)
    assert len(asked[2]) == len(asked[29]) > 0
    after = [values[1] for query, values in asked[29] if "number >" in query]
    assert after
    assert min(after) >= 60, "no statement reads the entries of past rounds"


def test_a_wrong_year_does_not_end_a_monthly_budget(place):
    with Books(
        place, System([8, 9, 10], budget=40.0, horizon=60), Headgate(fill=8.0)
    ) as own:
        own.amend(month=50.0)
        own.begin(3.0, when="2026-11-01")
        own.settle()
        with pytest.raises(
            SettingError,
            match=(
                r"begin: when = 2926-11-01.*: is more than a year after the latest"
                r" round"
            ),
        ):
            own.begin(3.0, when="2926-11-01")
        own.begin(3.0, when="2026-12-01")
        own.settle()
        assert 50 < own.audit().spent <= 100


def test_other_amendments_leave_the_limit_of_a_month_as_it_is(place):
    with Books(
        place, System([8, 9, 10], budget=40.0, horizon=60), Headgate(fill=8.0)
    ) as own:
        own.amend(month=50.0)
        own.amend(money=100.0)
        for _ in range(5):
            own.begin(1.0, when="2026-11-01")
            own.settle()
        assert own.audit().spent <= 50
