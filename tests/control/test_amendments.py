"""Terms that change and clients that come and go: money, memory and supply are kept in
any order of events.
"""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Controller, System
from headgate.control.amendments import Amendment
from headgate.control.policies import Below, Constant, Headgate, Threshold
from headgate.control.policies.references import held
from headgate.control.retention import Reservoir
from headgate.control.supply import Supply
from headgate.errors import HeadgateError, LedgerError, SettingError

from .playing import after, goes_on

POLICIES = [
    Headgate(),
    Headgate(smooth=0.25, ahead=5.0),
    Headgate(remember=7, rule=Reservoir()),
    Threshold(limit=4.0, share=0.5),
    Below(),
    held(Constant(rate=10.0, K=3)),
]
CHANGES = st.one_of(
    st.builds(Amendment, money=st.integers(-400, 400).filter(bool)),
    st.builds(Amendment, horizon=st.one_of(st.integers(1, 60), st.just("open"))),
    st.builds(Amendment, budget=st.floats(1, 50)),
    st.builds(Amendment, join=st.integers(1, 12)),
    st.builds(Amendment, leave=st.integers(0, 9)),
    st.builds(Amendment, suspend=st.booleans()),
    st.builds(Amendment, adjust=st.floats(-30, 30).filter(bool)),
)
ROUND = st.tuples(
    st.floats(0.5, 10),
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.lists(CHANGES, max_size=2),
)


@given(
    st.sampled_from(POLICIES),
    st.sampled_from([None, 30]),
    st.lists(ROUND, min_size=1, max_size=25),
)
def test_after_any_events_spend_and_memory_keep_to_what_was_approved(
    policy, horizon, rounds
):
    controller = Controller(System([8, 3, 5], budget=20.0, horizon=horizon), policy)
    ledger, overdraft = controller.open(), getattr(policy, "overdraft", 0.0)
    for price, by_client, seed, changes in rounds:
        random = np.random.default_rng(seed)
        for change in changes:
            try:
                controller, ledger = controller.amend(ledger, change)
            except (
                HeadgateError
            ):  # as the last client that leaves; nothing has changed then
                continue
        clients, lot = controller.system.clients, int(random.integers(1, 4))
        supply = Supply(
            random.random(clients) < 0.6,
            random.integers(0, 9, clients),
            int(random.integers(0, 30)),
            lot,
        )
        prices = price * random.uniform(0.5, 2, (1, clients)) if by_client else price
        orders = controller.decide(ledger, prices, supply=supply)
        admitted, before = orders.admitted[0], ledger.spent[0]
        assert (admitted <= supply.most).all()
        assert not admitted[~supply.present].any()
        assert admitted.sum() <= supply.in_all
        assert not (admitted % lot).any()
        ledger = controller.post(ledger, orders)
        news = controller.system.amended
        assert not (news and news.suspended and admitted.any())
        assert ledger.spent[0] == before or ledger.spent[0] <= controller.system.money(
            ledger.t, overdraft
        )
        assert (ledger.occupancy <= controller.system.buffer).all()
        assert not (news and ledger.occupancy[0, list(news.left)].any())
        assert ledger.uses_in_memory[0] >= 0


def two_clients(policy=POLICIES[0]):
    return Controller(System([10, 10], budget=10.0, horizon=100), policy)


def test_with_client_sampling_the_whole_budget_is_used():
    random, controller = (
        np.random.default_rng(0),
        Controller(System([10] * 12, budget=20.0, horizon=200), Headgate()),
    )
    ledger, there = controller.open(), np.zeros(12, dtype=bool)
    for price in random.uniform(1, 10, 200):
        there[:] = False
        there[random.choice(12, 4, replace=False)] = True
        ledger = controller.post(
            ledger, controller.decide(ledger, price, present=there)
        )
    assert 0.98 * 4000 < ledger.spent[0] <= 4000
    assert ledger.admitted[0].min() > 0.5 * ledger.admitted[0].max()


