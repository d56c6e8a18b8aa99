"""Invoices and refunds: after the last round, in parts, once under a key, and exact
whatever the sums.
"""

import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.books.exact import exact, plainly, total
from headgate.books.statement import amend, export, opened, statement
from headgate.control import Amendment
from headgate.control.charges import exactly
from headgate.control.policies import Headgate
from headgate.errors import LedgerError, SettingError

from .kept import books, one_more


def test_a_refund_and_an_invoice_are_taken_after_the_last_round(place, headgate):
    with books(place, horizon=2) as own:
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
        place,
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
    with books(place, horizon=2) as again:
        assert again.audit().spent == found.spent - Decimal("0.75")
        again.amend(horizon=3, money=5.0)
        again.begin(3.0)
        again.settle()
        again.audit()


@settings(max_examples=20)
@given(
    price=st.decimals("0.01", "9.99", places=2),
    samples=st.integers(1, 8),
    cuts=st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True),
)
def test_a_refund_in_parts_comes_to_all_that_was_paid(
    module_place, price, samples, cuts
):
    place = one_more(module_place)
    with books(place) as own:
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
    with books(place) as again:
        again.begin(1.0)
        again.settle()
        again.audit()


def test_money_is_exact_for_sums_that_floats_cannot_hold(place, tmp_path):
    """Prices of 10⁹ and a cent come to more than 3·10¹², where a sum of floats has lost
    cents.
    """
    price, rounds = 1_000_000_000.01, 300
    with books(place, budget=1e14, horizon=rounds) as own:
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


def test_sums_are_exact():
    assert total([exact(0.1), exact(0.2), exact(1e15), exact(-1e15)]) == Decimal("0.3")
    assert exactly(0.012, 7) == Decimal("0.084")
    assert total([exact(1e15), exact(1e-100)]) > Decimal(10) ** 15
    assert plainly(exact(1e15)) == "1000000000000000"


def test_refunds_of_all_that_was_paid_replay_whatever_their_order(place, headgate):
    """A sum of floats that has held 10,000 has no room for the last digits of
    0.0001.
    """
    with books(place, budget=1e5) as own:
        own.begin(1e4, in_all=1)
        own.settle()
        own.begin(1e-4, in_all=1)
        own.settle()
    lines = statement_of(place).lines
    for line in lines:
        headgate(
            "ledger",
            "adjust",
            place,
            "--round",
            line.round,
            "--client",
            line.client,
            "--amount",
            f"-{line.paid:f}",
        )
    with books(place, budget=1e5) as again:
        assert again.audit().spent == 0
        again.begin(3.0)
        again.settle()
        again.audit()


def test_an_open_end_after_refunds_of_all_that_was_paid_begins_with_nothing(place):
    with books(place) as own:
        for price in (1.1, 2.2, 3.3):
            own.begin(price, in_all=3)
            own.settle()
        for line in own.statement().lines:
            own.adjust(line.round, line.client, -float(line.paid))
        own.amend(horizon="open")
        own.audit()
    books(place).close()


def test_money_taken_back_after_invoices_replays(place):
    """What is approved with an open end is what was spent, to the last bit of the sum
    that the replay forms.
    """
    with books(place) as own:
        own.begin(3.07, in_all=3)
        own.settle()
        line = own.statement().lines[0]
        for amount in (15.83, -3.3, 0.1, -0.3):
            own.adjust(line.round, line.client, amount)
        amend(place, Amendment(horizon="open"), "anna", "")
        amend(place, Amendment(money=-float(own.statement().spent)), "anna", "")
    with books(place) as again:
        assert again.audit().approved == 20, "the budget of the next round"


def statement_of(folder):
    with opened(folder) as store:
        return statement(store)


def test_what_is_reserved_is_exact(place):
    with books(place) as own:
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


def test_of_samples_that_cost_nothing_only_delivered_ones_are_stated(place):
    with books(place, WithGifts()) as own:
        own.begin(3.0)
        own.settle({0: 1, 1: 2, 2: 3})
        assert [
            (line.delivered, line.free, line.paid) for line in own.audit().lines
        ] == [(1, 1, 0), (2, 2, 0), (3, 2, 3)]


def test_after_a_refund_of_all_a_round_may_cost_nothing(place):
    """0.03 less three times 0.01 is below 0 as floats, and no ledger holds that."""
    with books(place) as own:
        own.begin(0.01, present=[0])
        own.settle({0: 3})
        for _ in range(3):
            own.adjust(1, 0, -0.01)
        own.begin(1.0)
        own.settle({0: 0, 1: 0, 2: 0})
        assert own.audit().spent == own.ledger.spent[0] == 0
