"""Smooth renewal: what a place is worth follows its age and how many are renewed with it, and the money lasts as it should."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import System
from headgate.control.policies import Headgate
from headgate.control.policies.budgeted import wear
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse

MNIST = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=90))
def test_ages_are_those_of_a_queue(bought):
    """Twenty places; k of the oldest leave, k new come, then all are used."""
    places = deque([10**6] * 20, maxlen=20)  # never filled: older than any
    renewed = np.zeros((1, wear.LONGEST))
    for k in bought:
        places.extend([0] * k)
        places = deque((age + 1 for age in places), maxlen=20)
        renewed = np.concatenate([[[k / 20]], renewed[:, :-1]], axis=-1)
    middles = (np.arange(wear.PARTS) + 0.5) / wear.PARTS * 20
    t = len(bought) + 1
    expected = [min(list(places)[int(middle)], wear.LONGEST + 1, t) for middle in middles]
    assert expected in [wear.ages(renewed + rounding, t)[0].tolist() for rounding in (-1e-9, 1e-9)]


def test_the_smoother_the_more_rounds_buy_and_the_fewer_samples_there_are_for_the_same_money():
    played = [rehearse(MNIST, Headgate(smooth=smooth), Uniform(1, 10), np.arange(20), 100) for smooth in (0.0, 0.25, 0.5, 1.0)]
    rounds = [float((each.admitted > 0).mean()) for each in played]
    samples = [float(each.admitted.sum(axis=1).mean()) for each in played]
    assert rounds == sorted(rounds)
    assert samples == sorted(samples, reverse=True)
    for each in played:
        spent = each.spend.sum(axis=1)
        assert spent.max() <= 5500
        assert spent.mean() == pytest.approx(5500, rel=0.015)
