"""What twice as long between renewals changes is read off the schedules that buy equally many samples, and off no others."""

import numpy as np
import pytest

from studies.better.response import schedules, standing_still
from studies.better.studies import RESPONSES

KINDS = {"all-2": (1.0, 2), "half-1": (0.5, 1), "all-4": (1.0, 4), "half-2": (0.5, 2), "quarter-1": (0.25, 1)}


def rows(accuracy):
    return [{"policy": name, "last_by_seed": accuracy(*kind).tolist()} for name, kind in KINDS.items()]


def test_a_slope_that_was_put_in_is_found_whatever_samples_are_worth():
    seeds = np.linspace(-0.02, 0.02, 5)
    worth = {0.5: 0.9, 0.25: 0.4}  # by samples a round: no law that a fit would know
    found = standing_still(
        rows(lambda share, every: worth[share / every] + seeds - 0.003 * np.log2(every) * (1 + seeds)), KINDS, "last"
    )
    assert found.mean == pytest.approx(-0.3)
    assert found.low < -0.3 < found.high


def test_nothing_is_found_where_samples_alone_count():
    found = standing_still(rows(lambda share, every: np.full(4, share / every)), KINDS, "last")
    assert found.mean == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", RESPONSES)
def test_every_rate_is_met_by_several_schedules(name):
    rates = [share / every for share, every in schedules(name).values()]
    assert all(rates.count(rate) > 1 for rate in rates)
