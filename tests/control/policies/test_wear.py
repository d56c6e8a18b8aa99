"""Smooth renewal: what a place is worth follows its age and how many are renewed with it, and the money lasts as it should."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import System
from headgate.control.policies import Headgate
from headgate.control.policies.budgeted import wear
from headgate.control.prices import PerClient, Uniform
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


def test_the_first_rounds_do_not_wait_for_prices_that_only_empty_places_felt():
    """Empty buffers are no older than the run: else the first price is felt as a bargain, and what follows as dear."""
    plain, smooth = (rehearse(MNIST, Headgate(smooth=each), Uniform(1, 10), np.arange(40), 100) for each in (0.0, 0.25))
    early = [float(each.admitted[:, :20].sum(axis=1).mean()) for each in (plain, smooth)]
    assert early[1] > 0.95 * early[0]


def test_the_money_is_spent_evenly_whatever_the_worth():
    """The limit is that of the felt prices met: it settles near the pace, a little early, since places are young at first."""
    system = System(MNIST.buffer, MNIST.budget, 600)
    played = rehearse(system, Headgate(smooth=0.25), Uniform(1, 10), np.arange(12), 600)
    by_third = [part.sum(axis=1).mean() for part in np.split(played.spend, 3, axis=1)]
    assert by_third == pytest.approx([600 * 55 / 3] * 3, rel=0.1)
    assert by_third[0] > by_third[2]


def test_clients_with_prices_of_their_own_are_renewed_sooner_when_they_are_old():
    """At the same prices a client that was passed over comes first."""
    prices = PerClient(Uniform(1, 10), (1.0,) * 10, noise=0.5)
    plain, smooth = (rehearse(MNIST, Headgate(smooth=each, fairness=1.0), prices, np.arange(12), 100) for each in (0.0, 0.5))
    assert smooth.spend.sum(axis=1).max() <= 5500
    assert smooth.admitted.sum() < plain.admitted.sum()
    assert (smooth.admitted > 0).mean() > (plain.admitted > 0).mean()
