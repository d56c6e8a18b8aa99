"""The rows of a run in memory: read once, and after that only what is new.

While a run is played its rows are JSON lines that grow, in its folder or in those of its parts; then they are one table.
Files are read without following links, and no run is held that is larger than `MOST_BYTES`.
"""

import io
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.records.reader import OCCUPANCY, PARTS, part_folders

MOST_BYTES = 128 * 2**20
"""of one table of one run"""
BLOCK = 8 * 2**20
"""bytes of JSON lines that are looked at together"""
FIRST = 64
"""rounds for which there is room at first, where all of a run would be large"""
LARGE = 16 * 2**20
"""bytes; less is set aside for all rounds at once, and the system gives memory as rounds come"""


class Mark(NamedTuple):
    """A file as it was seen: another mark, another content."""

    inode: int
    changed: int
    size: int


def mark_of(path: Path) -> Mark | None:
    """None where there is no plain file; a link is none."""
    try:
        seen = os.lstat(path)
    except (OSError, ValueError):
        return None
    return Mark(seen.st_ino, seen.st_mtime_ns, seen.st_size) if stat.S_ISREG(seen.st_mode) else None


def table_files(folder: Path, name: str) -> dict[Path, Mark]:
    """Where a table is now: whole, in lines, or in the lines of the run's parts."""
    for candidate in (folder / f"{name}.parquet", folder / f"{name}.jsonl"):
        mark = mark_of(candidate)
        if mark is not None:
            return {candidate: mark}
    if (folder / PARTS).is_symlink():
        return {}
    parts = [part / f"{name}.jsonl" for part in part_folders(folder) if not part.is_symlink()]
    return {path: mark for path in parts if (mark := mark_of(path)) is not None}


