"""Two writers at once: what one amends is in the other's next decision or holds from
the round after it, and always replays.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from headgate import Books, System
from headgate.books.database import Tables
from headgate.books.statement import amend
from headgate.control import Amendment
from headgate.control.policies import Constant, Headgate
from headgate.control.retention import Fifo
from headgate.errors import DataError, HeadgateError, LedgerError, SettingError

from .kept import SYSTEM, InPostgres, books, rows


class Interrupted(Headgate):
    """A policy during whose decision somebody else amends, once."""

    amending = None

    def admit(self, view, memory):
        if view.t == 2 and Interrupted.amending is None:
            Interrupted.amending = Thread(
                target=amend,
                args=(Interrupted.folder, Amendment(money=-1000.0), "anna", "board"),
            )
            Interrupted.amending.start()
            Interrupted.amending.join(0.1)  # it waits for the end of the transaction
        return super().admit(view, memory)


def test_an_amendment_during_a_decision_holds_from_the_next_round_and_replays(place):
    Interrupted.folder, Interrupted.amending = place, None
    with Books(place, SYSTEM, Interrupted()) as own:
        for t in range(1, 5):
            own.begin(3.0)
            if t == 2:
                Interrupted.amending.join()
            own.settle()
        found = own.audit()
        assert (found.approved, [each.round for each in found.amendments]) == (
            1000,
            [2],
        )
        assert own.system.money(5) == 1000.0, "the running process knows it"
    with books(place, Interrupted()) as again:
        assert again.audit().spent == found.spent


@contextmanager
def amenders():
    """Two processes that amend; a line that is written to both is read by both at
    once.
    """
    command = [sys.executable, Path(__file__).parent / "amender.py"]
    both = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for _ in "ab"
    ]
    try:
        yield both
    finally:
        for each in both:
            each.communicate(timeout=60)


@pytest.mark.parametrize(
    "change", [{"leave": 1}, {"money": -1500.0}, {"join": 7}], ids=str
)
def test_two_people_who_amend_at_once_are_heard_one_after_the_other(place, change):
    with amenders() as both:
        for attempt in range(15):
            folder = place / str(attempt)
            books(folder).close()
            for name, each in zip("ab", both, strict=True):
                each.stdin.write(
                    json.dumps({"folder": str(folder), "change": change, "by": name})
                    + "\n"
                )
            told = sorted(json.loads(each.stdout.readline()) for each in both)
            accepted = 2 if "join" in change else 1
            assert told.count("") == accepted
            assert all(each.startswith(next(iter(change))) for each in told if each)
            with books(folder) as own:
                own.begin(3.0)
                own.settle()
                assert len(own.audit().amendments) == accepted


def test_two_commands_at_once_leave_accounts_that_can_be_shown(place):
    books(place).close()
    command = [
        sys.executable,
        "-m",
        "headgate.cli",
        "ledger",
        "amend",
        place,
        "--leave",
        "1",
        "--by",
    ]
    both = [
        subprocess.Popen(
            [*command, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in "ab"
    ]
    errors = [each.communicate(timeout=120)[1] for each in both]
    assert sorted(each.returncode for each in both) == [0, 2]
    assert "leave = 1: is not a client; there are 2" in "".join(errors)
    with books(place) as own:
        assert own.audit().system.amended.left == (1,)


def test_amendments_while_a_round_is_open_are_checked_against_those_that_wait(place):
    with books(place) as own:
        own.begin(3.0)
        own.amend(leave=1)
        with pytest.raises(
            SettingError, match="amend: leave = 1: is not a client; there are 2"
        ):
            own.amend(leave=1)
        own.amend(leave=0)
        with pytest.raises(SettingError, match="amend: leave = 2: is the last client"):
            own.amend(leave=2)
        own.amend(money=-1500.0)
        with pytest.raises(
            SettingError,
            match=(
                "amend: money = -1500: takes back more than the 500 that were approved"
            ),
        ):
            own.amend(money=-1500.0)
        own.amend(horizon="open")
        own.amend(budget=5.0)
        own.settle()
        own.audit()
    with books(place) as again:
        assert again.system.amended.left == (0, 1)
        assert again.audit().system.budget == 5.0


def test_a_client_that_joins_while_a_round_is_open_can_leave_before_the_next(place):
    with books(place) as own:
        own.begin(3.0)
        own.amend(join=5)
        own.amend(leave=3)
        own.settle()
        assert [each.client for each in own.begin(3.0)] == [0, 1, 2]
        own.settle()
        own.audit()
    with books(place) as again:
        assert again.audit().system.clients == 4


def test_an_open_end_after_a_refund_takes_back_no_more_than_is_left(place):
    """What waits counts: after a refund of 60 of 81, an open end that takes back 30
    would leave less than nothing.
    """
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        own.begin(3.0)
        own.adjust(1, 0, -20.0)
        own.adjust(1, 1, -20.0)
        own.adjust(1, 2, -20.0)
        with pytest.raises(
            SettingError,
            match="money = -30: takes back more than the 21 that were approved",
        ):
            own.amend(horizon="open", money=-30.0)
        own.amend(horizon="open", money=-20.0)
        own.settle()
        own.audit()
    books(place).close()


@pytest.mark.parametrize("kind", ["join", "money", "adjust"])
def test_audit_raises_no_alarm_while_an_amendment_waits(place, kind):
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        own.begin(3.0)
        if kind == "adjust":
            own.adjust(1, 0, -5.0)
        else:
            own.amend(**{kind: 5})
        own.audit()
        own.settle()
        found = own.audit()
        assert len(found.amendments) == 1
        own.begin(2.0)
        own.settle()
        own.audit()


def test_a_forked_child_is_told_to_open_the_accounts_itself(place):
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        before = rows(place)
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            try:
                own.begin(3.0)
                said = "it began a round"
            except BaseException as error:
                said = str(error)
            os.write(writes, said.encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert "was opened by process" in os.read(reads, 1000).decode()
        assert rows(place) == before
        own.begin(3.0)
        own.settle()
        own.audit()


def test_a_key_makes_a_repeat_harmless(place):
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        for _ in range(3):
            own.adjust(1, 0, -4.5, by="anna", key="invoice 1182")
            own.amend(money=500.0, key="board 7")
        with pytest.raises(
            LedgerError,
            match=(
                r"key = invoice 1182: is that of entry 4 \(adjusted, round 1, by anna,"
                r" 2\d+-.*; give this one another key"
            ),
        ):
            own.adjust(1, 0, -5.5, key="invoice 1182")
        with pytest.raises(LedgerError, match="key = board 7: is that of entry 5"):
            own.amend(money=501.0, key="board 7")
        with pytest.raises(LedgerError, match="key = invoice 1182: is that of entry 4"):
            own.adjust(1, 1, -4.5, key="invoice 1182")
        assert own.audit().spent == 76.5
        assert own.system.money(2) == 2500.0
    for _ in range(2):
        found = amend(place, Amendment(adjust=-4.5), "ben", "", (1, 0), "invoice 1182")
    assert [each.key for each in found.amendments] == ["invoice 1182", "board 7"]


def test_an_adjustment_belongs_to_an_order(place):
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        with pytest.raises(
            SettingError,
            match="adjust = 5: belongs to an order; name its round and its client",
        ):
            amend(place, Amendment(adjust=5.0), "anna", "")
        assert own.audit().amendments == []


# what a policy cannot work with


@pytest.mark.parametrize(
    "policy",
    [Headgate(rule=Fifo(capacity=(3, 3))), Constant(rate=2.0, K=2, capacity=(3, 3))],
)
def test_a_command_refuses_what_the_policy_of_the_accounts_cannot_work_with(
    place, headgate, policy
):
    """The command does not know the policy: the accounts remember what it refuses."""
    system = System([8, 8], 20.0, 50)
    with Books(place, system, policy) as own:
        own.begin(2.0)
        own.settle()
        before = rows(place)
        _, err = headgate("ledger", "amend", place, "--join", 4, code=2)
        assert "join = 4: the policy of these accounts cannot work with it: " in err
        with pytest.raises(HeadgateError):
            own.amend(join=4)
        assert rows(place) == before
        own.amend(money=5.0)
    with Books(place, system, policy) as again:
        again.begin(2.0)
        again.settle()
        again.audit()


HOLDS = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1] + "/ledger.sqlite", isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(1.0)
db.execute("ROLLBACK")
"""
HOLDS_IN_POSTGRES = """
import psycopg, sys, time
database, _, account = sys.argv[1].rpartition("/")
with psycopg.connect(database) as db:
    db.execute(f'LOCK TABLE "{account}".entries IN EXCLUSIVE MODE')
    print("held", flush=True)
    time.sleep(1.0)
"""


