"""Statements of many orders: a page of them, a period, and files that are written
without holding all lines.
"""

import csv
import io
import json
import tracemalloc
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal

import pytest

from headgate import Books, Delivery, System
from headgate.books.database import PAGE
from headgate.books.statement import (
    KEPT,
    WRITERS,
    exported,
    lines,
    opened,
    statement,
)
from headgate.control.policies import Headgate
from headgate.errors import DataError

CLIENTS = 100


@pytest.fixture(scope="module", params=[60, pytest.param(1000, marks=pytest.mark.long)])
def accounts(request, module_place):
    """Accounts with an order for each client in each of so many rounds, each on a day
    of its own.
    """
    place = module_place / f"pages {request.param}"
    system = System([1] * CLIENTS, budget=2.0 * CLIENTS, horizon=1_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.books.durable.SYNCHRONOUS", "OFF")
        with Books(place, system, Headgate()) as books:
            for t in range(request.param):
                day = date(2026, 1, 1) + timedelta(days=t)
                bought = books.begin(1.0, when=day)
                books.settle(
                    {
                        each.client: Delivery(each.samples, [f"k{each.last}"])
                        for each in bought
                    }
                )
                assert len(bought) == CLIENTS
    return place


def peak_of(call):
    """The most memory in MB that a call takes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


class Nowhere(io.RawIOBase):
    """A file that only counts what is written."""

    size = 0

    def writable(self):
        return True

    def write(self, content):
        self.size += len(content)
        return len(content)


@pytest.mark.parametrize("kind", ["csv", pytest.param("json", marks=pytest.mark.long)])
def test_a_file_is_written_without_holding_its_lines(accounts, kind):
    with opened(accounts) as journal:
        found, file = statement(journal), Nowhere()
        many = len(found.lines)
        assert many >= 6_000 > KEPT
        all_lines = peak_of(lambda: list(found.lines))
        streamed = peak_of(lambda: WRITERS[kind](found, file))
        assert file.size > 70 * many
        assert streamed < all_lines / 2
        if many >= 100_000:
            assert streamed < 5.0 < all_lines


def test_no_query_of_a_statement_fetches_more_than_a_page(accounts, monkeypatch):
    fetched = Counter()

    def counted(query, values=()):
        rows = read(query, values)
        fetched["most"] = max(fetched["most"], len(rows))
        fetched["all"] += len(rows)
        return rows

    with opened(accounts) as journal:
        read = journal.tables._rows
        monkeypatch.setattr(journal.tables, "_rows", counted)
        found = statement(journal)
        assert found.spent == sum(line.paid for line in found.lines)
        assert "orders" not in found.sentence
        assert 0 < fetched["most"] <= PAGE
        fetched.clear()
        page = found.lines[2_000:2_100]
        assert 0 < fetched["all"] <= PAGE + 200
        assert [line[:2] for line in page] == [(21, client) for client in range(100)]
        assert [each.keys for each in page] == [("k21",)] * 100


def test_lines_are_a_sequence_and_a_cursor_goes_through_them(accounts):
    with opened(accounts) as journal:
        found = statement(journal).lines
        every = list(found)
        assert len(found) == len(every)
        assert found[-1] == every[-1]
        assert found[5] == every[5]
        assert found[-20:] == every[-20:]
        assert found[10:50:7] == every[10:50:7]
        assert found[1990:2015] == every[1990:2015]
        assert found[50:10] == []
        with pytest.raises(IndexError):
            found[len(every)]
        after = every[1_234][:2]
        assert next(iter(lines(journal, after=after))) == every[1_235]
        assert found == every
        assert found != every[:-1]
    with pytest.raises(DataError, match="closed"):
        list(found)


def test_a_period_has_its_own_lines_and_files(accounts):
    with opened(accounts) as journal:
        period = statement(journal, "2026-01-02", "2026-01-04")
        assert Counter(line.round for line in period.lines) == {2: 100, 3: 100}
        assert {each.round for each in period.offers} == {2, 3}
        rows = list(csv.DictReader(io.StringIO(exported(period, "csv").decode())))
        assert Counter(row["round"] for row in rows) == {"2": 100, "3": 100}
        assert sum(Decimal(row["paid"]) for row in rows) == 200
        written = json.loads(exported(period, "json"))
        assert written["lines"][0]["time"].startswith("2026-01-02")


def test_the_command_shows_a_page_and_a_period(accounts, headgate):
    text, _ = headgate("ledger", "show", accounts, "--page", "11")
    with opened(accounts) as journal:
        many = len(statement(journal).lines)
    assert f"Orders, from number 1001 on, of {many:,}" in text
    assert text.splitlines()[-100].split()[:2] == ["11", "0"]
    period = ("--since", "2026-01-02", "--until", "2026-01-04")
    found, _ = headgate(
        "ledger", "show", accounts, *period, "--page", "2", "--format", "json"
    )
    orders = json.loads(found)["orders"]
    assert [order["client"] for order in orders] == [str(m) for m in range(100)]
    assert {order["round"] for order in orders} == {"3"}
    whole, _ = headgate("ledger", "show", accounts, *period, "--format", "json")
    assert len(json.loads(whole)["orders"]) == 200
    beyond, _ = headgate("ledger", "show", accounts, "--page", "100000")
    assert "Orders" not in beyond
