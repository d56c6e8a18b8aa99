"""Orders under way: every ordered sample is under way, delivered, cancelled or
rejected, and money, places, keys and the statement follow from that.
"""

import re
from datetime import timedelta
from decimal import Decimal
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Books, Controller, Delivery, System
from headgate.books.course import within
from headgate.books.statement import lines, opened
from headgate.control.policies import Headgate
from headgate.control.retention import Fifo, Reservoir
from headgate.errors import LedgerError, SettingError

from .kept import books, rows

NAMED = {"clinic-a": 8, "clinic-b": 9, "clinic-c": 10}


def line_of(own, t, client):
    (found,) = [
        line
        for line in own.statement().lines
        if (line.round, line.client) == (t, client)
    ]
    return found


def counts(own, t, client):
    line = line_of(own, t, client)
    return line.delivered, line.under_way, line.cancelled, line.rejected, line.beyond


def test_what_is_not_reported_stays_under_way_over_many_rounds(place):
    with books(place) as own:
        own.begin(3.0, present=[0])
        own.settle({0: Delivery(2, ["a", "b"])})
        assert counts(own, 1, 0) == (2, 6, 0, 0, 0)
        own.begin(0.5, present=[0])
        own.settle({0: [Delivery(3, ["c", "d", "e"], round=1), Delivery(8)]})
        assert counts(own, 1, 0) == (5, 3, 0, 0, 0)
        own.begin(9.0, present=[])
        own.settle({0: Delivery(1, cancelled=2, round=1)})
        assert counts(own, 1, 0) == (6, 0, 2, 0, 0)
        found = own.audit()
        assert (found.spent, found.reserved) == (Decimal("22.0"), 0)
        assert line_of(own, 1, 0).keys == ("a", "b", "c", "d", "e")
        assert own.ledger.occupancy[0, 0] == 8, "what arrives replaces the oldest"


def test_orders_never_stop_each_other(place):
    """A queue of ten rounds throttles nothing: full buffers are ordered in each."""
    with books(place, budget=1000.0) as own:
        for t in range(1, 11):
            assert [each.samples for each in own.begin(1.0)] == [8, 9, 10]
            own.settle({})
            assert own.balance().reserved == 27 * t
        assert own.under_way()[2] == dict.fromkeys(range(1, 11), 10)


def test_under_way_is_a_limit_of_its_own(place):
    with books(place, budget=1000.0) as own:
        own.begin(1.0)
        own.settle({})
        second = own.begin(1.0, under_way=[10, 9, 4])
        assert [each.samples for each in second] == [2, 0, 0]
        own.settle({1: Delivery(4, round=1)})
        third = own.begin(1.0, under_way=[10, 9, 4], most=3)
        assert [each.samples for each in third] == [0, 3, 0]


def test_a_rejected_sample_is_refunded_its_place_is_free_and_the_client_drops_it(
    place,
):
    with books(place) as own:
        own.begin(3.0)
        own.settle({0: Delivery(8, list("abcdefgh")), 1: 9, 2: 10})
        own.begin(9.0)
        own.settle({0: Delivery(rejected={"a": "blurred", "c": "blurred"}, round=1)})
        assert counts(own, 1, 0) == (8, 0, 0, 2, 0)
        assert own.balance().spent == 75
        assert own.ledger.occupancy[0].tolist() == [6, 9, 10]
        first = own.begin(9.0)[0]
        assert first.drop == ("a", "c")
    with books(place) as again:
        assert again.begin(9.0)[0].drop == ("a", "c"), "also after a kill"
        again.settle()
        assert again.begin(9.0)[0].drop == ()
        with pytest.raises(LedgerError, match="'a': cannot be rejected, it is reject"):
            again.settle({0: Delivery(rejected={"a": "twice"}, round=1)})
        again.settle()
        again.audit()


