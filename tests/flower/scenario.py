"""Forty rounds on Flower in which everything changes, by a server and clients in one
process that is killed ten times. One message of six is lost, late or comes twice, one
client can never deliver all that is ordered, and two answers are rejected.

    python scenario.py FOLDER
        each time it is killed, another process plays on from there
"""

import logging
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from grids import Node
from hostile import with_receipt
from killed import import_what_a_run_imports
from worlds import World, an_experiment, counting_app

from headgate.books.statement import amend, opened, statement
from headgate.control import Amendment

ROUNDS, CLIENTS = 40, 5
CHANGES = {
    10: Amendment(join=3),
    15: Amendment(money=90.25),
    20: Amendment(leave=1),
    30: Amendment(money=-60.5),
}
"""after so many rounds"""
REFUND, ERASED = 25, (12, 28)
LYING = {(8, 4): "reply changed", (33, 4): "reply changed"}
"""answers that are rejected"""
ACCIDENTS = (
    "message lost",
    "reply lost",
    "message delayed",
    "message overtaken",
    "message twice",
)
SPARE = 2
"""samples a round that the source of client 2 has"""
CALM = 36
"""from this round on everybody is there and every message arrives"""


def faults():
    """What goes wrong, in one message of six."""
    found = {}
    for t in range(1, CALM):
        chance = np.random.default_rng([8, t])
        for client in range(CLIENTS + 1):
            if chance.random() < 1 / 6 and (client != 1 or t < 18):
                found[t, client] = ACCIDENTS[chance.integers(len(ACCIDENTS))]
    return found | LYING


def made():
    return an_experiment("fifo", ROUNDS, clients=CLIENTS, budget=12.0)


def play(folder):
    logging.disable()
    world, run = World(folder, made()), folder / "run"

    def supply(client):
        settled = int((folder / "settled").read_text() or 0)
        return SPARE * (settled + 1) if client == 2 else 10**9

    app = counting_app(folder / "stores", supply=supply)
    world.use(app)
    world.grid.faults, world.grid.tamper = faults(), with_receipt(position=999)
    world.play(until=1)
    with opened(run) as store:
        settled = store.settled
    for t in range(settled, ROUNDS):
        with opened(run) as store:
            found = statement(store)
            done, lines = {each.why for each in found.amendments}, found.lines
        if t in CHANGES and f"after {t}" not in done:
            amend(run, CHANGES[t], "the tests", f"after {t}")
        if t == REFUND and "refund" not in done:
            line = next(line for line in lines if line.charged > 1)
            amend(
                run,
                Amendment(adjust=-0.75),
                "the tests",
                "refund",
                (line.round, line.client),
            )
        if t in ERASED:
            with world.buffer(0) as buffer:
                if len(buffer.erasures()) == ERASED.index(
                    t
                ):  # once, also where the round is played again
                    buffer.erase([f"0/{buffer.positions(world.name())[-1]}"])
        away = np.random.default_rng([7, t]).random() < 0.5
        clients = [
            client
            for client in range(CLIENTS + (t >= 10))
            if not (client == 3 and away and t < CALM)
        ]
        world.grid.nodes = {
            100 + client: Node(app, client, {"headgate-keep": client != 1})
            for client in clients
        }
        world.play(until=t + 1)
        (folder / "settled").write_text(str(t + 1))


def main(folder):
    moments, settled = random.Random(5), folder / "settled"
    settled.write_text("0")
    import_what_a_run_imports("fifo")
    for _ in range(10):
        wanted, child = int(settled.read_text() or 0) + moments.randint(1, 3), os.fork()
        if child == 0:
            play(folder)
            os._exit(0)
        while int(settled.read_text() or 0) < wanted:
            assert os.waitpid(child, os.WNOHANG) == (
                0,
                0,
            ), "it has come to an end by itself"
            time.sleep(0.01)
        time.sleep(moments.random() * 0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    play(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
