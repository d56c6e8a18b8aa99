"""Kills a client and a server with SIGKILL before every single statement of their
SQLite files, and before every file is put in place, or both at random moments, lets
them come back, and says what became of the accounts.

    python killed.py [--part statements|random] [--kinds] [--kills 500] [--seed 0]
    [--out ROWS.json]

With --kinds they are killed once before each kind of statement, which is what it does
and what the one before it did. Where both only read, the kill is left out: nothing has
changed in between.

Not a test itself: it forks, so it needs a process of its own. A row is {component,
kill_point, expected, outcome}.
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
from functools import partial
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))

from grids import FakeGrid
from worlds import World, an_experiment, same_runs

from headgate.books.database import LEDGER
from headgate.flower.buffer_store import store_name
from headgate.records.writer import commit

ROUNDS, SERVED = 3, 2
"""rounds of a run; where the server is killed at every statement two have them all, the
first round's and a later one's
"""
EXPECTED, STORE = "exactly once", store_name(0)


class Killer:
    """Is told what happens next, and ends its process before number `at`, which it has
    written into `note`.
    """

    def __init__(self, at: int, note: Path, kinds: bool) -> None:
        self.left, self.note, self.kinds, self.before, self.seen = (
            at,
            note,
            kinds,
            "",
            set(),
        )

    def __call__(self, what: str) -> None:
        kind, self.before = (self.before, what), what
        if self.kinds and (
            kind in self.seen
            or all(each.startswith(("SELECT", "PRAGMA")) for each in kind)
        ):
            return
        self.seen.add(kind)
        self.left -= 1
        if self.left == 0:
            self.note.write_text(what)
            os.kill(os.getpid(), signal.SIGKILL)


def watched(name: str, killer: Killer):
    """sqlite3.connect, by which `killer` is told of every statement to the file of this
    name before it is executed.
    """

    def connect(path, *words, plain=sqlite3.connect, **more):
        db = plain(path, *words, **more)
        if Path(path).name == name:
            db.set_trace_callback(
                lambda statement: killer(" ".join(statement.split()[:3]))
            )
        return db

    return connect


def in_a_child(function, *args, kill_after: float | None = None) -> bool:
    """Whether a child that does this was killed: by itself, or by us after so many
    seconds.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            function(*args)
        finally:
            os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(
            child, signal.SIGKILL
        )  # nobody has waited for it yet, so it is this child or its remains
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


class DyingClient(FakeGrid):
    """The node of client 0 dies on its order of round 2, amid the statements to its
    file; its answer never comes.
    """

    def __init__(self, nodes, killer: Killer) -> None:
        super().__init__(nodes)
        self.killer = killer

    def _send(self, message, node):
        told = message.metadata
        if (told.message_type, told.group_id, node) == (
            "train",
            "2",
            100,
        ) and in_a_child(self.deliver_and_die, message):
            return []
        return super()._send(message, node)

    def deliver_and_die(self, message):
        sqlite3.connect = watched(STORE, self.killer)
        self.deliver(message)


def verdict(check) -> str:
    """What becomes of a check, in a child: polars writes tables with threads, after
    which no fork may write more.
    """
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


def a_world(folder: Path | str, policy: str, rounds: int) -> World:
    return World(folder, an_experiment(policy, rounds, server={"kind": "momentum"}))


def import_what_a_run_imports(policy: str) -> None:
    """So that no child need do it: nothing is computed here, by which polars would
    start threads.
    """
    with TemporaryDirectory() as folder:
        world, names = a_world(folder, policy, ROUNDS), Path(folder) / "names"

        def play() -> None:
            world.play()
            world.audit()
            names.write_text("\n".join(sys.modules))

        in_a_child(play)
        for name in names.read_text().split():
            with suppress(ImportError):
                import_module(name)


