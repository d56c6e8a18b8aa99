"""What buffers will take is worked out before any of it is taken."""

import numpy as np
import pytest

from headgate.control import Fifo, KStep, Reservoir, System, buffers
from headgate.control.buffers import BY_CHOSEN_PLACE, BY_CLIENT, BY_PLACE, Buffers
from headgate.control.types import Streams
from headgate.errors import SettingError

BY_RUN = KStep(np.array([2, 4]))


@pytest.mark.parametrize(
    ("rule", "horizon", "taken"),
    [
        (BY_RUN, None, [BY_CLIENT + 8 * 4]),
        (BY_RUN, 3, [BY_CLIENT + 8 * 3]),  # no more than there are rounds
        (BY_RUN, 9, [BY_CLIENT + 8 * 4]),
        (Fifo((2, 5, 3)), 9, [BY_CLIENT, BY_CLIENT + BY_PLACE * 5]),
        (Reservoir((2, 5, 3)), None, [BY_CLIENT, BY_CLIENT + BY_CHOSEN_PLACE * 5]),
        (KStep(4, capacity=7), None, [BY_CLIENT + 8 * 4, BY_CLIENT + BY_PLACE * 7]),
    ],
)
def test_every_client_of_every_run_is_counted_with_its_rounds_and_its_places(rule, horizon, taken, monkeypatch):
    asked = []
    monkeypatch.setattr(buffers, "check_memory", lambda what, size: asked.append(size))
    Buffers(rule, System(np.array([3, 1, 7]), 1.0, horizon), 2, Streams(np.arange(2), None))
    assert asked == [2 * 3 * each for each in taken]


@pytest.mark.parametrize(("rule", "what"), [(KStep(10**6), "K = 1000000: 2 runs"), (Fifo(10**6), "capacity = 1000000: 2 runs")])
def test_more_than_there_can_be_is_refused(rule, what):
    with pytest.raises(SettingError, match=what):
        Buffers(rule, System(np.array([3, 1, 7] * 1000), 1.0, None), 2, Streams(np.arange(2), None))
