"""A bad client's orders are settled by a rule, its quarantine can be lifted, and an
honest answer is believed after any lie.
"""

import json
from contextlib import closing
from decimal import Decimal

import numpy as np
import pytest
from hostile import says_it_did_nothing, with_arrays, with_receipt
from worlds import World, an_experiment

from headgate.books.nouns import OrderState
from headgate.books.receipts import deliveries
from headgate.errors import LedgerError
from headgate.flower.rounds import Discipline
from headgate.records.reader import RunFolder


def test_what_a_client_hid_is_recorded_when_it_tells_and_not_paid_for(tmp_path):
    """Round 1: it admits three samples and says none, which closes the order. Round 2:
    an honest answer, which is believed.
    """
    prices = {1: 1.0, 2: 4.0, 3: 2.0}
    world = World(tmp_path, an_experiment("both", 3), prices=prices.get)
    world.grid.faults, world.grid.tamper = (
        {(1, 0): "reply changed"},
        says_it_did_nothing(known=0, held=0),
    )
    world.play(1)
    assert world.outstanding() == []  # nothing contradicts it
    first = next(row for row in world.orders(1) if row.client == 0)
    assert (first.delivered, first.cancelled) == (0, first.asked)
    assert world.row(0).offences == 0
    hidden = sum(world.admitted_by(0).values())
    assert hidden == first.asked > 0
    world.play(2)
    world.audit()
    (row,) = (row for row in world.orders() if row.beyond)
    assert (row.round, row.client, row.beyond, row.bought) == (1, 0, hidden, 0)
    assert world.row(0).offences == 0
    (event,) = world.events("beyond")
    given_up = f"{hidden} samples of round 1, which had been given up: not charged"
    assert event.reason == given_up
    world.play()
    world.audit()
    assert world.events("rejected", "quarantined") == []


def an_order(t, asked, delivered=0, cancelled=0):
    return OrderState(t, 0, "2026-11-19", Decimal(2), asked, 0, delivered, cancelled)


def test_orders_that_overlap_are_not_paid_beyond_where_they_went():
    """Ordered five and, unheard, eight: five and three are admitted. Nobody can be paid
    for eight more on the second.
    """
    first, second = an_order(1, 5), an_order(2, 8)
    found = deliveries({1: 5, 2: 3, 3: 0}, {1: first, 2: second})
    assert [(each.round, each.delivered, each.cancelled) for each in found] == [
        (1, 5, 0),
        (2, 3, 5),
    ]
    with pytest.raises(
        LedgerError, match="admitted 8 samples in round 2, 3 of 8 ordered ones were"
    ):
        deliveries({1: 5, 2: 8}, {1: first, 2: second})


def test_an_answer_takes_nothing_back():
    with pytest.raises(LedgerError, match="takes back 2 samples that it reported"):
        deliveries({1: 3}, {1: an_order(1, 5, delivered=5)})


def caught(tmp_path, tamper, rounds=6):
    """Client 1 offends in rounds 1 and 2, and is in quarantine then."""
    world = World(
        tmp_path,
        an_experiment("both", rounds),
        Discipline(gather=0.0, offences=2),
        prices=lambda t: float(t),
    )
    world.grid.faults, world.grid.tamper = (
        {(1, 1): "reply changed", (2, 1): "reply changed"},
        tamper,
    )
    world.play(2)
    return world


def test_what_a_client_admitted_is_charged_at_its_quarantine_where_its_report_agrees(
    tmp_path,
):
    world = caught(tmp_path, with_arrays(w=np.full(2, np.nan)))
    world.audit()
    assert world.outstanding() == []
    own = [row for row in world.orders() if row.client == 1]
    assert {row.round: row.delivered for row in own} == world.admitted_by(1)
    assert {row.answered for row in own} == {2}
    assert not any(world.row(1)[5:])


def test_unknown_orders_are_cancelled_at_quarantine_and_recorded_later(tmp_path):
    world = caught(tmp_path, with_receipt(position=99))
    ordered = [row for row in world.orders() if row.client == 1]
    assert ordered
    assert all(row.cancelled == row.asked for row in ordered)
    assert world.row(1).quarantined
    assert not [row for row in world.outstanding() if row.client == 1]
    world.play(3)
    assert not [row for row in world.orders() if row.client == 1 and row.round == 3]
    with (
        closing(world.strategy()),
        world.store() as store,
    ):  # also while a server plays the run
        assert store.lift(1)
    offences = world.events("rejected", "quarantined", "lifted")
    assert [event.kind for event in offences] == [
        "rejected",
        "rejected",
        "quarantined",
        "lifted",
    ]
    world.play(4)
    world.audit()
    admissions, orders = world.admitted_by(1), world.orders()
    beyond = {row.round: row.beyond for row in orders if row.client == 1}
    for t in (1, 2):
        assert beyond.get(t, 0) == admissions[t]
    row = world.row(1)
    assert (row.heard, row.offences, row.quarantined) == (4, 0, False)
    told = [row.delivered + row.beyond for row in orders if row.client == 1]
    assert sum(told) == sum(admissions.values())


def test_a_command_shows_clients_and_offences(tmp_path, headgate):
    run = caught(tmp_path, with_receipt(position="\x1b[2J[red]")).folder / "run"
    command = "flower", "clients"
    said = json.loads(headgate(*command, run, "--format", "json")[0])
    standing = [
        (row["node"], row["quarantined"], row["offences"]) for row in said["clients"]
    ]
    assert standing == [(100, False, 0), (101, True, 2), (102, False, 0)]
    assert {event["kind"] for event in said["offences"]} >= {"rejected", "quarantined"}
    state = RunFolder.open(run).state
    assert (state["refused"], state["quarantined"]) == (2, 1)
    table, _ = headgate(*command, run)
    assert "True" in table
    assert "round 2, client 1: quarantined: after too many offences" in table
    assert "\x1b" not in table
    assert "[red]" in table, "what a client said is shown as it is, not as markup"
    assert (
        "client 0: is not in quarantine"
        in headgate(*command, run, "--lift", 0, code=2)[1]
    )
    assert "holds no ledger.sqlite" in headgate(*command, tmp_path, code=4)[1]
