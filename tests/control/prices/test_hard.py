import numpy as np
import pytest

from headgate.control.prices import Bursts, Drift, Pareto, PerClient, Switches, Uniform

SEEDS = np.arange(4)


def test_bursts_last_as_long_as_stated_and_come_as_often():
    path = Bursts(1, 1, 10, 0.01, 8).path(np.arange(500), 1, 401) > 5
    assert path.mean() == pytest.approx(1 - 0.99**8, rel=0.05)
    padded = np.pad(path, ((0, 0), (1, 1)))
    begin, end = np.argwhere(padded[:, 1:] & ~padded[:, :-1]), np.argwhere(~padded[:, 1:] & padded[:, :-1])
    whole = (begin[:, 1] > 0) & (end[:, 1] < 400)
    assert (end - begin)[whole, 1].min() == 8


def test_the_mean_drifts_and_stays():
    process = Drift(2, 6, 5, 0.0)
    assert process.path(SEEDS, 1, 8)[0].tolist() == [2, 3, 4, 5, 6, 6, 6]
    assert process.mean(5) == 4
    assert process.mean(None) == 6


def test_pareto_tails_are_heavy():
    path = Pareto(1, 1e6, 1.5).path(np.arange(200), 1, 1001)
    for x in (2.0, 10.0, 100.0):
        assert np.mean(path > x) == pytest.approx(x**-1.5, rel=0.15)


def test_switches_stay_or_start_over():
    assert Switches((1.0, 9.0), (2, 1)).path(SEEDS, 1, 6)[0].tolist() == [1, 1, 9, 9, 9]
    assert Switches((1.0, 9.0), (2, 1), repeat=True).path(SEEDS, 2, 6)[0].tolist() == [1, 9, 1, 1]
    assert Switches((1.0, 9.0), (2, 2)).mean(None) == 9
    assert Switches((1.0, 9.0), (3, 1), repeat=True).mean(None) == 3


def test_clients_have_prices_of_their_own():
    common = Uniform(1, 10)
    path = PerClient(common, (1.0, 2.0)).path(SEEDS, 1, 5)
    assert path.shape == (4, 4, 2)
    assert np.array_equal(path[..., 0], common.path(SEEDS, 1, 5))
    assert np.array_equal(path[..., 1], 2 * path[..., 0])
    noisy = PerClient(common, (1.0, 1.0), 0.5).path(SEEDS, 1, 5)
    assert not np.any(noisy[..., 0] == noisy[..., 1])
