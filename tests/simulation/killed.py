"""Plays one run over and over, killed with SIGKILL and resumed, and says whether the
result stays the same.

    python killed.py FOLDER [--every] [--random 12 | --kills 500] [--seed 0] [--pool]
    [--out ROWS.json]

First a run is played that nobody disturbs, and every change that it makes to the disk
is counted. Then one is killed at each kind of change, or with --every at each single
one: before it, and half-way through it where that can be. So are the changes of runs
that were killed before and are taken up. Last come random moments.

Not a test itself: it forks, so it needs a process of its own in which torch and polars
have not computed anything yet. A row is {component, kill_point, expected, outcome}.
"""

import argparse
import gc
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import safetensors.numpy

from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.records import owner
from headgate.records.writer import commit
from headgate.simulation import cut, run, slices, workers
from headgate.simulation.schedule import perform
from headgate.writing import PARTIAL, whole_name

# Every change that this process makes to a folder. Python itself tells of files that
# are opened, moved, removed, made and cut (its audit events). What it does not tell of
# is watched beside that: tensors being saved, files being synced.

WORDS = {
    "os.rename": "moving",
    "os.remove": "removing",
    "os.rmdir": "removing",
    "os.mkdir": "making",
    "os.truncate": "cutting",
    "os.link": "linking",
    "os.symlink": "linking",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Change(NamedTuple):
    """What is about to happen, to which file; `half`: it may be done by half."""

    what: str
    name: str
    half: bool = False


class Place(NamedTuple):
    """Where to end: at a change, counted from one, before or half-way through it."""

    number: int
    half: bool = False


def watch(folder: Path, end: Place | None, note: Path) -> list[Change]:
    """The changes to `folder` by this process, as they come. What it was about to do at
    its end is left in `note`.
    """
    seen: list[Change] = []
    root = str(folder.resolve())

    def come(what: str, path: str, half: bool = False) -> bool:
        """Whether to do this by half; does not return where the end comes before it."""
        if not path.startswith(root):
            return False
        seen.append(Change(what, named(os.path.relpath(path, root)), half))
        if end is None or len(seen) != end.number:
            return False
        note.write_text(json.dumps(seen[-1]))
        if not end.half:
            die()
        return True

    def hear(event: str, args: tuple) -> None:
        if event == "open":
            path, _, flags = args
            if not isinstance(path, int) and flags & WRITING:
                come("opening", os.path.abspath(os.fsdecode(path)))
        elif event in WORDS:
            dir_fd = args[-1] if event in ("os.remove", "os.rmdir", "os.mkdir") else -1
            come(
                WORDS[event],
                where(args[1] if event == "os.rename" else args[0], dir_fd),
            )

    def sync(descriptor: int) -> None:
        path = where(descriptor)
        half = PARTIAL in path and not os.path.isdir(path)
        if come("syncing", path, half=half):
            if half:  # with a pool the clock decides which change has which number
                os.truncate(path, os.path.getsize(path) // 2)
            die()

    save = safetensors.numpy.save_file

    def save_file(tensors, path) -> None:
        half = come("saving", str(Path(path).absolute()), half=True)
        save(tensors, path)
        if half:
            os.truncate(path, os.path.getsize(path) // 2)
            die()

    os.fsync, safetensors.numpy.save_file = (
        sync,
        save_file,
    )  # processes die here, machines do not
    sys.addaudithook(hear)
    return seen


def where(path, dir_fd: int = -1) -> str:
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    return os.path.join(
        os.readlink(f"/proc/self/fd/{dir_fd}") if dir_fd >= 0 else os.getcwd(),
        os.fsdecode(path),
    )


def named(path: str) -> str:
    """Without what differs from chunk to chunk, round to round and time to time.

    >>> inside = ".ledger-0.npz.1234abcd.partial"
    >>> named(f"checkpoints/.c001-00000003.1234abcd.partial/{inside}")
    'checkpoints/cNNN-NNNNNNNN/ledger-0.npz'
    >>> named("metrics/.c001-part-00012.parquet.1234abcd.partial")
    'metrics/cNNN-part-NNNNN.parquet'
    """
    names = [whole_name(name) for name in path.split("/")]
    return "/".join(
        re.sub(r"^c\d{3}-(part-)?\d+", _without_digits, name) for name in names
    )


def _without_digits(found: re.Match) -> str:
    return re.sub(r"\d", "N", found[0])


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# runs

ROUNDS = 3
SETTINGS = [
    "run.seeds=1",
    f"run.rounds={ROUNDS}",
    'run.policies=["acdpp", "headgate"]',
    "training.steps=2",
]
SETTINGS += [
    "policies.headgate.rule={kind='class-balanced', capacity=3}"
]  # soon full: drops by class and lot
SETTINGS += [
    "system.clients=3",
    "system.budget=20.0",
    "data.partition.per_class=20",
]  # few draws: what is tried is the disk
EXPECTED = "same bytes"
TWICE = [  # killed here, runs have the most to put in order when they are taken up
    (Change("moving", "state.json"), 1),  # all is made but the word that it is
    (Change("moving", "checkpoints/cNNN-NNNNNNNN"), 2),
    (
        Change("moving", "clients/cNNN-part-NNNNN.parquet"),
        5,
    ),  # its checkpoint does not know of the metrics' part
    (Change("removing", "checkpoints/cNNN-NNNNNNNN/checkpoint.json"), 2),
    (
        Change("removing", "clients/cNNN-part-NNNNN.parquet"),
        2,
    ),  # the tables are there, of the parts only these
]
PASSING = ("pid", "elapsed_s", "computing_s", "started", "commit", "seal")
"""what state and environment tell of those who played, not of the run"""
Row = dict[str, str]


class Failed(Exception):
    """A run that could not be taken up."""


class NotKilled(Failed):
    """The run came to its end before the place where it should have been killed."""


class Runs:
    """Runs in folders of their own under `root`, each attempt in a process of its
    own.
    """

    def __init__(self, root: Path, pool: bool = False) -> None:
        self.root, self.note, self.said = root, root / "note.json", root / "said.txt"
        self.pool = pool
        self.data = load_dataset("digits")  # is not what is tried here, and takes long
        load(
            "digits",
            SETTINGS,
            # what this imports and makes need not be made in every child; nor what is
            # imported by rounds
        )
        for name in ("simulation.linear", "simulation.executors.gram"):
            import_module(f"headgate.{name}")
        commit()  # asks git, and remembers
        # no child need look through all this for what nobody needs, which copies every
        # page of it
        gc.freeze()

    def attempt(
        self, folder: Path, end: Place | None = None, kill_after: float | None = None
    ) -> bool:
        """Whether it came to its end."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                self._play(folder, end)
            except (
                BaseException
            ) as error:  # a child must never return into the parent's code
                self.said.write_text(f"{type(error).__name__}: {error}")
                os._exit(1)
            os._exit(0)
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(
                child, signal.SIGKILL
            )  # nobody has waited for it yet, so it is this child or its remains
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status) != 0:
            raise Failed(self.said.read_text())
        return not os.WIFSIGNALED(status)

    def _play(self, folder: Path, end: Place | None) -> None:
        # two chunks, a checkpoint every round, and a word of it
        cut.LIGHT, cut.TOGETHER["gram"], run.CHECKPOINT_SECONDS = 0.0, 1, 0.0
        owner.STATE_SECONDS = owner.TICK_SECONDS = slices.SLICE_SECONDS = 0.0
        slices.SHARE = slices.BUSY = 1e9  # slices of a round
        workers.Datasets.of = lambda datasets, data: self.data
        seen = watch(folder, end, self.note)
        begun = (
            folder / "environment.json"
        ).exists()  # then the folder knows what it is
        perform(
            None if begun else load("digits", SETTINGS),
            folder,
            device="cpu",
            processes=None if self.pool else 1,
            pool=ThreadPoolExecutor(1) if self.pool else None,
        )
        self.note.write_text(json.dumps(seen))

    def changes(self, folder: Path) -> list[Change]:
        """Those of a run that goes on from what is in the folder to its end."""
        if not self.attempt(folder):
            raise Failed("killed by somebody else")
        return [Change(*each) for each in json.loads(self.note.read_text())]

    def killed(self, folder: Path, end: Place) -> Change:
        """A run that is killed there, and what it was about to do."""
        if self.attempt(folder, end):
            raise NotKilled("was not killed")
        return Change(*json.loads(self.note.read_text()))


def content(folder: Path) -> dict[str, bytes]:
    """By name, all that is the same however often a run was killed: not when it began,
    who wrote it, how long it took.
    """
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    own = {
        name: path.read_bytes() if path.is_file() else b""
        for name, path in found.items()
    }
    for name in own:
        if name.endswith(("state.json", "environment.json")):
            facts = json.loads(own[name])
            told = {key: facts[key] for key in sorted(facts) if key not in PASSING}
            own[name] = json.dumps(told).encode()
    return own


def judged(folder: Path, expected: dict[str, bytes]) -> str:
    found = content(folder)
    wrong = sorted(
        name
        for name in found.keys() | expected.keys()
        if found.get(name) != expected.get(name)
    )
    return f"different: {', '.join(wrong)}" if wrong else EXPECTED


def places(changes: Sequence[Change]) -> dict[str, list[Place]]:
    """By kind, where a run with these changes can be killed."""
    kinds = defaultdict(list)
    for number, change in enumerate(changes, 1):
        kinds[worded(change, False)].append(Place(number))
        if change.half:
            kinds[worded(change, True)].append(Place(number, half=True))
    return kinds


def worded(change: Change, half: bool) -> str:
    return f"{'half-way through' if half else 'before'} {change.what} {change.name}"


def rows_at_changes(runs: Runs, every: bool, seed: int) -> Iterator[Row]:
    """A run is killed at a change and taken up; or is killed at a change when it is
    taken up, and taken up again.
    """
    whole, pick = runs.root / "whole", random.Random(seed)
    changes = runs.changes(whole)
    expected = content(whole)
    known = {change.name for change in changes}
    if unseen := {name for name in expected if named(name) not in known}:
        sys.exit(f"written without being seen: {', '.join(sorted(unseen))}")
    yield from killed_at(
        runs, "simulator", None, places(changes), expected, every, pick
    )
    tried: set[str] = (
        set()
    )  # after the first of these a run begins anew: it does all that the first run did
    for change, times in TWICE:
        first = [
            Place(number)
            for number, each in enumerate(changes, 1)
            if each[:2] == change[:2]
        ][times - 1]
        begun = runs.root / "begun"
        runs.killed(begun, first)
        taken_up = runs.root / "taken-up"
        shutil.copytree(begun, taken_up)
        again = runs.changes(taken_up)
        shutil.rmtree(taken_up)
        first_part = Change("opening", "metrics/cNNN-part-NNNNN.parquet")
        playing = [number for number, each in enumerate(again) if each == first_part]
        own = places(again[: playing[0]] if playing else again)
        if not every:
            own = {
                kind: found
                for kind, found in own.items()
                if kind not in (tried or places(changes))
            }
        tried |= own.keys()
        yield from killed_at(
            runs, "simulator, taken up", begun, own, expected, every, pick
        )
        shutil.rmtree(begun)


def killed_at(
    runs: Runs,
    component: str,
    begun: Path | None,
    kinds: dict[str, list[Place]],
    expected: dict[str, bytes],
    every: bool,
    pick: random.Random,
) -> Iterator[Row]:
    """Of a new run, or of one that was `begun` already."""
    for kind, found in kinds.items():
        if kind.startswith("before syncing") and not every:
            continue  # to who is killed it is the same as before what comes next
        for place in found if every else [pick.choice(found)]:
            folder, point = runs.root / "run", kind
            if begun is not None:
                shutil.copytree(begun, folder)
            try:
                point = worded(runs.killed(folder, place), place.half)
                runs.changes(folder)
                outcome = judged(folder, expected)
            except NotKilled as error:
                outcome = str(error)
                if runs.pool:  # how often it writes its state depends on the clock
                    shutil.rmtree(folder)
                    continue
            except Failed as error:
                outcome = str(error)
            yield {
                "component": component,
                "kill_point": point,
                "expected": EXPECTED,
                "outcome": outcome,
            }
            shutil.rmtree(folder, ignore_errors=True)


def rows_at_random(runs: Runs, kills: int, seed: int) -> Iterator[Row]:
    """A run is killed at random moments until it has come to its end; then the next."""
    pick, whole = random.Random(seed), runs.root / "undisturbed"
    began = time.monotonic()
    runs.changes(whole)
    took, expected, done = time.monotonic() - began, content(whole), 0
    while done < kills:
        folder, moments = runs.root / "run", []
        try:
            while len(moments) < kills - done:
                wait = pick.uniform(0, took)
                if runs.attempt(folder, kill_after=wait):
                    break
                moments.append(wait)
            runs.changes(folder)
            outcome = judged(folder, expected)
        except Failed as error:
            outcome = str(error)
        for wait in moments:
            point = f"at a random moment: after {wait:.3f} s"
            yield {
                "component": "simulator",
                "kill_point": point,
                "expected": EXPECTED,
                "outcome": outcome,
            }
        done += len(moments)
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="for the runs")
    parser.add_argument(
        "--every",
        action="store_true",
        help="at each change to the disk, not only at each kind",
    )
    parser.add_argument(
        "--random", type=int, default=12, help="how many kills at random moments"
    )
    parser.add_argument(
        "--kills",
        type=int,
        help="how many in all; those that are left then come at random moments",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of the random moments, and of which change of its kind",
    )
    parser.add_argument(
        "--pool",
        action="store_true",
        help="the rounds are played in slices, and what is new is put back",
    )
    parser.add_argument("--out", type=Path, help="a file for the rows")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    runs = Runs(given.folder.resolve(), given.pool)
    made = list(rows_at_changes(runs, given.every, given.seed))
    left = given.random if given.kills is None else max(0, given.kills - len(made))
    made += rows_at_random(runs, left, given.seed)
    if given.out:
        given.out.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    for row in made:
        if row["outcome"] != EXPECTED:
            print(row["component"], row["kill_point"], row["outcome"], sep=": ")
    for (component, outcome), times in Counter(
        (row["component"], row["outcome"]) for row in made
    ).items():
        print(f"{times} kills, {component}: {outcome}")
    sys.exit(any(row["outcome"] != EXPECTED for row in made))


if __name__ == "__main__":
    main()
