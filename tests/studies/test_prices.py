"""The price processes of the zoo."""

import re

import numpy as np
import pytest

from headgate.errors import SettingError
from headgate.registry import PRICES, make
from headgate.testing import check_prices
from studies.zoo.prices import Bursts, Drift, Integer, Pareto, Seasonal

ALL = [
    Integer(1, 10), Seasonal(5, 3, 24, 1), Seasonal(5, 5, 7),
    Bursts(1, 6, 5, 0.02, 10), Drift(3, 8, 400), Bursts(1, 6, 0.5, 0.3, 1),
    Drift(8, 3, 100, 1.0), Pareto(1, 100, 1.2), Pareto(1, 1000, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("process", ALL, ids=lambda process: type(process).__name__)
def test_each_comes_in_by_its_name_and_passes_the_public_check(process):
    kind = type(process)
    named = {"kind": f"{kind.__module__}:{kind.__qualname__}", **vars(process)}
    assert make(PRICES, named, "prices") == process
    check_prices(process)


BURSTS = {"low": 1, "high": 6, "factor": 5, "chance": 0.1, "length": 3}
BAD = [
    (Integer, {"low": 1, "high": 3}, {"low": [1.5]}),
    (Seasonal, {"average": 5, "amplitude": 4, "period": 2}, {"period": [0]}),
    (Bursts, BURSTS, {"factor": [-1], "chance": [1.5], "length": [0]}),
    (Drift, {"first": 1, "last": 6, "rounds": 5}, {"first": [0], "noise": [1.1]}),
    (
        Pareto,
        {"low": 1, "high": 2, "tail": 2},
        {"high": [1, float("inf")], "tail": [0]},
    ),
]


@pytest.mark.parametrize(
    ("kind", "fine", "name", "value"),
    [
        (kind, fine, name, value)
        for kind, fine, wrong in BAD
        for name, values in wrong.items()
        for value in values
    ],
)
def test_a_bad_setting_is_named_with_its_value(kind, fine, name, value):
    with pytest.raises(SettingError, match=re.escape(f"{name} = {value}")):
        kind(**{**fine, name: value})


def test_a_season_below_zero_is_refused():
    with pytest.raises(SettingError, match="fall below zero"):
        Seasonal(5, 4, 10, 2)


def test_after_its_rounds_a_drift_stays():
    path = Drift(2, 6, 5, 0.0).path(np.arange(4), 1, 8)
    assert path.tolist() == [[2, 3, 4, 5, 6, 6, 6]] * 4


@pytest.mark.parametrize(
    ("process", "rounds", "mean"),
    [
        (
            Seasonal(5, 3, 24),
            6,
            5 + 3 * np.sin(2 * np.pi * np.arange(1, 7) / 24).mean(),
        ),
        (Seasonal(5, 3, 24), 24, 5),
        (Drift(2, 6, 5, 0.0), 5, 4),
        (Drift(2, 6, 5, 0.0), None, 6),
    ],
)
def test_means_over_some_rounds_and_over_all(process, rounds, mean):
    assert process.mean(rounds) == pytest.approx(mean)


def test_whole_prices_are_whole_and_reach_both_ends():
    path = Integer(1, 10).path(np.arange(50), 1, 201)
    assert set(np.unique(path)) == set(range(1, 11))


def test_bursts_last_as_long_as_stated_and_come_as_often():
    path = Bursts(1, 1, 10, 0.01, 8).path(np.arange(500), 1, 401) > 5
    assert path.mean() == pytest.approx(1 - 0.99**8, rel=0.05)
    padded = np.pad(path, ((0, 0), (1, 1)))
    begin, end = (
        np.argwhere(padded[:, 1:] & ~padded[:, :-1]),
        np.argwhere(~padded[:, 1:] & padded[:, :-1]),
    )
    whole = (begin[:, 1] > 0) & (end[:, 1] < 400)
    assert (end - begin)[whole, 1].min() == 8


def test_pareto_tails_are_heavy():
    path = Pareto(1, 1e6, 1.5).path(np.arange(200), 1, 1001)
    for x in (2.0, 10.0, 100.0):
        assert np.mean(path > x) == pytest.approx(x**-1.5, rel=0.15)
