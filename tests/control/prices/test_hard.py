import numpy as np
import pytest

from headgate.control.prices import Bursts, Drift, Pareto, PerClient, Switches, Uniform
from headgate.errors import SettingError
from headgate.testing import check_prices

SEEDS = np.arange(4)


@pytest.mark.parametrize(
    "process",
    [
        Bursts(1, 6, 5, 0.02, 10),
        Bursts(1, 6, 0.5, 0.3, 1),
        Drift(3, 8, 400),
        Drift(8, 3, 100, 1.0),
        Pareto(1, 100, 1.2),
        Pareto(1, 1000, 1.0),
        Switches((1.0, 10.0), (200, 200)),
        Switches((10.0, 1.0, 0.0), (7, 5, 2), repeat=True),
        PerClient(Uniform(1, 10), (0.5, 1.0, 2.0), 0.3),
    ],
    ids=lambda process: type(process).__name__,
)
def test_every_process_passes_the_public_check(process):
    check_prices(process)


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bursts(1, 6, 5, 1.5, 10), "chance = 1.5"),
        (lambda: Bursts(1, 6, 5, 0.1, 0), "length = 0"),
        (lambda: Bursts(1, 6, -1, 0.1, 3), "factor = -1"),
        (lambda: Drift(0, 6, 5), "first = 0"),
        (lambda: Drift(1, 6, 5, 1.1), "noise = 1.1"),
        (lambda: Pareto(1, 1, 2), "high = 1"),
        (lambda: Pareto(1, float("inf"), 2), "high = inf"),
        (lambda: Pareto(1, 2, 0), "tail = 0"),
        (lambda: Switches((1.0, 2.0), (3,)), "one for each of the 2 levels"),
        (lambda: Switches((1.0,), (0,)), "lengths = 0"),
        (lambda: Switches((0.0,), (5,)), "mean of levels"),
        (lambda: PerClient(Uniform(1, 10), ()), "factors"),
        (lambda: PerClient(Uniform(1, 10), (1.0, -1.0)), "factors"),
        (lambda: PerClient(Uniform(1, 10), (1.0,), 2.0), "noise = 2.0"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(SettingError) as refusal:
        make()
    assert message in str(refusal.value)
