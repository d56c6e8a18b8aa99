"""What open orders may have cost, against every way in which clients can have done them."""

from contextlib import closing
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.books.accounts import replay, reserve
from headgate.books.ledger_store import LedgerStore, Ordered
from headgate.control import Controller, System
from headgate.control.policies import Headgate
from headgate.errors import LedgerError

ORDERS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 4), st.sampled_from([0.5, 1.0, 2.0, 3.5])), min_size=0, max_size=5
)


def costs(orders):
    """The cost of every subset of a client's orders, done one after the other up to where each says."""
    for done in chain.from_iterable(combinations(orders, size) for size in range(len(orders) + 1)):
        position, cost = 0, 0.0
        for row in done:
            admitted = max(row.ordered - position, 0)
            position += admitted
            cost += row._replace(admitted=admitted).charge
        yield cost


@given(ORDERS)
def test_nothing_can_cost_more_than_is_set_aside(drawn):
    orders = [Ordered(t, 0, ordered, min(free, ordered), price) for t, (ordered, free, price) in enumerate(drawn, 1)]
    assert reserve(orders) >= max(costs(orders)) - 1e-12


@given(ORDERS)
def test_no_more_is_set_aside_than_all_orders_cost(drawn):
    orders = [Ordered(t, 0, ordered, 0, price) for t, (ordered, _, price) in enumerate(drawn, 1)]
    assert reserve(orders) <= sum(row.price * row.ordered for row in orders)
    one_price = [row._replace(price=2.0) for row in orders]
    assert reserve(one_price) == max(costs(one_price))


def test_nothing_is_set_aside_for_what_is_free():
    assert reserve([Ordered(1, 0, 5, 2, 2.0)]) == 6.0
    assert reserve([Ordered(1, 0, 5, 5, 2.0), Ordered(2, 0, 8, 6, 3.0), Ordered(2, 1, 1, 0, 1.0)]) == 7.0


def test_a_store_is_refused_by_a_controller_with_another_budget(tmp_path):
    def controller(budget):
        return Controller(System([3, 4], budget, 10), Headgate())

    for budget in (20.0, 20.0):
        with closing(LedgerStore(tmp_path / "ledger.sqlite")) as store:
            assert replay(store, controller(budget))[1].t == 0
    with (
        closing(LedgerStore(tmp_path / "ledger.sqlite")) as store,
        pytest.raises(LedgerError, match=r"ledger.sqlite was opened with budget = 20.0, this controller has 40.0"),
    ):
        replay(store, controller(40.0))
