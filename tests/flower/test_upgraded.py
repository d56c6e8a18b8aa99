"""A run that an earlier version began, with a ledger of format 3, goes on."""

import shutil
from contextlib import closing
from pathlib import Path
from zipfile import ZipFile

import pytest
from grids import Node
from worlds import World, an_experiment, counting_app

from headgate.books.database import LEDGER
from headgate.books.format3 import OldLedger
from headgate.books.statement import opened, statement
from headgate.books.upgrade import KEPT
from headgate.errors import DataError
from headgate.flower.rounds import Discipline

RUN = Path(__file__).with_name("format3.zip")
"""ledger, model and stores after ten rounds: with lost messages, a client that joined,
one that left, one that was in quarantine and told of its samples afterwards, a refund,
and orders that nobody has answered
"""


def begun(folder):
    """The run of the earlier version, in the folder of one of this version."""
    experiment = an_experiment("fifo", 14, clients=4, budget=12.0)
    world = World(folder, experiment, Discipline(gather=0.0, deadline=5.0))
    world.play(until=0)
    for path in (folder / "run").glob("ledger.*"):
        path.unlink()
    shutil.rmtree(folder / "run" / "parameters")
    ZipFile(RUN).extractall(folder)
    app = counting_app(folder / "stores")
    world.use(app)
    world.grid.nodes[104] = Node(app, 4)
    world.clients = range(5)
    return world


def test_a_run_of_an_earlier_version_is_refused_until_it_is_upgraded_and_goes_on(
    tmp_path, headgate
):
    world = begun(tmp_path)
    with closing(OldLedger(tmp_path / "run" / LEDGER)) as old:
        spent, nodes = old.spent(), old.nodes()
        rounds = [row.notes for row in old.rounds() if row.settled]
    with pytest.raises(DataError, match="is of format 3; `headgate ledger upgrade"):
        world.play()
    headgate("ledger", "upgrade", tmp_path / "run")
    assert (tmp_path / "run" / KEPT).is_file()
    with opened(tmp_path / "run") as journal:
        found = statement(journal)
        assert sorted(journal.nodes()) == sorted(nodes)
    assert (found.spent, found.rounds) == (spent, 9)
    kept = [(past.metrics, past.sha256) for past in world.rounds()]
    assert kept == [(row["metrics"], row["sha256"]) for row in rounds]
    world.play()
    ledger = world.audit()
    assert ledger.t == 14
    assert world.outstanding() == []
    for client in (0, 1, 2, 4):
        admitted = sum(world.admitted_by(client).values())
        assert admitted == ledger.admitted[0, client]
    assert [each.client for each in world.events("quarantined", "lifted")] == [2, 2]
