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

from headgate.control import files
from headgate.experiment import load
from headgate.records import writer as writing
from headgate.records.writer import RunWriter
from headgate.simulation import cut, run
from headgate.simulation.schedule import perform

ROUNDS = 8
SETTINGS = ["run.seeds=2", f"run.rounds={ROUNDS}", 'run.policies=["acdpp", "headgate"]', "training.steps=2"]
SETTINGS += ["policies.headgate.retention=class-balanced", "policies.headgate.capacity=3"]  # soon full: drops by class and lot
LAST = [f"parts/{part}/checkpoints/{ROUNDS:08d}/tensors.safetensors" for part in ("000", "001")]
COMPARED = ("metrics.parquet", "clients.parquet", *LAST)


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
    if point is not None:
        plant(point)
    begun = (folder / "environment.json").exists()  # then the folder knows what it is
    perform(None if begun else load("digits", SETTINGS), folder, device="cpu", processes=1, resume=True)


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
    # two parts, and a checkpoint every round; here, so that merely importing this file changes nothing
    cut.LIGHT, cut.TOGETHER["gram"], run.CHECKPOINT_SECONDS = 0.0, 2, 0.0
    lasts = min(how_long(root / name) for name in ("first", "whole"))  # the first one also warms up the disk
    expected = content(root / "whole")
    rng = random.Random(1)
    points = [[("append", i)] for i in (1, 7, 16, 20)]
    points += [[("sync", i)] for i in (1, 6, 13, 30, 60)]  # the first 13 make the folder
    points += [[("ledger", 3)], [("rename", 8)], [("rename", 9)], [("rmtree", 4)]]
    points += [[("replace", i)] for i in (2, 12, 18, 33, 34, 35, 37)]  # 33 and on conclude
    points += [[("unlink", i)] for i in (2, 3, 5)]  # two when the parts are made, four when all is concluded
    points += [[("replace", 9), ("rmtree", 1)], [("replace", 11), ("unlink", 1), ("replace", 10)]]  # a start killed again
    killed = 0
    for number, plan in enumerate([*points, *["time"] * 4]):
        folder = root / f"run-{number}"
        times = 0
        while True:
            if plan == "time":
                over = attempt(folder, delay=rng.uniform(0.1, 0.95) * lasts) if times < 3 else attempt(folder)
            else:
                over = attempt(folder, point=plan[times] if times < len(plan) else None)
            if over:
                break
            times += 1
        killed += times
        if content(folder) != expected:
            sys.exit(f"different after being killed at {plan}")
        shutil.rmtree(folder)
        print(f"{plan}: killed {times} times, same bytes", flush=True)
    print(f"{killed} kills, all the same")
    if killed < 25:
        sys.exit("too few kills happened to show anything")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
