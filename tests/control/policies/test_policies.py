import numpy as np
import pytest

from headgate.control import System
from headgate.control.policies import Acdpp, Constant, Dpp, Hybrid
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse
from headgate.control.types import View
from headgate.theory.comparison import admission_interval
from studies.zoo.prices import Integer
from studies.zoo.released import Released

from ..playing import played

MNIST = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)
PRICES = Uniform(1, 10)


def rehearsal(policy, rounds=100, prices=PRICES):
    return rehearse(
        System(MNIST.buffer, MNIST.budget, rounds),
        policy,
        prices,
        np.arange(20),
        rounds,
    )


@pytest.mark.paper("eq:constant-admission", "def:constant-admission")
def test_constant_admission_gives_every_client_its_share():
    result = rehearsal(Constant(rate=10.0, K=10))
    assert np.all(result.admitted == 10)
    assert np.all(result.n[:, 9:] == 100)
    assert np.array_equal(result.ledger.admitted, np.tile(MNIST.buffer * 10, (20, 1)))
    assert (
        result.peak_excess.max() <= 1
    )  # 0.8 or 1.2 samples a round: never a whole sample off


@pytest.mark.paper("eq:lambda-min-max", "alg:acdpp", "eq:dpp-policy")
@pytest.mark.parametrize(("rho", "burst"), [(0.9, 100), (0.99, 1000), (0.999, 10_000)])
def test_the_literal_rule_starts_with_a_burst_whatever_it_costs(rho, burst):
    result = rehearsal(Acdpp(rate=10, K=10, V=10, rho=rho), rounds=2)
    assert np.all(np.abs(result.admitted[:, 0] - burst) <= 1)


@pytest.mark.paper("eq:lambda-min-max")
def test_acdpp_stays_inside_its_interval():
    for orders, _ in played(
        MNIST,
        Acdpp(rate=10, K=10, V=10, rho=0.9),
        PRICES.path(np.arange(10), 1, 101).T,
        10,
    ):
        lo, hi = admission_interval(orders.t, 10.0, 0.9)
        assert np.all((orders.asked >= lo - 1e-9) & (orders.asked <= hi + 1e-9))


def test_without_a_horizon_the_interval_opens_at_each_doubling():
    system, none = System(MNIST.buffer, 55.0, None), np.zeros(1, dtype=int)
    view = View(
        1,
        np.ones(1),
        np.zeros(1),
        np.zeros(1),
        none,
        none,
        np.zeros((1, 10), dtype=int),
        system,
        none,
    )
    high = [
        float(Acdpp(rate=10, K=10).interval(view._replace(t=t))[1])
        for t in (3, 4, 7, 8, 1023, 1024)
    ]
    assert high[1] > high[0]
    assert high[3] > high[2]
    assert np.all(np.diff([high[0], high[2], high[4]]) < 0)
    assert high[5] == pytest.approx(10, rel=1e-9)


def test_burst_caps_hold():
    capped = rehearsal(Acdpp(rate=10, K=10, V=100, rho=0.999, burst=25.0))
    assert capped.admitted.max() <= 26  # a carried remainder may add one
    for policy in (
        Acdpp(rate=10, K=10, V=100, rho=0.999, burst="buffer"),
        Dpp(K=10, V=100),
    ):
        result = rehearsal(policy)
        assert result.peak_excess.max() <= 0, policy
        assert result.admitted[:, 0].min() >= 99


def test_initial_counts_change_what_acdpp_believes():
    settings = {"rate": 10, "K": 10, "V": 10, "rho": 0.99, "burst": 40.0}
    initial = ({}, {"N0": 1000.0}, {"N0": 1000.0, "n0": 90.0})
    plain, seen, held = (rehearsal(Acdpp(**settings, **more)) for more in initial)
    assert not np.array_equal(plain.admitted, seen.admitted)
    assert (
        seen.admitted[:, :9].sum() > held.admitted[:, :9].sum()
    )  # with full buffers fewer are wanted
    assert np.array_equal(
        seen.N[:, 0], seen.admitted[:, 0]
    )  # N counts what was really admitted


@pytest.mark.parametrize("horizon", [None, 64])
def test_v_and_rho_follow_the_horizon_or_double(horizon):
    system = System(MNIST.buffer, 55.0, horizon)
    followed = rehearse(system, Acdpp(rate=10, K=10), PRICES, np.arange(5), 64)
    T = (
        64 if horizon else 2
    )  # the first round of an open-ended run looks two rounds ahead
    stated = rehearse(
        system,
        Acdpp(rate=10, K=10, V=T**0.5, rho=1 - T**-0.5),
        PRICES,
        np.arange(5),
        64,
    )
    assert np.array_equal(followed.admitted[:, 0], stated.admitted[:, 0])
    assert np.array_equal(followed.admitted, stated.admitted) == (horizon is not None)


@pytest.mark.parametrize("fill", ["first", "gradual", "none"])
@pytest.mark.parametrize("paid", [True, False])
def test_hybrid_keeps_its_stale_clients_as_they_are(fill, paid):
    stale = np.arange(10) >= 5
    result = rehearsal(
        Hybrid(rate=10.0, K=5, stale=(5, 6, 7, 8, 9), fill=fill, paid=paid)
    )
    filled = MNIST.buffer[stale].sum() if fill != "none" else 0
    assert np.all(result.ledger.admitted[:, stale].sum(axis=-1) == filled)
    assert np.all(result.ledger.occupancy[:, stale].sum(axis=-1) == filled)
    assert np.all(result.free.sum(axis=-1) == (0 if paid else filled))
    assert (
        result.admitted[0, 0]
        == 10
        + {"first": filled, "gradual": (MNIST.buffer[stale] // 5).sum(), "none": 0}[
            fill
        ]
    )
    paid_for = result.admitted - result.free
    assert result.spend == pytest.approx(result.price * paid_for)


@pytest.mark.parametrize(
    ("rounds", "prices", "spend", "mean_n", "distinct"),
    # notes on the released scripts: 82 a round of 55, mean n 114–119, peak 300, about
    # 2,050 distinct; 61.6, 80, 13,400
    [
        (100, Integer(1, 10), (78, 86), (112, 125), (1900, 2200)),
        (1000, Integer(1, 10), (59, 64), (76, 86), (12_800, 14_200)),
    ],
)
def test_the_released_settings_overspend_as_measured(
    rounds, prices, spend, mean_n, distinct
):
    result = rehearsal(Released(), rounds=rounds, prices=prices)
    assert spend[0] < result.spend.mean() < spend[1]
    assert mean_n[0] < result.n.mean() < mean_n[1]
    assert distinct[0] < result.N[:, -1].mean() < distinct[1]
    assert result.n.max() == 300
    assert result.admitted.min() >= 10  # at least one for each client
