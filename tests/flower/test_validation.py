"""Each way in which an answer can be wrong: it is rejected with its reason, and what was admitted counts all the same."""

import numpy as np
import pytest
from flwr.app import MetricRecord
from grids import FakeGrid
from hostile import WRONG_REPORTS, WRONG_UPDATES, with_arrays, with_metrics
from hypothesis import given
from hypothesis import strategies as st
from worlds import World, an_experiment

from headgate.errors import DataError
from headgate.flower.messages import Identity, Order, Told, from_wire, to_wire
from headgate.flower.rounds import Discipline, evaluations
from headgate.flower.validation import check_update, distance

pytestmark = pytest.mark.usefixtures("no_fsync")
MODEL = {"w": np.zeros(3), "b": np.zeros((), np.float32), "count": np.zeros(2, np.int64)}


@pytest.mark.parametrize(
    ("tamper", "reason"), [*WRONG_REPORTS.values(), *WRONG_UPDATES.values()], ids=[*WRONG_REPORTS, *WRONG_UPDATES]
)
def test_a_wrong_answer_is_rejected_with_its_reason(tamper, reason, tmp_path):
    world = World(tmp_path, an_experiment("fifo", 3), Discipline(gather=0.0, norm_cap=1e6))
    world.grid.faults, world.grid.tamper = {(1, 0): "reply changed"}, tamper
    world.play(1)
    (event,) = world.events("rejected")
    assert (event.round, event.client) == (1, 0)
    assert reason in event.reason
    with world.store() as store:
        assert store.clients()[0].offences == 1
        assert 0 in {row.client for row in store.outstanding()}  # it settled nothing
    world.play()
    world.audit()
    with world.store() as store:
        assert store.outstanding() == []
        assert store.clients()[0].heard == 3


@pytest.mark.parametrize("tamper", [tamper for tamper, _ in WRONG_UPDATES.values()], ids=WRONG_UPDATES)
def test_a_bad_update_changes_no_model_and_its_admissions_are_charged_by_the_next_answer(tamper, tmp_path):
    world = World(tmp_path / "bad", an_experiment("fifo", 2, clients=1), Discipline(gather=0.0, norm_cap=1e6))
    world.grid.faults, world.grid.tamper = {(1, 0): "reply changed"}, tamper
    world.play(1)
    assert world.audit().spent[0] == 0
    with world.store() as store:
        assert store.rounds()[0].sha256 == store.initial()[1]
        assert [row.round for row in store.outstanding()] == [1]
        assert store.clients()[0][4:] == (0, 0, 0, 0, 0)  # nothing of it was taken over
    world.play()
    with world.store() as store:
        assert store.outstanding() == []
        assert store.rounds()[1].sha256 != store.initial()[1]
    with world.buffer(0) as buffer:
        assert world.audit().admitted[0, 0] == buffer.state(world.name()).position > 0


def test_repeated_offences_end_in_quarantine(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 6), Discipline(gather=0.0, offences=2))
    world.grid.faults = {(t, 1): "reply changed" for t in range(1, 6)}
    world.grid.tamper = with_arrays(w=np.full(2, np.nan))
    world.play()
    assert [(event.round, event.client) for event in world.events("quarantined")] == [(2, 1)]
    assert {t for t, m in world.grid.trained if m == 1} == {1, 2}  # it is told nothing more
    with world.store() as store:
        assert store.clients()[1].quarantined
        assert not [row for row in store.orders() if row.client == 1 and row.round > 2]
    world.audit()


def test_an_error_is_recorded_but_no_offence(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 3), Discipline(gather=0.0, offences=1))
    world.broken |= {(t, 0) for t in (1, 2)}
    world.play()
    failed = world.events("failed")
    assert [(event.round, event.client) for event in failed] == [(1, 0), (2, 0)]
    assert "broke off" in failed[0].reason
    assert world.events("quarantined") == []
    world.audit()


# values on the wire

COUNT = st.integers(0, 2**20)
EARLIER = st.lists(st.tuples(st.integers(1, 49), COUNT), max_size=5, unique_by=lambda pair: pair[0]).map(sorted)
PRINTABLE = st.text(max_size=200).filter(str.isprintable)


