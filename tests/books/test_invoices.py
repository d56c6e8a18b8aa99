"""Invoices and refunds: after the last round, in parts, once under a key, and exact
whatever the sums.
"""

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import Books, Controller, Delivery, System
from headgate.books.accounts import Accounts
from headgate.books.exact import exact, plainly, total
from headgate.books.ledger_store import Event, LedgerStore
from headgate.books.statement import amend, export, opened, statement
from headgate.control import Amendment
from headgate.control.charges import exactly
from headgate.control.policies import Headgate
from headgate.errors import LedgerError, SettingError

from .kept import books, change, rows


def test_a_refund_and_an_invoice_are_taken_after_the_last_round(tmp_path, headgate):
    with books(tmp_path, horizon=2) as own:
        for _ in range(2):
            own.begin(3.0)
            own.settle()
        own.adjust(1, 0, -3.0, why="label rejected")
        own.adjust(2, 0, 1.25, why="invoice 7")
        own.amend(leave=2, why="asked us to")
        with pytest.raises(
            SettingError,
            match=r"money = 5: round 2 is over; .* \(horizon = 3 or more\)",
        ):
            own.amend(money=5.0)
        found = own.audit()
    refund = (
        "ledger",
        "adjust",
        tmp_path,
        "--round",
        2,
        "--client",
        1,
        "--amount",
        -0.75,
        "--key",
        "K-1",
    )
    headgate(*refund, "--by", "anna")
    out, _ = headgate(*refund, "--by", "ben")
    assert out.count("K-1") == 1
    with books(tmp_path, horizon=2) as again:
        assert again.audit().spent == found.spent - Decimal("0.75")
        again.amend(horizon=3, money=5.0)
        again.begin(3.0)
        again.settle()
        again.audit()


@settings(max_examples=60)
@given(
    price=st.decimals("0.01", "9.99", places=2),
    samples=st.integers(1, 8),
    cuts=st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True),
)
def test_a_refund_in_parts_comes_to_all_that_was_paid(
    tmp_path_factory, price, samples, cuts
):
    folder = tmp_path_factory.mktemp("accounts")
    with books(folder) as own:
        own.begin(float(price), present=[0])
        own.settle({0: samples})
        paid = price * samples
        ends = [(paid * cut / 100).quantize(Decimal("0.01")) for cut in sorted(cuts)]
        parts = [
            after - before
            for before, after in zip([Decimal(0), *ends], [*ends, paid], strict=True)
        ]
        for part in parts:
            if part:
                own.adjust(1, 0, -float(part))
        found = own.audit()
        assert found.spent == 0
        with pytest.raises(
            LedgerError, match=r"is more than the 0 that were paid on this order"
        ):
            own.adjust(1, 0, -0.01)
    with books(folder) as again:
        again.begin(1.0)
        again.settle()
        again.audit()


def test_money_is_exact_for_sums_that_floats_cannot_hold(tmp_path):
    """Prices of 10⁹ and a cent come to more than 3·10¹², where a sum of floats has lost
    cents.
    """
    price, rounds = 1_000_000_000.01, 300
    with books(tmp_path, budget=1e14, horizon=rounds) as own:
        for _ in range(rounds):
            own.begin(price, in_all=20)
            own.settle()
        found = own.audit()
        samples = sum(line.delivered for line in found.lines)
    assert found.spent == samples * Decimal("1000000000.01")
    assert samples > 3000
    export(found, tmp_path / "orders.json", "json")
    assert json.loads((tmp_path / "orders.json").read_text())["spent"] == str(
        found.spent
    )


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
        own.settle({0: Delivery(0, earlier={1: 7})})
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
        answers = [own._judged(own._now, client, Delivery(4)) for client in range(3)]
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
            match=(
                "client 0: takes back 2 samples that it reported before; nothing was"
                " settled"
            ),
        ):
            own.settle({0: Delivery(0, earlier={1: 5})})
        own.settle({0: Delivery(0, earlier={1: 7})})
        assert own.audit().spent == 21