@pytest.mark.parametrize("rule", [Fifo(), Reservoir()], ids=["fifo", "reservoir"])
@pytest.mark.parametrize("key", ["a", "b", "d"])
def test_the_uses_of_a_rejected_sample_count_no_more(place, rule, key):
    """Four samples are held for three rounds, and one of them is given back then."""
    system = System([4], budget=40.0, horizon=20)
    with Books(place, system, Headgate(rule=rule)) as own:
        own.begin(1.0)
        own.settle({0: Delivery(4, list("abcd"))})
        own.begin(1.0, most=0)
        own.settle()
        own.begin(1.0, most=0)
        own.settle({0: Delivery(rejected={key: "blurred"}, round=1)})
        ledger = own.ledger
        assert int(ledger.held[0]) == int(ledger.distinct[0]) == 3
        assert int(ledger.uses[0]) == int(ledger.uses_in_memory[0]) == 3 * 3
        assert int(ledger.squared_uses[0]) == 3 * 3**2
        own.begin(1.0, most=1)
        own.settle({0: Delivery(1, ["e"])})
        assert int(own.ledger.uses[0]) == 3 * 4 + 1
        assert int(own.ledger.squared_uses[0]) == 3 * 4**2 + 1
        own.audit()


def test_a_policy_with_other_settings_is_refused_with_the_setting(place):
    system = System([4], budget=40.0, horizon=20)
    with Books(place, system, Headgate(fill=8.0)) as own:
        own.begin(1.0)
        own.settle()
    said = r" was opened with fill = 8\.0, this policy has 2\.0$"
    with pytest.raises(LedgerError, match=rf"^{re.escape(str(place))}.*{said}"):
        Books(place, system, Headgate(fill=2.0))


def test_a_key_is_paid_for_once(place):
    with books(place) as own:
        own.begin(3.0)
        own.settle({0: Delivery(2, ["a", "b"]), 1: Delivery(1, ["a"])})
        own.begin(0.1)
        before = rows(place)
        with pytest.raises(
            LedgerError,
            match="client 0: key 'b': was delivered in round 1, and paid for; nothing",
        ):
            own.settle({0: Delivery(2, ["c", "b"]), 1: 9})
        assert rows(place) == before
        own.settle({0: Delivery(1, ["c"], rejected={"b": "blurred"})})
        own.settle({0: Delivery(1, ["b"], round=2)})
        assert line_of(own, 1, 0).keys == ("a",)
        assert line_of(own, 2, 0).keys == ("b", "c"), "a rejected one may come again"
        own.audit()


def test_what_comes_beyond_an_order_is_recorded_and_stops_nobody(place):
    with books(place) as own:
        own.begin(3.0)
        own.settle({0: Delivery(10, list("abcdefghij")), 1: 9, 2: 11})
        assert counts(own, 1, 0) == (8, 0, 0, 0, 2)
        assert line_of(own, 1, 0).keys == tuple("abcdefgh")
        assert own.audit().spent == 81
        own.begin(0.1)
        own.settle({0: Delivery(1, ["i"])})
        assert line_of(own, 2, 0).keys == ("i",), "it was not paid for, and is now"
        own.audit()


@pytest.mark.parametrize("expires", [2, timedelta(days=2)])
def test_an_order_expires_after_rounds_or_time(place, expires):
    days = [f"2026-11-{day:02}" for day in (1, 2, 3, 4)]
    with books(place) as own:
        own.begin(3.0, [0], when=days[0], expires=expires)
        own.settle({0: 4})
        for day in days[1:3]:
            own.begin(9.0, [], when=day)
            own.settle({0: Delivery(1, round=1)})
        assert counts(own, 1, 0) == (6, 2, 0, 0, 0)
        own.begin(9.0, [], when=days[3])
        assert counts(own, 1, 0) == (6, 0, 2, 0, 0)
        assert own.balance().reserved == 0
        own.settle({0: Delivery(2, round=1)})
        assert counts(own, 1, 0) == (6, 0, 2, 0, 2)
        assert own.audit().spent == 18


