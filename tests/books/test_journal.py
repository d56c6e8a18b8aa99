"""The journal: what was changed behind its back is found and named, snapshots are
proved, and its cost does not grow.
"""

from pathlib import Path
from shutil import copy

import pytest

from headgate import Books, Delivery, System
from headgate.books import journal
from headgate.books.books import journal_of
from headgate.control.policies import Headgate
from headgate.errors import DataError, LedgerError

from .kept import books, change, queries, rows


def played(folder, rounds=6):
    with books(folder) as own:
        for t in range(1, rounds + 1):
            orders = own.begin(1.0 + t % 3, when=f"2026-11-{t:02}")
            keys = [f"{t}-{n}" for n in range(orders[0].samples)]
            own.settle({0: Delivery(len(keys), keys), 1: orders[1].samples})
        return own.audit()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE orders SET price = '9' WHERE round = 3 AND client = 1",
            "order of round 3, client 1: price is 9, the log says 1.0",
        ),
        (
            "UPDATE orders SET at = '2026-12-01' WHERE round = 3 AND client = 0",
            "order of round 3, client 0: at is 2026-12-01, the log says 2026-11-03",
        ),
        (
            "UPDATE samples SET key = 'other' WHERE key = '1-0'",
            "key '1-0' of client 0 is None, the log says KeyedSample",
        ),
        (
            "UPDATE samples SET state = 'rejected' WHERE key = '1-1'",
            "key '1-1' of client 0 is KeyedSample",
        ),
        ("DELETE FROM orders WHERE round = 3", "order of round 3, client 0: is missi"),
        (
            "INSERT INTO orders SELECT account, 9, client, at, price, asked, free,"
            " delivered, cancelled, rejected, beyond, adjusted, answered, expires FROM"
            " orders WHERE round = 1 AND client = 0",
            "order of round 9, client 0: is not in the log",
        ),
    ],
)
def test_a_row_that_was_changed_is_found_and_named(place, statement, said):
    played(place)
    change(place, statement)
    with (
        books(place) as own,
        pytest.raises(LedgerError, match=r"(?s).*") as caught,
    ):
        own.audit()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE entries SET body = replace(body, '[3.0]', '[2.0]') WHERE number ="
            " 4",
            r"entry 4 \(begun, round 2, .*\) was changed after it was written",
        ),
        (
            "UPDATE entries SET at = '2026-12-01T00:00:00+00:00' WHERE number = 3",
            r"entry 3 \(settled, round 1, 2026-12-01.*\) was changed after",
        ),
        (
            "UPDATE entries SET author = 'ben' WHERE number = 5",
            r"entry 5 \(settled, round 2, by ben, .*\) was changed after",
        ),
        ("DELETE FROM entries WHERE number = 5", "entry 5 is missing"),
    ],
)
def test_an_entry_that_was_changed_is_found_and_named(place, statement, said):
    played(place)
    change(place, statement)
    with pytest.raises(LedgerError, match=said):
        books(place)


def test_an_entry_that_was_written_again_with_its_hash_does_not_replay(place):
    """Who rewrites the log as well has to decide as the policy does."""
    played(place)
    before, renewed = journal.GENESIS, []
    for _, *fields, _ in sorted(rows(place)["entries"], key=lambda row: row[1]):
        if fields[0] == 6:
            fields[-1] = fields[-1].replace("[0,8,0]", "[0,7,0]")
        before = journal.chained(before, *fields)
        renewed += [
            f"UPDATE entries SET {name} = '{value}' WHERE number = {fields[0]}"
            for name, value in (("body", fields[-1]), ("hash", before))
        ]
    change(place, *renewed)
    with pytest.raises(LedgerError, match=r"entry 6 .*: round 3: client 0 was ordered"):
        books(place)


@pytest.fixture
def often(monkeypatch):
    """A snapshot after every second round."""
    monkeypatch.setattr(journal, "EVERY", 2)


