"""The rows of a run in memory, read once, and after that only what is new.

All rows are read here: of finished, running and interrupted runs, of the simulator and of Flower alike.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.records.tables import KEY, LOSSES, MEASURED, Mark, read_table, table_files

BEYOND = 1e100
"""no run comes to such a number, and with less every sum and mean stays finite"""
Run = tuple[str, int]
"""policy and seed"""


class Rows:
    """Values of runs and rounds, (runs, rounds, columns); the system gives memory as rounds come."""

    def __init__(self, rounds: int, columns: int, dtype: type[np.generic], most_bytes: float = np.inf) -> None:
        self.rounds, self.index, self._most = rounds, dict[Run, int](), most_bytes
        self._values: NDArray[Any] = np.zeros((0, max(0, rounds), columns), dtype=dtype)
        self._seen = np.zeros(self._values.shape[:2], dtype=bool)
        self._reached = np.zeros(0, dtype=np.int64)
        self.itemsize = self._values.itemsize

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._seen.nbytes

    def put(self, runs: Sequence[Run], which: NDArray[Any], t: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Take rows of the runs `which`, by their place in `runs`. A round written twice counts as last written."""
        if not t.size:
            return
        if t.min() < 1 or t.max() > self.rounds:
            raise DataError(f"t = {t[(t < 1) | (t > self.rounds)][0]}: the run has rounds 1 to {self.rounds}")
        places = np.array([self.index.setdefault(run, len(self.index)) for run in runs])[which]
        self._make_room(len(self.index))
        self._values[places, t - 1] = values
        self._seen[places, t - 1] = True
        self._reached = np.where(self._seen.all(axis=1), self.rounds, self._seen.argmin(axis=1))

    def reached(self, runs: Sequence[Run]) -> NDArray[np.int64]:
        """Return up to which round the rows of each of these runs are all there."""
        places = np.array([self.index.get(run, -1) for run in runs], dtype=np.int64)
        if not self.index or not places.size:
            return np.zeros(places.size, dtype=np.int64)
        return np.where(places < 0, 0, self._reached[places])

    def check_whole(self, runs: Sequence[Run], table: str) -> None:
        """Refuse runs of which a round is missing before later ones."""
        for (policy, seed), place in ((run, self.index[run]) for run in runs if run in self.index):
            if np.count_nonzero(self._seen[place]) > self._reached[place]:
                rounds = np.flatnonzero(self._seen[place]) + 1
                missing = f"rounds are missing, {rounds.size} of 1 to {rounds[-1]}"
                raise DataError(f"{table} of policy {policy}, seed {seed}: {missing}")

    def of(self, runs: Sequence[Run], rounds: int) -> NDArray[Any]:
        """(runs, rounds, columns) of runs that are there, not to be written to; no copy where they lie side by side."""
        places = [self.index[run] for run in runs]
        if places and places == list(range(places[0], places[0] + len(places))):
            return self._values[places[0] : places[0] + len(places), :rounds]
        return self._values[places, :rounds]

    def _make_room(self, runs: int) -> None:
        values, seen = self._values, self._seen
        if runs > len(values):
            shape = (runs, *values.shape[1:])
            if np.prod(shape, dtype=np.float64) * values.itemsize > self._most:
                raise DataError(f"{runs} runs of {self.rounds} rounds: more than the page can hold in memory")
            self._values, self._seen = np.zeros(shape, values.dtype), np.zeros(shape[:2], dtype=bool)
            self._values[: len(values)], self._seen[: len(seen)] = values, seen


class Follower:
    """One table of one run; `look` brings its rows up to date.

    Parameters
    ----------
    columns : sequence of str
        Columns of the metrics, or one column of the clients.
    clients : int
        How many clients there are, for a column of the clients.
    most_bytes : float
        Memory that the rows may take.
    most : int, optional
        Rows that a file may hold.
    """

    def __init__(
        self,
        folder: Path,
        table: str,
        rounds: int,
        columns: Sequence[str] = MEASURED,
        clients: int = 0,
        most_bytes: float = np.inf,
        most: int | None = None,
    ) -> None:
        self.folder, self.table, self.columns, self.clients = folder, table, tuple(columns), clients
        self._rounds, self._most_bytes, self._most = rounds, most_bytes, most
        self._start_over()

    def _start_over(self) -> None:
        kind = np.int32 if self.columns in (("admitted",), ("held",)) else np.float64
        self.rows = Rows(self._rounds, self.clients or len(self.columns), kind, self._most_bytes)
        self.files: dict[Path, Mark] = {}

    def look(self) -> Rows:
        """Read what is new and return all rows."""
        found = table_files(self.folder, self.table)
        try:
            self._follow(found)
        except DataError:
            self._start_over()
            again = table_files(self.folder, self.table)
            if again.keys() == found.keys():
                raise
            self._follow(again)  # the run has just gone on, or finished: its parts became a table
        return self.rows

    def _follow(self, found: Mapping[Path, Mark]) -> None:
        if any(found.get(path) != mark for path, mark in self.files.items()):
            self._start_over()
        for path in [path for path in found if path not in self.files]:
            needed = max((self._most or 0) * (self.clients or len(self.columns)) * self.rows.itemsize, found[path].size // 4)
            if needed > self._most_bytes:
                raise DataError(f"{path}: {needed / 2**20:,.0f} MiB of rows are more than the page can hold in memory")
            self.put(path, read_table(path, self.table, (*KEY, *self.columns), self._most))
            self.files[path] = found[path]

    def put(self, path: Path, frame: pl.DataFrame) -> None:
        """Take rows of a frame that was read from `path`."""
        if self.clients:
            frame, values = self._by_client(path, frame)
        else:
            values = np.empty((frame.height, len(self.columns)))
            for place, name in enumerate(self.columns):  # a frame's own ways to do this take longer than reading it
                values[:, place] = frame[name].cast(pl.Float64).to_numpy()
        if (np.abs(values) > BEYOND).any():
            raise DataError(f"{path}: is damaged, it holds a number beyond {BEYOND:g}")
        names, seeds = frame["policy"].cast(pl.Categorical).to_physical().to_numpy(), frame["seed"].to_numpy()
        least, span = int(seeds.min(initial=0)), int(np.ptp(seeds)) + 1 if seeds.size else 1
        _, first, which = np.unique(names * np.int64(span) + (seeds - least), return_index=True, return_inverse=True)
        runs = [(frame["policy"][place], int(seeds[place])) for place in first.tolist()]
        try:
            self.rows.put(runs, which, frame["t"].to_numpy(), values)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    def _by_client(self, path: Path, frame: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[Any]]:
        """Return the rows in which the column was recorded, and its number for each client."""
        (name,) = self.columns
        if name != "held" or frame[name].null_count() == frame.height:
            frame = frame.filter(pl.col(name).is_not_null())
        values, lengths = frame[name].explode(), frame[name].list.len()
        lacking = 0 if name in LOSSES else values.null_count()
        if frame.height and (lacking or not lengths.min() == lengths.max() == self.clients):
            raise DataError(f"{path}: {name} does not hold one number for each of the {self.clients} clients")
        if frame.height and (values.min() or 0) < 0:  # type: ignore[operator]
            raise DataError(f"{path}: {name} is less than nothing for some client")
        kind = pl.Float64() if self.rows.itemsize == 8 else pl.Int32()
        return frame, values.cast(kind).to_numpy().reshape(-1, self.clients)
