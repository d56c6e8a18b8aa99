"""Plays one run over and over, killed with SIGKILL at a chosen point and resumed, and says whether the result stays the same.

    python killed.py FOLDER

Not a test itself: it forks, so it needs a process of its own in which torch has not computed anything yet.
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

from headgate.config import load
from headgate.control import files
from headgate.learning.datasets import load_dataset
from headgate.records import writer as writing
from headgate.records.writer import Checkpoint, RunWriter
from headgate.simulation.run import play, resume, start

ROUNDS = 8
SETTINGS = ["run.seeds=2", f"run.rounds={ROUNDS}", 'run.policies=["acdpp", "hybrid"]', "training.steps=2"]
COMPARED = ("metrics.parquet", "occupancy.parquet", f"checkpoints/{ROUNDS:08d}/tensors.safetensors")


DATA = load_dataset("digits")  # before any fork: the children share it


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(function, call):
    """The same function, whose call number `call` ends the process before it does anything."""
    count = 0

    def wrapped(*args, **kwargs):
        nonlocal count
        count += 1
        if count == call:
            die()
        return function(*args, **kwargs)

    return wrapped


def half_append(call):
    """Half of the rows' bytes reach the file, then the process is gone."""
    whole, count = RunWriter.append, 0

    def append(self, name, rows):
        nonlocal count
        count += 1
        path = self.folder / f"{name}.jsonl"
        before = path.stat().st_size
        whole(self, name, rows)
        if count == call:
            os.truncate(path, before + (path.stat().st_size - before) // 2 + 1)
            die()

    return append


def plant(point) -> None:
    kind, number = point
    if kind == "append":
        RunWriter.append = half_append(number)
    elif kind == "sync":  # between any two files of a checkpoint, a state or a table
        writing.os.fsync = dying(os.fsync, number)
    elif kind == "ledger":
        writing.save_ledger = dying(files.save_ledger, number)
    elif kind == "rename":
        Path.rename = dying(Path.rename, number)
    elif kind == "replace":
        Path.replace = dying(Path.replace, number)
    elif kind == "rmtree":
        shutil.rmtree = dying(shutil.rmtree, number)
    elif kind == "unlink":
        Path.unlink = dying(Path.unlink, number)


def child(folder: Path, point) -> None:
    torch.set_num_threads(1)
    if point is not None:
        plant(point)
    if (folder / "state.json").exists():
        experiment = load(str(folder / "config.toml"))
        simulation, writer = resume(experiment, DATA, Checkpoint(folder), "cpu")
    else:
        shutil.rmtree(folder, ignore_errors=True)
        simulation, writer = start(load("digits", SETTINGS), DATA, folder, "cpu")
    play(simulation, writer, tick=lambda done: None, seconds=0.0)


def attempt(folder: Path, point=None, delay=None) -> bool:
    """One process; True if it ended by itself."""
    pid = os.fork()
    if pid == 0:
        try:
            child(folder, point)
        except BaseException as error:  # a child must never return into the parent's code
            print(f"child failed: {type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(0)
    if delay is not None:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.WEXITSTATUS(status) != 0:
        sys.exit(f"a child failed at {point or delay}")
    return True


def content(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in COMPARED]


def how_long(folder: Path) -> float:
    began = time.monotonic()
    assert attempt(folder)
    return time.monotonic() - began


def main(root: Path) -> None:
    lasts = min(how_long(root / name) for name in ("first", "whole"))  # the first one also warms up the disk
    expected = content(root / "whole")
    rng = random.Random(1)
    points = [("append", i) for i in (1, 2, 7, 16)]
    points += [("sync", i) for i in (5, 9, 14, 30, 47, 60)]
    points += [("ledger", 3), ("ledger", 4), ("rename", 2), ("rename", 8), ("rmtree", 4), ("rmtree", 9)]
    points += [("replace", i) for i in (6, 9, 14)] + [("unlink", 1), ("unlink", 2)]
    killed = 0
    for number, point in enumerate([*points, *["time"] * 12]):
        folder = root / f"run-{number}"
        times = 0
        while True:
            if point == "time":
                over = attempt(folder, delay=rng.uniform(0.1, 0.95) * lasts) if times < 3 else attempt(folder)
            else:
                over = attempt(folder, point=point) if times == 0 else attempt(folder)
            if over:
                break
            times += 1
        killed += times
        if content(folder) != expected:
            sys.exit(f"different after being killed at {point}")
        shutil.rmtree(folder)
        print(f"{point}: killed {times} times, same bytes", flush=True)
    print(f"{killed} kills, all the same")
    if killed < 25:
        sys.exit("too few kills happened to show anything")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
