"""What clients on Flower tell of their samples' losses: asked by policies that listen
alone, and checked as a stranger's.
"""

import numpy as np
from flwr.app import MetricRecord
from worlds import World, an_experiment

from headgate.flower.buffer_store import HeldSample
from headgate.flower.client import HeldSamples
from headgate.flower.messages import RECORD, Order
from headgate.records.reader import RunFolder

ORDER = Order("e", 3, 0, 5, 7, 0, 0, 2, True)


def listening(folder, told, rounds=4, policy="listening", **more):
    """A world in which client m tells `told[m]` in every round."""
    world = World(folder, an_experiment(policy, rounds, **more))

    def tamper(reply):
        reply.content["metrics"] = MetricRecord(
            {"num-examples": 1, **told[reply.metadata.src_node_id - 100]}
        )
        return reply

    world.grid.tamper = tamper
    world.grid.faults = {
        (t, m): "reply changed" for t in range(1, rounds + 1) for m in world.clients
    }
    return world


def test_an_order_asks_only_where_somebody_listens(tmp_path):
    for policy, training, asks in (
        ("fifo", {}, False),
        ("fifo", {"losses": True}, True),
        ("listening", {}, True),
    ):
        world = listening(
            tmp_path / f"{policy}{asks}", [{}] * 3, 1, policy, training=training
        )
        world.play()
        orders = [message.content[RECORD] for message in world.grid.orders()]
        assert len(orders) == 3
        assert all(order.get("losses") is (asks or None) for order in orders), (
            "nothing is said where nothing is asked"
        )
        assert (
            "new_loss" in RunFolder.open(world.folder / "run").clients().columns
        ) is asks


def test_what_is_told_reaches_the_policy_and_survives_a_restart(tmp_path):
    told = [{"new_loss": 2.0, "held_loss": 1.0}, {"new_loss": 0.5}, {}]
    world = listening(tmp_path, told)
    world.play(2)
    world.play()  # another server, from the store
    ledger = world.audit()  # the replay decides as was decided
    assert np.array_equal(ledger.losses.new, [[2.0, 0.5, np.nan]], equal_nan=True)
    assert np.array_equal(ledger.losses.held, [[1.0, np.nan, np.nan]], equal_nan=True)
    assert ledger.memory["new_loss"].tolist() == [[2.0, 0.5, 0.0]]  # of rounds 1 to 3
    rows = RunFolder.open(world.folder / "run").clients()
    assert rows["new_loss"].to_list() == [[2.0, 0.5, None]] * 4
    assert rows["held_loss"].to_list() == [[1.0, None, None]] * 4


def test_a_loss_below_nothing_is_an_offence_and_nothing_of_it_counts(tmp_path):
    world = listening(
        tmp_path,
        [{"held_loss": -1.0}, {"held_loss": 1.0}, {"held_loss": 1.0}],
        rounds=1,
        budget=60.0,
    )
    world.play()
    assert np.array_equal(
        world.audit().losses.held, [[np.nan, 1.0, 1.0]], equal_nan=True
    )
    assert [(event.client, event.reason) for event in world.events("rejected")] == [
        (0, "held_loss = -1: must be 0 or more")
    ]


def test_a_client_tells_the_means_of_what_it_has():
    held = HeldSamples(
        [HeldSample(i, str(i), b"", 0, round) for i, round in enumerate((1, 3, 3))],
        ORDER,
    )
    assert held.new.tolist() == [False, True, True]
    assert held.loss_metrics([5.0, 1.0, 2.0]) == {
        "new_loss": 1.5,
        "held_loss": 5.0,
        "new_right": 0.0,
    }
    assert held.loss_metrics([np.nan, 1.0, -1e-9]) == {
        "new_loss": 0.4999999995,
        "new_right": 0.5,
    }
    assert HeldSamples([HeldSample(0, "0", b"", 0, 3)], ORDER).loss_metrics([1.0]) == {
        "new_loss": 1.0,
        "new_right": 0.0,
    }
    assert (held.keys, held.payloads, len(held), held[-1].key) == (
        ["0", "1", "2"],
        [b""] * 3,
        3,
        "2",
    )
