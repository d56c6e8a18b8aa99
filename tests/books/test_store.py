"""The accounts of format 3, on which runs on Flower stand: what is changed behind their
back is found, and what another process writes is seen.
"""

from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from headgate import Controller, System
from headgate.books import accounts
from headgate.books.accounts import Accounts
from headgate.books.ledger_store import Event, LedgerStore
from headgate.books.statement import amend, opened, statement
from headgate.control import Amendment
from headgate.control.policies import Constant, Headgate
from headgate.control.policies.references import held
from headgate.errors import LedgerError, SettingError

from .format3_books import SYSTEM, OldBooks, Told
from .format3_books import old_books as books
from .kept import change, rows


def test_amounts_are_compared_to_the_last_digit(tmp_path):
    """A cent in 10¹³ is noticed: a float has no room for it."""
    with books(tmp_path, budget=1e14) as own:
        own.begin(1e12, in_all=10)
        own.settle()
    change(tmp_path, "UPDATE rounds SET paid = paid || '01'")
    with (
        opened(tmp_path) as store,
        pytest.raises(
            LedgerError,
            match=r"the orders come to 10000000000000, the ledger says 1\d+\.001",
        ),
    ):
        statement(store)
    with pytest.raises(LedgerError, match="round 1: the exact sum is"):
        books(tmp_path, budget=1e14)


def test_an_invoice_since_the_last_settled_round_is_in_the_sum(tmp_path):
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle()
        own.adjust(1, 0, 5.5)
        own.begin(2.0)
        own.adjust(1, 1, -1.25)
        assert own.statement().spent == Decimal("85.25")
        with opened(tmp_path) as store:
            assert store.spent() == Decimal("85.25")
        own.settle({})
        own.adjust(1, 2, 0.75)
        with opened(tmp_path) as store:
            assert store.spent() == statement(store).spent == Decimal("86.0")


def test_what_was_reported_late_can_be_refunded_too(tmp_path):
    """A client says afterwards that it had two samples more: the refund may cover
    these.
    """
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle({0: 5, 1: 0, 2: 0})
        own.begin(2.0)
        own.settle({0: Told(0, earlier={1: 7})})
        assert own.statement().lines[0].delivered == 7
        with pytest.raises(
            LedgerError,
            match=r"adjust = -21\.5: is more than the 21 that were paid on this order",
        ):
            own.adjust(1, 0, -21.5)
        own.adjust(1, 0, -21.0)
        assert own.audit().spent == 0
    books(tmp_path).close()


def test_a_settled_price_that_was_changed_is_found_and_named(tmp_path):
    with books(tmp_path) as own:
        for price in (3.0, 2.0):
            own.begin(price)
            own.settle()
    change(tmp_path, "UPDATE orders SET price = 2.5 WHERE round = 1 AND client = 1")
    with pytest.raises(
        LedgerError,
        match=(
            r"round 1: client 1 had 0 samples free and paid 2.5 for others, by the"
            r" replay 0 and 3.0"
        ),
    ):
        books(tmp_path)
    with (
        opened(tmp_path) as store,
        pytest.raises(LedgerError, match="the orders come to"),
    ):
        statement(store)


def test_an_order_that_is_closed_is_not_closed_again(tmp_path):
    """Two settlements of one round, as of two processes on a file system without locks:
    the second changes nothing.
    """
    with books(tmp_path) as own:
        own.begin(3.0)
        accounts: Accounts = own._accounts
        answers = [own.judged(client, Told(4)) for client in range(3)]
        done = accounts.settled(own._now, answers, offences=9)
        own.settle()
        with pytest.raises(
            LedgerError, match="round 1: 3 of its 3 orders are closed already"
        ):
            own._store.settle(done, [], ("", ""), {}, None)
        assert own.audit().spent == 81


def test_a_report_takes_nothing_back(tmp_path):
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle({0: 7})
        own.begin(2.0)
        with pytest.raises(
            LedgerError,
            match=("client 0: takes back 2 samples that it reported before"),
        ):
            own.settle({0: Told(0, earlier={1: 5})})
        own.settle({0: Told(0, earlier={1: 7})})
        assert own.audit().spent == 21


