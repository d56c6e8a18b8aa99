"""How far the spend may be ahead of its pace, and which settings go by the model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate
from headgate.control.policies import Headgate
from headgate.control.prices import Trace
from headgate.control.rehearse import rehearse
from headgate.control.types import System

BUFFERS = [8, 9, 10, 11, 12]


@settings(max_examples=40, deadline=None)
@given(
    path=st.lists(st.floats(0.5, 20), min_size=12, max_size=30),
    ahead=st.floats(0, 8),
    smooth=st.sampled_from([0.0, 0.25, 1.0]),
    early=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_the_spend_is_never_further_ahead(path, ahead, smooth, early):
    system, rounds = System(BUFFERS, budget=30.0, horizon=len(path)), len(path)
    policy = Headgate(ahead=ahead, smooth=smooth, early=early)
    spent = rehearse(system, policy, Trace(tuple(path)), np.arange(1), rounds).spend[0].cumsum()
    by = np.array([policy._spent_by(t / rounds) for t in range(1, rounds + 1)])
    pace = spent[0] + (by - by[0]) / (1 - by[0]) * (30.0 * rounds - spent[0]) if by[0] < 1 else np.full(rounds, 30.0 * rounds)
    assert (spent[1:] <= np.minimum(pace + ahead * 30.0, 30.0 * rounds)[1:] + 1e-9).all()


@pytest.mark.parametrize(("model", "smooth", "ahead"), [("logistic", 0.0, None), ("lenet", 0.25, 5.0), ("resnet9", 0.25, 5.0)])
def test_what_is_left_out_goes_by_the_model(model, smooth, ahead):
    """A model of one's own is taken for a net: nobody has looked into it."""
    e = headgate.load("mnist", f"model.kind={model}", 'run.policies=["headgate", "oracle"]')
    policy = e.policies["headgate"]
    assert (policy.smooth, policy.ahead) == (smooth, ahead)
    stated = e.with_policy("mine", Headgate(smooth=0.5, ahead=9.0)).policies["mine"]
    assert (stated.smooth, stated.ahead) == (0.5, 9.0)
