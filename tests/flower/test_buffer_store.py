"""A client's memory: what it admits, drops, counts and tells."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from headgate.control.retention import Retention
from headgate.errors import DataError
from headgate.flower.buffer_store import BufferStore
from headgate.flower.messages import Order
from headgate.flower.rules import stated
from headgate.flower.sources import CallableSource, Sample, pack

ENDLESS = CallableSource(lambda i: Sample(str(i), pack(i), i % 3))


def an_order(t, known, last, **more):
    return Order(
        "e",
        t,
        0,
        **{
            "known": known,
            "last": last,
            "kept_from": 0,
            "limit": 3,
            "acknowledged": 0,
            "train": True,
        }
        | more,
    )


def test_an_order_is_done_once(tmp_path):
    with closing(BufferStore(tmp_path / "b", 0)) as store:
        for _ in range(3):
            assert store.admit(an_order(1, 0, 2), ENDLESS)
        assert store.positions("e") == [0, 1]
        assert not store.admit(an_order(0, 0, 9), ENDLESS)
        for _ in range(2):
            store.count_uses(an_order(1, 0, 2), ["0", "1"])
        told = store.receipt(an_order(1, 0, 2), 2)
    assert (told.rounds, told.admitted, told.position, told.occupancy) == (
        (1,),
        (2,),
        2,
        2,
    )
    assert (told.distinct, told.uses, told.squares, told.trained) == (2, 2, 2, True)


def test_a_sample_that_comes_by_again_goes_on_with_its_count(tmp_path):
    again = CallableSource(lambda i: Sample(str(i % 2), pack(i), 0))
    with closing(BufferStore(tmp_path / "b", 0)) as store:
        for t in (1, 2, 3):
            order = an_order(t, t - 1, t, limit=1)
            store.admit(order, again)
            store.count_uses(order, [sample.key for sample in store.held("e")])
        told = store.receipt(order, 1)
    assert (told.distinct, told.uses, told.squares) == (2, 3, 5)


def test_experiments_never_meet_and_can_be_forgotten(tmp_path):
    with closing(BufferStore(tmp_path / "b", 0)) as store:
        store.admit(an_order(5, 0, 2), ENDLESS)
        other = Order("f", 1, 0, 0, 1, 0, 3, 0, True)
        assert store.admit(other, ENDLESS)
        assert (store.positions("e"), store.positions("f")) == ([0, 1], [0])
        assert store.experiments() == ["e", "f"]
        assert store.forget("e") == 2
        assert (store.positions("e"), store.positions("f")) == ([], [0])
        assert store.admit(an_order(5, 0, 2), ENDLESS)  # done before
        assert (store.positions("e"), store.state("e").position) == ([], 2)


def test_a_source_that_gives_too_much_or_fails_admits_nothing(tmp_path):
    class Generous:
        def read(self, cursor, count):
            return ENDLESS.read(cursor, count + 1)

    def failing(i):
        if i == 1:
            raise OSError("a sensor is gone")
        return Sample(str(i), b"")

    with closing(BufferStore(tmp_path / "b", 0)) as store:
        with pytest.raises(DataError, match="gave 3 samples where 2 were asked for"):
            store.admit(an_order(1, 0, 2), Generous())
        with pytest.raises(OSError, match="sensor"):
            store.admit(an_order(1, 0, 2), CallableSource(failing))
        assert list(store.admissions("e")) == []
        assert store.state("e") == (0, 0, 0, 0, 0)
        assert store.admit(an_order(1, 0, 2), ENDLESS)


def test_labels_are_filled_in_when_they_come(tmp_path):
    known = {}
    source = CallableSource(
        lambda i: Sample(str(i), b"", None),
        later=lambda keys: {key: known[key] for key in keys if key in known},
    )
    with closing(BufferStore(tmp_path / "b", 0)) as store:
        store.admit(an_order(1, 0, 2), source)
        store.fill_in_labels("e", source)
        assert [sample.label for sample in store.held("e")] == [None, None]
        known["1"] = 4
        store.fill_in_labels("e", source)
        assert [sample.label for sample in store.held("e")] == [None, 4]
        known |= {"0": 1, "1": 9}
        store.fill_in_labels("e", source)
        assert [sample.label for sample in store.held("e")] == [1, 4]


def test_a_file_belongs_to_one_client_and_one_format(tmp_path):
    BufferStore(tmp_path / "b", 3).close()
    with pytest.raises(DataError, match="is the memory of client 3, not of client 4"):
        BufferStore(tmp_path / "b", 4)
    (tmp_path / "text").write_text("nothing like it" * 100)
    with pytest.raises(DataError, match="is not a file of headgate buffer 3"):
        BufferStore(tmp_path / "text", 0)
    from headgate.books.in_file import FileTables

    FileTables(tmp_path / "ledger").close()
    with pytest.raises(
        DataError,
        match=r"holds headgate ledger 4, expected headgate buffer 3",
    ):
        BufferStore(tmp_path / "ledger", 0)


class Oldest(Retention):
    """The first samples stay for ever."""

    def rank(self, candidates):
        return candidates.position


def test_a_client_knows_its_own_rules_and_imports_nothing_that_an_order_names(tmp_path):
    name, settings = stated(Oldest())
    order = an_order(1, 0, 5, rule=name, settings=settings)
    with closing(BufferStore(tmp_path / "stranger", 0)) as store:
        with pytest.raises(
            DataError, match=f"order.rule = {name}: this client does not know it"
        ):
            store.admit(order, ENDLESS)
        assert list(store.admissions("e")) == []
        for settings in ("{", "[]", "3"):
            with pytest.raises(
                DataError, match=r"order.settings = .*: must be a JSON object"
            ):
                store.admit(
                    an_order(1, 0, 5, rule="reservoir", settings=settings), ENDLESS
                )
    with closing(BufferStore(tmp_path / "b", 0, rules=[Oldest])) as store:
        store.admit(order, ENDLESS)
        store.admit(an_order(2, 5, 9, rule=name, settings=order.settings), ENDLESS)
        assert store.positions("e") == [0, 1, 2]


def test_a_label_that_no_store_writes_is_refused_and_stays_where_it_is(tmp_path):
    """As SQLite keeps a number of numpy in a table that is not STRICT: its bytes."""
    path, label = tmp_path / "client-00000.sqlite", np.int64(3).tobytes()
    BufferStore(path, 0).close()
    loose = (
        "UPDATE sqlite_master SET sql = replace(replace(sql, ' STRICT', ''),"
        " 'CHECK (typeof(label) IN (''integer'', ''real'', ''text'', ''null''))', '')"
    )
    for statements in (
        [("PRAGMA writable_schema = ON", ()), (loose, ())],
        [("INSERT INTO samples VALUES ('e', 0, 'k', x'00', ?, 1)", (label,))],
    ):
        with closing(sqlite3.connect(path)) as file, file:
            for statement, values in statements:
                file.execute(statement, values)

    with pytest.raises(DataError, match="nothing was written: the row of samples"):
        BufferStore(path, 0)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT label FROM samples").fetchall() == [(label,)]
