"""Each way in which an answer can be wrong: as much as is accepted passes, one more is
rejected with its reason.
"""

from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict
from grids import FakeGrid
from hostile import WRONG_REPORTS, WRONG_UPDATES, header, raw, saved
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy
from worlds import World, an_experiment

from headgate.books.nouns import OrderState
from headgate.books.receipts import deliveries
from headgate.errors import DataError, LedgerError
from headgate.flower.accounts import check_held
from headgate.flower.messages import Identity, Order, Receipt, from_wire, to_wire
from headgate.flower.rounds import (
    Discipline,
    check_update,
    evaluations,
    numbers,
    read_array,
    read_arrays,
)


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [*WRONG_REPORTS.values(), *WRONG_UPDATES.values()],
    ids=[*WRONG_REPORTS, *WRONG_UPDATES],
)
def test_a_wrong_answer_is_rejected_with_its_reason(tamper, reason, tmp_path):
    world = World(
        tmp_path, an_experiment("fifo", 3), Discipline(gather=0.0, norm_cap=1e6)
    )
    world.grid.faults, world.grid.tamper = {(1, 0): "reply changed"}, tamper
    world.play(1)
    (event,) = world.events("rejected")
    assert (event.round, event.client) == (1, 0)
    assert reason in event.reason
    assert world.row(0).offences == 1
    assert 0 in {row.client for row in world.outstanding()}  # it settled nothing
    world.play()
    world.audit()
    assert world.outstanding() == []
    assert world.row(0).heard == 3


# values on the wire

COUNT = st.integers(0, 2**20)
EARLIER = st.lists(
    st.tuples(st.integers(1, 49), COUNT), max_size=5, unique_by=lambda pair: pair[0]
).map(sorted)
PRINTABLE = st.text(max_size=200).filter(str.isprintable)


@given(EARLIER, st.integers(0, 99), st.integers(0, 9), COUNT, st.booleans(), PRINTABLE)
def test_what_was_told_survives_the_wire(pairs, n, unlabelled, count, trained, text):
    rounds, admitted = (
        tuple(pair[i] for pair in [*pairs, (50, count)]) for i in (0, 1)
    )
    held = n + unlabelled
    told = Receipt(
        text,
        50,
        3,
        rounds,
        admitted,
        held + count,
        held,
        n,
        trained,
        count,
        held,
        held,
        held,
        text,
    )
    assert from_wire(Receipt, to_wire(told)) == told


ANYTHING = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


@given(st.dictionaries(st.sampled_from(["client", "since", "x"]), ANYTHING))
def test_anything_else_is_refused_in_one_line(record):
    good = (
        record.keys() == {"client"}
        and type(record["client"]) is int
        and 0 <= record["client"] <= 2**53
    )
    if good:
        assert from_wire(Identity, record) == Identity(record["client"])
    else:
        with pytest.raises(DataError, match=r"^identity\.[^\n]*$"):
            from_wire(Identity, record)


ORDER = Order("e", 1, 0, 5, 5, 0, 0, 0, True)
TOLD = Receipt("e", 4, 0, (2, 4), (1, 1), 2, 2, 2, True, 0, 2, 2, 2, "")


@pytest.mark.parametrize(
    ("message", "changes", "reason"),
    [
        (ORDER, {"last": 4}, r"order\.last = 4: less than order\.known = 5"),
        (ORDER, {"late": -1}, r"order\.late = -1: must be"),
        (TOLD, {"rounds": [2]}, "2 entries for 1 rounds"),
        (TOLD, {"rounds": [4, 2]}, "must ascend"),
        (TOLD, {"rounds": [2, 5]}, "must ascend up to round 4"),
        (TOLD, {"rounds": [2, "x"]}, "must be a whole number"),
        (TOLD, {"rounds": 7}, "must be a list of whole numbers"),
        (TOLD, {"trained": 1}, "must be true or false"),
        (
            TOLD,
            {"uses": 3, "squares": 4},
            (
                r"receipt\.uses \*\* 2 = 9: more than receipt\.distinct x"
                r" receipt\.squares = 8"
            ),
        ),
    ],
)
def test_a_message_with_one_wrong_field_is_refused(message, changes, reason):
    assert from_wire(type(message), to_wire(message)) == message
    with pytest.raises(DataError, match=reason):
        from_wire(type(message), {**to_wire(message), **changes})


# arrays

TWO = np.array([1.0, 2.0])


def with_header_of(size):
    """`TWO` behind a header of so many bytes."""
    return raw(
        header(
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }".ljust(
                size - 11
            )
            + b"\n"
        )
        + TWO.tobytes()
    )


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_an_array_is_read_as_it_was_in_both_versions_of_its_form(version):
    for array in (
        TWO,
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 2)),
    ):
        assert (
            read_array(
                "w", raw(saved(array, npy.write_array, version=version)), array
            ).tolist()
            == array.tolist()
        )


