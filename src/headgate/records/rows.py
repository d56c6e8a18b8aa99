"""The rows of a run: its tables in memory, read once, and after that only what is new.

While a run is played its rows are JSON lines that grow, in its folder or in those of its parts; then they are one table.
Whoever wants rows reads them here, of finished, running and interrupted runs, of the simulator and of Flower alike. Links are
not followed.
"""

import io
import json
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headgate.errors import DataError

PARTS = "parts"
KEY: Mapping[str, pl.DataType] = {"policy": pl.String(), "seed": pl.Int64(), "t": pl.Int64()}
METRICS: Mapping[str, pl.DataType] = {
    **KEY,
    "test_accuracy": pl.Float64(),
    "test_loss": pl.Float64(),
    "train_loss": pl.Float64(),
    "n": pl.Int64(),
    "N": pl.Int64(),
    "n_eff": pl.Float64(),
    "admitted": pl.Int64(),
    "price": pl.Float64(),
    "spend": pl.Float64(),
    "debt": pl.Float64(),
    "bound": pl.Float64(),
    "excess": pl.Int64(),
}
"""`excess` is the largest n_m(t) − B_m of any client"""
CLIENTS: Mapping[str, pl.DataType] = {
    **KEY,
    "admitted": pl.List(pl.Int32()),
    "held": pl.List(pl.Int32()),
    "paid": pl.List(pl.Float64()),
}
"""one number for each client: λ_m(t), n_m(t), and the money it was paid where prices differ between clients"""
TABLES = {"metrics": METRICS, "clients": CLIENTS}
MEASURED = tuple(name for name in METRICS if name not in KEY)
OLDER_TABLES = {"clients": "occupancy"}
OLDER_COLUMNS = {"metrics": {"price": "cost"}, "clients": {"held": "n"}}
"""as folders of earlier versions have them; of clients they tell only what is held"""
MAY_LACK = ("excess",)
"""what earlier versions did not record"""

BLOCK = 8 * 2**20
"""bytes of JSON lines that are looked at together"""
FIRST = 64
"""rounds for which there is room at first, where all of a run would be large"""
LARGE = 16 * 2**20
"""bytes; less is set aside for all rounds at once, and the system gives memory as rounds come"""
Run = tuple[str, int]
"""policy and seed"""


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


def part_folders(folder: Path) -> list[Path]:
    """The folders in which a run is played: its parts, or itself where it has none."""
    if (folder / PARTS).is_symlink():
        return [folder]
    parts = sorted(path for path in (folder / PARTS).glob("[0-9]*") if path.is_dir() and not path.is_symlink())
    return parts or [folder]


def table_files(folder: Path, table: str) -> dict[Path, Mark]:
    """Where a table is now: whole, in lines, or in the lines of the run's parts."""
    names = [name for name in (table, OLDER_TABLES.get(table)) if name]
    for candidate in [folder / f"{name}{suffix}" for name in names for suffix in (".parquet", ".jsonl")]:
        if (mark := mark_of(candidate)) is not None:
            return {candidate: mark}
    lines = [part / f"{name}.jsonl" for part in part_folders(folder) for name in names]
    return {path: mark for path in lines if (mark := mark_of(path)) is not None}


def read_bytes(path: Path, start: int = 0, most: int = -1) -> bytes:
    """Everything that is read of a table goes through here."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(descriptor, "rb") as file:
            file.seek(start)
            return file.read(most)
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read ({error.strerror})") from None


# one file


def read_table(path: Path, table: str, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of a whole file, parquet or JSON lines; a last line without its end is passed over."""
    content = read_bytes(path)
    if path.suffix == ".jsonl":
        return lines_as_table(path, content[: content.rfind(b"\n") + 1], table, columns)
    try:
        try:
            return pl.read_parquet(io.BytesIO(content), columns=list(columns))
        except pl.exceptions.ColumnNotFoundError:  # of an earlier version
            there = set(pl.read_parquet_schema(io.BytesIO(content))) & set(_written(table, columns))
            return _named(path, pl.read_parquet(io.BytesIO(content), columns=sorted(there)), table, columns, there)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _damaged(path, error) from None


def lines_as_table(path: Path, lines: bytes, table: str, columns: Sequence[str]) -> pl.DataFrame:
    """Whole lines of `path`. In a run that was taken up again, older names may stand in some and newer ones in others."""
    numbers = pl.List(pl.Float64()) if table == "clients" else pl.Float64()  # 12.0 may stand where a count is meant
    schema = {name: pl.Float64() if name in KEY else numbers for name in _written(table, columns)} | {"policy": pl.String()}
    try:
        there = set(json.loads(lines.partition(b"\n")[0])) if lines else set(columns)
        frame = pl.read_ndjson(io.BytesIO(lines), schema=schema) if lines else pl.DataFrame(schema=schema)
    except (pl.exceptions.PolarsError, ValueError, TypeError, RecursionError) as error:
        raise _damaged(path, error) from None
    return _named(path, frame, table, columns, there)


