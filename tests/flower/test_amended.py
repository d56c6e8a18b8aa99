"""Terms that change while a run on Flower goes on: money, horizon, clients that join
and leave.
"""

import os
import subprocess
import sys
from decimal import Decimal

import scenario
from worlds import World, an_experiment

from headgate.books.statement import amend, opened, statement
from headgate.control import Amendment
from headgate.flower import ENVIRONMENT


def test_a_run_takes_up_another_horizon_with_its_next_round(tmp_path):
    world = World(tmp_path, an_experiment("fifo", rounds=12))
    world.play(until=3)
    amend(
        tmp_path / "run",
        Amendment(money=50.0, horizon=14),
        "bert",
        "the board said yes",
    )
    world.play()
    with opened(tmp_path / "run") as store:
        found = statement(store)
    assert found.rounds == 14
    assert float(found.approved) == 9.0 * 12 + 50
    assert 0.9 * float(found.approved) < float(found.spent) <= float(found.approved)
    world.audit()


def test_everything_changes_and_ten_kills_later_ledger_stores_and_statement_agree(
    tmp_path,
):
    command = [sys.executable, scenario.__file__, tmp_path]
    subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=True, timeout=300)
    run = tmp_path / "run"
    with opened(run) as store:
        found = statement(store)
        assert found.spent == store.state.spent
        rows, events = store.clients(), store.events()
    world = World(tmp_path, scenario.made())
    with world.accounts() as accounts:
        ledger = accounts.ledger
    assert found.rounds == scenario.ROUNDS
    assert found.approved == Decimal("509.75")
    assert 0.9 * 509.75 < found.spent <= 509.75
    assert not [line for line in found.lines if line.client == 1 and line.round > 20]
    assert ledger.admitted[0, 5] > 0, "a client that joined buys"
    assert [each.why for each in found.amendments] == [
        "after 10",
        "after 15",
        "after 20",
        "refund",
        "after 30",
    ]
    assert found.system.amended.left == (1,)
    assert rows[0].erased == 2
    assert found.reserved == 0
    rejected = [(each.round, each.client) for each in events if each.kind == "rejected"]
    assert rejected == sorted(scenario.LYING)
    assert {"late", "short", "failed"} <= {each.kind for each in events}
    assert any(0 < line.delivered < line.asked for line in found.lines)
    for client in (0, 2, 3, 4, 5):
        done = world.admitted_by(client)
        delivered = {
            line.round: line.delivered for line in found.lines if line.client == client
        }
        assert {t: n for t, n in done.items() if n} == {
            t: n for t, n in delivered.items() if n
        }
        assert sum(done.values()) == ledger.admitted[0, client]
    assert not world.held_by(1), "what a client held that has left is erased"
