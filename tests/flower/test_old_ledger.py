"""A run folder whose ledger is gone or an old copy: the run stops with one line, buys
nothing again and blames nobody.
"""

import shutil
import sqlite3
from contextlib import closing

import pytest
from flwr.app import ConfigRecord
from worlds import World, an_experiment

from headgate.errors import DataError, LedgerError
from headgate.flower.rounds import Discipline


def bought(world):
    """Samples that each client's own file says it has ever admitted, over all runs."""
    found = []
    for m in world.clients:
        with world.buffer(m) as buffer:
            found.append(
                sum(buffer.state(name).position for name in buffer.experiments())
            )
    return found


def without_ledger(world):
    for path in (world.folder / "run").glob("ledger.sqlite*"):
        path.unlink()


@pytest.mark.parametrize("rounds", [0, 4])
def test_a_run_whose_ledger_is_gone_does_not_begin_again(tmp_path, rounds):
    world = World(tmp_path, an_experiment("fifo", 8))
    world.grid.server_dies = (
        "" if rounds else "after sending"
    )  # round 1 is bought, and settled by nobody
    world.play(rounds or 1)
    world.grid.server_dies = ""
    before = bought(world)
    assert sum(before) > 0
    without_ledger(world)
    for _ in range(2):
        with pytest.raises(
            DataError, match=r"^[^\n]*ledger\.sqlite: is missing[^\n]*$"
        ):
            world.play()
    assert bought(world) == before


def test_a_ledger_older_than_the_rest_of_its_folder_is_refused(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 8))
    world.play(2)
    shutil.copy(tmp_path / "run" / "ledger.sqlite", tmp_path / "old")
    world.play(4)
    without_ledger(world)
    shutil.copy(tmp_path / "old", tmp_path / "run" / "ledger.sqlite")
    with pytest.raises(
        DataError,
        match=(
            r"ledger\.sqlite: is an old copy: it knows 2 rounds begun, ledger\.last"
            r" tells of 4"
        ),
    ):
        world.play()


@pytest.mark.parametrize("missed", [1, 4])
def test_a_folder_restored_from_an_old_copy_stops_the_run_and_blames_nobody(
    tmp_path, missed
):
    """Prices differ the second time, so that even the orders of the one round that was
    missed do.
    """
    price = [1.0]
    world = World(
        tmp_path,
        an_experiment("fifo", 14),
        Discipline(gather=0.0, offences=1),
        prices=lambda t: price[0],
    )
    world.play(4)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    world.play(4 + missed)
    before = bought(world)
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(tmp_path / "copy", tmp_path / "run")
    price[0] = 50.0
    for _ in range(2):
        with pytest.raises(
            LedgerError,
            match=(
                rf"ledger\.sqlite: is an old copy: 3 of 3 .* round {4 + missed}, it"
                r" knows 4"
            ),
        ):
            world.play()
    assert bought(world) == before
    assert world.events("rejected", "quarantined") == []


def test_one_client_alone_cannot_say_that_the_ledger_is_old(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 4))

    def lies(reply):
        told = dict(reply.content["headgate"])
        address = {name: told[name] for name in ("experiment", "round", "client")}
        reply.content["headgate"] = ConfigRecord(
            {**address, "newest": told["round"] + 9}
        )
        return reply

    world.grid.faults, world.grid.tamper = (
        {(t, 1): "reply changed" for t in range(1, 5)},
        lies,
    )
    world.play()
    failed = world.events("failed")
    assert [(event.round, event.client) for event in failed] == [
        (t, 1) for t in (1, 2, 3, 4)
    ]
    assert "has done orders up to round 10" in failed[0].reason
    assert world.events("rejected", "quarantined") == []


@pytest.mark.parametrize(
    "planted",
    [
        "TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM orders; END",
        "VIEW v AS SELECT 1",
    ],
)
def test_a_ledger_in_which_somebody_planted_statements_is_refused(tmp_path, planted):
    world = World(tmp_path, an_experiment("fifo", 3))
    world.play(1)
    with closing(sqlite3.connect(tmp_path / "run" / "ledger.sqlite")) as db, db:
        db.execute(f"CREATE {planted}")
    with pytest.raises(DataError, match=r"ledger\.sqlite: holds triggers or views"):
        world.play()