def test_a_top_up_changes_nothing_before_it_and_is_spread_after_it():
    controller = two_clients(Below(quantile=1.0, fill=0))
    ledger = after(controller, [1.0] * 50)
    assert ledger.spent[0] == 500
    controller, ledger = controller.amend(ledger, Amendment(money=500.0))
    assert controller.system.budget == pytest.approx(20.0)
    assert [
        float(later.spent[0]) for _, later in goes_on(controller, [1.0] * 50, ledger)
    ] == list(range(520, 1501, 20))


def test_a_cut_below_what_is_spent_stops_purchases_and_reclaims_nothing():
    before = after(two_clients(), [1.0] * 10)
    controller, ledger = two_clients().amend(before, Amendment(money=-990.0))
    cut = after(controller, [1.0], ledger)
    assert cut.spent[0] == before.spent[0] > controller.system.money(11)
    controller, ledger = controller.amend(cut, Amendment(money=500.0))
    assert controller.decide(ledger, 1.0).admitted.any()


@pytest.mark.parametrize("taken", [-1000.0, -999.0])
def test_money_that_is_taken_back_before_round_1_is_not_spent_in_it(taken):
    controller = two_clients(Headgate())
    ledger = controller.open()
    controller, ledger = controller.amend(ledger, Amendment(money=taken))
    spent = after(controller, [0.5, 0.5], ledger).spent[0]
    assert spent <= 1000.0 + taken


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "changes nothing"),
        ({"money": -1001.0}, "takes back more than the 1000"),
        ({"horizon": 1}, "horizon = 1: round 2 is over"),
        ({"budget": 5.0}, "budget = 5: can be amended where the end is open"),
        ({"leave": 2}, "leave = 2: is not a client"),
        (
            {"weight": 2.0},
            "weight = 2: is for a client that joins; name its places with join",
        ),
        ({"join": 0}, "join = 0: must be a whole number from 1 to 1,000,000,000"),
        ({"money": float("nan")}, "money = nan: must be a finite number"),
        ({"adjust": -21.0}, "adjust = -21: is more than the 20 that were spent"),
    ],
)
def test_what_cannot_be_is_refused(change, said):
    controller = two_clients(Below(quantile=1.0, fill=0))
    with pytest.raises(LedgerError if "adjust" in change else SettingError, match=said):
        controller.amend(after(controller, [1.0] * 2), Amendment(**change))


@pytest.mark.parametrize(
    ("supply", "said"),
    [
        (Supply(present=[True]), "present: must be true or false for each of 2"),
        (Supply(most=[1, 2, 3]), "most: must be one number, or one for each of 2"),
        (Supply(in_all=-1), "in_all = -1: must be a whole number, 0 or more"),
        (Supply(lot=0), "lot = 0: must be a whole number, 1 or more"),
    ],
)
def test_a_supply_that_cannot_be_is_refused(supply, said):
    controller = two_clients()
    with pytest.raises(SettingError, match=said):
        controller.decide(controller.open(), 1.0, supply=supply)


def test_the_samples_of_a_client_that_left_are_counted_no_more():
    """Their uses are counted one by one: one in each round from the admission on."""
    controller = Controller(
        System([10, 4], budget=10.0, horizon=100), Below(quantile=1.0, fill=0)
    )
    ledger, uses = controller.open(), [defaultdict(int), defaultdict(int)]

    def in_memory(client):
        held = range(ledger.dropped[0, client], ledger.admitted[0, client])
        return sum(uses[client][sample] for sample in held)

    for orders, after_it in goes_on(controller, [1.0, 3.0, 2.0, 1.0], ledger):
        ledger = after_it
        for own, first, last in zip(uses, orders.first[0], orders.last[0], strict=True):
            for sample in range(first, last):
                own[sample] += 1
    assert ledger.uses_in_memory[0] == in_memory(0) + in_memory(1)
    assert in_memory(0) > 0 < in_memory(1)
    _, ledger = controller.amend(ledger, Amendment(leave=0))
    assert ledger.uses_in_memory[0] == in_memory(1)
