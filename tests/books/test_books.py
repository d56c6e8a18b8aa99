"""Books: orders and answers on disk, terms that change, statements that reconcile;
killed anywhere.
"""

import csv
import json
import random
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
    tmp_path,
):
    moments = random.Random(10)
    for kill in range(11):
        with subprocess.Popen(
            [sys.executable, SCENARIO, tmp_path], stdout=subprocess.PIPE, text=True
        ) as process:
            if kill < 10:
                seen = [process.stdout.readline() for _ in range(moments.randint(1, 3))]
                time.sleep(moments.random() * 0.03)
                process.kill()
                assert seen
            else:
                process.communicate(timeout=300)
                assert process.returncode == 0
    with Books(tmp_path, scenario.SYSTEM, Headgate(fill=8.0)) as done:
        found, ledger, system = done.audit(), done.ledger, done.system
        assert ledger.t == scenario.ROUNDS
        assert system.clients == 6
        assert system.amended.left == (1,)
        assert found.approved == Decimal("1699.75")
        assert float(found.spent) <= 1699.75
        assert [each.why for each in found.amendments] == [
            "after 10",
            "after 15",
            "after 20",
            "refund",
            "after 30",
        ]
        for client in range(6):
            own = scenario.Client(tmp_path, client)
            assert (
                ledger.admitted[0, client] == own.position
            )  # client 1 answers in its last round, too
        lines = {(line.round, line.client): line for line in found.lines}
        for client in set(range(6)) - {1}:
            for t, admitted in (
                scenario.Client(tmp_path, client).state["admitted"].items()
            ):
                assert (
                    lines[int(t), client].delivered if (int(t), client) in lines else 0
                ) == admitted
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


def test_a_round_that_was_begun_begins_again_with_the_same_orders(tmp_path):
    with books(tmp_path) as first:
        orders = first.begin(3.0, present=[0, 2])
    with books(tmp_path) as again:
        assert again.begin(9.0, present=[0, 2]) == orders
        again.settle()
        assert again.statement().spent == Decimal("54.0")


def test_an_order_without_an_answer_is_reserved_and_charged_at_its_own_price_later(
    tmp_path,
):
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle({0: 8, 1: 9})
        assert own.statement().reserved == Decimal("30.0")
        own.begin(2.0)
        own.settle({2: Delivery(0, earlier={1: 6})})
        found = own.audit()
        assert found.spent == Decimal("69.0")
        assert next(line.delivered for line in found.lines if line.client == 2) == 6


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            {0: 9},
            (
                "client 0: admitted 9 samples in round 1, 8 of 8 ordered ones were"
                " left; nothing was settled"
            ),
        ),
        ({0: Delivery(2, ["a"])}, r"settle: reports\[0\].keys: 1 keys for 2 samples"),
        (
            {0: Delivery(8, erased=9)},
            "client 0: erased 9 samples, more than it was to hold",
        ),
    ],
)
def test_a_report_that_cannot_be_is_refused_and_the_round_stays_open(
    tmp_path, report, said
):
    with books(tmp_path) as own:
        own.begin(3.0)
        with pytest.raises(LedgerError, match=said):
            own.settle(report)
        own.settle()


def test_a_refused_report_is_an_event_and_its_purchase_stays_open(tmp_path):
    with books(tmp_path) as own:
        first = own.begin(3.0)
        assert own.check(1, Delivery(9)) == 9
        with pytest.raises(
            LedgerError,
            match=(
                r"client 1: admitted 10 samples in round 1, 9 of 9 ordered ones were"
                r" left$"
            ),
        ):
            own.check(1, Delivery(10))
        for _ in range(3):
            own.settle({0: 8}, {1: "ten of nine"})
            own.begin(0.5, present=[0, 1])
        assert own.statement().reserved >= Decimal("27.0") + Decimal("30.0")
        assert [each.held(each.last).stop for each in first] == [8, 9, 10]
        own.settle({0: 0, 1: Delivery(0, earlier={1: 7})})
        assert own.audit().lines[1].delivered == 7
    with opened(tmp_path) as store:
        assert [
            (each.kind, each.reason) for each in store.events() if each.client == 1
        ][:3] == [("rejected", "ten of nine")] * 3


def test_a_short_delivery_leaves_what_the_accounts_say(tmp_path):
    with books(tmp_path) as own:
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


def test_a_month_costs_no_more_than_its_budget(tmp_path):
    with books(tmp_path, budget=100.0) as own:
        own.amend(month=60.0)
        spent = []
        for when in ("2026-01-03", "2026-01-20", "2026-02-01", "2026-02-02"):
            own.begin(2.0, when=when)
            own.settle()
            spent.append(float(own.statement().spent))
        assert spent[1] <= 60.0 < spent[3] <= 120.0


def test_invoices_are_corrected_down_to_nothing_and_no_further(tmp_path):
    with books(tmp_path) as own:
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


def test_an_amendment_while_a_round_is_open_holds_from_the_next_one(tmp_path):
    with books(tmp_path) as own:
        before = own.begin(3.0)
        own.amend(leave=0, by="anna", why="moved away")
        own.settle()
        assert own.ledger.admitted[0, 0] == before[0].samples
        assert [each.client for each in own.begin(3.0)] == [1, 2]
        assert own.ledger.occupancy[0, 0] == 0
        own.settle()
        own.begin(3.0)
        with pytest.raises(LedgerError, match="client 0: has left or is none"):
            own.settle({0: 1})
        (made,) = own.audit().amendments
        assert (made.by, made.why, made.round) == ("anna", "moved away", 1)


def test_any_policy_is_held_to_the_money_and_the_buffers(tmp_path):
    with Books(
        tmp_path, System([8, 9, 10], budget=20.0, horizon=10), Constant(rate=30.0, K=5)
    ) as own:
        for _ in range(10):
            own.begin(3.0)
            own.settle()
        assert float(own.audit().spent) <= 200.0


def test_settings_that_cannot_be_are_refused(tmp_path):
    with books(tmp_path) as own:
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


def test_the_rest_is_rehearsed_from_the_ledger_under_the_amended_terms(tmp_path):
    with books(tmp_path) as own:
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


def test_of_two_processes_one_plays_and_another_may_amend(tmp_path):
    with books(tmp_path) as own:
        with pytest.raises(DataError, match="is in use by another process"):
            books(tmp_path)
        amend(tmp_path, Amendment(money=10.0), "anna", "from outside")
        own.begin(3.0)
        assert own.statement().approved == Decimal("2010.0")
    books(tmp_path).close()
