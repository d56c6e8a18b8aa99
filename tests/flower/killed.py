"""Kills a client and a server with SIGKILL before every single statement of their SQLite files, and before every file is put
in place, lets them come back, and says what became of the accounts.

    python killed.py [--out ROWS.json]

Not a test itself: it forks, so it needs a process of its own. A row is {component, kill_point, expected, outcome}.
"""

import argparse
import json
import logging
import os
import signal
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))

from grids import FakeGrid, Node
from worlds import World, an_experiment, counting_app, same_ledgers, start

from headgate.flower.strategy import AdmissionStrategy

ROUNDS = 3
EXPECTED = "exactly once"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Killer:
    """Counts statements, and dies before number `at`."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.count, self.seen = at, 0, []

    def __call__(self, statement: str) -> None:
        self.count += 1
        self.seen.append(" ".join(statement.split()[:3]))
        if self.count == self.at:
            die()


def in_a_child(function, *args) -> bool:
    """Whether a child that does this was killed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            function(*args)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


class DyingClient(FakeGrid):
    """The node of client 0 dies on its order of round 2; its answer never comes."""

    def __init__(self, nodes, killer_app) -> None:
        super().__init__(nodes)
        self.killer_app, self.killed = killer_app, None

    def deliver(self, message):
        node = message.metadata.dst_node_id
        if message.metadata.message_type == "train" and message.metadata.group_id == "2" and self.nodes[node].client == 0:
            living, self.nodes = self.nodes, {node: Node(self.killer_app, 0)}
            self.killed = in_a_child(super().deliver, message)
            self.nodes = living
            if self.killed:
                raise Silence
        return super().deliver(message)

    def _send(self, message, node):
        try:
            return super()._send(message, node)
        except Silence:
            return []


class Silence(Exception):
    pass


def verdict(check) -> str:
    """What becomes of a check, in a child: a finished run was written with threads, after which nobody should fork."""
    with TemporaryDirectory() as folder:
        outcome = Path(folder) / "outcome"

        def judge() -> None:
            try:
                check()
                outcome.write_text(EXPECTED)
            except Exception as error:
                outcome.write_text(f"{type(error).__name__}: {error}")

        in_a_child(judge)
        return outcome.read_text()


def client_rows(policy: str):
    """The client is killed in round 2 and is there again in round 3."""
    with TemporaryDirectory() as folder:
        world = World(folder, an_experiment(policy, ROUNDS, server={"kind": "momentum"}))
        counter = Killer()
        world.grid.nodes[100] = Node(counting_app(world.folder / "stores", watch=counter), 0)
        world.play(1)
        counter.seen.clear()
        world.play(2)
        statements = counter.seen[:]
    for at, statement in enumerate(statements, 1):
        with TemporaryDirectory() as folder:
            world = World(folder, an_experiment(policy, ROUNDS, server={"kind": "momentum"}))
            world.grid = DyingClient(world.grid.nodes, counting_app(world.folder / "stores", watch=Killer(at)))
            world.play(2)

            def check(world=world):
                assert world.grid.killed, "was not killed"
                world.audit()
                world.play()
                world.audit()
                with world.store() as store:
                    assert store.outstanding() == []

            yield "client", f"order, before statement {at} of {len(statements)}: {statement}", verdict(check)


def server_rows(policy: str):
    """The server is killed and starts again."""
    with TemporaryDirectory() as folder:
        undisturbed = World(folder, an_experiment(policy, ROUNDS, server={"kind": "momentum"}))
        in_a_child(undisturbed.play)
        ledger = undisturbed.audit()
        with undisturbed.store() as store:
            rounds = [(past.metrics, past.sha256) for past in store.rounds()]
        tables = {name: (undisturbed.folder / "run" / name).read_bytes() for name in ("metrics.parquet", "clients.parquet")}
        for kind in ("statement", "file"):
            at = 0
            while True:
                at += 1
                with TemporaryDirectory() as own:
                    world = World(own, an_experiment(policy, ROUNDS, server={"kind": "momentum"}))
                    note = Path(own) / "note"
                    if not in_a_child(serve_and_die, world, kind, at, note):
                        break

                    def check(world=world):
                        world.play()
                        same_ledgers(world.audit(), ledger)
                        with world.store() as store:
                            assert [(past.metrics, past.sha256) for past in store.rounds()] == rounds
                        for name, content in tables.items():
                            assert (world.folder / "run" / name).read_bytes() == content, name

                    yield "server", f"before {kind} {at}: {note.read_text()}", verdict(check)


def serve_and_die(world: World, kind: str, at: int, note: Path) -> None:
    """Plays all rounds; killed before the statement, or the file put in its place, number `at`."""
    count = 0

    def watch(what: str) -> None:
        nonlocal count
        count += 1
        if count == at:
            note.write_text(what)
            die()

    if kind == "file":
        place = Path.replace

        def replace(path, target):
            watch(Path(target).name)
            return place(path, target)

        Path.replace = replace
    strategy = AdmissionStrategy(
        world.experiment,
        world.folder / "run",
        discipline=world.discipline,
        watch=(lambda statement: watch(" ".join(statement.split()[:3]))) if kind == "statement" else None,
    )
    with closing(strategy):
        strategy.start(world.grid, start())


def rows(policies=("fifo", "kstep")):
    for policy in policies:
        for make in (client_rows, server_rows):
            for component, kill_point, outcome in make(policy):
                where = f"{kill_point} ({policy})"
                yield {"component": component, "kill_point": where, "expected": EXPECTED, "outcome": outcome}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--policies", default="fifo,kstep")
    options = parser.parse_args()
    logging.getLogger("flwr").disabled = True
    import headgate.flower.durable

    headgate.flower.durable.SYNCHRONOUS = "OFF"  # processes die here, machines do not
    os.fsync = lambda descriptor: None
    made = list(rows(options.policies.split(",")))
    if options.out:
        options.out.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    for outcome, times in Counter((row["component"], row["outcome"]) for row in made).items():
        print(times, *outcome)
    sys.exit(any(row["outcome"] != EXPECTED for row in made))


if __name__ == "__main__":
    main()