def test_an_update_is_read_up_to_its_bounds():
    assert read_array("w", with_header_of(4096), TWO).tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="w has 4113 bytes, expected at most 4112"):
        read_array("w", with_header_of(4097), TWO)
    model = dict.fromkeys("abcd", TWO)
    with pytest.raises(DataError, match="names differ: d missing, e too many"):
        read_arrays({name: raw(saved(TWO)) for name in "abce"}, model)
    with pytest.raises(DataError, match="names differ: a, b, c missing, none too many"):
        read_arrays({}, model)
    assert list(read_arrays({name: raw(saved(TWO)) for name in "dcba"}, model)) == [
        "a",
        "b",
        "c",
        "d",
    ]
    check_update({"w": np.array([1e100, -1e100])}, {"w": TWO})
    with pytest.raises(
        DataError, match=r"w holds numbers that are not finite, or beyond 1e\+100"
    ):
        check_update({"w": np.array([0.0, -1.0001e100])}, {"w": TWO})


# metrics


def some(count, prefix="m"):
    return {f"{prefix}{i}": 1.0 for i in range(count)}


def test_an_answer_has_a_hundred_metrics_at_most_of_which_the_finite_numbers_count():
    assert len(numbers([some(60), some(40, "n")])) == 100
    assert numbers([{"m" * 200: 2}]) == {"m" * 200: 2.0}
    for too_many in ([some(101)], [some(60), some(41, "n")]):
        with pytest.raises(DataError, match="its answer has more than 100 metrics"):
            numbers(too_many)
    for name in ("m" * 201, "two\nlines"):
        with pytest.raises(
            DataError,
            match="a metric's name is not one line of at most 200 printable characters",
        ):
            numbers([{name: 2}])
    record = {
        "whole": 3,
        "most": -1e100,
        "more": 1.1e100,
        "nan": float("nan"),
        "yes": True,
        "list": [1.0],
        "word": "x",
    }
    assert numbers([record, {"real": 0.5}]) == {
        "whole": 3.0,
        "most": -1e100,
        "real": 0.5,
    }


def test_an_evaluation_that_cannot_be_read_is_left_out():
    FakeGrid({})  # says who sends messages
    good = {"accuracy": 0.5, "num-examples": 4}
    wrong = [{"accuracy": 1.0, "num-examples": n} for n in (0, 2**60, float("nan"))] + [
        {"accuracy": 1.0},
        good | some(200),
    ]
    replies = [
        Message(
            RecordDict({"metrics": MetricRecord(metrics)}),
            reply_to=Message(RecordDict(), node, "evaluate"),
        )
        for node, metrics in enumerate([good, *wrong], 1)
    ]
    found = evaluations([*replies, replies[0]], {node: node for node in range(1, 9)})
    assert [(one.client, one.n, one.metrics["accuracy"]) for one in found] == [
        (1, 4, 0.5)
    ]


# what a client holds


@pytest.mark.parametrize(
    ("occupancy", "lost", "trained", "asked", "refused"),
    [
        (5, 0, False, True, None),
        (5, 0, False, False, None),
        (5, 0, True, True, None),
        (5, 0, True, False, "trained without being asked to"),
        (4, 0, False, True, "holds 4 samples, 5 were to be held"),
        (6, 0, False, True, "holds 6 samples, 5 were to be held"),
        (0, 1, False, True, None),  # less is believed where a store is gone
        (5, 1, False, True, None),
        (6, 1, False, True, "holds 6 samples, 5 were to be held"),
    ],
)
def test_what_a_client_holds_and_did_must_be_what_was_ordered(
    occupancy, lost, trained, asked, refused
):
    told = Receipt("e", 1, 0, (1,), (0,), 9, occupancy, 0, trained, lost, 0, 0, 0, "")
    with nullcontext() if refused is None else pytest.raises(DataError, match=refused):
        check_held(told, Order("e", 1, 0, 9, 9, 0, 0, 0, asked), 5)


# samples on orders


def an_order(t, asked, delivered=0, cancelled=0, beyond=0):
    counts = 0, delivered, cancelled, 0, beyond
    return OrderState(t, 0, "2026-11-19", Decimal(t), asked, *counts)


def of(*orders):
    return {order.round: order for order in orders}


def test_an_open_order_that_an_answer_says_nothing_of_is_cancelled():
    """A client ignores orders older than its last, so nothing was admitted on it."""
    found = deliveries({2: 2}, of(an_order(1, 3), an_order(2, 5)))
    assert [each[:4] for each in found] == [(0, (), 3, {}), (2, (), 3, {})]
    assert [each.round for each in found] == [1, 2]


@pytest.mark.parametrize(
    ("admitted", "orders", "found"),
    [
        # more than was known arrives on the order that it was admitted on
        ({1: 2, 2: 3}, of(an_order(1, 5, 1, 4), an_order(2, 5, 1, 4)), {1: 1, 2: 2}),
        # what was told before, beyond the order too, is told once
        ({1: 3, 2: 0}, of(an_order(1, 5, 1, 4, 2), an_order(2, 5)), {1: 0, 2: 0}),
        # an order that was cancelled leaves no room for more than was ordered
        ({1: 5}, of(an_order(1, 5, 0, 5)), {1: 5}),
    ],
)
def test_samples_that_were_not_told_of_arrive_on_their_orders(admitted, orders, found):
    delivered = deliveries(admitted, orders)
    assert {each.round: each.delivered for each in delivered} == found


def test_no_order_goes_beyond_its_last_sample():
    with pytest.raises(
        LedgerError,
        match="admitted 1 samples in round 3, 0 of 0 ordered ones were left",
    ):
        deliveries({3: 1}, {})