def read_bytes(path: Path, start: int = 0, most: int = -1) -> bytes:
    """Everything the page reads of a table goes through here."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(descriptor, "rb") as file:
            file.seek(start)
            return file.read(most)
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read ({error.strerror})") from None


class Rows:
    """Values of runs and rounds, (runs, rounds, columns), with room to grow."""

    def __init__(self, rounds: int, columns: int, dtype: type[np.generic]) -> None:
        self.rounds, self.index = rounds, dict[tuple[str, int], int]()
        self._values: NDArray[Any] = np.zeros((0, max(0, min(rounds, FIRST)), columns), dtype=dtype)
        self._seen = np.zeros(self._values.shape[:2], dtype=bool)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._seen.nbytes

    def put(self, policies: Sequence[str], seeds: Sequence[int], t: NDArray[np.int64], values: NDArray[Any]) -> None:
        """A round written twice counts as last written."""
        if not t.size:
            return
        if t.min() < 1 or t.max() > self.rounds:
            raise DataError(f"t = {t[(t < 1) | (t > self.rounds)][0]}: the run has rounds 1 to {self.rounds}")
        runs = np.array([self.index.setdefault(run, len(self.index)) for run in zip(policies, seeds, strict=True)])
        self._make_room(len(self.index), int(t.max()))
        self._values[runs, t - 1] = values
        self._seen[runs, t - 1] = True

    def reached(self, runs: Sequence[tuple[str, int]]) -> NDArray[np.int64]:
        """Up to which round the rows of each of these runs are all there."""
        places = np.array([self.index.get(run, -1) for run in runs], dtype=np.int64)
        if not self.index or not places.size:
            return np.zeros(places.size, dtype=np.int64)
        first_gap = np.where(self._seen.all(axis=1), len(self._seen.T), self._seen.argmin(axis=1))
        return np.where(places < 0, 0, first_gap[places])

    def of(self, runs: Sequence[tuple[str, int]], rounds: int) -> NDArray[Any]:
        """(runs, rounds, columns) of runs that are there, not to be written to; no copy where they lie side by side."""
        places = [self.index[run] for run in runs]
        if places and places == list(range(places[0], places[0] + len(places))):
            return self._values[places[0] : places[0] + len(places), :rounds]
        return self._values[places, :rounds]

    def _make_room(self, runs: int, rounds: int) -> None:
        have, old = self._values.shape, self._values
        if runs <= have[0] and rounds <= have[1]:
            return
        wide = have[1] if rounds <= have[1] else min(self.rounds, max(rounds, 2 * have[1]))
        if max(runs, have[0]) * self.rounds * have[2] * old.itemsize <= LARGE:
            wide = self.rounds
        shape = (max(runs, have[0]), wide, have[2])
        if np.prod(shape, dtype=np.float64) * old.itemsize > MOST_BYTES:
            raise DataError(f"{shape[0]} runs of {rounds} rounds and {have[2]} columns: more than the page can hold in memory")
        self._values = np.zeros(shape, dtype=old.dtype)
        self._values[: have[0], : have[1]] = old
        seen, self._seen = self._seen, np.zeros(shape[:2], dtype=bool)
        self._seen[: have[0], : have[1]] = seen


class Follower:
    """One table of one run; `look` brings it up to date."""

    def __init__(self, folder: Path, table: str, rounds: int, columns: Sequence[str] = (), clients: int = 0) -> None:
        """`columns` of the metrics, or `clients` of whom the occupancy is told."""
        self.folder, self.table, self.columns, self.clients, self._rounds = folder, table, tuple(columns), clients, rounds
        self._start_over()

    def _start_over(self) -> None:
        kind = np.int32 if self.clients else np.float64
        self.rows = Rows(self._rounds, self.clients or len(self.columns), kind)
        self.files: dict[Path, Mark] = {}
        self._read: dict[Path, int] = {}

    def look(self) -> None:
        found = table_files(self.folder, self.table)
        if found == self.files:
            return
        try:
            self._follow(found)
        except DataError:
            again = table_files(self.folder, self.table)
            if again.keys() == found.keys():
                self._start_over()
                raise
            self._start_over()  # the run has just finished: its lines became a table
            self._follow(again)

    def _follow(self, found: Mapping[Path, Mark]) -> None:
        if not self._grown(found):
            self._start_over()
        for path, mark in found.items():
            if self.files.get(path) == mark:
                continue
            if mark.size > 4 * MOST_BYTES:
                raise DataError(f"{path.name}: {mark.size / 2**20:,.0f} MiB are more than the page can hold in memory")
            if path.suffix == ".parquet":
                self._put(path, self._parquet(path))
            else:
                self._lines(path)
        self.files = dict(found)

    def _grown(self, found: Mapping[Path, Mark]) -> bool:
        """Whether what was read is still there and only more has come."""
        return all(
            (now := found.get(path)) is not None
            and now.inode == before.inode
            and now.size >= self._read.get(path, 0)
            and (path.suffix != ".parquet" or now == before)
            for path, before in self.files.items()
        )

    def _lines(self, path: Path) -> None:
        """Whole lines since the last look; the last one may still be written."""
        while True:
            start = self._read.get(path, 0)
            block = read_bytes(path, start, BLOCK)
            whole = block.rfind(b"\n") + 1
            if not whole:
                return
            schema = {name: pl.List(pl.Float64()) if name == "n" and self.clients else kind for name, kind in self._written()}
            try:
                frame = pl.read_ndjson(io.BytesIO(block[:whole]), schema=schema)
            except pl.exceptions.PolarsError as error:
                raise DataError(f"{path.name}: is damaged ({str(error).strip().splitlines()[0]})") from None
            self._put(path, frame)
            self._read[path] = start + whole
            if len(block) < BLOCK:
                return

    def _written(self) -> list[tuple[str, pl.DataType]]:
        """A writer may say 12.0 where a count is meant."""
        names = OCCUPANCY if self.clients else ("policy", "seed", "t", *self.columns)
        return [(name, pl.String() if name == "policy" else pl.Float64()) for name in names]

    def _parquet(self, path: Path) -> pl.DataFrame:
        names = [name for name, _ in self._written()]
        try:
            return pl.read_parquet(io.BytesIO(read_bytes(path)), columns=names)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"{path.name}: is damaged ({str(error).strip().splitlines()[0]})") from None

    def _put(self, path: Path, frame: pl.DataFrame) -> None:
        numbers = [pl.col(name).cast(pl.Float64).fill_null(float("nan")) for name in self.columns]
        try:
            tidy = frame.select(pl.col("policy"), pl.col("seed", "t").cast(pl.Int64), *numbers)
            policies, seeds, t = (tidy[name] for name in ("policy", "seed", "t"))
            if policies.null_count() or seeds.null_count() or t.null_count():
                raise DataError(f"{path.name}: is damaged, policy, seed or t is empty")
            values = self._held(path, frame) if self.clients else tidy.select(self.columns).to_numpy()
            self.rows.put(policies.to_list(), seeds.to_list(), t.to_numpy(), values)
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{path.name}: is damaged ({str(error).strip().splitlines()[0]})") from None

    def _held(self, path: Path, frame: pl.DataFrame) -> NDArray[np.int32]:
        held = frame["n"].cast(pl.List(pl.Int32))
        if not (held.list.len() == self.clients).fill_null(value=False).all() or held.explode().null_count():
            raise DataError(f"{path.name}: n does not hold one number for each of the {self.clients} clients")
        return held.explode().to_numpy().reshape(-1, self.clients)