def test_a_settlement_may_be_repeated_and_not_changed(place):
    with books(place) as own:
        own.begin(3.0)
        own.settle({0: Delivery(2, ["a", "b"])}, {1: "lies"}, round=1)
    with books(place) as again:
        before = rows(place)
        again.settle({0: Delivery(2, ["a", "b"])}, {1: "lies"}, round=1)
        for other in ({0: Delivery(2, ["a", "c"])}, {}, None):
            with pytest.raises(LedgerError, match="round 1: was settled otherwise"):
                again.settle(other, {1: "lies"}, round=1)
        with pytest.raises(SettingError, match="settle: round = 2: was not begun"):
            again.settle({}, round=2)
        assert rows(place) == before


def test_between_two_rounds_reports_count_once_under_a_key(place):
    with books(place, horizon=1, budget=200.0) as own:
        own.begin(3.0)
        own.settle({0: 2})
        with pytest.raises(SettingError, match="no round was begun, so name the order"):
            own.settle({0: 2})
        late = {0: Delivery(2, round=1), 2: Delivery(3, cancelled=7, round=1)}
        for _ in range(3):
            own.settle(late, key="queue 17")
        assert counts(own, 1, 0)[:2] == (4, 4)
        with pytest.raises(LedgerError, match="key = queue 17: is that of entry 4"):
            own.settle({0: Delivery(3, round=1)}, key="queue 17")
        own.audit()
    with books(place, horizon=1, budget=200.0) as again:
        again.settle(late, key="queue 17")
        assert again.audit().spent == 21


def test_clients_have_names(place, headgate):
    system = System(NAMED, budget=20.0, horizon=100, currency="EUR")
    with Books(place, system, Headgate(fill=8.0)) as own:
        price = {"clinic-c": 1.0, "clinic-a": 3.0, "clinic-b": 2.0}
        found = own.begin(price, present=["clinic-c", "clinic-a"])
        assert [(each.client, each.price) for each in found] == [
            ("clinic-a", 3.0),
            ("clinic-c", 1.0),
        ]
        with pytest.raises(SettingError, match="client = 'clinic-x': is no client"):
            own.settle({"clinic-x": 1})
        own.settle({"clinic-a": 2})
        assert own.under_way()["clinic-c"] == {1: 10}
        own.adjust(1, "clinic-a", -1.0)
        with pytest.raises(SettingError, match="give the new one a name"):
            own.amend(join=4)
    named = ("--join", 4, "--name", "clinic-d")
    headgate("ledger", "amend", place, *named)
    headgate("ledger", "amend", place, "--leave", "clinic-b")
    order = ("--round", 1, "--client", "clinic-a")
    out, _ = headgate("ledger", "adjust", place, *order, "--amount", 0.5)
    assert "clinic-a" in out
    _, err = headgate("ledger", "amend", place, "--leave", "clinic-x", code=2)
    assert "leave = 'clinic-x': is no client" in err
    with Books(place, system, Headgate(fill=8.0)) as again:
        there = [each.client for each in again.begin(2.0)]
        assert there == ["clinic-a", "clinic-c", "clinic-d"]
        assert again.audit().spent == Decimal("5.5")
    other = System(dict.fromkeys("abc", 8), budget=20.0, horizon=100)
    with pytest.raises(LedgerError, match="was opened with"):
        Books(place, other, Headgate(fill=8.0))


# money


@given(
    prices=st.lists(st.floats(0.01, 10.0), min_size=1, max_size=5),
    wanted=st.lists(st.integers(0, 50), min_size=5, max_size=5),
    cents=st.integers(-50, 100_000),
    lot=st.sampled_from([1, 3]),
    quantum=st.sampled_from([Decimal(0), Decimal("0.01"), Decimal(1)]),
)
def test_never_more_is_let_out_than_there_is(prices, wanted, cents, lot, quantum):
    from headgate.books.exact import charged, exact

    wanted = [lot * each for each in wanted[: len(prices)]]
    available = Decimal(cents) / 100
    found = within(wanted, prices, available, lot, quantum)
    cost = sum(
        charged(exact(price), samples, quantum)
        for price, samples in zip(prices, found, strict=True)
    )
    assert cost <= max(available, 0)
    assert all(0 <= own <= most for own, most in zip(found, wanted, strict=True))
    assert all(samples % lot == 0 for samples in found)


