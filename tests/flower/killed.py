"""Kills a client and a server with SIGKILL before every single statement of their SQLite files, and before every file is put
in place, or both at random moments, lets them come back, and says what became of the accounts.

    python killed.py [--part statements|random] [--kills 500] [--seed 0] [--out ROWS.json]

Not a test itself: it forks, so it needs a process of its own. A row is {component, kill_point, expected, outcome}.
"""

import argparse
import gc
import json
import logging
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))

from grids import FakeGrid
from worlds import World, an_experiment, same_ledgers

from headgate.books.ledger_store import LEDGER
from headgate.flower.buffer_store import store_name
from headgate.records.writer import commit

ROUNDS, SERVED = 3, 2
"""rounds of a run; where the server is killed at every statement two have them all, the first round's and a later one's"""
EXPECTED, STORE = "exactly once", store_name(0)


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


def watched(name: str, watch):
    """sqlite3.connect, by which every statement to the file of this name goes to `watch` before it is executed."""

    def connect(path, *words, plain=sqlite3.connect, **more):
        db = plain(path, *words, **more)
        if Path(path).name == name:
            db.set_trace_callback(watch)
        return db

    return connect


def in_a_child(function, *args, kill_after: float | None = None) -> bool:
    """Whether a child that does this was killed: by itself, or by us after so many seconds."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            function(*args)
        finally:
            os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)  # nobody has waited for it yet, so it is this child or its remains
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


class DyingClient(FakeGrid):
    """The node of client 0 dies on its order of round 2, before statement number `at`; its answer never comes."""

    def __init__(self, nodes, at: int) -> None:
        super().__init__(nodes)
        self.at, self.killed = at, None

    def deliver(self, message):
        if (
            message.metadata.message_type == "train"
            and message.metadata.group_id == "2"
            and message.metadata.dst_node_id == 100
        ):
            self.killed = in_a_child(self.deliver_and_die, message)
            if self.killed:
                raise Silence
        return super().deliver(message)

    def deliver_and_die(self, message):
        sqlite3.connect = watched(STORE, Killer(self.at))
        super().deliver(message)

    def _send(self, message, node):
        try:
            return super()._send(message, node)
        except Silence:
            return []


class Silence(Exception):
    pass


def verdict(check) -> str:
    """What becomes of a check, in a child: polars writes tables with threads, after which no fork may write more."""
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


def import_what_a_run_imports(policy: str) -> None:
    """So that no child need do it: nothing is computed here, by which polars would start threads."""
    with TemporaryDirectory() as folder:
        world, names = World(folder, an_experiment(policy, ROUNDS, server={"kind": "momentum"})), Path(folder) / "names"

        def play() -> None:
            world.play()
            world.audit()
            names.write_text("\n".join(sys.modules))

        in_a_child(play)
        for name in names.read_text().split():
            with suppress(ImportError):
                import_module(name)


def client_rows(policy: str):
    """The client is killed in round 2 and is there again in round 3."""
    with TemporaryDirectory() as folder:
        world, seen = World(folder, an_experiment(policy, ROUNDS, server={"kind": "momentum"})), Path(folder) / "seen"

        def count() -> None:
            counter = Killer()
            world.play(1)
            with patch("sqlite3.connect", watched(STORE, counter)):
                world.play(2)
            seen.write_text("\n".join(counter.seen))

        in_a_child(count)
        statements = seen.read_text().splitlines()
    for at, statement in enumerate(statements, 1):
        with TemporaryDirectory() as folder:
            world = World(folder, an_experiment(policy, ROUNDS, server={"kind": "momentum"}))
            world.grid = DyingClient(world.grid.nodes, at)

            def check(world=world):
                world.play(2)
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
        undisturbed = World(folder, an_experiment(policy, SERVED, server={"kind": "momentum"}))
        in_a_child(undisturbed.play)
        for kind in ("statement", "file"):
            at = 0
            while True:
                at += 1
                with TemporaryDirectory() as own:
                    world = World(own, an_experiment(policy, SERVED, server={"kind": "momentum"}))
                    note = Path(own) / "note"
                    if not in_a_child(serve_and_die, world, kind, at, note):
                        break

                    outcome = verdict(lambda world=world: same_books(world, undisturbed))
                    yield "server", f"before {kind} {at}: {note.read_text()}", outcome


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
    else:
        sqlite3.connect = watched(LEDGER, lambda statement: watch(" ".join(statement.split()[:3])))
    world.play()


def random_rows(policy: str, kills: int, seed: int):
    """Server and clients are one process, killed at random moments until it has come to its end; then the next run."""
    pick = random.Random(f"{policy}/{seed}")
    with TemporaryDirectory() as folder:
        undisturbed = World(folder, an_experiment(policy, ROUNDS, server={"kind": "momentum"}))
        began = time.monotonic()
        in_a_child(undisturbed.play)
        took, done = time.monotonic() - began, 0
        while done < kills:
            with TemporaryDirectory() as own:
                world, moments = World(own, an_experiment(policy, ROUNDS, server={"kind": "momentum"})), []
                while len(moments) < kills - done:
                    wait = pick.uniform(0, took)
                    if not in_a_child(world.play, kill_after=wait):
                        break
                    moments.append(wait)
                outcome = verdict(lambda world=world: same_books(world, undisturbed))
            for wait in moments:
                yield "server and clients", f"at a random moment: after {wait:.3f} s", outcome
            done += len(moments)


def same_books(world: World, undisturbed: World) -> None:
    """The run comes to its end with the ledger, the rounds and the tables of one that nobody disturbed."""
    world.play()
    same_ledgers(world.audit(), undisturbed.audit())
    with world.store() as one, undisturbed.store() as other:
        assert one.outstanding() == []
        assert [(past.metrics, past.sha256) for past in one.rounds()] == [
            (past.metrics, past.sha256) for past in other.rounds()
        ]
    for name in ("metrics.parquet", "clients.parquet"):
        assert (world.folder / "run" / name).read_bytes() == (undisturbed.folder / "run" / name).read_bytes(), name


def rows(part: str, policies=("fifo", "kstep"), kills: int = 500, seed: int = 0):
    for policy in policies:
        made = [random_rows(policy, kills // len(policies), seed)]
        if part == "statements":
            made = [client_rows(policy), server_rows(policy)]
        for component, kill_point, outcome in chain(*made):
            where = f"{kill_point} ({policy})"
            yield {"component": component, "kill_point": where, "expected": EXPECTED, "outcome": outcome}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", choices=("statements", "random"), default="statements")
    parser.add_argument("--kills", type=int, default=500, help="of the part random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policies", default="fifo,kstep")
    options = parser.parse_args()
    logging.getLogger("flwr").disabled = True
    import headgate.books.durable

    headgate.books.durable.SYNCHRONOUS = "OFF"  # processes die here, machines do not
    os.fsync = lambda descriptor: None
    commit()  # asks git, and remembers: no child need ask again
    import_what_a_run_imports("fifo")
    gc.freeze()  # nor look through what is imported for what nobody needs, which copies every page of it
    made = list(rows(options.part, options.policies.split(","), options.kills, options.seed))
    if options.out:
        options.out.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    for outcome, times in Counter((row["component"], row["outcome"]) for row in made).items():
        print(times, *outcome)
    sys.exit(any(row["outcome"] != EXPECTED for row in made))


if __name__ == "__main__":
    main()
