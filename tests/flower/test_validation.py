"""Each way in which an answer can be wrong: it is rejected with its reason, and what was admitted counts all the same."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from hypothesis import given
from hypothesis import strategies as st
from worlds import World, an_experiment

from headgate.errors import DataError
from headgate.flower.messages import Identity, Order, Told, from_wire, to_wire
from headgate.flower.rounds import Discipline
from headgate.flower.validation import distance, unfit

pytestmark = pytest.mark.usefixtures("no_fsync")
MODEL = {"w": np.zeros(3), "b": np.zeros((), np.float32), "count": np.zeros(2, np.int64)}


def with_told(**changes):
    def tamper(reply):
        reply.content["headgate"] = ConfigRecord({**reply.content["headgate"], **changes})
        return reply

    return tamper


def with_arrays(**changes):
    def tamper(reply):
        arrays = {
            **dict(reply.content["arrays"]),
            **{name: Array(value) for name, value in changes.items() if value is not None},
        }
        for name, value in changes.items():
            if value is None:
                del arrays[name]
        reply.content["arrays"] = ArrayRecord(arrays)
        return reply

    return tamper


def without(*names):
    def tamper(reply):
        for name in names:
            del reply.content[name]
        return reply

    return tamper


def damaged(reply):
    reply.content["arrays"] = ArrayRecord(
        {"w": Array("float64", (2,), "numpy.ndarray", b"no array"), "steps": Array(np.zeros(1))}
    )
    return reply


WRONG_REPORTS = {
    "position": (with_told(position=99), "has ever admitted 99 samples"),
    "occupancy": (with_told(occupancy=99), "holds 99 samples"),
    "more than ordered": (with_told(rounds=[1], admitted=[50], position=50), "admitted 50 samples in round 1"),
    "n above what is held": (with_told(n=77), "told.n = 77: more than told.occupancy"),
    "another client": (with_told(client=2), "answers as client 2, was asked as client 0"),
    "another round": (with_told(round=9), "answers as round 9"),
    "another experiment": (with_told(experiment="x"), "answers as experiment x"),
    "no whole number": (with_told(position=1.5), "told.position = 1.5: must be a whole number"),
    "negative": (with_told(uses=-1), "told.uses = -1: must be a whole number"),
    "a field too many": (with_told(more=1), "told.more: not a field of this version"),
    "no record": (without("headgate"), "its answer has no record headgate"),
}
WRONG_UPDATES = {
    "not finite": (with_arrays(w=np.array([1.0, np.nan])), "w holds numbers that are not finite"),
    "infinite": (with_arrays(w=np.array([np.inf, 0.0])), "w holds numbers that are not finite"),
    "shape": (with_arrays(w=np.zeros(3)), "w has shape (3,), expected (2,)"),
    "dtype": (with_arrays(w=np.zeros(2, np.float32)), "w is float32, expected float64"),
    "a name missing": (with_arrays(w=None), "names differ: w missing"),
    "a name too many": (with_arrays(v=np.zeros(1)), "v too many"),
    "too long": (with_arrays(w=np.full(2, 1e9)), "the update has length 1.41421e+09, at most 1e+06 is accepted"),
    "no arrays": (without("arrays"), "its answer has 0 sets of arrays"),
    "damaged bytes": (damaged, "its arrays cannot be read"),
}


@pytest.mark.parametrize(("tamper", "reason"), [*WRONG_REPORTS.values(), *WRONG_UPDATES.values()])
def test_a_wrong_answer_is_rejected_with_its_reason(tamper, reason, tmp_path):
    world = World(tmp_path, an_experiment("fifo", 3), Discipline(gather=0.0, norm_cap=1e6))
    world.grid.faults, world.grid.tamper = {(1, 0): "reply changed"}, tamper
    world.play(1)
    (event,) = world.events("rejected")
    assert (event.round, event.client) == (1, 0)
    assert reason in event.reason
    with world.store() as store:
        assert store.clients()[0].offences == 1
    world.play()
    world.audit(liars={0})


@pytest.mark.parametrize("tamper", [tamper for tamper, _ in WRONG_UPDATES.values()])
def test_a_bad_update_changes_no_model_but_its_admissions_are_charged(tamper, tmp_path):
    world = World(tmp_path / "bad", an_experiment("fifo", 1, clients=1), Discipline(gather=0.0, norm_cap=1e6))
    world.grid.faults, world.grid.tamper = {(1, 0): "reply changed"}, tamper
    world.play()
    good = World(tmp_path / "good", an_experiment("fifo", 1, clients=1))
    good.play()
    assert world.audit().spent[0] == good.audit().spent[0] > 0
    with world.store() as bad, good.store() as other:
        assert bad.rounds()[0].sha256 == bad.initial()[1] != other.rounds()[0].sha256


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

COUNT = st.integers(0, 2**53)
ROUNDS = st.lists(st.tuples(st.integers(1, 50), COUNT), max_size=5, unique_by=lambda pair: pair[0]).map(sorted)


@given(ROUNDS, st.integers(0, 99), st.integers(0, 9), COUNT, st.booleans(), st.text())
def test_what_was_told_survives_the_wire(pairs, n, unlabelled, count, trained, text):
    rounds, admitted = (tuple(pair[i] for pair in pairs) for i in (0, 1))
    told = Told(text, 50, 3, rounds, admitted, count, n + unlabelled, n, trained, 0, count, count, count, text)
    assert from_wire(Told, to_wire(told)) == told


ANYTHING = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


@given(st.dictionaries(st.sampled_from(["client", "since", "x"]), ANYTHING))
def test_anything_else_is_refused_in_one_line(record):
    good = (
        record.keys() == {"client", "since"}
        and type(record["client"]) is int
        and 0 <= record["client"] <= 2**53
        and type(record["since"]) in (int, float)
        and np.isfinite(float(record["since"]))
    )
    if good:
        assert from_wire(Identity, record) == Identity(record["client"], record["since"])
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
    assert unfit(update, MODEL, length) is None
    assert "at most" in unfit(update, MODEL, length * 0.99)


def test_metrics_that_are_no_numbers_are_left_out(tmp_path):
    def tamper(reply):
        reply.content["metrics"] = MetricRecord({"train_loss": 3.0, "list": [1.0, 2.0]})
        return reply

    world = World(tmp_path, an_experiment("fifo", 1))
    world.grid.faults, world.grid.tamper = {(1, m): "reply changed" for m in world.clients}, tamper
    world.play()
    with world.store() as store:
        assert store.rounds()[0].metrics["train_loss"] == 3.0
