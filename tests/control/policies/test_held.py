"""Any policy held to its limits: never over its money, never over a buffer, and as it
was alone until a limit is reached.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import load
from headgate.control import System
from headgate.control.policies import (
    Acdpp,
    Constant,
    Dpp,
    Headgate,
    Held,
    Hybrid,
    Oracle,
)
from headgate.control.policy import PolicyContext
from headgate.control.prices import Uniform
from headgate.theory.bound import BoundConstants
from studies.zoo.released import Released

from ..playing import played

POLICIES = [
    Constant(),
    Acdpp(),
    Dpp(),
    Hybrid(),
    Hybrid(paid=True),
    Released(),
    Oracle(),
    Constant(rate=30.0, K=9),
]
BY_CLIENT = [Constant(rate=4.5, K=2), Hybrid(rate=2.0, K=2, stale=(2,)), Headgate()]


def kept(policy, system, prices):
    """Spend and what each client holds, after each round."""
    ledgers = [ledger for _, ledger in played(system, policy, prices)]
    return np.array([float(each.spent[0]) for each in ledgers]), np.array(
        [each.occupancy[0] for each in ledgers]
    )


@settings(max_examples=90, deadline=None)
@given(
    buffers=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    budget=st.floats(1.0, 60.0),
    prices=st.lists(
        st.lists(st.floats(0.0, 20.0), min_size=3, max_size=3), min_size=2, max_size=25
    ),
    open_end=st.booleans(),
    data=st.data(),
)
def test_keeps_both_limits_also_with_a_price_for_each_client(
    buffers, budget, prices, open_end, data
):
    by_client = data.draw(st.booleans())
    policy, prices = (
        data.draw(st.sampled_from(BY_CLIENT if by_client else POLICIES)),
        np.array(prices),
    )
    system = System(buffers, budget, None if open_end else len(prices))
    made = Held(policy).resolved(
        PolicyContext(
            system, Uniform(1.0, 10.0), BoundConstants(), np.arange(1), len(prices)
        )
    )
    spent, held_by = kept(made, system, prices[:, None] if by_client else prices[:, 0])
    assert (
        spent <= budget * (np.arange(1, len(prices) + 1) if open_end else len(prices))
    ).all()
    assert (held_by <= np.array(buffers)).all()


def test_buys_as_alone_while_no_limit_is_near():
    system, prices = (
        System([20, 20], 1000.0, 30),
        Uniform(1.0, 10.0).path(np.arange(1), 1, 31)[0],
    )
    policy = Constant(rate=2.0, K=2)
    np.testing.assert_array_equal(
        kept(policy, system, prices)[0], kept(Held(policy), system, prices)[0]
    )


def test_keeps_its_samples_when_the_money_is_spent():
    system, policy = System([4, 4], 4.0, 10), Constant(rate=4.0, K=2)
    _, alone = kept(Constant(rate=4.0, K=2, purse=True), system, [2.0] * 10)
    _, inside = kept(Held(policy), system, [2.0] * 10)
    assert (alone[-1].sum(), inside[-1].sum()) == (0, 8)


def test_pays_for_what_is_free_alone():
    system = System([4, 4], 20.0, 5)
    policy = Hybrid(rate=0.5, K=2, stale=(1,))
    alone, inside = (
        kept(each, system, [3.0] * 5)[0] for each in (policy, Held(policy))
    )
    assert alone[0] < 4 * 3.0 <= inside[0]


def test_an_experiment_holds_all_its_policies_and_reads_them_back():
    experiment = load(
        "digits",
        'run.policies=["headgate", "constant", "acdpp", "oracle"]',
        "run.rounds=9",
    ).held()
    kinds = {
        name: table["kind"] for name, table in experiment.tables()["policies"].items()
    }
    assert kinds == {
        "headgate": "headgate",
        "constant": "held",
        "acdpp": "held",
        "oracle": "oracle",
    }
    assert (
        load(experiment.tables()).tables()
        == experiment.tables()
        == experiment.held().tables()
    )
    tighter = experiment.with_budget(experiment.system.budget / 4)
    assert (
        tighter.policies["constant"].policy.rate
        < experiment.policies["constant"].policy.rate
    )  # worked out again
