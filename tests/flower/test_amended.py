"""Terms that change while a run on Flower goes on: money, horizon, clients that join and leave."""

from grids import Node
from worlds import World, an_experiment, counting_app

from headgate.books.statement import amend, opened, statement
from headgate.control import Amendment


def test_a_run_takes_up_amendments_with_its_next_round(tmp_path):
    world = World(tmp_path, an_experiment("fifo", rounds=12))
    world.play(until=3)
    folder = tmp_path / "run"
    amend(folder, Amendment(join=4), "anna", "a new site")
    amend(folder, Amendment(leave=0), "anna", "closed")
    amend(folder, Amendment(money=50.0, horizon=14), "bert", "the board said yes")
    with world.buffer(0) as buffer:
        assert buffer.positions(world.name())
    app = counting_app(tmp_path / "stores", world.broken)
    world.grid.nodes |= {100: Node(app, 0, {"headgate-keep": False}), 103: Node(app, 3)}
    world.play(until=5)
    with world.buffer(0) as buffer:
        assert not buffer.positions(world.name()), "what a client held that has left is erased"
    world.play()
    with world.buffer(3) as buffer:
        assert buffer.positions(world.name()), "a client that joined buys"
    with opened(folder) as store:
        found = statement(store)
        found.check(store.spent())
    assert found.rounds == 14
    assert float(found.approved) == 9.0 * 12 + 50
    assert 0.9 * float(found.approved) < float(found.spent) <= float(found.approved)
    assert not [line for line in found.lines if line.client == 0 and line.round > 3]
    world.clients = (1, 2)  # the others' stores are not what the recipe has
    world.audit()


def test_what_an_absent_client_would_have_got_goes_to_the_others(tmp_path):
    world = World(tmp_path, an_experiment("fifo", rounds=40))
    for t in range(1, 41):
        world.grid.nodes = {100 + m: Node(counting_app(tmp_path / "stores"), m) for m in world.clients if (t + m) % 3}
        world.play(until=t)
    ledger = world.audit()
    assert 0.95 * 360 < ledger.spent[0] <= 360
