"""A decision is explained by the policy's own limit, and the explanation is true."""

import numpy as np
import pytest

from headgate.control import Controller, Supply, System
from headgate.control.policies import Below, Constant, Headgate, Threshold
from headgate.control.policies.references import held

SYSTEM = System([8, 9, 10], budget=20.0, horizon=60)


def played(policy, clients=0, seed=1, rounds=60):
    """Yield price, samples bought, money left and the explanation of each round."""
    controller = Controller(SYSTEM, policy)
    ledger, draw = controller.open(), np.random.default_rng(seed)
    for _ in range(rounds):
        price = draw.uniform(0.1, 4.0, (1, clients or 1))
        asked = price if clients else price[0]
        orders = controller.decide(ledger, asked)
        left = 1200.0 - float(ledger.spent[0])
        said = controller.why(ledger, orders)
        yield price[0], int(orders.admitted.sum()), left, said
        ledger = controller.post(ledger, orders)


@pytest.mark.parametrize("remember", ["all", 12])
@pytest.mark.parametrize("seed", range(4))
def test_headgate_buys_all_below_the_limit_that_is_said_and_nothing_above(
    remember, seed
):
    kinds = set()
    for (price,), bought, left, said in played(
        Headgate(remember=remember, fill=0.0), seed=seed
    ):
        assert said.startswith(f"price {price:.3g}, ")
        counted = f"{bought} samples" if bought else "nothing bought"
        assert said.endswith(f"; {counted}")
        if "below the limit" in said:
            assert bought == 27 or left - bought * price < price
            kinds.add("below")
        elif "above the limit" in said:
            assert (bought > 0) == ("to keep up with even spending" in said)
            kinds.add("above")
    assert kinds == {"below", "above"}


def test_round_1_says_that_it_fills_and_a_smooth_policy_has_no_limit_to_tell():
    first, second, *_ = (said for *_, said in played(Headgate(fill=2.0, smooth=0.25)))
    assert "; round 1 fills the buffers for up to 40; " in first
    assert second.startswith("price ")
    assert "limit" not in second


@pytest.mark.parametrize(
    ("policy", "limit"),
    [
        (Threshold(limit=2.0, fill=0.0), "limit of 2"),
        (Below(fill=0.0), "limit of"),
        (held(Constant(K=2, rate=9.0)), None),
    ],
)
def test_other_policies_tell_their_own_limit_or_none(policy, limit):
    said = [each for *_, each in played(policy)]
    assert all((limit is None) == ("limit" not in each) for each in said)


def test_prices_of_clients_are_told_as_a_range_beside_the_limit():
    said = [each for *_, each in played(Headgate(fill=0.0), clients=3)]
    assert all(each.startswith("prices ") for each in said)
    assert any(", limit " in each for each in said)


def test_where_nothing_could_be_bought_that_is_the_reason():
    controller = Controller(SYSTEM, Threshold(limit=2.0, fill=0.0))
    ledger = controller.open()
    nobody = Supply(present=[False, False, False])
    orders = controller.decide(ledger, 1.0, supply=nobody)
    said = controller.why(ledger, orders, supply=nobody)
    assert said == "price 1; nothing bought, nobody could be asked"
    orders = controller.decide(ledger, 1.0, reserved=[1200.0])
    said = controller.why(ledger, orders, reserved=[1200.0])
    assert said == (
        "price 1, below the limit of 2, but no money or room is left; nothing bought"
    )
