"""Each way in which an answer can be wrong: as much as is accepted passes, one more is rejected with its reason."""

import io
from typing import NamedTuple

import numpy as np
import pytest
from flwr.app import MetricRecord
from grids import FakeGrid
from hostile import WRONG_REPORTS, WRONG_UPDATES, with_arrays, with_metrics
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy
from worlds import World, an_experiment

from headgate.books.accounts import check_held, closings
from headgate.books.ledger_store import Ordered
from headgate.books.messages import Identity, Order, Receipt, from_wire, to_wire
from headgate.errors import DataError
from headgate.flower.rounds import Discipline, evaluations
from headgate.flower.validation import check_update, distance, numbers, read_array, read_arrays

pytestmark = pytest.mark.usefixtures("no_fsync")


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
    told = Receipt(text, 50, 3, rounds, admitted, held + count, held, n, trained, count, held, held, held, text)
    assert from_wire(Receipt, to_wire(told)) == told


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
    record = to_wire(Receipt("e", 4, 0, (2, 4), (1, 1), 2, 2, 2, True, 0, 2, 2, 2, ""))
    for changes, reason in (
        ({"rounds": [2]}, "2 entries for 1 rounds"),
        ({"rounds": [4, 2]}, "must ascend"),
        ({"rounds": [2, 5]}, "must ascend up to round 4"),
        ({"rounds": [2, "x"]}, "must be a whole number"),
        ({"rounds": 7}, "must be a list of whole numbers"),
        ({"trained": 1}, "must be true or false"),
    ):
        with pytest.raises(DataError, match=reason):
            from_wire(Receipt, {**record, **changes})


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


# the edges

TWO = np.array([1.0, 2.0])


class Packed(NamedTuple):
    data: bytes
    stype: str = "numpy.ndarray"


def packed(array, version=(1, 0)):
    file = io.BytesIO()
    npy.write_array(file, np.asanyarray(array), version=version)
    return Packed(file.getvalue())


def with_header_of(size):
    """`TWO` behind a header of so many bytes."""
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"
    text = text.ljust(size - 11) + b"\n"
    return Packed(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + TWO.tobytes())


# arrays


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_an_array_is_read_as_it_was_in_both_versions_of_its_form(version):
    for array in (TWO, np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((0, 2))):
        assert read_array("w", packed(array, version), array).tolist() == array.tolist()


def test_a_header_may_be_4096_bytes_long():
    assert read_array("w", with_header_of(4096), TWO).tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="w has 4113 bytes, expected at most 4112"):
        read_array("w", with_header_of(4097), TWO)


def test_as_many_names_as_the_model_has_are_not_enough():
    model = dict.fromkeys("abcd", TWO)
    with pytest.raises(DataError, match="names differ: d missing, e too many"):
        read_arrays({name: packed(TWO) for name in "abce"}, model)
    with pytest.raises(DataError, match="names differ: a, b, c missing, none too many"):
        read_arrays({}, model)
    assert list(read_arrays({name: packed(TWO) for name in "dcba"}, model)) == ["a", "b", "c", "d"]


def test_no_number_of_an_update_is_beyond_ten_to_the_hundred():
    check_update({"w": np.array([1e100, -1e100])}, {"w": TWO})
    with pytest.raises(DataError, match=r"w holds numbers that are not finite, or beyond 1e\+100"):
        check_update({"w": np.array([0.0, -1.0001e100])}, {"w": TWO})


def test_the_length_of_an_update_is_how_far_it_is_from_the_model():
    model = {"w": np.array([3.0, 0.0]), "b": np.array(1.0)}
    assert distance({"w": np.array([3.0, 4.0]), "b": np.array(4.0)}, model) == 5.0


# metrics


def some(count, prefix="m"):
    return {f"{prefix}{i}": 1.0 for i in range(count)}


def test_an_answer_may_have_a_hundred_metrics_in_all():
    assert len(numbers([some(100)])) == 100
    assert len(numbers([some(60), some(40, "n")])) == 100
    for too_many in ([some(101)], [some(60), some(41, "n")]):
        with pytest.raises(DataError, match="its answer has more than 100 metrics"):
            numbers(too_many)


def test_a_metrics_name_is_a_line_of_200_characters_at_most():
    assert numbers([{"m" * 200: 2}]) == {"m" * 200: 2.0}
    for name in ("m" * 201, "two\nlines"):
        with pytest.raises(DataError, match="a metric's name is not one line of at most 200 printable characters"):
            numbers([{name: 2}])


