"""The policies with a purse: one guarantee for all of them, and each one's own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Losses, Report, System
from headgate.control.policies import (
    KINDS,
    Acdpp,
    Alert,
    Below,
    Constant,
    Dpp,
    Headgate,
    Threshold,
)
from headgate.control.policies.budgeted.base import BudgetedPolicy
from studies.zoo.plain import Pacing, Random, Resolving

from ..playing import played

MAKERS = {
    "headgate": Headgate,
    "headgate, half of the places": lambda **common: Headgate(turnover=0.5, **common),
    "headgate, latest prices": lambda **common: Headgate(remember=3, **common),
    "threshold": lambda **common: Threshold(limit=4.0, share=0.5, **common),
    "below": Below,
    "resolving": Resolving,
    "pacing": Pacing,
    "random": lambda **common: Random(chance=0.3, **common),
    "alert": Alert,
    "alert, often": lambda **common: Alert(false_alarms=1e9, probe=0.4, **common),
}
PER_CLIENT_MAKERS = tuple(name for name in MAKERS if name not in ("pacing", "random"))
HELD = {"K": 4, "capacity": "buffer", "purse": True}
WITH_A_PURSE = {
    "acdpp": Acdpp(rate=3.0, burst="buffer", **HELD),
    "acdpp, V": Acdpp(rate=3.0, V=1e6, rho=0.999, burst="buffer", **HELD),
    "dpp": Dpp(V=1e6, **HELD),
    "constant": Constant(rate=6.5, **HELD),
}


def test_every_kind_with_a_purse_is_tried():
    """But the one that is told all prices beforehand."""
    kinds = {name for name, kind in KINDS.items() if issubclass(kind, BudgetedPolicy)}
    assert kinds - {"clairvoyant"} <= set(MAKERS)


PRICE = st.one_of(
    st.sampled_from([0.0, 2.3e-308, 1e-12, 0.1, 1 / 3, 1.0, 5.5, 10.0, 1e9]),
    st.floats(0.0, 20.0, allow_subnormal=False),
)
SITUATION = st.fixed_dictionaries(
    {
        "prices": st.lists(
            st.lists(PRICE, min_size=3, max_size=3), min_size=1, max_size=40
        ),
        "budget": st.one_of(
            st.sampled_from([0.1, 0.3, 7.0, 55.0]), st.floats(0.01, 100.0)
        ),
        "open_end": st.booleans(),
        "fill": st.floats(0, 40),
        "per_client": st.booleans(),
        "lost": st.booleans(),
        "losses": st.lists(
            st.sampled_from([0.0, np.nan, 1e-300, 1.0, 1e300]) | st.floats(0.0, 20.0),
            min_size=3,
            max_size=9,
        ),
    }
)


@pytest.mark.parametrize("name", [*MAKERS, *WITH_A_PURSE])
@settings(max_examples=25, deadline=None)
@given(situation=SITUATION)
def test_no_buyer_ever_overspends_or_overfills(name, situation):
    """Not by a cent in a single run, whatever prices and losses are, also where clients
    admit less than they were told.
    """
    prices = np.array(situation["prices"])
    buffer, rounds = np.array([3, 1, 7]), len(prices)
    system = System(
        buffer, situation["budget"], None if situation["open_end"] else rounds
    )
    policy = (
        WITH_A_PURSE[name]
        if name in WITH_A_PURSE
        else MAKERS[name](fill=situation["fill"])
    )
    controller = Controller(system, policy, 1)
    ledger = controller.open()
    for t, row in enumerate(prices, start=1):
        per_client = situation["per_client"] and name in PER_CLIENT_MAKERS
        orders = controller.decide(ledger, row[None] if per_client else row[:1])
        heard = Losses(*np.resize(np.roll(situation["losses"], t), (2, 1, 3)))
        report = Report(
            orders.admitted // 2 if situation["lost"] else orders.admitted, losses=heard
        )
        ledger = controller.post(ledger, orders, report)
        most = system.budget * (
            t + getattr(policy, "overdraft", 0.0) if situation["open_end"] else rounds
        )
        assert ledger.spent[0] <= most
        assert np.all(ledger.occupancy <= buffer)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.floats(0.1, 20.0), min_size=3, max_size=3), min_size=1, max_size=40
    ),
    st.sampled_from([0.0, 0.1, 0.25, 1.0]),
    st.sampled_from(PER_CLIENT_MAKERS),
)
def test_no_client_is_starved_or_overfed_for_its_price(prices, fairness, name):
    """Within ±fairness of its share of the buffers, and a few samples of rounding."""
    buffer = np.array([3, 1, 7])
    due = buffer / buffer.sum()
    for _, ledger in played(
        System(buffer, 20.0, len(prices)),
        MAKERS[name](fairness=fairness),
        np.array(prices)[:, None],
    ):
        admitted = ledger.admitted[0]
        off = np.abs(admitted - due * admitted.sum())
        assert np.all(
            off <= fairness * due * admitted.sum() + 2 + 2 * buffer.size * due
        )
