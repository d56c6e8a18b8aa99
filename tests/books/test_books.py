"""Books: orders and answers on disk, terms that change, statements that reconcile;
killed anywhere.
"""

import csv
import json
import random
import re
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from headgate import Books, Delivery, System
from headgate.books.statement import amend, export, opened
from headgate.control import Amendment
from headgate.control.policies import Constant, Headgate
from headgate.control.prices import Uniform
from headgate.errors import DataError, LedgerError, SettingError

from . import scenario

SCENARIO = Path(scenario.__file__)


def books(folder, **given):
    return Books(
        folder,
        System([8, 9, 10], **{"budget": 20.0, "horizon": 100, **given}),
        Headgate(fill=8.0),
    )


def test_everything_changes_and_ten_kills_later_ledger_clients_and_export_agree(
    place, tmp_path
):
    moments = random.Random(10)
    for kill in range(11):
        with subprocess.Popen(
            [sys.executable, SCENARIO, place, tmp_path],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            if kill < 10:
                seen = [process.stdout.readline() for _ in range(moments.randint(1, 3))]
                time.sleep(moments.random() * 0.03)
                process.kill()
                assert seen
            else:
                process.communicate(timeout=300)
                assert process.returncode == 0
    with Books(place, scenario.SYSTEM, Headgate(fill=8.0)) as done:
        found, ledger, system = done.audit(), done.ledger, done.system
        assert ledger.t == scenario.ROUNDS
        assert system.names == (*scenario.SYSTEM.names, "new")
        assert system.amended.left == (1,)
        assert found.approved == Decimal("1699.75")
        assert found.spent + found.reserved <= found.approved
        assert [each.why for each in found.amendments] == [
            "after 10",
            "after 15",
            "after 20",
            "refund",
            "after 30",
        ]
        for number, name in enumerate(system.names):
            own = scenario.Client(tmp_path, name)
            lines = [line for line in found.lines if line.client == name]
            known = {key for line in lines for key in line.keys}
            if name != "south":  # it has what came after it had left, and nobody paid
                assert known == in_time(own.keys, lines)
            delivered = sum(line.delivered for line in lines)
            assert ledger.admitted[0, number] == delivered
        for line in found.lines:
            assert line.asked == line.delivered + line.cancelled + line.under_way
            assert line.charged == line.price * (line.delivered - line.rejected)
        for state in ("under_way", "cancelled", "rejected", "beyond"):
            assert any(getattr(line, state) for line in found.lines), state
        assert sum(line.adjusted for line in found.lines) == Decimal("-2.75")
        assert ledger.occupancy[0, 1] == 0
    for kind in ("csv", "json", "parquet"):
        export(found, tmp_path / f"orders.{kind}", kind)
    with (tmp_path / "orders.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(Decimal(row["paid"]) for row in rows) == found.spent
    assert json.loads((tmp_path / "orders.json").read_text())["spent"] == str(
        found.spent
    )
    assert pl.read_parquet(tmp_path / "orders.parquet")["paid"].sum() == pytest.approx(
        float(found.spent), abs=1e-6
    )


def in_time(keys, lines):
    """The keys of the samples that did not come beyond their orders."""
    beyond = {
        f"{line.round}-{n}"
        for line in lines
        for n in range(line.asked)
        if scenario.fate(line.round, line.client, n)[0] > line.round + scenario.EXPIRES
    }
    return keys - beyond


def test_a_round_that_was_begun_begins_again_with_the_same_orders(place):
    with books(place) as first:
        orders = first.begin(3.0, present=[0, 2])
    with books(place) as again:
        assert again.begin(9.0, present=[0, 2]) == orders
        again.settle()
        assert again.statement().spent == Decimal("54.0")


def test_an_order_without_an_answer_is_reserved_and_charged_at_its_own_price_later(
    place,
):
    with books(place) as own:
        own.begin(3.0)
        own.settle({0: 8, 1: 9})
        assert own.statement().reserved == Decimal("30.0")
        own.begin(2.0)
        own.settle({2: Delivery(6, round=1)})
        found = own.audit()
        assert found.spent == Decimal("69.0")
        line = next(line for line in found.lines if line.client == 2)
        assert (line.delivered, line.under_way) == (6, 4)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({0: Delivery(2, ["a"])}, r"settle: reports\[0\].keys: 1 keys for 2 samples"),
        (
            {0: Delivery(1, round=7)},
            "round 7: client 0: delivered 1 samples, none were ordered; nothing was",
        ),
        (
            {0: Delivery(8, rejected={"a": "blurred"})},
            "client 0: key 'a': cannot be rejected, it was not delivered; nothing was",
        ),
    ],
)
def test_a_report_that_cannot_be_is_refused_and_the_round_stays_open(
    place, report, said
):
    with books(place) as own:
        own.begin(3.0)
        with pytest.raises(LedgerError, match=said):
            own.settle(report)
        own.settle()


def test_a_refused_report_is_an_event_and_its_purchase_stays_under_way(place):
    with books(place) as own:
        first = own.begin(3.0)
        assert own.check(1, Delivery(9)) == 9
        assert own.check(1, Delivery(10)) == 9, "what comes beyond an order is not held"
        for _ in range(3):
            own.settle({0: 8}, {1: "ten of nine"})
            own.begin(0.5, present=[0, 1])
        assert own.statement().reserved >= Decimal("27.0") + Decimal("30.0")
        assert [each.held(each.last).stop for each in first] == [8, 9, 10]
        own.settle({1: Delivery(7, cancelled=2, round=1)})
        assert own.audit().lines[1].delivered == 7
    with opened(place) as journal:
        assert [
            (each.kind, each.reason) for each in journal.events() if each.client == 1
        ][:3] == [("rejected", "ten of nine")] * 3