def test_ctrl_c_while_a_call_waits_for_another_process_leaves_no_transaction_open(
    place,
):
    holds = HOLDS_IN_POSTGRES if isinstance(place, InPostgres) else HOLDS
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        command = [sys.executable, "-c", holds, place]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout.readline() == "held\n"
            before = signal.signal(
                signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT)
            )
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                own.begin(2.0)
            signal.signal(signal.SIGALRM, before)
        own.begin(2.0)
        own.settle()
        own.audit()


def test_another_thread_is_told_so_and_may_close(place):
    own, said = books(place), []

    def use():
        try:
            own.begin(3.0)
        except HeadgateError as error:
            said.append(str(error))
        own.close()

    thread = Thread(target=use)
    thread.start()
    thread.join()
    assert "it was opened in another thread, which alone may use it" in said[0]
    with books(place) as again:
        again.begin(3.0)
        again.settle()


@pytest.mark.parametrize(
    "change", [{"leave": 1}, {"money": -1500.0}, {"join": 5}], ids=str
)
def test_an_amendment_of_an_open_round_waits_also_when_the_accounts_are_opened_again(
    place, change
):
    with books(place) as own:
        orders = own.begin(3.0)
        own.amend(**change)
    with books(place) as again:
        assert again.begin(9.0) == orders
        again.settle()
        again.begin(3.0)
        again.settle()
        assert len(again.audit().amendments) == 1


