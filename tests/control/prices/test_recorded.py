"""Recorded prices: what the files hold, and that every seed meets another part of them."""

import numpy as np
import pytest

from headgate.control.prices.recorded import Ercot, table
from headgate.experiment import load


def test_the_files_hold_what_their_page_says():
    points, hours = table("ercot")
    assert (len(points), hours.shape) == (15, (91 * 24, 15))
    assert (hours < 0).any(axis=0).sum() == 5  # the panhandle, the south and the west: wind blows when nobody needs it
    assert hours.max() == pytest.approx(1252.79)
    _, days = table("brent")
    assert days.shape == (8195, 1)
    assert days[0, 0] == 18.63


def test_a_seed_s_prices_are_the_market_s_from_an_hour_on_and_around_the_end():
    points, hours = table("ercot")
    own = 0.1 * np.maximum(hours[:, [points.index("HB_WEST"), points.index("LZ_CPS")]], 0.0)
    paths = Ercot(points=("HB_WEST", "LZ_CPS")).path(np.arange(30), 1, len(own) + 1)
    firsts = set()
    for path in paths:
        (first,) = [k for k in range(len(own)) if np.array_equal(np.roll(own, -k, axis=0), path)]
        firsts.add(first)
    assert len(firsts) == 30
    assert (paths == 0).any()  # below zero the market pays; a sample is then free


@pytest.mark.parametrize("recipe", ["ercot", "brent"])
def test_the_recipes_have_a_tenth_of_the_money_for_full_buffers(recipe):
    e = load(recipe)
    assert e.system.budget == pytest.approx(0.1 * e.prices.mean(None) * e.system.memory, rel=0.02)
