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


def test_a_price_is_felt_less_where_samples_are_old_and_more_the_more_are_renewed():
    memory = {"renewed": np.array([[0.5, 0.0, 0.5, *[0.0] * (wear.LONGEST - 3)]])}
    felt = wear.felt(memory, np.array([6.0]), 4, 1.0)[0]
    left = 1 - (np.arange(wear.PARTS) + 0.5) / wear.PARTS
    ages = np.where(np.arange(wear.PARTS) < wear.PARTS // 2, 3, 1)  # the older half was bought three rounds ago
    assert felt == pytest.approx(6.0 / (ages * left))
    assert wear.felt(memory, np.array([6.0]), 4, 1e-12)[0] == pytest.approx(6.0)


def test_a_clients_mean_age_falls_with_what_it_is_given():
    memory = {**wear.unused(1, 3), "used": np.array([[5.0, 5.0, 5.0]]), "bought": np.array([[10, 5, 0]])}
    view = a_view(np.ones((1, 3)))
    used = wear.observe(memory, view, np.array([10, 10, 10]))["used"]
    assert used == pytest.approx(np.array([[1.0, 2.25, 6.0]]))
    # a queue whose ages are spread evenly has that mean, but for the half round of whole numbers
    queue = np.arange(0.5, 10.0, 1.0)
    assert np.mean([*queue[:5], *[0.0] * 5]) == pytest.approx(0.25 * queue.mean(), rel=0.01)


def test_what_the_last_round_brought_is_a_share_of_the_places():
    """Of forty, ten were bought before it and thirty after; what comes out at the end is forgotten."""
    memory = {**wear.unused(1, 2), "admitted_before": np.array([10])}
    memory["renewed"] = np.arange(1.0, wear.LONGEST + 1)[None]
    after = wear.observe(
        memory, a_view(np.ones((1, 2)))._replace(price=np.ones(1), distinct=np.array([30])), np.array([15, 25])
    )
    assert after["renewed"].tolist() == [[0.5, *range(1, wear.LONGEST)]]
    assert after["admitted_before"].tolist() == [30]


def test_who_is_given_more_than_its_places_has_new_ones_in_all_of_them():
    memory = {**wear.unused(1, 2), "used": np.array([[5.0, 5.0]]), "bought": np.array([[25, 10]])}
    assert wear.observe(memory, a_view(np.ones((1, 2))), np.array([10, 10]))["used"].tolist() == [[1.0, 1.0]]


def test_a_client_with_a_price_of_its_own_feels_it_by_its_own_age():
    memory = {"used": np.array([[1.0, 4.0, 9.0]])}
    assert wear.felt(memory, np.full((1, 3), 6.0), 4, 0.5) == pytest.approx(np.array([[6.0, 3.0, 2.0]]))


def a_view(price):
    from headgate.control.types import View

    runs, clients = price.shape
    zero, none = np.zeros(runs), np.zeros(runs, dtype=np.int64)
    by_client = np.zeros((runs, clients), dtype=np.int64)
    return View(2, price, zero, zero, none, none, by_client, System(np.full(clients, 10), 10.0, 10), none)


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
