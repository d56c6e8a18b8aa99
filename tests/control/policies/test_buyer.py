"""What a buyer makes of a share of the places: whole samples, what rounding owes kept, what money was short of not."""

from dataclasses import dataclass

import numpy as np
import pytest

from headgate.control import Controller, Fifo, KStep, System
from headgate.control.policies.buying.buyer import Buyer


@dataclass(frozen=True, eq=False, kw_only=True)
class Renews(Buyer):
    """The same share of the places in every round."""

    share: float = 0.5
    fill: bool = False

    def wanted(self, view, memory):
        return np.full_like(view.price, self.share), memory


def bought(policy, system, prices):
    controller = Controller(system, policy)
    ledger, each = controller.open(), []
    for price in prices:
        orders = controller.decide(ledger, np.asarray(price))
        ledger = controller.post(ledger, orders)
        each.append(orders.admitted[0].tolist())
    return each, ledger


@pytest.mark.parametrize(
    ("rule", "places"), [(Fifo(2), [2, 1, 2]), (Fifo(9), [3, 1, 7]), (Fifo(), [3, 1, 7]), (KStep(4), [3, 1, 7])]
)
def test_a_client_has_no_more_places_than_its_buffer_and_its_rule(rule, places):
    system = System(np.array([3, 1, 7]), 1e9, 10)
    assert Renews(rule=rule).places(system).tolist() == places
    assert bought(Renews(rule=rule, share=1.0), system, [1.0])[0] == [places]


def test_half_a_sample_each_round_is_a_sample_every_other_round():
    system = System(np.array([1, 3]), 1e9, 10)
    each, _ = bought(Renews(), system, [[[1.0, 1.0]]] * 6)
    assert each == [[0, 1], [1, 2]] * 3
    each, _ = bought(Renews(share=0.125), system, [1.0] * 6)
    assert [sum(row) for row in each] == [0, 1, 0, 1, 0, 1]


def test_what_there_was_no_money_for_is_not_owed_later():
    """Ten places at 20 each and 100 in all: five now; of the other five less than a sample is kept."""
    system = System(np.array([10]), 50.0, 2)
    each, ledger = bought(Renews(share=1.0), system, [20.0])
    assert each == [[5]]
    assert 0 <= ledger.memory["owed"][0, 0] < 1


def test_nor_is_it_with_a_price_per_client():
    """Else what the fill could not pay in round 1 is bought in round 2 at any price, and all money is gone."""
    system = System(np.array([10] * 10), 6.0, 100)
    _, ledger = bought(Renews(fill=True, share=0.0), system, [[[5.5] * 10]])
    assert ledger.memory["owed"].max() < 1
    assert ledger.spent[0] == 275
    each, _ = bought(Renews(fill=True, share=0.0), system, [[[5.5] * 10]] * 9)
    assert sum(map(sum, each[1:])) == 0


def test_half_of_the_money_may_go_in_round_one_and_a_rounds_budget_at_any_rate():
    dear = System(np.array([10]), 50.0, 4)
    assert bought(Renews(fill=True), dear, [20.0])[0] == [[5]]  # 100 of 200
    short = System(np.array([10]), 50.0, 1)
    assert bought(Renews(fill=True), short, [20.0])[0] == [[2]]  # 50, all there is, not 25