def test_sums_are_exact():
    assert total([exact(0.1), exact(0.2), exact(1e15), exact(-1e15)]) == Decimal("0.3")
    assert exactly(0.012, 7) == Decimal("0.084")
    assert total([exact(1e15), exact(1e-100)]) > Decimal(10) ** 15
    assert plainly(exact(1e15)) == "1000000000000000"


def test_a_round_asks_the_ledger_no_more_for_many_clients(tmp_path):
    """The queries of `begin` and `settle` do not grow with the clients, so their time
    grows no faster than these do.
    """
    counts = []
    for clients in (5, 50):
        folder = tmp_path / str(clients)
        with Books(
            folder,
            System([8] * clients, budget=4.0 * clients, horizon=100),
            Headgate(fill=8.0),
        ) as own:
            found = []
            own._store._db.set_trace_callback(found.append)
            orders = own.begin(3.0)
            own.settle({each.client: each.samples for each in orders})
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


def test_refunds_of_all_that_was_paid_replay_whatever_their_order(tmp_path, headgate):
    """A sum of floats that has held 10,000 has no room for the last digits of
    0.0001.
    """
    with books(tmp_path, budget=1e5) as own:
        own.begin(1e4, in_all=1)
        own.settle()
        own.begin(1e-4, in_all=1)
        own.settle()
    lines = statement_of(tmp_path).lines
    for line in lines:
        headgate(
            "ledger",
            "adjust",
            tmp_path,
            "--round",
            line.round,
            "--client",
            line.client,
            "--amount",
            f"-{line.paid:f}",
        )
    with books(tmp_path, budget=1e5) as again:
        assert again.audit().spent == 0
        again.begin(3.0)
        again.settle()
        again.audit()


def test_an_open_end_after_refunds_of_all_that_was_paid_begins_with_nothing(tmp_path):
    with books(tmp_path) as own:
        for price in (1.1, 2.2, 3.3):
            own.begin(price, in_all=3)
            own.settle()
        for line in own.statement().lines:
            own.adjust(line.round, line.client, -float(line.paid))
        own.amend(horizon="open")
        own.audit()
    books(tmp_path).close()


def test_money_taken_back_after_invoices_replays(tmp_path):
    """What is approved with an open end is what was spent, to the last bit of the sum
    that the replay forms.
    """
    with books(tmp_path) as own:
        own.begin(3.07, in_all=3)
        own.settle()
        line = own.statement().lines[0]
        for amount in (15.83, -3.3, 0.1, -0.3):
            own.adjust(line.round, line.client, amount)
        amend(tmp_path, Amendment(horizon="open"), "anna", "")
        amend(tmp_path, Amendment(money=-float(own.statement().spent)), "anna", "")
    with books(tmp_path) as again:
        assert again.audit().approved == 20, "the budget of the next round"


def statement_of(folder):
    with opened(folder) as store:
        return statement(store)


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


def test_what_is_reserved_is_exact(tmp_path):
    with books(tmp_path) as own:
        own.begin(0.1, in_all=3, present=[0])
        own.settle({})
        assert own.statement().reserved == Decimal("0.3"), (
            "as floats it is 0.30000000000000004"
        )


class WithGifts(Headgate):
    """Each client gives two samples in every round."""

    def admit(self, view, memory):
        ask, after = super().admit(view, memory)
        return ask._replace(free=np.full(view.kept_by_client.shape, 2)), after


def test_of_samples_that_cost_nothing_only_delivered_ones_are_stated(tmp_path):
    with books(tmp_path, WithGifts()) as own:
        own.begin(3.0)
        own.settle({0: 1, 1: 2, 2: 3})
        assert [
            (line.delivered, line.free, line.paid) for line in own.audit().lines
        ] == [(1, 1, 0), (2, 2, 0), (3, 2, 3)]


def test_after_a_refund_of_all_a_round_may_cost_nothing(tmp_path):
    """0.03 less three times 0.01 is below 0 as floats, and no ledger holds that."""
    with books(tmp_path) as own:
        own.begin(0.01, present=[0])
        own.settle({0: 3})
        for _ in range(3):
            own.adjust(1, 0, -0.01)
        own.begin(1.0)
        own.settle({0: 0, 1: 0, 2: 0})
        assert own.audit().spent == own.ledger.spent[0] == 0
