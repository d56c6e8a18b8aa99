import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Fifo, KStep, Report, System
from headgate.control.policies import Constant
from headgate.control.retention import capacity_of
from headgate.control.types import Window
from headgate.errors import SettingError
from headgate.testing import a_system, check_retention

SYSTEM = a_system()
SOME = np.array([True, False, False, True, False])


@pytest.mark.paper("def:kstep", "eq:kstep-drop", "eq:buffer-occupancy")
@pytest.mark.parametrize(
    "rule",
    [
        KStep(1), KStep(4), KStep(60), KStep(np.array([2, 5, 1])), KStep(3, forever=SOME),
        Fifo(1), Fifo(3), Fifo(SYSTEM.buffer),
        KStep(1, capacity=2), KStep(4, capacity=SYSTEM.buffer), KStep(50, capacity=2), KStepCapacity(np.array([2, 5, 1]), SYSTEM.buffer),
    ],
)  # fmt: skip
def test_every_rule_passes_the_public_check(rule):
    check_retention(rule)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=25),
    st.one_of(st.none(), st.integers(1, 6)),
    st.one_of(st.none(), st.lists(st.integers(1, 7), min_size=3, max_size=3)),
)
def test_windows_and_use_counts_against_plain_queues(admissions, K, capacity):
    """One list of (sample, birth) per client, treated by hand, for any admissions, K and capacities."""
    if K is None and capacity is None:
        return
    room = None if capacity is None else np.array(capacity)
    rule = KStep(K) if room is None else Fifo(room) if K is None else KStep(K, capacity=room)
    system = System(np.array([5, 5, 5]), 1.0)
    state, window = rule.open(system, 1), Window(np.zeros((1, 3), dtype=np.int64), np.zeros((1, 3), dtype=np.int64))
    queues, counts, in_memory = [[], [], []], {}, 0
    for t, arriving in enumerate(admissions, start=1):
        if room is not None:
            arriving = np.minimum(arriving, room)
        kept_from = rule.expire(state, t, window)
        last = window.last + np.array([arriving])
        state, first, gone = rule.settle(state, t, window, kept_from, last)
        expected_gone = 0
        for m in range(3):
            queue = [*queues[m], *((i, t) for i in range(window.last[0, m], last[0, m]))]
            stays = [(i, born) for i, born in queue if K is None or t - born < K]
            stays = stays[len(stays) - min(len(stays), 10**9 if room is None else room[m]) :]
            expected_gone += sum(counts[m, i] for i, _ in queue if (i, _) not in stays)
            queues[m] = stays
            assert [i for i, _ in stays] == list(range(first[0, m], last[0, m]))
            for i, _ in stays:
                counts[m, i] = counts.get((m, i), 0) + 1
        assert gone.tolist() == [expected_gone]
        in_memory += sum(map(len, queues)) - expected_gone
        assert in_memory == sum(counts[m, i] for m in range(3) for i, _ in queues[m])
        window = Window(first, last)


def test_clients_that_admit_less_than_ordered_keep_exact_windows():
    controller = Controller(a_system(), Constant(rate=8, K=3), 1)
    ledger = controller.open()
    for t in range(12):
        orders = controller.decide(ledger, np.array([2.0]))
        admitted = orders.admitted // (1 + t % 2)
        ledger = controller.post(ledger, orders, Report(admitted))
    assert np.array_equal(ledger.retained["admitted.0"], ledger.admitted)  # round 12
    assert ledger.spent[0] == 2.0 * ledger.admitted.sum()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KStep(0), "K = 0"),
        (lambda: KStep(2.5), "K = 2.5"),
        (lambda: Fifo(0), "capacity = 0"),
        (lambda: KStep(0, capacity=3), "K = 0"),
        (lambda: KStep(3, capacity=-1), "capacity = -1"),
        (lambda: capacity_of("bufer", SYSTEM), 'capacity = "bufer"'),
        (lambda: capacity_of([1, 2], SYSTEM), "2 entries for 5 clients"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(SettingError) as refusal:
        make()
    assert message in str(refusal.value)


def test_capacity_as_users_state_it():
    assert capacity_of(None, SYSTEM) is None
    assert capacity_of("buffer", SYSTEM).tolist() == [3, 1, 7, 4, 5]
    assert capacity_of(2, SYSTEM).tolist() == [2] * 5
    assert capacity_of([1, 2, 3, 4, 5], SYSTEM).tolist() == [1, 2, 3, 4, 5]
