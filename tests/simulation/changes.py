"""Sees every change that this process makes to a folder, and ends the process at one of them.

Python itself tells of files that are opened, moved, removed, made and cut (its audit events). What it does not tell of is
watched beside that: tensors being saved, files being synced.
"""

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import safetensors.numpy

from headgate.writing import PARTIAL, whole_name

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
    """The changes to `folder` by this process, as they come. What it was about to do at its end is left in `note`."""
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
            come(WORDS[event], where(args[1] if event == "os.rename" else args[0], dir_fd))

    def sync(descriptor: int) -> None:
        path = where(descriptor)
        whole = PARTIAL not in path
        if come("syncing", path, half=not whole and not os.path.isdir(path)):
            os.truncate(path, os.path.getsize(path) // 2)
            die()

    save = safetensors.numpy.save_file

    def save_file(tensors, path) -> None:
        half = come("saving", str(Path(path).absolute()), half=True)
        save(tensors, path)
        if half:
            os.truncate(path, os.path.getsize(path) // 2)
            die()

    os.fsync, safetensors.numpy.save_file = sync, save_file  # processes die here, machines do not
    sys.addaudithook(hear)
    return seen


def where(path, dir_fd: int = -1) -> str:
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    return os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}") if dir_fd >= 0 else os.getcwd(), os.fsdecode(path))


def named(path: str) -> str:
    """Without what differs from shard to shard, round to round and time to time.

    >>> named("shards/001/checkpoints/.00000003.1234abcd.partial/.ledger-0.npz.1234abcd.partial")
    'shards/NNN/checkpoints/NNNNNNNN/ledger-0.npz'
    >>> named("shards/001/metrics/.part-00012.parquet.1234abcd.partial")
    'shards/NNN/metrics/part-NNNNN.parquet'
    """
    names = [whole_name(name) for name in path.split("/")]
    return "/".join(re.sub(r"^(part-)\d{5}|^\d{3}$|^\d{8}$", _without_digits, name) for name in names)


def _without_digits(found: re.Match) -> str:
    return re.sub(r"\d", "N", found[0])


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