def test_a_round_asks_the_ledger_no_more_for_many_clients(tmp_path):
    """The queries of `begin` and `settle` do not grow with the clients, so their time
    grows no faster than these do.
    """
    counts = []
    for clients in (5, 50):
        folder = tmp_path / str(clients)
        folder.mkdir()
        system = System([8] * clients, budget=4.0 * clients, horizon=100)
        with OldBooks(folder, system) as own:
            found = []
            own._store._db.set_trace_callback(found.append)
            orders = own.begin(3.0)
            own.settle()
            assert len(orders) == clients
            own._store._db.set_trace_callback(None)
        counts.append(
            len([statement for statement in found if statement.startswith("SELECT")])
        )
    assert counts[0] == counts[1] > 0
    store = LedgerStore(folder / "ledger.sqlite")
    (plan,) = store._rows(
        "EXPLAIN QUERY PLAN SELECT * FROM orders WHERE client = 1 AND round = 1 AND"
        " admitted IS NOT NULL"
    )
    store.close()
    assert "(client=? AND round=?)" in plan[3] or "(round=? AND client=?)" in plan[3]


def test_a_round_without_answers_is_not_settled_twice_either(tmp_path):
    with books(tmp_path) as own:
        own.begin(3.0)
        done = own._accounts.settled(own._now, [], offences=9)
        own.settle({})
        before = rows(tmp_path)
        with pytest.raises(
            LedgerError, match="round 1: is not open, so it cannot be settled"
        ):
            own._store.settle(done, [Event(1, 0, "late", "twice")], ("", ""), {}, None)
        assert rows(tmp_path) == before


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE rounds SET debt = debt + 1 WHERE round = 2", "round 2: Z is"),
        ("UPDATE rounds SET spent = spent + 1 WHERE round = 2", "round 2: spend is"),
        (
            "UPDATE orders SET free = 1 WHERE client = 2 AND round = 1",
            "round 1: client 2 had 1 samples free and paid 3.0",
        ),
    ],
)
def test_what_the_replay_computes_is_what_is_written(tmp_path, statement, said):
    """Client 2 does not answer, so nothing was charged for its samples yet."""
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle({0: 8, 1: 9})
        own.begin(2.0)
        own.settle({0: 1, 1: 1})
    change(tmp_path, statement)
    with pytest.raises(LedgerError, match=said):
        books(tmp_path)


def test_audit_compares_all_that_is_in_memory(tmp_path):
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle()
        accounts, standing = own._accounts, own._accounts.standing
        for name in ("spent", "admitted", "dropped"):
            ledger = replace(
                standing.ledger, **{name: getattr(standing.ledger, name) + 1}
            )
            accounts.standing = replace(standing, ledger=ledger)
            with pytest.raises(
                LedgerError, match=f"{name} is not what the replay says"
            ):
                own.audit()
        accounts.standing = replace(standing, paid=standing.paid + 1)
        with pytest.raises(
            LedgerError, match=r"82\.0 was spent, the replay says 81\.0"
        ):
            own.audit()
        smaller = Controller(
            System([8, 9, 9], 20.0, 100), standing.controller.policy, 1, np.array([0])
        )
        accounts.standing = replace(standing, controller=smaller)
        with pytest.raises(LedgerError, match="a client holds more than its buffer"):
            own.audit()
        accounts.standing = standing
        own.audit()


def test_accounts_that_another_process_has_continued_are_to_be_opened_again(tmp_path):
    """The lock keeps two processes apart; where a file system has none, the second is
    refused before it writes.
    """
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle()
        store = LedgerStore(tmp_path / "ledger.sqlite")
        store._run("DELETE FROM orders")
        store._run("DELETE FROM rounds")
        store.close()
        before = rows(tmp_path)
        with pytest.raises(
            LedgerError,
            match=(
                r"round 0 is settled on disk, these accounts are at round 1; open them"
                r" again"
            ),
        ):
            own.begin(3.0)
        assert rows(tmp_path) == before


def test_a_statement_is_of_one_moment(tmp_path, monkeypatch):
    """A round that another process settles while a statement is read is in all of it or
    in nothing of it.
    """
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle({0: 8, 1: 9})
        own.begin(2.0)
        usual = LedgerStore.corrections

        def slow(store):
            if store.path.parent == tmp_path and not settled:
                settled.append(True)
                own.settle({2: 1})
            return usual(store)

        settled = []
        with opened(tmp_path, writes=True) as store:
            monkeypatch.setattr(LedgerStore, "corrections", slow)
            found = statement(store)
        assert settled
        assert (found.rounds, found.spent) == (1, 51)
        monkeypatch.undo()
        assert statement(own._store).rounds == 2