def rows_of_kills(
    component: str, what: str, policy: str, rounds: int, kinds: bool, check
):
    """One for each kill in a world of its own, by `check(world, killer)`, until there
    is nothing left to be killed before.
    """
    for at in count(1):
        with TemporaryDirectory() as folder:
            world, note = a_world(folder, policy, rounds), Path(folder) / "note"
            outcome = verdict(partial(check, world, Killer(at, note, kinds)))
            if not note.exists():
                assert outcome == EXPECTED, outcome
                return
            yield component, f"{what} {at}: {note.read_text()}", outcome


def client_rows(policy: str, kinds: bool):
    """The client is killed in round 2 and is there again in round 3."""

    def check(world: World, killer: Killer) -> None:
        world.grid = DyingClient(world.grid.nodes, killer)
        world.play(2)
        world.audit()
        world.play()
        world.audit()
        assert world.outstanding() == []

    return rows_of_kills(
        "client", "order, before statement", policy, ROUNDS, kinds, check
    )


def server_rows(policy: str, kinds: bool):
    """The server is killed and starts again."""
    with TemporaryDirectory() as folder:
        undisturbed = a_world(folder, policy, SERVED)
        in_a_child(undisturbed.play)

        def check(kind: str, world: World, killer: Killer) -> None:
            in_a_child(serve_and_die, kind, world, killer)
            same_books(world, undisturbed)

        for kind in ("statement", "file"):
            yield from rows_of_kills(
                "server", f"before {kind}", policy, SERVED, kinds, partial(check, kind)
            )


def serve_and_die(kind: str, world: World, killer: Killer) -> None:
    """Plays all rounds, amid statements to the ledger or files that are put in their
    place.
    """
    if kind == "file":
        place = Path.replace

        def replace(path, target):
            killer(Path(target).name)
            return place(path, target)

        Path.replace = replace
    else:
        sqlite3.connect = watched(LEDGER, killer)
    world.play()


def random_rows(policy: str, kills: int, seed: int):
    """Server and clients are one process, killed at random moments until it has come to
    its end; then the next run.
    """
    pick = random.Random(f"{policy}/{seed}")
    with TemporaryDirectory() as folder:
        undisturbed = a_world(folder, policy, ROUNDS)
        began = time.monotonic()
        in_a_child(undisturbed.play)
        took, done = time.monotonic() - began, 0
        while done < kills:
            with TemporaryDirectory() as own:
                world, moments = a_world(own, policy, ROUNDS), []
                while len(moments) < kills - done:
                    wait = pick.uniform(0, took)
                    if not in_a_child(world.play, kill_after=wait):
                        break
                    moments.append(wait)
                outcome = verdict(lambda world=world: same_books(world, undisturbed))
            for wait in moments:
                yield (
                    "server and clients",
                    f"at a random moment: after {wait:.3f} s",
                    outcome,
                )
            done += len(moments)


def same_books(world: World, undisturbed: World) -> None:
    """The run comes to its end with the ledger, the rounds and the tables of one that
    nobody disturbed.
    """
    world.play()
    same_runs(world, undisturbed)
    assert world.outstanding() == []


def rows(part: str, policies, kinds: bool, kills: int, seed: int):
    for policy in policies:
        made = [random_rows(policy, kills // len(policies), seed)]
        if part == "statements":
            made = [client_rows(policy, kinds), server_rows(policy, kinds)]
        for component, kill_point, outcome in chain(*made):
            where = f"{kill_point} ({policy})"
            yield {
                "component": component,
                "kill_point": where,
                "expected": EXPECTED,
                "outcome": outcome,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--part", choices=("statements", "random"), default="statements"
    )
    parser.add_argument(
        "--kinds",
        action="store_true",
        help="of the part statements, once before each kind",
    )
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
    # nor look through what is imported for what nobody needs, which copies every page
    # of it
    gc.freeze()
    made = list(
        rows(
            options.part,
            options.policies.split(","),
            options.kinds,
            options.kills,
            options.seed,
        )
    )
    if options.out:
        options.out.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    for outcome, times in Counter(
        (row["component"], row["outcome"]) for row in made
    ).items():
        print(times, *outcome)
    sys.exit(any(row["outcome"] != EXPECTED for row in made))


if __name__ == "__main__":
    main()