def test_a_short_delivery_leaves_what_the_accounts_say(place):
    with books(place) as own:
        held = {}
        for price, short in ((3.0, 0), (0.1, 3), (0.2, 2), (9.0, 0), (0.1, 4)):
            purchases = own.begin(price)
            reports = {each.client: max(each.samples - short, 0) for each in purchases}
            held = {
                each.client: each.held(each.last - each.samples + reports[each.client])
                for each in purchases
            }
            own.settle(reports)
            assert [len(held[client]) for client in range(3)] == own.ledger.occupancy[
                0
            ].tolist()
            assert [held[client].start for client in range(3)] == own.ledger.dropped[
                0
            ].tolist()
        assert max(own.start for own in held.values()) > 0


def test_a_month_costs_no_more_than_its_budget(place):
    with books(place, budget=100.0) as own:
        own.amend(month=60.0)
        spent = []
        for when in ("2026-01-03", "2026-01-20", "2026-02-01", "2026-02-02"):
            own.begin(2.0, when=when)
            own.settle()
            spent.append(float(own.statement().spent))
        assert spent[1] <= 60.0 < spent[3] <= 120.0


def test_invoices_are_corrected_down_to_nothing_and_no_further(place):
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        own.adjust(1, 0, -24.0, why="returned")
        with pytest.raises(
            LedgerError,
            match="adjust = -1: is more than the 0 that were paid on this order",
        ):
            own.adjust(1, 0, -1.0)
        with pytest.raises(
            LedgerError, match="order = round 2, client 0: there is none"
        ):
            own.adjust(2, 0, 1.0)
        own.adjust(1, 1, 0.1)
        assert own.audit().spent == Decimal("57.1")


def test_an_amendment_while_a_round_is_open_holds_from_the_next_one(place):
    with books(place) as own:
        before = own.begin(3.0)
        own.amend(leave=0, by="anna", why="moved away")
        own.settle()
        assert own.ledger.admitted[0, 0] == before[0].samples
        assert [each.client for each in own.begin(3.0)] == [1, 2]
        assert own.ledger.occupancy[0, 0] == 0
        own.settle()
        own.begin(3.0)
        with pytest.raises(LedgerError, match="client 0: delivered 1 samples, none"):
            own.settle({0: 1})
        (made,) = own.audit().amendments
        assert (made.by, made.why, made.round) == ("anna", "moved away", 1)


def test_any_policy_is_held_to_the_money_and_the_buffers(place):
    with Books(
        place, System([8, 9, 10], budget=20.0, horizon=10), Constant(rate=30.0, K=5)
    ) as own:
        for _ in range(10):
            own.begin(3.0)
            own.settle()
        assert float(own.audit().spent) <= 200.0


def test_settings_that_cannot_be_are_refused(place):
    with books(place) as own:
        with pytest.raises(
            SettingError,
            match=r"begin: present\[1\] = 3: must be a whole number from 0 to 2",
        ):
            own.begin(3.0, present=[0, 3])
        with pytest.raises(
            SettingError, match="must be one number, or one for each of 3 clients"
        ):
            own.begin([3.0, 4.0])
        with pytest.raises(SettingError, match="settle: no round was begun"):
            own.settle()


def test_the_rest_is_rehearsed_from_the_ledger_under_the_amended_terms(place):
    with books(place) as own:
        for _ in range(10):
            own.begin(3.0)
            own.settle()
        before = own.rest(Uniform(1.0, 10.0))
        assert own.rest(Uniform(1.0, 10.0)) == before
        assert before["spend"][2] <= 2000.0 - float(own.statement().spent)
        own.amend(money=500.0)
        after = own.rest(Uniform(1.0, 10.0))
        assert after["spend"][0] == pytest.approx(before["spend"][0] + 500.0, abs=30.0)
        assert after["samples"][0] > before["samples"][0]


def test_of_two_processes_one_plays_and_another_may_amend(place):
    with books(place) as own:
        with pytest.raises(DataError, match="is in use by another process"):
            books(place)
        amend(place, Amendment(money=10.0), "anna", "from outside")
        own.begin(3.0)
        assert own.statement().approved == Decimal("2010.0")
    books(place).close()


def test_after_the_horizon_nothing_is_bought_and_late_reports_are_taken(place):
    with books(place, horizon=2) as own:
        for _ in range(2):
            orders = own.begin(3.0)
            own.settle({each.client: each.samples for each in orders[:2]})
        spent = own.statement().spent
        over = (
            f"round 3: the horizon is 2, so all rounds of the accounts in {place}"
            " are over; another folder begins at round 1, amend(horizon=3) adds a round"
        )
        with pytest.raises(SettingError, match=re.escape(over)):
            own.begin(3.0)
        assert own.ledger.t == 2
        assert own.begin(3.0, present=[]) == []
        own.settle({2: Delivery(2, round=1)})
        assert own.audit().spent == spent + 6
        own.amend(horizon=4)
        assert own.begin(0.1)


def test_a_round_says_why_it_bought_and_printed_accounts_are_the_statement(place):
    with books(place) as own:
        assert own.why == ""
        own.begin(3.0)
        assert own.why == "price 3; round 1 fills the buffers for up to 160; 27 samples"
        own.settle()
        own.begin(9.0)
        own.settle()
        assert re.fullmatch(r"price 9, above the limit of 3; nothing bought", own.why)
        own.begin(1.0)
        own.amend(money=50.0)
        own.settle()
        assert own.why == "price 1, below the limit of 3; 27 samples"
        assert str(own) == str(own.statement())