def _written(table: str, columns: Sequence[str]) -> list[str]:
    return [*columns, *(older for name, older in OLDER_COLUMNS[table].items() if name in columns)]


def _named(path: Path, frame: pl.DataFrame, table: str, columns: Sequence[str], there: Collection[str]) -> pl.DataFrame:
    """Under their names of today. What was not recorded of clients is missing or null."""
    older = OLDER_COLUMNS[table]
    missing = [name for name in columns if not {name, older.get(name)} & {*there}]
    if table == "clients":
        missing = [name for name in missing if name in KEY]
    if needed := [name for name in missing if name not in MAY_LACK]:
        raise DataError(f"{path.name}: has no column {', '.join(needed)}")
    frame = frame.with_columns(pl.lit(None, pl.Float64()).alias(name) for name in missing if name not in frame.columns)
    for new, old in older.items():
        if new in columns and old in frame.columns:
            both = [pl.col(name) for name in (new, old) if name in frame.columns]
            frame = frame.with_columns(pl.coalesce(both).alias(new))
    return frame


def _damaged(path: Path, error: Exception) -> DataError:
    """With the line, where one can be named."""
    where = ""
    if path.suffix == ".jsonl":
        for number, line in enumerate(read_bytes(path).split(b"\n")[:-1], 1):
            try:
                fine = not line or isinstance(json.loads(line), dict)
            except (ValueError, RecursionError):
                fine = False
            if not fine:
                where = f"line {number} "
                break
    return DataError(f"{path.name}: {where}is damaged ({(str(error).strip() or type(error).__name__).splitlines()[0]})")


def whole_table(folder: Path, table: str, policies: Sequence[str]) -> pl.DataFrame:
    """All rows of a run as a frame."""
    paths = list(table_files(folder, table))
    try:
        return frame_of(paths, table, policies)
    except DataError:
        if list(table_files(folder, table)) == paths:
            raise
        return whole_table(folder, table, policies)  # the run has just finished: its lines became a table


def frame_of(paths: Sequence[Path], table: str, policies: Sequence[str]) -> pl.DataFrame:
    """By round, then policy as given, then seed: the order in which one process would write them. Null where nothing was
    measured. A round written twice, by a run that was taken up again, counts as last written."""
    frames = [_typed(path, read_table(path, table, list(TABLES[table])), TABLES[table]) for path in paths]
    frame = pl.concat([pl.DataFrame(schema=TABLES[table]), *frames]).unique(list(KEY), keep="last", maintain_order=True)
    place = pl.col("policy").replace_strict({name: place for place, name in enumerate(policies)}, default=len(policies))
    return frame.sort("t", place, "seed", maintain_order=True)


