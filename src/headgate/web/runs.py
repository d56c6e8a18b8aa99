"""The run folders below one folder. A run is read again only after its files have
changed.

A name leads to a folder only if a scan of the runs folder has found it: no path is ever
made from the text of a request. Links are not followed. All methods may be called from
several threads.
"""

import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

from headgate.analysis.tables import LISTED, run_row
from headgate.errors import DataError, HeadgateError
from headgate.limits import TABLE as MOST_BYTES
from headgate.records.reader import RunFolder
from headgate.records.tables import (
    STATE,
    Follower,
    FoundRun,
    Mark,
    Rows,
    find_runs,
    mark_of,
    table_files,
)

HELD_BYTES = 2 * MOST_BYTES
"""largest total size of the tables that are kept for later requests, in bytes"""
TOO_LARGE = "what clients hold is more than the page can hold in memory"


class UnknownRun(HeadgateError):
    """There is no such run below the runs folder."""


class Library:
    """All runs below `folder` or, if that is itself a run folder, this one run."""

    def __init__(self, folder: Path) -> None:
        self._root = folder.resolve()  # which the first run may make later
        self._lock = RLock()
        self._found: dict[str, tuple[Mark | None, RunFolder | str]] = {}
        """by name, the mark of the state file at the last scan, and the run without
        settings or why it cannot be read
        """
        self._rows: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._opened: OrderedDict[str, tuple[RunFolder, RunFolder]] = OrderedDict()
        """by name, the run without and with its settings, which take the longest to
        read
        """
        self._followers: OrderedDict[tuple[str, tuple[str, ...]], Follower] = (
            OrderedDict()
        )

    @property
    def title(self) -> str:
        return self._root.name

    # all runs

    def heads(self) -> dict[str, RunFolder]:
        """Scan the folder, and return the runs by name, without settings.

        Runs that are gone are removed from all caches.
        """
        with self._lock:
            self._found = {
                each.name: self._head(each) for each in find_runs(self._root)
            }
            runs = {
                name: run
                for name, (_, run) in self._found.items()
                if isinstance(run, RunFolder)
            }
            for name in self._rows.keys() - runs.keys():
                del self._rows[name]
            for name in self._opened.keys() - runs.keys():
                del self._opened[name]
            for key in [key for key in self._followers if key[0] not in runs]:
                del self._followers[key]
            return runs

    def _head(self, place: FoundRun) -> tuple[Mark | None, RunFolder | str]:
        """Return the mark of a run's state, and the run or why it cannot be read."""
        known = self._found.get(place.name)
        if known is not None and known[0] == place.mark:
            return known
        try:
            head = RunFolder.head(place.path, place.name, place.sweep)
        except DataError as error:
            return place.mark, self._short(error)
        return place.mark, head

    def unreadable(self) -> dict[str, str]:
        """Return the folders that the last scan could not read, and the reasons."""
        with self._lock:
            return {
                name: why
                for name, (_, why) in self._found.items()
                if isinstance(why, str)
            }

    def head(self, name: str) -> RunFolder:
        """Return the run with this name in its present state, without settings."""
        with self._lock:
            mark, run = self._found.get(name, (None, ""))
            if isinstance(run, RunFolder) and mark_of(run.path / STATE) == mark:
                return run
            found = self.heads()
            if name in found:
                return found[name]
            why = self.unreadable().get(name)
            if why is not None:
                raise DataError(why)
            raise UnknownRun(f"run {name[:200]!r}: there is no such run")

    def _short(self, error: Exception) -> str:
        """Return the message of an error without the path of the runs folder."""
        return str(error).replace(f"{self._root}{os.sep}", "")

    # one run

    def open(self, name: str) -> RunFolder:
        """Return the run with this name, with its settings."""
        with self._lock:
            head = self.head(name)
            known = self._opened.get(name)
            if known is None or known[0] is not head:
                try:
                    known = head, head.with_settings()
                except DataError as error:
                    raise DataError(self._short(error)) from None
                self._opened[name] = known
                while len(self._opened) > 64:
                    self._opened.popitem(last=False)
            return known[1]

    def metrics(self, name: str) -> Rows:
        """Return the metrics of a run, with the columns in `RunFolder.measured`."""
        with self._lock:
            run = self.open(name)
            return self._followed(run, "metrics", *run.measured)

    def clients(self, name: str) -> Rows | None:
        """Return what each client holds; None if this is too large.

        The rows have no runs if it was not recorded.
        """
        with self._lock:
            run = self.open(name)
            bytes_of_column = 4 * len(run.runs) * run.rounds * run.system.clients
            if bytes_of_column > MOST_BYTES:
                return None
            return self._followed(run, "clients", "held")

    def _followed(
        self,
        run: RunFolder,
        table: str,
        *columns: str,
    ) -> Rows:
        key = run.name, columns
        follower = self._followers.pop(key, None)
        if follower is None or follower.folder != run.path:
            follower = run.follower(table, *columns, most_bytes=MOST_BYTES)
        try:
            follower.read_new()
        except DataError as error:
            raise DataError(f"{run.name}: {self._short(error)}") from None
        self._followers[key] = follower
        while len(self._followers) > 1 and self._held_bytes() > HELD_BYTES:
            self._followers.popitem(last=False)
        return follower.rows

    def _held_bytes(self) -> int:
        return sum(each.rows.nbytes for each in self._followers.values())

    def rows(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows of these runs in the list."""
        with self._lock:
            return [self._row(self.head(name)) for name in names]

    def _row(self, head: RunFolder) -> dict[str, Any]:
        """Return the row of a run; it is read again only if its files have changed."""
        mark, _ = self._found[head.name]
        marks = (mark, head.status, table_files(head.path, "metrics"))
        known = self._rows.get(head.name)
        if known is None or known[0] != marks:
            self._rows[head.name] = known = marks, self._read_row(head)
        return known[1]

    def _read_row(self, head: RunFolder) -> dict[str, Any]:
        try:
            run = self.open(head.name)
            if head.status == "running":
                return run_row(run, self._followed(run, "metrics", *LISTED))
            # tables that no longer grow are read for this row and not kept
            follower = run.follower("metrics", *LISTED, most_bytes=MOST_BYTES)
            return run_row(run, follower.read_new())
        except DataError as error:
            return run_row(head, problem=self._short(error))

    def round(self, name: str) -> int:
        """Return the mean number of rounds that its runs have reached.

        The state file may not have it yet.
        """
        with self._lock:
            head = self.head(name)
            if head.state["state"] == "finished":
                return head.rounds
            rows = self._followed(self.open(name), "metrics", *LISTED)
            return int(rows.reached(head.runs).sum()) // max(1, len(head.runs))
