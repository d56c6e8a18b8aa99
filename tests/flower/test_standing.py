"""A bad client's orders are settled by a rule, its quarantine can be lifted, and an
honest answer is believed after any lie.
"""

import json
from contextlib import closing

import numpy as np
import pytest
from headgate.books.accounts import closings
from headgate.books.ledger_store import LedgerStore, Ordered
from hostile import says_it_did_nothing, with_arrays, with_receipt
from worlds import World, an_experiment

from headgate.errors import DataError
from headgate.flower.messages import Order, Receipt
from headgate.flower.rounds import Discipline
from headgate.records.reader import RunFolder


def test_a_client_that_hid_what_it_admitted_is_believed_when_it_tells(tmp_path):
    """Round 1: it admits three samples and says none. Round 2: an honest answer,
    charged at the prices of both rounds.
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
    assert (first.admitted, world.row(0).offences) == (0, 0)
    hidden = sum(world.admitted_by(0).values())
    assert hidden == first.ordered > 0
    world.play(2)
    ledger = world.audit()
    with world.store() as store:
        (row,) = store.corrections()
        assert (row.round, row.client, row.admitted, row.learned, row.charge) == (
            1,
            0,
            hidden,
            2,
            1.0 * hidden,
        )
        assert store.clients()[0].offences == 0
        charged = sum(row.charge for row in (*store.orders(), *store.corrections()))
        assert ledger.spent[0] == charged
    (event,) = world.events("corrected")
    assert (
        event.reason
        == f"{hidden} samples of round 1 that it had not reported, {hidden:g} in all"
    )
    world.play()
    world.audit()
    assert world.events("rejected", "quarantined") == []


def an_answer(t, rounds, admitted, position):
    return Receipt("e", t, 0, rounds, admitted, position, 0, 0, False, 0, 0, 0, 0, "")


def test_orders_that_overlap_are_not_corrected_beyond_where_they_went(tmp_path):
    """Ordered five and, unheard, eight: five and three are admitted. Nobody can be paid
    for eight more on the second.
    """
    past = {1: Ordered(1, 0, 5, 0, 2.0, 5, 2), 2: Ordered(2, 0, 8, 0, 3.0, 3, 2)}
    with closing(LedgerStore(tmp_path / "ledger.sqlite")) as store:
        with store.transaction():
            for row in past.values():
                store._db.execute(
                    "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)", row[:7]
                )
        assert store.closed(0, [1, 2]) == past
        lasts = store.lasts(past.values())
        assert lasts == {1: 5, 2: 8}
        assert store.lasts([Ordered(3, 0, 4, 0, 1.0)]) == {3: 12}
    order = Order("e", 3, 0, 8, 8, 0, 0, 2, True)
    assert closings(an_answer(3, (1, 2, 3), (5, 3, 0), 8), order, {}, past, lasts) == (
        [],
        [],
    )
    with pytest.raises(
        DataError, match="admitted 8 samples in round 2, 3 of 8 ordered ones were left"
    ):
        closings(an_answer(3, (2, 3), (8, 0), 13), order, {}, past, lasts)


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
    assert {row.round: row.admitted for row in own} == world.admitted_by(1)
    assert {row.learned for row in own} == {2}
    assert not any(world.row(1)[4:])
    assert world.events("released") == []


def test_unknown_orders_are_released_at_quarantine_and_charged_later(
    tmp_path,
):
    world = caught(tmp_path, with_receipt(position=99))
    ordered = [row for row in world.orders() if row.client == 1]
    (event,) = world.events("released")
    assert (
        event.reason
        == f"{sum(row.ordered for row in ordered)} samples ordered in rounds 1, 2"
    )
    assert all(row.admitted == 0 for row in ordered)
    assert world.row(1).quarantined
    assert not [row for row in world.outstanding() if row.client == 1]
    world.play(3)
    assert not [row for row in world.orders() if row.client == 1 and row.round == 3]
    with (
        closing(world.strategy()),
        world.store() as store,
    ):  # also while a server plays the run
        assert store.lift(1)
    offences = world.events("rejected", "quarantined", "released", "lifted")
    assert [event.kind for event in offences] == [
        "rejected",
        "rejected",
        "quarantined",
        "released",
        "lifted",
    ]
    world.play(4)
    world.audit()
    admissions = world.admitted_by(1)
    with world.store() as store:
        corrected = {
            row.round: (row.client, row.price, row.admitted)
            for row in store.corrections()
        }
    assert corrected == {
        t: (1, float(t), admissions[t]) for t in (1, 2) if admissions[t]
    }
    assert world.row(1)[:4] == (1, 4, 0, False)
    paid = [row.admitted for row in world.orders() if row.client == 1] + [
        admitted for *_, admitted in corrected.values()
    ]
    assert sum(paid) == sum(admissions.values())


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
    assert "round 2, client 1: quarantined: after 2 offences" in table
    assert "\x1b" not in table
    assert "[red]" in table, "what a client said is shown as it is, not as markup"
    assert (
        "client 0: is not in quarantine"
        in headgate(*command, run, "--lift", 0, code=2)[1]
    )
    assert "holds no ledger.sqlite" in headgate(*command, tmp_path, code=4)[1]
