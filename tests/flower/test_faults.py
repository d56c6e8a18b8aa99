"""Whatever happens to messages, clients and the server: exactly once, nothing lost, Z is the replay, within the budget."""

import numpy as np
import pytest
from worlds import POLICIES, World, an_experiment, same_ledgers

ROUNDS, CLIENTS = 6, 3


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_restart_after_every_round_changes_no_bit(policy, tmp_path):
    experiment = an_experiment(policy, ROUNDS)
    once, often = World(tmp_path / "once", experiment), World(tmp_path / "often", experiment)
    assert once.play()
    for t in range(1, ROUNDS + 1):
        often.grid.server_dies = "after sending" if t % 2 else ""
        often.play(t)
        often.grid.server_dies = ""
        assert often.play(t)
    same_ledgers(once.audit(), often.audit())
    with once.store() as a, often.store() as b:
        assert [past.metrics for past in a.rounds()] == [past.metrics for past in b.rounds()]
        assert a.rounds()[-1].sha256 == b.rounds()[-1].sha256
    for name in ("metrics.parquet", "clients.parquet"):
        assert (once.folder / "run" / name).read_bytes() == (often.folder / "run" / name).read_bytes()


def test_what_was_admitted_in_silence_is_charged_at_its_own_price_when_it_becomes_known(tmp_path):
    prices = {1: 1.0, 2: 3.0, 3: 2.0}
    world = World(tmp_path, an_experiment("fifo", 3), prices=prices.get)
    world.grid.faults = {(1, 0): "reply lost"}
    world.play(1)
    (lost,) = world.outstanding()
    assert (lost.round, lost.client) == (1, 0)
    before = world.audit()
    assert before.admitted[0, 0] == 0
    world.play(2)
    after = world.audit()
    new = {row.client: row.admitted for row in world.orders(2)}
    assert world.outstanding() == []
    assert after.admitted[0, 0] == lost.ordered + new.get(0, 0)
    assert after.spent[0] == before.spent[0] + 3.0 * sum(new.values()) + 1.0 * lost.ordered
    (event,) = world.events("late")
    assert (event.round, event.client) == (2, 0)
    assert f"{lost.ordered} samples of round 1" in event.reason


def test_money_of_orders_without_an_answer_is_set_aside(tmp_path):
    """All clients are silent until the last round, in which samples are cheap: what they bought before is not spent again."""
    world = World(tmp_path, an_experiment("fifo", 6, budget=2.0), prices=lambda t: 3.0 if t < 6 else 0.5)
    world.grid.faults = {(t, m): "reply lost" for t in range(1, 6) for m in world.clients}
    world.play(5)
    assert world.audit().spent[0] == 0
    assert world.outstanding()
    world.play()
    ledger = world.audit()
    assert 0 < ledger.spent[0] <= 2.0 * 6
    assert np.all(ledger.occupancy[0] <= world.experiment.system.buffer)


def test_a_message_that_comes_twice_trains_twice_but_counts_once(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 2))
    world.grid.faults = {(t, m): "message twice" for t in (1, 2) for m in world.clients}
    world.play()
    ledger = world.audit()
    twin = World(tmp_path / "twin", an_experiment("fifo", 2))
    twin.play()
    same_ledgers(ledger, twin.audit())
    with world.store() as a, twin.store() as b:
        assert [past.metrics for past in a.rounds()] == [past.metrics for past in b.rounds()]
        assert {event.kind for event in a.events()} == {"again"}
