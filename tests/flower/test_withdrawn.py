"""Samples that a client erases: reported and not punished; and those of a run that is
over, which are removed.
"""

import sqlite3
from contextlib import closing

import pytest
from grids import Node
from worlds import POLICIES, World, an_experiment, counting_app

from headgate.flower import erase
from headgate.flower.rounds import Discipline
from headgate.records.reader import RunFolder


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_erased_sample_is_reported_and_not_punished(tmp_path, policy):
    world = World(
        tmp_path, an_experiment(policy, 8), Discipline(gather=0.0, offences=1)
    )
    world.play(3)
    with closing(sqlite3.connect(world.store_of(2))) as store:
        store.execute(
            "DELETE FROM samples WHERE position = (SELECT max(position) FROM samples)"
        )
        store.commit()
    world.play(4)
    (event,) = world.events("withdrawn")
    assert (event.round, event.client, event.reason) == (4, 2, "1 samples that it held")
    with world.buffer(2) as buffer, world.accounts() as store:
        held = len(buffer.positions(store.name))
        told = store.newest().told[2]
        assert told.withdrawn == store.ledger.occupancy[0, 2] - held == 1
        assert store.rounds()[-1].clients["held"][2] == held
        assert store.rounds()[-1].metrics["n"] == store.ledger.occupancy.sum() - 1
    world.play()
    assert world.events("rejected", "quarantined", "failed") == []


def bytes_of(world, client):
    return b"".join(
        path.read_bytes()
        for path in world.store_of(client).parent.glob(
            f"{world.store_of(client).name}*"
        )
    )


def test_samples_of_a_run_that_is_over_are_removed_unless_they_are_kept_on_purpose(
    tmp_path,
):
    """Client 0 keeps them, and client 2 is away at the end: it removes them when the
    run is started again.
    """
    world = World(tmp_path, an_experiment("fifo", 4))
    app = counting_app(world.folder / "stores")
    world.grid.nodes = {
        100 + m: Node(app, m, {"headgate-keep": m == 0}) for m in world.clients
    }
    world.play(3)
    payload = world.held_by(1)[-1].payload  # an interrupted run is not over
    away = world.grid.nodes.pop(102)
    world.play()
    assert world.held_by(0)
    assert world.held_by(1) == []
    assert payload not in bytes_of(world, 1)
    assert RunFolder.open(tmp_path / "run").status == "finished"
    assert world.held_by(2)
    world.grid.nodes[102] = away
    world.play()
    assert world.held_by(2) == []
    assert world.admitted_by(2), "an order that comes late would buy again"


def test_a_sample_is_erased_by_its_key_with_a_receipt_and_never_comes_back(
    tmp_path, headgate, monkeypatch
):
    """The stream of each client is a loop of four samples, so each would come again
    soon.
    """
    world = World(tmp_path, an_experiment("fifo", 9))
    world.use(counting_app(tmp_path / "stores", loop=4))
    world.play(2)
    with world.buffer(0) as buffer:
        key, payload = next(
            (sample.key, sample.payload) for sample in buffer.held(world.name())
        )
        open_meanwhile = buffer.held(world.name())
        told, _ = headgate(
            "flower", "erase", key, "none", "--store", tmp_path / "stores"
        )
        assert open_meanwhile
    assert f"client-00000.sqlite: {key}: 1 samples erased, 20" in told
    assert "client-00001.sqlite: none: 0 samples erased, 20" in told
    assert payload not in bytes_of(world, 0), "neither in the file nor in SQLite's log"
    world.play()
    assert key not in [sample.key for sample in world.held_by(0)]
    with world.buffer(0) as buffer:
        assert [receipt[::2] for receipt in buffer.erasures()] == [
            (key, 1),
            ("none", 0),
        ]
    monkeypatch.setenv("HEADGATE_STORE", str(tmp_path / "stores"))
    again = [
        [receipt.samples for receipt in receipts] for receipts in erase([key]).values()
    ]
    assert again == [
        [1],
        [0],
        [0],
    ], "by a call as by the command; a second erasure finds nothing more"
    assert world.events("withdrawn")[0].client == 0
    assert world.events("rejected", "quarantined", "failed") == []
    assert any("of" in event.reason for event in world.events("short")), (
        "what is barred is not charged"
    )


def test_stores_are_emptied_by_hand(tmp_path, headgate):
    world = World(tmp_path, an_experiment("fifo", 3))
    world.play(2)
    payloads = [sample.payload for sample in world.held_by(0)]
    headgate("flower", "forget", tmp_path / "stores")
    assert [world.held_by(m) for m in world.clients] == [[]] * 3
    assert not any(payload in bytes_of(world, 0) for payload in payloads)
    assert (
        "holds no store of a client"
        in headgate("flower", "forget", tmp_path, code=4)[1]
    )