def test_charges_are_whole_units_of_the_quantum(place):
    system = System([8, 9], budget=20.0, horizon=20, quantum=0.01)
    with Books(place, system, Headgate()) as own:
        own.begin(0.3333)
        for part in (3, 2, 3):
            report = {0: Delivery(part, round=1)}
            own.settle(report)
        assert own.audit().lines[0].paid == Decimal("2.67"), "not 1.00 + 0.67 + 1.00"
        assert own.balance().reserved == Decimal("3.00")


# the decision


def bought(folder, delay, seed, rounds=100):
    """Labels and money of a queue that delivers each order whole, so late."""
    draw, late = np.random.default_rng(seed), {}
    system = System([30] * 3, budget=20.0, horizon=rounds)
    with Books(folder, system, Headgate()) as own:
        for t in range(1, rounds + 1):
            left = own.rounds_left
            orders = [each for each in own.begin(draw.uniform(1, 10)) if each.samples]
            assert left or not orders, "nothing is ordered that comes too late"
            for each in orders:
                came = Delivery(each.samples, round=t)
                late.setdefault(t + delay, {}).setdefault(each.client, []).append(came)
            own.settle(late.get(t, {}))
        found = own.balance()
        return own.ledger.ever[0], float(found.spent), own.rounds_left, left


def test_a_slow_queue_costs_little_and_its_delay_is_learned(place, monkeypatch):
    monkeypatch.setattr("headgate.books.durable.SYNCHRONOUS", "OFF")
    shares, prices = [], []
    for seed in range(4):
        labels, spent, *_ = bought(place / f"{seed}", 0, seed)
        fewer, less, end, last = bought(place / f"late {seed}", 10, seed)
        assert (end, last) == (0, 0)
        shares.append(fewer / labels)
        prices.append(less / fewer / (spent / labels))
    assert np.mean(shares) > 0.9
    assert np.mean(prices) < 1.08


def test_what_is_under_way_counts_as_bought():
    """A decision that did not know it would buy at any price to keep its pace."""
    system = System([30] * 3, budget=20.0, horizon=100)
    controller, orders = Controller(system, Headgate(fill=0.0)), []
    for under_way in (0, 100):
        ledger = controller.open()
        for price in (1.0, 2.0, 3.0, 9.5):
            last = controller.decide(
                ledger, price, np.array([under_way * 2.0]), under_way=under_way
            )
            ledger = controller.post(ledger, last)
        orders.append(int(last.admitted.sum()))
    assert orders[0] > orders[1] == 0


# statements


def test_a_statement_is_of_a_period_and_lines_come_in_pages(place, headgate):
    with books(place) as own:
        for day in (1, 2, 3):
            own.begin(1.0, when=f"2026-11-{day:02}")
            own.settle({0: Delivery(8, [f"{day}-{n}" for n in range(8)]), 1: 9})
        every = own.statement()
        period = own.statement("2026-11-02", "2026-11-03")
        assert {line.round for line in period.lines} == {2}
        assert period.spent == every.spent
    with opened(place) as journal:
        pages, after = [], (0, -1)
        while page := list(islice(lines(journal, after=after), 2)):
            pages.append(page)
            after = page[-1][:2]
    assert [line for page in pages for line in page] == every.lines
    dates = ("--since", "2026-11-03", "--format", "json", "--out", "-")
    out, _ = headgate("ledger", "export", place, *dates)
    assert '"2-0"' not in out
    assert '"3-0"' in out
