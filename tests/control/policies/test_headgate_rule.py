"""examples/headgate_rule.py, which reads like contributing/headgate.md, judges the
policy: the same purchases.

Prices and budgets are multiples of 2^-12, so that sums of money are exact in whatever
order they are formed. What is not exact is far less than the 2^-30 of a sample that
both forgive when they round.
"""

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate import load
from headgate.control import Controller, Fifo, System
from headgate.control.policies import Headgate
from headgate.control.policies.budgeted import all_prices, headgate
from headgate.control.prices import Trace
from headgate.control.rehearse import rehearse

from ..playing import goes_on

RULE = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "headgate_rule.py"))
RUNS = 2
ATOMS = 0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 1000.0
FILL = {"fill": st.sampled_from([4.0, 0.0, 0.5, 2.0, 8.0, 1000.0])}
OTHERS = {
    "turnover": st.sampled_from([1.0, 0.5, 0.3]),
    "smooth": st.sampled_from([0.0, 0.25, 1.0]),
    "ahead": st.sampled_from([4.0, 0.0, 0.5, 3.0]),
    "remember": st.sampled_from(["all", 1, 3, 8]),
    "overdraft": st.sampled_from([0.0, 2.5, 10.0]),
    "fairness": st.sampled_from([0.0, 0.1, 0.25, 1.0]),
}
SETTINGS = st.fixed_dictionaries(FILL, optional=OTHERS)
"""what is left out is the same in both"""
WORLD = {
    "clients": st.integers(1, 7),  # with more of them numpy adds in another order
    "rounds": st.integers(1, 30),
    "beyond": st.sampled_from([None, -2, 0, 9]),
    "own_prices": st.booleans(),
    "atoms": st.booleans(),
    "capacity": st.sampled_from(["buffer", "buffer", 4]),
    "plenty": st.sampled_from([0.05, 0.3, 1.0]),
    "unit": st.sampled_from([1.0, 1.0, 2.0**-6, 2.0**20]),
    "seed": st.integers(0, 10**6),
}


def judged(world, setting, **more):
    """What the policy and its judge buy in every round: of all clients where there is
    one price, else of each.
    """
    rng, rounds = np.random.default_rng(world["seed"]), world["rounds"]
    buffers = rng.integers(1, 12, world["clients"], endpoint=True)
    shape = (RUNS, rounds, *([buffers.size] if world["own_prices"] else []))
    paths = (
        rng.choice(ATOMS, shape) if world["atoms"] else rng.integers(1, 640, shape) / 64
    )
    budget = np.ceil(64 * world["plenty"] * rng.uniform(0.1, 5.0) * buffers.sum()) / 64
    paths, budget = paths * world["unit"], budget * world["unit"]
    horizon = None if world["beyond"] is None else max(rounds + world["beyond"], 1)

    controller = Controller(
        System(buffers, budget, horizon),
        Headgate(rule=Fifo(world["capacity"]), **setting),
        RUNS,
    )
    orders = [
        each.admitted for each, _ in goes_on(controller, np.moveaxis(paths, 1, 0))
    ]
    bought = (
        orders
        if world["own_prices"]
        else [admitted.sum(axis=-1) for admitted in orders]
    )
    places = (
        buffers
        if world["capacity"] == "buffer"
        else np.minimum(buffers, world["capacity"])
    )
    slow = [
        list(
            RULE["headgate"](
                path, places.tolist(), float(budget), horizon, **setting, **more
            )
        )
        for path in paths.tolist()
    ]
    return np.stack(bought, axis=1).tolist(), slow


ONE_ROUND_LONG = {
    "clients": 3, "rounds": 3, "beyond": -2, "own_prices": False, "atoms": False,
    "capacity": "buffer", "plenty": 0.3, "unit": 1.0, "seed": 1,
}  # fmt: skip


@settings(max_examples=75)
@given(st.fixed_dictionaries(WORLD), SETTINGS)
@example(ONE_ROUND_LONG, {"fill": 0.0, "ahead": 0.5})
def test_the_policy_buys_what_its_page_says(world, setting):
    fast, slow = judged(world, setting)
    assert fast == slow


@pytest.mark.parametrize(
    ("module", "name", "least"), [(all_prices, "BINS", 2), (headgate, "SHORT", 0)]
)
@settings(max_examples=60)
@given(world=st.fixed_dictionaries(WORLD), setting=SETTINGS, more=st.integers(0, 8))
def test_so_it_does_in_a_long_run(module, name, least, world, setting, more):
    """With more prices than bins, and where prices come again; 512 bins and 256 rounds
    would take long, fewer are the rule.
    """
    world, setting = (
        {**world, "atoms": name == "SHORT"},
        {**setting, **({"remember": "all"} if name == "BINS" else {})},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, least + more)
        fast, slow = judged(world, setting, **{name.lower(): least + more})
    assert fast == slow


@settings(max_examples=4)
@given(st.fixed_dictionaries({**WORLD, "rounds": st.integers(70, 100)}), SETTINGS)
def test_so_it_does_where_places_are_older_than_it_counts(world, setting):
    fast, slow = judged({**world, "own_prices": False}, {**setting, "smooth": 0.5})
    assert fast == slow


BUFFERS = [8, 9, 10, 11, 12]


@settings(max_examples=40, deadline=None)
@given(
    path=st.lists(st.floats(0.5, 20), min_size=12, max_size=30),
    ahead=st.floats(0, 8),
    smooth=st.sampled_from([0.0, 0.25, 1.0]),
)
def test_the_spend_is_never_further_ahead(path, ahead, smooth):
    system, rounds = System(BUFFERS, budget=30.0, horizon=len(path)), len(path)
    policy = Headgate(ahead=ahead, smooth=smooth)
    spent = (
        rehearse(system, policy, Trace(tuple(path)), np.arange(1), rounds)
        .spend[0]
        .cumsum()
    )
    by = np.array([t / rounds for t in range(1, rounds + 1)])
    pace = (
        spent[0] + (by - by[0]) / (1 - by[0]) * (30.0 * rounds - spent[0])
        if by[0] < 1
        else np.full(rounds, 30.0 * rounds)
    )
    assert (
        spent[1:] <= np.minimum(pace + ahead * 30.0, 30.0 * rounds)[1:] + 1e-9
    ).all()


@pytest.mark.parametrize(
    ("model", "smooth", "ahead"),
    [("logistic", 0.0, None), ("lenet", 0.25, 5.0), ("resnet9", 0.25, 5.0)],
)
def test_what_is_left_out_goes_by_the_model(model, smooth, ahead):
    """A model of one's own is taken for a net: nobody has looked into it."""
    e = load("mnist", f"model.kind={model}", 'run.policies=["headgate", "oracle"]')
    policy = e.policies["headgate"]
    assert (policy.smooth, policy.ahead) == (smooth, ahead)
    stated = e.with_policy("mine", Headgate(smooth=0.5, ahead=9.0)).policies["mine"]
    assert (stated.smooth, stated.ahead) == (0.5, 9.0)
