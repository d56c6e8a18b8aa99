"""The run folders below one folder, read when they change and not before.

A name leads to a folder only if a look into the runs folder has found it: no path is ever made from what somebody asks for.
Links are not followed. All methods may be called from several threads.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from headgate.analysis.curves import MEASURED
from headgate.errors import DataError, HeadgateError
from headgate.records.reader import CONFIG, ENVIRONMENT, STATE, RunFolder, check_state, read_object
from headgate.web.rows import MOST_BYTES, Follower, Mark, Rows, mark_of, table_files
from headgate.web.summary_row import LISTED, summary_row

SWEEP_MARK = "~"
"""between a sweep and its point"""
HELD_BYTES = 2 * MOST_BYTES
"""of all tables that are kept for the next question"""


class UnknownRun(HeadgateError):
    """There is no such run below the runs folder."""


@dataclass(frozen=True)
class Head:
    """What is known of a run without its settings and its rows."""

    name: str
    sweep: str | None
    mark: Mark
    run: RunFolder
    """without its settings: they take longest to read"""

    @property
    def every_run(self) -> list[tuple[str, int]]:
        return [(policy, seed) for policy in dict.fromkeys(self.run.state["policies"]) for seed in self.run.state["seeds"]]

    @cached_property
    def started(self) -> float:
        return self.run.started

    @property
    def state(self) -> str:
        """As `RunFolder.status`, or diverged where nothing else is left."""
        status, runs = self.run.status, self.every_run
        return "diverged" if runs and self.run.diverged >= set(runs) else status


class Progress(NamedTuple):
    """How far a run has come."""

    done: int
    """rounds of all its runs together"""
    round: int
    """in the mean over its runs"""
    rounds: int
    state: str
    diverged: int


class Library:
    """All runs below `folder`; where that is a run folder itself, this one run."""

    def __init__(self, folder: Path) -> None:
        self._root = folder.resolve()
        if not self._root.is_dir():
            raise DataError(f"RUNS_DIR {folder}: there is no such folder")
        self._only = self._root.name if mark_of(self._root / STATE) else None
        self._lock = RLock()
        self._heads: dict[str, Head] = {}
        self._unreadable: dict[str, tuple[Mark | None, str]] = {}
        self._rows: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._opened: OrderedDict[str, tuple[Mark, RunFolder]] = OrderedDict()
        self._followers: OrderedDict[tuple[str, tuple[str, ...]], Follower] = OrderedDict()

    @property
    def title(self) -> str:
        return self._root.name

    # what there is

    def heads(self) -> dict[str, Head]:
        """By name. What is gone is forgotten."""
        with self._lock:
            found, unreadable = dict[str, Head](), dict[str, tuple[Mark | None, str]]()
            for name, sweep, path, mark in self._folders():
                known = self._heads.get(name)
                if known is not None and known.mark == mark:
                    found[name] = known
                elif name in self._unreadable and self._unreadable[name][0] == mark:
                    unreadable[name] = self._unreadable[name]
                else:
                    try:
                        found[name] = self._read_head(name, sweep, path, mark)
                    except DataError as error:
                        unreadable[name] = (mark, self._short(error))
            self._heads, self._unreadable = found, unreadable
            self._rows = {name: row for name, row in self._rows.items() if name in found}
            for key in [key for key in self._followers if key[0] not in found]:
                del self._followers[key]
            for name in [name for name in self._opened if name not in found]:
                del self._opened[name]
            return found

    def unreadable(self) -> dict[str, str]:
        """Folders of runs that the last look could not understand, and why."""
        with self._lock:
            return {name: why for name, (_, why) in self._unreadable.items()}

    def head(self, name: str) -> Head:
        """The run of this name as it is now."""
        with self._lock:
            known = self._heads.get(name)
            if known is not None and mark_of(known.run.path / STATE) == known.mark:
                return known
            found = self.heads().get(name)
            if found is None:
                why = self._unreadable.get(name)
                raise DataError(why[1]) if why else UnknownRun(f"run {name[:200]!r}: there is no such run")
            return found

    def _folders(self) -> Iterator[tuple[str, str | None, Path, Mark]]:
        """(name, sweep, folder, mark of its state) of all run folders, one level deep, and two for the points of a sweep."""
        if self._only is not None:
            mark = mark_of(self._root / STATE)
            if mark is not None:
                yield self._only, None, self._root, mark
            return
        for entry in _folders_in(self._root):
            path = Path(entry.path)
            mark = mark_of(path / STATE)
            if mark is not None:
                yield entry.name, None, path, mark
            elif mark_of(path / "sweep.json") is not None:
                for point in _folders_in(path):
                    mark = mark_of(Path(point.path) / STATE)
                    if mark is not None:
                        yield f"{entry.name}{SWEEP_MARK}{point.name}", entry.name, Path(point.path), mark

    def _read_head(self, name: str, sweep: str | None, path: Path, mark: Mark) -> Head:
        for file in (CONFIG, ENVIRONMENT):
            if mark_of(path / file) is None:
                raise DataError(f"{path}: not a run folder, {file} is missing or is a link")
        state = read_object(path / STATE)
        check_state(path / STATE, state)
        return Head(name, sweep, mark, RunFolder(path, {}, read_object(path / ENVIRONMENT), state))

    def _short(self, error: Exception) -> str:
        """Without the way to the runs folder, which is nobody else's business."""
        return str(error).replace(f"{self._root}{os.sep}", "")

    # one run

    def open(self, name: str) -> RunFolder:
        """With its settings."""
        with self._lock:
            head = self.head(name)
            known = self._opened.get(name)
            if known is None or known[0] != head.mark:
                try:
                    known = head.mark, RunFolder.open(head.run.path)
                except DataError as error:
                    raise DataError(self._short(error)) from None
                self._opened[name] = known
                while len(self._opened) > 64:
                    self._opened.popitem(last=False)
            return known[1]

    def metrics(self, name: str) -> Rows:
        """All that was measured, by `MEASURED`."""
        with self._lock:
            return self._followed(name, "metrics", MEASURED)

    def occupancy(self, name: str) -> Rows:
        """What each client holds; no runs where that was not recorded."""
        with self._lock:
            head, clients = self.head(name), len(self.open(name).buffers)
            if (size := _occupancy_bytes(head, clients)) > MOST_BYTES:
                raise DataError(f"{name}: occupancies of {size / 2**20:,.0f} MiB are more than the page can hold in memory")
            return self._followed(name, "occupancy", clients=clients)

    def occupancy_if_small(self, name: str) -> Rows:
        """No runs also where it would be too large to hold."""
        with self._lock:
            head, clients = self.head(name), len(self.open(name).buffers)
            return Rows(0, clients, np.int32) if _occupancy_bytes(head, clients) > MOST_BYTES else self.occupancy(name)

    def _followed(self, name: str, table: str, columns: tuple[str, ...] = (), clients: int = 0) -> Rows:
        head, key = self.head(name), (name, columns)
        follower = self._followers.pop(key, None)
        if follower is None or follower.folder != head.run.path:
            follower = Follower(head.run.path, table, head.run.rounds, columns, clients)
        try:
            follower.look()
        except DataError as error:
            raise DataError(f"{name}: {self._short(error)}") from None
        self._followers[key] = follower
        while len(self._followers) > 1 and sum(each.rows.nbytes for each in self._followers.values()) > HELD_BYTES:
            self._followers.popitem(last=False)
        return follower.rows

    def row(self, name: str) -> dict[str, Any]:
        """The run's line in the list; read again only where its files have changed."""
        with self._lock:
            head = self.head(name)
            marks = head.mark, head.state, table_files(head.run.path, "metrics")
            known = self._rows.get(name)
            if known is None or known[0] != marks:
                known = marks, self._read_row(head)
                self._rows[name] = known
            return known[1]

    def _read_row(self, head: Head) -> dict[str, Any]:
        try:
            run = self.open(head.name)
            if head.state == "running":
                rows = self._followed(head.name, "metrics", LISTED)
            else:  # read for this line and not kept
                follower = Follower(run.path, "metrics", run.rounds, LISTED)
                follower.look()
                rows = follower.rows
            return summary_row(head.name, head.sweep, head.state, run, rows)
        except DataError as error:
            return summary_row(head.name, head.sweep, head.state, head.run, Rows(0, 2, np.float64), self._short(error))

    def progress(self, name: str) -> Progress:
        """What has been written up to now, which the state may not know of yet."""
        with self._lock:
            head = self.head(name)
            runs, rounds, diverged = head.every_run, head.run.rounds, len(head.run.diverged)
            if head.run.state["state"] == "finished":
                return Progress(rounds * len(runs), rounds, rounds, head.state, diverged)
            done = int(self._followed(name, "metrics", LISTED).reached(runs).sum())
            return Progress(done, done // max(1, len(runs)), rounds, head.state, diverged)


def _occupancy_bytes(head: Head, clients: int) -> int:
    """When the run will be finished."""
    return len(head.every_run) * head.run.rounds * clients * np.dtype(np.int32).itemsize


def _folders_in(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((each for each in entries if each.is_dir(follow_symlinks=False)), key=lambda each: each.name)
    except OSError:
        return []