def test_a_settlement_of_another_process_asks_to_open_again(tmp_path, monkeypatch):
    """Ctrl-C right after the commit: the round is settled on disk."""

    def interrupted(anchor, folder):
        raise KeyboardInterrupt

    with books(tmp_path) as own:
        own.begin(3.0)
        monkeypatch.setattr("headgate.books.anchor.Anchor.write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            own.settle()
        monkeypatch.undo()
        for call in (own.audit, own.settle, lambda: own.begin(2.0)):
            with pytest.raises(
                LedgerError,
                match=(
                    "round 1 is settled on disk, these accounts are at round 0; open"
                    " them again"
                ),
            ):
                call()
    with books(tmp_path) as again:
        assert again.audit().spent == 81


def test_an_amendment_right_before_the_transaction_of_a_decision_is_in_it(
    tmp_path, monkeypatch
):
    """`begin` has read the amendments already, to check what it is given."""
    usual = LedgerStore.transaction

    def late(store):
        monkeypatch.undo()
        amend(tmp_path, Amendment(leave=1), "anna", "board")
        return usual(store)

    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle()
        monkeypatch.setattr(LedgerStore, "transaction", late)
        assert [each.client for each in own.begin(3.0)] == [0, 2]
        own.settle()
        own.begin(3.0)
        own.settle()
        own.audit()
    books(tmp_path).close()


def test_an_amendment_that_came_too_late_is_refused_and_not_applied_late(tmp_path):
    """Only a process of an older version writes such a row. A replay would apply it
    before round 2.
    """
    with books(tmp_path) as own:
        for _ in range(2):
            own.begin(3.0)
            own.settle()
        own._store._run(
            "INSERT INTO amendments (round, made, by, why, change) VALUES (1,"
            " '2026-11-19', 'ben', '', '{\"money\": 5.0}')"
        )
        with pytest.raises(
            LedgerError,
            match=(
                r"amendment 1 \(money 5, .*\) was written after round 1; open them"
                r" again"
            ),
        ):
            own.begin(3.0)


def test_an_audit_is_of_one_moment(tmp_path, monkeypatch):
    """What another process amends while an audit runs is in all of it or in nothing of
    it.
    """
    usual, audit = accounts.replay, accounts.Accounts.audit

    def slow(store, controller):
        monkeypatch.setattr(accounts, "replay", usual)
        amend(tmp_path, Amendment(adjust=-5.0), "anna", "while it begins", (1, 0))
        return usual(store, controller)

    def then_amended(own):
        audit(own)
        amend(tmp_path, Amendment(adjust=-5.0), "anna", "before the statement", (1, 1))

    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle()
        monkeypatch.setattr(accounts, "replay", slow)
        own._accounts.audit()
        assert own.audit().spent == 76
        monkeypatch.setattr(accounts.Accounts, "audit", then_amended)
        assert own.audit().spent == 76
        monkeypatch.undo()
        assert own.audit().spent == 71


def test_accounts_that_go_on_while_they_are_opened_are_read_as_of_one_moment(
    tmp_path, monkeypatch
):
    """Two processes where a file system has no locks: one settles while the other reads
    what it has done so far.
    """
    usual = LedgerStore.rounds

    def slow(store, *given, **named):
        if store is not own._store and own._now is not None:
            own.settle()
        return usual(store, *given, **named)

    with books(tmp_path) as own:
        own.begin(3.0)
        monkeypatch.setattr(LedgerStore, "rounds", slow)
        with closing(LedgerStore(tmp_path / "ledger.sqlite")) as store:
            assert accounts.Accounts(store, SYSTEM, held(Headgate())).t == 0
        assert own.ledger.t == 1


def test_terms_of_a_policy_that_does_not_keep_to_its_money_are_not_amended(tmp_path):
    """Books limits every policy. A run on Flower may have one that spends what it
    wants.
    """
    with closing(LedgerStore(tmp_path / "ledger.sqlite")) as store:
        accounts.Accounts(store, SYSTEM, Constant(rate=3.0, K=5))
    before = rows(tmp_path)
    with pytest.raises(
        SettingError,
        match=(
            "the policy does not keep to its money: terms can be amended with one that"
            " does"
        ),
    ):
        amend(tmp_path, Amendment(money=5.0), "anna", "")
    assert rows(tmp_path) == before
