"""Clients of a run on Flower have names: in lines, orders, statements and commands."""

from grids import Node
from hostile import with_receipt
from worlds import World, an_experiment, counting_app

from headgate.books.statement import opened, statement
from headgate.flower.rounds import Discipline
from headgate.records.reader import RunFolder

NAMES = ["clinic-a", "clinic-b", "clinic-c"]


def test_a_run_speaks_of_its_clients_by_their_names(tmp_path, headgate):
    system = {"buffers": [3, 2, 4], "clients": 3, "budget": 9.0, "names": NAMES}
    world = World(
        tmp_path,
        an_experiment("fifo", 6, system=system),
        Discipline(gather=0.0, offences=1),
    )
    world.grid.faults = {(1, 1): "message lost", (2, 2): "reply changed"}
    world.grid.tamper = with_receipt(position=99)
    run = tmp_path / "run"
    world.play(1)
    line = RunFolder.open(run).state["line"]
    assert line.endswith("; no valid answer from clients clinic-b")
    world.play(2)
    with opened(run) as journal:
        assert {line.client for line in statement(journal).lines} == set(NAMES)
    table, _ = headgate("flower", "clients", run)
    assert "round 2, client clinic-c: quarantined" in table
    headgate("flower", "clients", run, "--lift", "clinic-c")
    _, err = headgate("flower", "clients", run, "--lift", "clinic-x", code=2)
    assert "'clinic-x': is no client; the clients have other names" in err
    headgate("ledger", "amend", run, "--leave", "clinic-a")
    headgate("ledger", "amend", run, "--join", 3, "--name", "clinic-d")
    world.grid.faults = {}
    world.grid.nodes[103] = Node(counting_app(tmp_path / "stores"), 3)
    world.play()
    with opened(run) as journal:
        found = statement(journal)
    late = {line.client for line in found.lines if line.round > 2}
    assert "clinic-a" not in late
    assert "clinic-d" in late
    assert found.system.names == (*NAMES, "clinic-d")
