from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Fifo, KStep, Report, Reservoir, System, buffers
from headgate.control.buffers import (
    BY_CHOSEN_PLACE,
    BY_CLIENT,
    BY_PLACE,
    Buffers,
    keeps_alone,
)
from headgate.control.policies import Constant
from headgate.errors import SettingError
from headgate.testing import a_system

from ..playing import arriving, goes_on


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=25
    ),
    st.one_of(st.none(), st.integers(1, 6)),
    st.one_of(st.none(), st.lists(st.integers(1, 7), min_size=3, max_size=3)),
    st.sets(st.integers(0, 2)),
)
@example(
    [[4, 4, 4], [0, 0, 0], [5, 4, 6], [0, 1, 0], [4, 4, 4]], None, [3, 2, 4], set()
)  # whole buffers, filled and renewed
@example(
    [[4, 4, 4], [0, 0, 0], [0, 0, 0], [4, 4, 4], [3, 2, 4]], 2, [3, 2, 4], set()
)  # and after all of them have aged out
@example(
    [[4, 4, 4], [0, 0, 0], [1, 1, 1], [4, 4, 4]], 2, [3, 2, 4], set()
)  # or most of them
@example(
    [[1, 1, 1], [2, 2, 2], [0, 0, 0], [2, 2, 2], [0, 0, 0], [1, 1, 1]],
    2,
    [4, 4, 4],
    set(),
)  # as many go as come, not full
def test_windows_from_counts_hold_what_their_rule_keeps_sample_by_sample(
    arrivals, K, capacity, forever
):
    """One list of (sample, round of admission) per client of two runs: age by hand, the
    capacity by `rank`, uses counted.
    """
    if K is None and capacity is None:
        return
    room = None if capacity is None else tuple(capacity)
    rule = Fifo(room) if K is None else KStep(K, capacity=room, forever=tuple(forever))
    longest = K or 10**9
    memories = {(r, m): [] for r in range(2) for m in range(3)}
    uses, ends = [Counter(), Counter()], [0, 0, 0]
    for t, ledger in enumerate(arriving(rule, arrivals, [4, 5], 3), start=1):
        for (r, m), held in memories.items():
            staying = [
                (i, born)
                for i, born in held
                if t - born < longest or (m in forever and K is not None)
            ]
            could = [
                *staying,
                *((i, t) for i in range(ends[m], ends[m] + arrivals[t - 1][m])),
            ]
            position = np.array([i for i, _ in could], dtype=np.int64)
            age = np.array([t - born for _, born in could], dtype=np.int64)
            stays = keeps_alone(
                rule, 10**9 if room is None else room[m], 4 + r, m, position, age
            )
            memories[r, m] = [
                each for each, keep in zip(could, stays, strict=True) if keep
            ]
            uses[r].update((m, i) for i, _ in memories[r, m])
            assert [i for i, _ in memories[r, m]] == list(
                range(ledger.dropped[r, m], ledger.admitted[r, m])
            )
        ends = [
            end + arriving for end, arriving in zip(ends, arrivals[t - 1], strict=True)
        ]
        for r, counted in enumerate(uses):
            assert ledger.uses[r] == counted.total()
            assert ledger.squared_uses[r] == sum(count**2 for count in counted.values())
            assert ledger.unused[r] == sum(ends) - len(counted)
            assert ledger.uses_in_memory[r] == sum(
                counted[m, i]
                for (s, m), held in memories.items()
                if s == r
                for i, _ in held
            )


def test_clients_that_admit_less_than_ordered_keep_exact_windows():
    controller = Controller(a_system(), Constant(rate=8, K=3), 1)
    *_, (_, ledger) = goes_on(
        controller,
        [2.0] * 12,
        report=lambda orders: Report(orders.admitted // (2 - orders.t % 2)),
    )
    assert np.array_equal(ledger.contents.recent[0], ledger.admitted)  # round 12
    assert ledger.spent[0] == 2.0 * ledger.admitted.sum()


@pytest.mark.parametrize(
    ("rule", "horizon", "taken"),
    [
        (KStep(4), None, [BY_CLIENT + 8 * 4]),
        (KStep(4), 3, [BY_CLIENT + 8 * 3]),  # no more than there are rounds
        (KStep(4), 9, [BY_CLIENT + 8 * 4]),
        (Fifo((2, 5, 3)), 9, [BY_CLIENT, BY_CLIENT + BY_PLACE * 5]),
        (Reservoir((2, 5, 3)), None, [BY_CLIENT, BY_CLIENT + BY_CHOSEN_PLACE * 5]),
        (KStep(4, capacity=7), None, [BY_CLIENT + 8 * 4, BY_CLIENT + BY_PLACE * 7]),
    ],
)
def test_every_client_of_every_run_is_counted_with_its_rounds_and_its_places(
    rule, horizon, taken, monkeypatch
):
    asked = []
    monkeypatch.setattr(buffers, "check_memory", lambda what, size: asked.append(size))
    Buffers(rule, System(np.array([3, 1, 7]), 1.0, horizon), 2, np.arange(2))
    assert asked == [2 * 3 * each for each in taken]


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (KStep(10**6), "K = 1000000: 2 runs"),
        (Fifo(10**6), "capacity = 1000000: 2 runs"),
    ],
)
def test_more_than_there_can_be_is_refused(rule, what):
    with pytest.raises(SettingError, match=what):
        Buffers(
            rule,
            System(np.array([3, 1, 7] * 1000), 1.0, None),
            2,
            np.arange(2),
        )