def test_of_metrics_the_finite_numbers_count():
    record = {"whole": 3, "most": -1e100, "more": 1.1e100, "nan": float("nan"), "yes": True, "list": [1.0], "word": "x"}
    assert numbers([record, {"real": 0.5}]) == {"whole": 3.0, "most": -1e100, "real": 0.5}


# what a client holds


def holding(occupancy, lost=0, trained=False):
    return Receipt("e", 1, 0, (1,), (0,), 9, occupancy, 0, trained, lost, 0, 0, 0, "")


def an_order(train):
    return Order("e", 1, 0, 9, 9, 0, 0, 0, train)


def test_less_than_was_to_be_held_is_believed_only_where_a_store_is_gone():
    check_held(holding(5), an_order(True), 5)
    for occupancy in (0, 4, 5):
        check_held(holding(occupancy, lost=1), an_order(True), 5)
    for told in (holding(4), holding(6), holding(6, lost=1), holding(6, lost=2)):
        with pytest.raises(DataError, match=f"holds {told.occupancy} samples, 5 were to be held"):
            check_held(told, an_order(True), 5)


def test_only_who_was_asked_to_trains():
    for trained, train in ((True, True), (False, True), (False, False)):
        check_held(holding(5, trained=trained), an_order(train), 5)
    with pytest.raises(DataError, match="trained without being asked to"):
        check_held(holding(5, trained=True), an_order(False), 5)


def test_an_open_order_that_an_answer_says_nothing_of_is_closed_with_nothing():
    """A client ignores orders older than its last, so nothing was admitted on it."""
    order, unheard = Order("e", 2, 0, 0, 5, 0, 0, 0, True), {1: Ordered(1, 0, 3, 0, 1.0), 2: Ordered(2, 0, 5, 0, 1.0)}
    told = Receipt("e", 2, 0, (2,), (2,), 2, 2, 0, False, 0, 0, 0, 0, "")
    found = closings(told, order, unheard, {}, {})
    assert [(row.round, row.admitted, row.learned) for row in found.closed] == [(1, 0, 2), (2, 2, 2)]
    assert (found.corrected, found.admitted) == ([], 2)


# samples on orders that were closed before


def settled(rounds, past, known, position, lasts=None):
    """What an answer in round 9 settles that tells of {round: admitted}; `known` are the samples that the server knew of."""
    rounds = {**rounds, 9: 0}
    told = Receipt("e", 9, 0, tuple(rounds), tuple(rounds.values()), position, position, 0, False, 0, 0, 0, 0, "")
    rows = {row.round: row for row in past}
    ends = lasts or dict.fromkeys(rows, 100)
    return closings(told, Order("e", 9, 0, known, 100, 0, 0, 0, True), {}, rows, ends)


def closed_order(t, admitted, ordered=5, free=0):
    return Ordered(t, 0, ordered, free, float(t), admitted, t)


def test_a_sample_of_a_round_that_ordered_nothing_is_refused():
    with pytest.raises(DataError, match="admitted 1 samples in round 3, 0 of 0 ordered ones were left"):
        settled({3: 1}, [], 0, 1)


def test_an_order_goes_up_to_its_last_sample_counted_from_those_before_it():
    past = [closed_order(1, 0, ordered=2), closed_order(2, 0)]
    assert settled({1: 2, 2: 2}, past, 0, 4, {1: 2, 2: 4}).admitted == 4
    with pytest.raises(DataError, match="admitted 3 samples in round 2, 2 of 5 ordered ones were left"):
        settled({1: 2, 2: 3}, past, 0, 5, {1: 2, 2: 4})


def test_more_than_was_known_is_charged_on_the_order_that_it_was_admitted_on():
    found = settled({1: 2, 2: 3}, [closed_order(1, 1), closed_order(2, 1)], 2, 5)
    assert [(row.round, row.ordered, row.admitted, row.charge) for row in found.corrected] == [(1, 1, 1, 1.0), (2, 2, 2, 4.0)]


def test_no_more_is_charged_than_a_client_has_admitted_in_all():
    past = [closed_order(1, 1), closed_order(2, 1), closed_order(3, 1)]
    found = settled({1: 2, 2: 2, 3: 0}, past, 3, 4)
    assert [(row.round, row.admitted) for row in found.corrected] == [(1, 1)]


def test_what_was_free_on_an_order_is_free_once():
    spent, left = closed_order(1, 2, free=2), closed_order(2, 1, free=2)
    found = settled({1: 3, 2: 3}, [spent, left], 3, 6)
    assert [(row.round, row.admitted, row.free, row.charge) for row in found.corrected] == [(1, 1, 0, 1.0), (2, 2, 1, 2.0)]
