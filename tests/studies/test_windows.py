"""studies/zoo/windows.py: the bet on the order of prices, the ledgers of the windows, and what the policy makes of both."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import System
from headgate.control.policies import Headgate
from headgate.control.policies.budgeted import latest_prices
from headgate.control.prices import Drift, Markov, PerClient, Trace, Uniform, UniformInteger
from headgate.control.prices.trace import Brent, Ercot
from headgate.control.rehearse import rehearse
from headgate.testing import a_system, check_policy
from studies.zoo import windows
from studies.zoo.windows import Windows

BUFFERS = np.array([8, 9, 10, 11, 12] * 2)
FOR_NETS = {"smooth": 0.25, "ahead": 5.0}


def bought(policy, prices, budget=55.0, rounds=100, seeds=40, horizon=True):
    system = System(BUFFERS, budget, rounds if horizon else None)
    return rehearse(system, policy, prices, np.arange(seeds), rounds)


def capital(rows):
    """What the bets on these prices come to, (R,)."""
    rows = np.asarray(rows, dtype=np.float64)
    memory = windows.unseen(len(rows))
    for t, price in enumerate(rows.T, start=1):
        memory = windows.observe(memory, price.copy(), t, a_system())
    return memory["bets"].sum(axis=-1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.5, 4.0, 7.0]), min_size=1, max_size=5))
def test_over_all_orders_of_any_prices_the_bet_neither_wins_nor_loses(prices):
    """The bet is linear in the lot that ranks equal prices, so its mean over lots is the bet at one half."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "uniform", lambda seed, purpose, t, price: np.full(price.shape, 0.5))
        assert capital(list(permutations(prices))).mean() == pytest.approx(1.0)


@pytest.mark.parametrize("prices", [Uniform(1, 10), UniformInteger(1, 10)])
def test_without_order_all_prices_count_but_in_one_run_of_a_hundred(prices):
    """Ville's inequality: the bet is won with a probability of at most 1/T. Where it is not, headgate buys as ever."""
    alone, auto = (bought(each(), prices, seeds=200) for each in (Headgate, Windows))
    won = auto.ledger.memory["wander"]
    assert won.mean() <= 0.02
    assert np.array_equal(alone.admitted[~won], auto.admitted[~won])


@pytest.mark.parametrize("more", [{}, FOR_NETS], ids=["linear", "nets"])
def test_where_prices_rise_it_buys_more(more):
    alone, auto = (bought(each(**more), Drift(3.0, 8.0, 100)).admitted.sum(axis=-1).mean() for each in (Headgate, Windows))
    assert auto > (1.005 if more else 1.04) * alone


OWN = PerClient(Uniform(1, 10), tuple(np.linspace(0.6, 1.4, 10)), 0.2)
STAYS = Markov((1.0, 5.0, 9.0), ((0.9, 0.1, 0.0), (0.1, 0.8, 0.1), (0.0, 0.1, 0.9)))


@pytest.mark.parametrize("prices", [Ercot(), Brent(), STAYS, OWN], ids=["ercot", "brent", "markov", "per client"])
@pytest.mark.parametrize(("more", "horizon"), [({}, True), (FOR_NETS, False)], ids=["linear, known end", "nets, open end"])
def test_elsewhere_it_buys_nearly_as_much(prices, more, horizon):
    alone, auto = (bought(each(**more), prices, horizon=horizon).admitted.sum(axis=-1).mean() for each in (Headgate, Windows))
    assert auto > 0.96 * alone


@pytest.mark.parametrize(
    ("smooth", "own_prices", "horizon"), [(0.0, False, 50), (0.25, True, 50), (0.0, True, None), (0.25, False, None)]
)
def test_with_windows_in_use_it_is_pure_and_causal_and_resumes_exactly(smooth, own_prices, horizon):
    rising = Drift(2.0, 20.0, 50)
    prices = PerClient(rising, (0.8, 0.9, 1.0, 1.1, 1.2), 0.1) if own_prices else rising
    system, policy = a_system(horizon), Windows(smooth=smooth)
    found = rehearse(system, policy, prices, np.arange(8), 50)
    assert (found.ledger.memory["window"] < len(windows.WINDOWS)).any()
    check_policy(policy, system, 50, prices)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.25]))
def test_prices_that_wander_far_break_neither_the_purse_nor_the_floor(seed, smooth):
    draw, rounds = np.random.default_rng(seed), 60
    price = np.exp(np.cumsum(draw.normal(0, 0.3, rounds)))
    found = bought(Windows(smooth=smooth), Trace(tuple(price)), 40.0, rounds, 1)
    spent, number = found.spend[0].cumsum(), found.admitted[0].cumsum()
    assert spent[-1] <= 40.0 * rounds
    even = np.minimum(40.0 / price, BUFFERS.sum()).cumsum()
    rich = spent + BUFFERS.sum() * price <= 40.0 * rounds
    assert (number >= even - 1)[rich].all()


@given(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=20), st.integers(1, 8))
def test_the_newest_of_a_longer_memory_are_those_of_a_shorter_one(prices, count):
    long, short = (latest_prices.unseen(1, each, costs=True) for each in (8, count))
    for price in prices:
        one = np.array([[price]])
        long, short = (latest_prices.remember(each, one, one + 1) for each in (long, short))
    spend = np.array([1.3])
    today = np.array([prices[-1]])
    assert latest_prices.deserved(windows.newest(long, count), today, spend) == pytest.approx(
        latest_prices.deserved(short, today, spend)
    )