class OfFour(Headgate):
    """A policy that can work with at most four clients."""

    def retention(self, system):
        if system.clients > 4:
            raise SettingError("system.buffers: at most four clients")
        return super().retention(system)


@pytest.mark.parametrize("open_", [False, True], ids=["idle", "open"])
def test_terms_under_which_the_policy_cannot_work_are_refused(place, open_):
    """The first client may join, and the second may not: the amendment is tried with
    those that wait.
    """
    with books(place, OfFour()) as own:
        if open_:
            own.begin(3.0)
        own.amend(join=5)
        before = rows(place)
        with pytest.raises(
            SettingError, match=r"amend: .*system\.buffers: at most four clients"
        ):
            own.amend(join=5)
        assert rows(place) == before
    books(place, OfFour()).close()


def test_what_a_forked_child_closes_stays_open_for_its_parent(place):
    with books(place) as own:
        own.begin(3.0)
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            try:
                own._journal.close()
                said = str(own._journal.tables._db.execute("SELECT 1").fetchone())
            except BaseException as error:
                said = str(error)
            os.write(writes, said.encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reads, 1000).decode() == "(1,)", (
            "SQLite's connections belong to the process that opened them"
        )
        own.settle()
        own.audit()


def test_a_client_that_joins_right_before_a_round_is_written_is_asked_in_it(
    place, monkeypatch
):
    """Left out, `present` means all clients that there are when the round is
    written.
    """
    usual = Tables.transaction
    with books(place) as own:
        own.begin(3.0)
        own.settle()

        def joins(tables):
            monkeypatch.undo()
            amend(place, Amendment(join=5), "anna", "")
            return usual(tables)

        monkeypatch.setattr(Tables, "transaction", joins)
        assert [each.client for each in own.begin(0.1)] == [0, 1, 2, 3]
        own.settle()
        assert own.audit().system.clients == 4
        assert own.ledger.admitted[0, 3] == 5


class OfThree(Headgate):
    """A policy of one's own that knows three clients and fails in its own way for
    others.
    """

    def retention(self, system):
        return {3: super().retention(system)}[system.clients]


def test_a_policy_that_fails_for_other_clients_can_be_opened_and_no_client_joins(
    place, headgate
):
    with books(place, OfThree()) as own:
        own.begin(3.0)
        own.settle()
        before = rows(place)
        with pytest.raises(
            SettingError,
            match=r"amend: join = 5: the policy .* cannot work with it: KeyError\(4\)",
        ):
            own.amend(join=5)
        _, err = headgate("ledger", "amend", place, "--join", 5, code=2)
        assert err.count("\n") == 1
        assert rows(place) == before
        own.begin(2.0)
        own.settle()
    with books(place, OfThree()) as again:
        again.audit()


def test_a_round_stays_open_where_its_repeat_fails(place, monkeypatch):
    def fails(tables, after=0):
        raise DataError("the disk is gone")

    with books(place) as own:
        own.begin(3.0)
        monkeypatch.setattr(Tables, "entries", fails)
        with pytest.raises(DataError):
            own.begin(3.0)
        monkeypatch.undo()
        own.settle()
        assert own.audit().spent == 81


def test_a_statement_and_an_audit_are_of_one_moment(place, monkeypatch):
    """What another process writes while they read is in all of it or in nothing."""
    usual = Tables.orders

    def slow(tables, *given):
        monkeypatch.undo()
        amend(place, Amendment(adjust=-5.0), "anna", "meanwhile", (1, 0))
        return usual(tables, *given)

    with books(place) as own:
        own.begin(3.0)
        own.settle()
        for look, before in ((own.statement, 81), (own.audit, 76)):
            monkeypatch.setattr(Tables, "orders", slow)
            assert look().spent == before
        assert own.audit().spent == 71


def test_an_amendment_right_before_the_transaction_of_a_decision_is_in_it(
    place, monkeypatch
):
    """`begin` has read the entries already, to see whether a round is open."""
    usual = Tables.transaction

    def late(tables):
        monkeypatch.undo()
        amend(place, Amendment(leave=1), "anna", "board")
        return usual(tables)

    with books(place) as own:
        own.begin(3.0)
        own.settle()
        monkeypatch.setattr(Tables, "transaction", late)
        assert [each.client for each in own.begin(3.0)] == [0, 2]
        own.settle()
        own.begin(3.0)
        own.settle()
        own.audit()
    books(place).close()


def test_ctrl_c_right_after_a_commit_loses_nothing(place, monkeypatch):
    """The round is settled on disk, and the process that goes on reads so."""

    def interrupted(*given):
        raise KeyboardInterrupt

    with books(place) as own:
        own.begin(3.0)
        tables = type(own._journal.tables)
        monkeypatch.setattr(tables, "write_anchor", interrupted)
        with pytest.raises(KeyboardInterrupt):
            own.settle()
        monkeypatch.undo()
        assert own.audit().spent == 81
        own.settle(round=1)
        own.begin(2.0)
        own.settle()
    with books(place) as again:
        assert again.audit().rounds == 2