def test_snapshots_are_proved_by_the_replay(place, often):
    found = played(place)
    kept = rows(place)["snapshots"]
    assert [row[1] for row in kept] == [9, 13]
    with books(place) as own:
        assert own.audit().spent == found.spent
    change(
        place,
        """UPDATE snapshots SET state = replace(state, '"spent":', '"spent":')
        || ' ' WHERE number = 9""",
    )
    with (
        books(place) as own,
        pytest.raises(LedgerError, match="the snapshot after entry 9 is not what the"),
    ):
        own.audit()


def test_opening_reads_what_came_after_the_last_snapshot(place, often, monkeypatch):
    played(place, 7)
    applied = []
    usual = journal.apply
    monkeypatch.setattr(
        journal,
        "apply",
        lambda state, entry: applied.append(entry) or usual(state, entry),
    )
    with books(place) as own:
        assert len(applied) == 2, "the seventh round"
        own.audit()
        assert own.ledger.t == 7


def test_the_statements_of_a_round_do_not_grow_with_rounds_or_clients(place):
    counted = {}
    for clients in (3, 30):
        system = System([8] * clients, budget=4.0 * clients, horizon=100)
        with Books(place / f"{clients}", system, Headgate()) as own:
            for t in range(1, 31):
                with queries(own) as asked:
                    own.begin(1.0 + t % 2)
                    own.settle()
                    own.balance()
                counted[clients, t] = len(asked)
    assert counted[3, 4] == counted[3, 30] == counted[30, 4] == counted[30, 30] > 0


def test_accounts_of_the_format_before_are_not_opened_and_named(tmp_path):

    copy(
        Path(__file__).parent / "format3" / "closed.sqlite", tmp_path / "ledger.sqlite"
    )
    with pytest.raises(DataError, match="is of format 3; `headgate ledger upgrade"):
        books(tmp_path)


def test_a_request_is_done_once_and_its_answer_given_again(place):
    system = System([4, 3, 5], budget=12.0, horizon=20)
    with Books(place, system, Headgate(fill=8.0)) as books:

        def begin():
            return ",".join(str(each.samples) for each in books.begin(2.0))

        first = journal_of(books).once("key", "digest", begin, by="anna")
        books.settle()
        assert journal_of(books).once("key", "digest", begin, by="ben") == first
        with pytest.raises(LedgerError, match=r"key = key: is that of another request"):
            journal_of(books).once("key", "other", begin)
        entries = list(journal_of(books).tables.entries())
        assert [each.by for each in entries] == ["", "anna", ""]


def test_a_request_that_is_refused_leaves_nothing_and_may_be_made_again(place):
    system = System([4, 3, 5], budget=12.0, horizon=20)
    with Books(place, system, Headgate(fill=8.0)) as books:

        def half():
            books.begin(2.0)
            books.adjust(1, 0, -1e6)
            return "never"

        with pytest.raises(LedgerError, match="is more than the"):
            journal_of(books).once("key", "digest", half)
        assert journal_of(books).last.number == 1
        assert (
            journal_of(books).once("key", "digest", lambda: str(len(books.begin(2.0))))
            == "3"
        )
        books.settle()
        books.audit()


def test_old_answers_are_not_kept_but_nothing_is_done_twice(place, monkeypatch):
    monkeypatch.setattr("headgate.books.database.REMEMBERED", 3)
    with Books(place, System([4], budget=12.0), Headgate(fill=8.0)) as books:

        def more(key):
            return journal_of(books).once(
                key, "digest", lambda: books.amend(money=1.0) or key
            )

        for number in range(6):
            more(f"key {number}")
        assert more("key 5") == "key 5"
        with pytest.raises(LedgerError, match="its answer is not kept any more"):
            more("key 0")
        assert len(books.statement().amendments) == 6


def test_accounts_say_how_they_are_opened_again(place, tmp_path):
    system = System({"a": 4, "b": 3}, budget=12.0, horizon=20)
    with Books(place, system, Headgate(fill=8.0), seed=5, offences=2) as books:
        books.begin(2.0)
    with Books(place) as again:
        again.settle({}, {"a": "wrong"})
        again.begin(1.5)
        again.settle({}, {"a": "wrong"})
        assert again.quarantined == {"a"}
        again.audit()
    with pytest.raises(DataError, match=r"holds no ledger\.sqlite"):
        Books(tmp_path / "b")
    assert not (tmp_path / "b").exists()