def _typed(path: Path, frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    absent = [pl.lit(None).alias(name) for name in schema if name not in frame.columns]
    try:
        frame = frame.with_columns(absent).select(pl.col(name).cast(kind) for name, kind in schema.items())
    except pl.exceptions.PolarsError as error:
        raise _damaged(path, error) from None
    if any(frame[name].null_count() for name in KEY):
        raise DataError(f"{path.name}: is damaged, policy, seed or t is empty")
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


# all rows of a run


class Rows:
    """Values of runs and rounds, (runs, rounds, columns), with room to grow."""

    def __init__(self, rounds: int, columns: int, dtype: type[np.generic], most_bytes: float = np.inf) -> None:
        self.rounds, self.index, self._most = rounds, dict[Run, int](), most_bytes
        self._values: NDArray[Any] = np.zeros((0, max(0, min(rounds, FIRST)), columns), dtype=dtype)
        self._seen = np.zeros(self._values.shape[:2], dtype=bool)
        self._reached = np.zeros(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._seen.nbytes

    def put(self, runs: Sequence[Run], which: NDArray[Any], t: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Rows of the runs `which`, by their place in `runs`. A round written twice counts as last written."""
        if not t.size:
            return
        if t.min() < 1 or t.max() > self.rounds:
            raise DataError(f"t = {t[(t < 1) | (t > self.rounds)][0]}: the run has rounds 1 to {self.rounds}")
        places = np.array([self.index.setdefault(run, len(self.index)) for run in runs])[which]
        self._make_room(len(self.index), int(t.max()))
        self._values[places, t - 1] = values
        self._seen[places, t - 1] = True
        self._reached = np.where(self._seen.all(axis=1), len(self._seen.T), self._seen.argmin(axis=1))

    def reached(self, runs: Sequence[Run]) -> NDArray[np.int64]:
        """Up to which round the rows of each of these runs are all there."""
        places = np.array([self.index.get(run, -1) for run in runs], dtype=np.int64)
        if not self.index or not places.size:
            return np.zeros(places.size, dtype=np.int64)
        return np.where(places < 0, 0, self._reached[places])

    def check_whole(self, runs: Sequence[Run], table: str) -> None:
        """Refuses runs of which a round is missing before later ones."""
        for (policy, seed), place in ((run, self.index[run]) for run in runs if run in self.index):
            if np.count_nonzero(self._seen[place]) > self._reached[place]:
                rounds = np.flatnonzero(self._seen[place]) + 1
                said = f"rounds are missing, {rounds.size} of 1 to {rounds[-1]}"
                raise DataError(f"{table} of policy {policy}, seed {seed}: {said}")

    def of(self, runs: Sequence[Run], rounds: int) -> NDArray[Any]:
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
        if np.prod(shape, dtype=np.float64) * old.itemsize > self._most:
            raise DataError(f"{shape[0]} runs of {rounds} rounds and {have[2]} columns: more than the page can hold in memory")
        self._values = np.zeros(shape, dtype=old.dtype)
        self._values[: have[0], : have[1]] = old
        seen, self._seen = self._seen, np.zeros(shape[:2], dtype=bool)
        self._seen[: have[0], : have[1]] = seen


class Follower:
    """One table of one run; `look` brings it up to date."""

    def __init__(
        self,
        folder: Path,
        table: str,
        rounds: int,
        columns: Sequence[str] = MEASURED,
        clients: int = 0,
        most_bytes: float = np.inf,
    ) -> None:
        """`columns` of the metrics; or one column of the clients, of which there are so many."""
        self.folder, self.table, self.columns, self.clients = folder, table, tuple(columns), clients
        self._rounds, self._most = rounds, most_bytes
        self._start_over()

    def _start_over(self) -> None:
        kind = np.int32 if self.clients and self.columns != ("paid",) else np.float64
        self.rows = Rows(self._rounds, self.clients or len(self.columns), kind, self._most)
        self.files: dict[Path, Mark] = {}
        self._read: dict[Path, int] = {}

    def look(self) -> Rows:
        found = table_files(self.folder, self.table)
        if found != self.files:
            try:
                self._follow(found)
            except DataError:
                again = table_files(self.folder, self.table)
                self._start_over()
                if again.keys() == found.keys():
                    raise
                self._follow(again)  # the run has just finished: its lines became a table
        return self.rows

    def _follow(self, found: Mapping[Path, Mark]) -> None:
        if not self._grown(found):
            self._start_over()
        for path, mark in found.items():
            if self.files.get(path) == mark:
                continue
            if mark.size > 4 * self._most:
                raise DataError(f"{path.name}: {mark.size / 2**20:,.0f} MiB are more than the page can hold in memory")
            if path.suffix == ".parquet":
                self._put(path, read_table(path, self.table, (*KEY, *self.columns)))
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
            self._put(path, lines_as_table(path, block[:whole], self.table, (*KEY, *self.columns)))
            self._read[path] = start + whole
            if len(block) < BLOCK:
                return

    def _put(self, path: Path, frame: pl.DataFrame) -> None:
        try:
            if any(frame[name].null_count() for name in KEY):
                raise DataError(f"{path.name}: is damaged, policy, seed or t is empty")
            if self.clients:
                frame, values = self._by_client(path, frame)
            else:
                values = frame.select(pl.col(self.columns).cast(pl.Float64).fill_null(float("nan"))).to_numpy()
            runs, which = _numbered(frame)
            self.rows.put(runs, which, frame["t"].cast(pl.Int64).to_numpy(), values)
        except pl.exceptions.PolarsError as error:
            raise _damaged(path, error) from None

    def _by_client(self, path: Path, frame: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[Any]]:
        """Rows of which the column was recorded, and what it says of each client."""
        (name,) = self.columns
        if name not in frame.columns:
            return frame.clear(), np.zeros((0, self.clients))
        if name != "held":
            frame = frame.filter(pl.col(name).is_not_null())
        told, lengths = frame[name].explode(), frame[name].list.len()
        if frame.height and (told.null_count() or not lengths.min() == lengths.max() == self.clients):
            raise DataError(f"{path.name}: {name} does not hold one number for each of the {self.clients} clients")
        return frame, told.cast(pl.Float64() if name == "paid" else pl.Int32()).to_numpy().reshape(-1, self.clients)


def _numbered(frame: pl.DataFrame) -> tuple[list[Run], NDArray[Any]]:
    """The runs of a table, and the number of that of each row."""
    policies, seeds = frame["policy"].cast(pl.Categorical).to_physical().to_numpy(), frame["seed"].cast(pl.Int64).to_numpy()
    least, span = int(seeds.min(initial=0)), int(np.ptp(seeds)) + 1 if seeds.size else 1
    _, first, which = np.unique(policies * np.int64(span) + (seeds - least), return_index=True, return_inverse=True)
    names = frame["policy"]
    return [(names[place], int(seeds[place])) for place in first.tolist()], which
