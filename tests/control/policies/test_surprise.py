"""The test for a changed world: as a slow plain version says it, with no more false alarms than stated, and quick."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Losses, Report, System
from headgate.control.policies import Alert
from headgate.control.policies.budgeted import alert

from .plain_alarm import PlainTest, told_of

SYSTEM = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 120)


LOSS = st.one_of(st.sampled_from([0.0, np.nan, 1e-300, 1.0, 1e300]), st.floats(0.0, 20.0))
ROUND = st.tuples(st.lists(LOSS, min_size=3, max_size=3), st.integers(0, 60))
LARGE = 5, 25, 30


@settings(max_examples=100, deadline=None)
@given(st.lists(ROUND, min_size=1, max_size=20), st.sampled_from([LARGE, (1, 1, 1)]))
@example([([1.0] * 3, 60), ([9.0] * 3, 5)], LARGE)  # of 60 samples 30 count, which just suffice
@example([([0.0] * 3, 60), ([1.0] * 3, 5)], LARGE)  # nothing is usual yet
@example([([1.0, np.nan, np.nan], 1)], (1, 1, 1))
def test_it_is_the_plain_one(rounds, buffers):
    system, memory, plain, admitted = System(np.array(buffers), 1.0, 50), alert.unheard(2), PlainTest(), 0
    for losses, count in rounds:
        admitted += count
        memory, louder, samples = alert.observe(told_of(system, np.array([losses] * 2), np.full(2, admitted)), memory)
        plain.hear(losses, system.buffer, count)
        assert louder == pytest.approx([plain.louder] * 2, rel=1e-9)
        assert samples.tolist() == [plain.of] * 2
        assert memory["evidence"] == pytest.approx([plain.evidence] * 2, rel=1e-9, abs=1e-9)
        assert memory["usual"] == pytest.approx([plain.usual] * 2, rel=1e-9, abs=1e-12)
        assert all(np.isfinite(array).all() for array in memory.values())


def means_of(kind, rng, admitted, level):
    """Means of so many new samples' losses by client, (R, M); NaN where there are none."""
    shape = np.where(admitted > 0, admitted, 1)
    if kind == "gamma":
        means = rng.gamma(shape / 6, 6 / shape)
    else:  # one in five is wrong and loses much, as with a linear model; and models differ from round to round
        wrong = rng.binomial(shape, 0.2)
        means = 5 * np.where(wrong > 0, rng.gamma(np.maximum(wrong, 1)), 0.0) / shape + 0.05
        means = means * np.exp(rng.normal(0, 0.2, (len(admitted), 1)))
    return np.where(admitted > 0, level * means, np.nan)


def alarms_of(policy, kind, level, runs=300, seed=0):
    """Alarms of each run after 120 rounds, whose level(t) is the loss of new samples."""
    rng = np.random.default_rng(seed)
    controller = Controller(SYSTEM, policy, runs)
    ledger, history = controller.open(), []
    for t in range(1, 121):
        orders = controller.decide(ledger, rng.uniform(1, 10, runs))
        new = means_of(kind, rng, orders.admitted, level(t))
        ledger = controller.post(ledger, orders, Report(orders.admitted, losses=Losses(new, new)))
        history.append(ledger.memory["alarms"])
    assert np.all(ledger.spent <= 55.0 * 120)
    return np.array(history)


@pytest.mark.parametrize("kind", ["gamma", "mostly right"])
@pytest.mark.parametrize("stated", [0.1, 1.0])
@pytest.mark.parametrize("falling", [False, True])
def test_a_calm_world_rings_no_more_often_than_stated(kind, stated, falling):
    """Expected alarms are at most as stated: the mean of 300 runs is, but for three of its standard errors."""
    alarms = alarms_of(Alert(false_alarms=stated), kind, lambda t: 0.5 + 2 * math.exp(-t / 20) if falling else 1.0)[-1]
    assert alarms.mean() <= stated + 3 * math.sqrt(stated / alarms.size)


def test_more_that_are_stated_are_more():
    """The rate is not kept by never ringing."""
    often, seldom = (alarms_of(Alert(false_alarms=stated), "mostly right", lambda t: 1.0)[-1].sum() for stated in (20.0, 0.1))
    assert often > 10 * max(seldom, 1)


@pytest.mark.parametrize(("probe", "within"), [(0.02, 9), (0.0, 12)])
@pytest.mark.parametrize("rise", [4.0, 8.0])
def test_a_change_is_heard_soon(rise, probe, within):
    """New samples lose several times as much from round 61 on: most runs ring soon, and once. Without probes only a low price
    lets it hear, which one round in four has: for nine rounds a thirteenth of the runs has none, for twelve one in thirty."""
    alarms = alarms_of(Alert(probe=probe), "mostly right", lambda t: rise if t > 60 else 1.0)
    rung = (alarms[59 + within] > alarms[59]).mean()
    assert rung > (0.9 if rise == 8 else 0.6)
    assert np.median(alarms[-1] - alarms[59]) == 1