@given(EARLIER, st.integers(0, 99), st.integers(0, 9), COUNT, st.booleans(), PRINTABLE)
def test_what_was_told_survives_the_wire(pairs, n, unlabelled, count, trained, text):
    rounds, admitted = (tuple(pair[i] for pair in [*pairs, (50, count)]) for i in (0, 1))
    held = n + unlabelled
    told = Told(text, 50, 3, rounds, admitted, held + count, held, n, trained, count, held, held, held, text)
    assert from_wire(Told, to_wire(told)) == told


ANYTHING = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


@given(st.dictionaries(st.sampled_from(["client", "since", "x"]), ANYTHING))
def test_anything_else_is_refused_in_one_line(record):
    good = record.keys() == {"client"} and type(record["client"]) is int and 0 <= record["client"] <= 2**53
    if good:
        assert from_wire(Identity, record) == Identity(record["client"])
    else:
        with pytest.raises(DataError, match=r"^identity\.[^\n]*$"):
            from_wire(Identity, record)


def test_an_order_that_takes_back_is_refused():
    record = to_wire(Order("e", 1, 0, 5, 5, 0, 0, 0, True))
    assert from_wire(Order, record).last == 5
    with pytest.raises(DataError, match=r"order\.last = 4: less than order\.known = 5"):
        from_wire(Order, {**record, "last": 4})


def test_lists_of_told_must_match():
    record = to_wire(Told("e", 4, 0, (2, 4), (1, 1), 2, 2, 2, True, 0, 2, 2, 2, ""))
    for changes, reason in (
        ({"rounds": [2]}, "2 entries for 1 rounds"),
        ({"rounds": [4, 2]}, "must ascend"),
        ({"rounds": [2, 5]}, "must ascend up to round 4"),
        ({"rounds": [2, "x"]}, "must be a whole number"),
        ({"rounds": 7}, "must be a list of whole numbers"),
        ({"trained": 1}, "must be true or false"),
    ):
        with pytest.raises(DataError, match=reason):
            from_wire(Told, {**record, **changes})


# updates


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), st.integers(-5, 5))
def test_an_update_as_long_as_allowed_passes_and_a_longer_one_does_not(values, steps):
    update = {"w": np.array(values), "b": np.float32(2) * np.ones((), np.float32), "count": np.array([steps, 0])}
    length = distance(update, MODEL)
    assert length == pytest.approx(np.sqrt(np.square(values).sum() + 4 + steps**2))
    check_update(update, MODEL, length)
    with pytest.raises(DataError, match="at most"):
        check_update(update, MODEL, length * 0.99)


def test_metrics_that_are_no_numbers_are_left_out(tmp_path):
    def tamper(reply):
        reply.content["metrics"] = MetricRecord({"train_loss": 3.0, "list": [1.0, 2.0]})
        return reply

    world = World(tmp_path, an_experiment("fifo", 1))
    world.grid.faults, world.grid.tamper = {(1, m): "reply changed" for m in world.clients}, tamper
    world.play()
    with world.store() as store:
        assert store.rounds()[0].metrics["train_loss"] == 3.0


def test_one_clients_metrics_spoil_nobody_elses_mean(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 1))
    world.grid.faults, world.grid.tamper = {(1, 0): "reply changed"}, with_metrics({"train_loss": float("nan"), "more": 1e300})
    world.play()
    with world.store() as store:
        assert store.rounds()[0].metrics["train_loss"] == 1.0
    assert world.events("rejected") == []


def test_an_evaluation_that_cannot_be_read_is_left_out():
    replies = [evaluated(node, metrics) for node, metrics in enumerate(JUDGED, 1)]
    found = evaluations([*replies, replies[0]], {node: node for node in range(1, 9)})
    assert [(one.client, one.n, one.metrics["accuracy"]) for one in found] == [(1, 4, 0.5)]


JUDGED = [
    {"accuracy": 0.5, "num-examples": 4},
    {"accuracy": 1.0, "num-examples": 0},
    {"accuracy": 1.0, "num-examples": 2**60},
    {"accuracy": 1.0, "num-examples": float("nan")},
    {"accuracy": 1.0},
    {"accuracy": 1.0, "num-examples": 4, **{f"m{i}": 1.0 for i in range(200)}},
]


def evaluated(node, metrics):
    from flwr.app import Message, RecordDict

    FakeGrid({})  # says who sends messages
    asked = Message(RecordDict(), node, "evaluate")
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=asked)
