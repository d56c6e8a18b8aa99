"""The tables of a run: their columns, the files that contain them, and the functions
that read these files.

A run in progress stores each table in parts, in its folder or in those of its shards;
`metrics/part-00012.parquet` ends with round 12. A finished run has one file per table.
A folder may be from a stranger: links are not followed, and files that are too large
are not unpacked. A checksum shows that a file was changed after it was written, not who
wrote it.
"""

import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.limits import JSON, POINTS, memory
from headgate.reading import check_parquet, one_line, opened, read_bytes, read_object
from headgate.writing import check_no_link

SHARDS = "shards"
KEY: Mapping[str, pl.DataType] = {
    "policy": pl.String(),
    "seed": pl.Int64(),
    "t": pl.Int64(),
}
METRICS: Mapping[str, pl.DataType] = {
    **KEY,
    "test_accuracy": pl.Float64(),
    "test_loss": pl.Float64(),
    "validation_accuracy": pl.Float64(),
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
"""`validation_accuracy` is measured on held-out training images; `excess` is the
largest n_m(t) − B_m over all clients
"""
CLIENTS: Mapping[str, pl.DataType] = {
    **KEY,
    "admitted": pl.List(pl.Int32()),
    "held": pl.List(pl.Int32()),
    "paid": pl.List(pl.Float64()),
}
"""one number per client: λ_m(t), n_m(t), and, if prices differ between clients, the
money that the client was paid
"""
LOSSES: Mapping[str, pl.DataType] = dict.fromkeys(
    ("new_loss", "held_loss"), pl.List(pl.Float64())
)
"""optional columns of the clients: the mean loss of a client's new samples and of those
it held before, computed before the local steps of the round; null if the client has no
such samples or did not answer"""
LOOKS: Mapping[str, pl.DataType] = {"looked": pl.Int64(), "looks": pl.Float64()}
"""optional columns of the metrics, for clients that look at samples before they buy:
the number of samples they looked at, and the part of the spend that paid for looking"""
TABLES = {"metrics": METRICS, "clients": CLIENTS}
CHANGED = "changed"
"""optional column of the metrics, for a world that changes: the weighted share of
clients whose concept changed in the round
"""
BY_CONCEPT = re.compile(r"(share|accuracy)_\d{1,3}")
"""columns per concept, for a world that changes: its share of the clients, and the
accuracy on its test set, null at share 0
"""
MEASURED = tuple(name for name in METRICS if name not in KEY)
OPTIONAL = ("excess", "validation_accuracy", CHANGED, *LOOKS)
"""columns of the metrics that only some runs record"""

UNREADABLE = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    OSError,
    OverflowError,
    ValueError,
)
"""the exceptions that polars raises for a file that it cannot read"""
BEYOND = 1e100
"""the largest number that a table may contain: no run reaches it, and below it every
sum and mean stays finite
"""
Sums = Mapping[Path, str]
"""checksums of files, by path"""
SEAL = "seal"
"""the key of a JSON object under which the checksum of all its other entries is stored
"""


def kind_of(table: str, column: str) -> pl.DataType | None:
    """Return the type of a column, or None if the table has no such column."""
    further = {**LOOKS, CHANGED: pl.Float64()} if table == "metrics" else LOSSES
    by_concept = (
        pl.Float64() if table == "metrics" and BY_CONCEPT.fullmatch(column) else None
    )
    return TABLES[table].get(column) or further.get(column) or by_concept


# files


def checksum(content: bytes) -> str:
    """Return the checksum of some bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def file_checksum(path: Path) -> str:
    """Return the checksum of a file of any size."""
    with opened(path) as file:
        return hashlib.file_digest(
            file, lambda: hashlib.blake2b(digest_size=16)
        ).hexdigest()


def sealed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts with their checksum added as the seal."""
    unsealed = {key: facts[key] for key in facts if key != SEAL}
    return {**facts, SEAL: checksum(json.dumps(unsealed, sort_keys=True).encode())}


def read_sealed(path: Path, most: int = JSON) -> dict[str, Any]:
    """Read a JSON object, check its seal if it has one, and return the object without
    the seal.
    """
    facts = read_object(path, most)
    if facts.pop(SEAL, None) not in (None, sealed(facts)[SEAL]):
        raise DataError(f"{path}: is not what was written, its checksum differs")
    return facts


Mark = tuple[int, int, int]
"""the inode, modification time and size of a file, which differ after its content has
changed
"""


def mark_of(path: Path) -> Mark | None:
    """Return the mark of a plain file, or None if the path is missing or is not a plain
    file, for example a link.
    """
    try:
        seen = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (
        (seen.st_ino, seen.st_mtime_ns, seen.st_size)
        if stat.S_ISREG(seen.st_mode)
        else None
    )


def shard_folders(folder: Path) -> list[Path]:
    """Return the folders that a run is written to: the folders of its shards, or the
    run folder if it has no shards.
    """
    if (folder / SHARDS).is_symlink():
        return [folder]
    shards = sorted(
        path
        for path in (folder / SHARDS).glob("[0-9]*")
        if path.is_dir() and not path.is_symlink()
    )
    return shards or [folder]


PART = "part-{:05d}.parquet"
"""the file name of a part of a table; the number is the last round of the part"""


def part_files(shard: Path, table: str) -> dict[int, Path]:
    """Return the parts of a table in a shard, keyed and sorted by their last round."""
    within = shard / table
    names = (
        []
        if within.is_symlink()
        else [path.stem for path in within.glob("part-*.parquet")]
    )
    rounds = sorted(
        int(number)
        for name in names
        if (number := name[5:]).isdecimal() and len(number) < 10
    )
    return {t: within / PART.format(t) for t in rounds}


def table_files(folder: Path, table: str) -> dict[Path, Mark]:
    """Return the files that contain a table now, with their marks: one file, or the
    parts in all shards.
    """
    whole = folder / f"{table}.parquet"
    if (mark := mark_of(whole)) is not None:
        return {whole: mark}
    parts = [
        path
        for shard in shard_folders(folder)
        for path in part_files(shard, table).values()
    ]
    return {path: mark for path in parts if (mark := mark_of(path)) is not None}


# frames


def frame_of_rows(rows: Sequence[Mapping[str, Any]], table: str) -> pl.DataFrame:
    """Convert rows to a data frame, with null in place of NaN and infinity."""
    names = dict.fromkeys(name for row in rows for name in row)
    schema = {
        name: kind for name in names if (kind := kind_of(table, name)) is not None
    }
    frame = pl.DataFrame(rows, schema=schema, strict=False)
    finite = pl.when(pl.element().is_finite()).then(pl.element())
    lists = [
        pl.col(name).list.eval(finite) for name in ("paid", *LOSSES) if name in schema
    ]
    return frame.with_columns(
        pl.when(pl.col(pl.Float64).is_finite()).then(pl.col(pl.Float64)), *lists
    )


def read_table(
    path: Path,
    table: str,
    columns: Collection[str] | None = None,
    most: int | None = None,
    sums: Sums | None = None,
) -> pl.DataFrame:
    """Read one file of a table, by default with all columns that it contains.

    Raise DataError if the file is damaged, is a link, has more than `most` rows, or has
    another checksum than `sums` states for its path.
    """
    content = read_bytes(path, int(memory()))
    if sums and path in sums and checksum(content) != sums[path]:
        raise DataError(f"{path}: is not what was written, its checksum differs")
    try:
        if most is not None:
            check_parquet(path, content, most)
        there = [
            name
            for name in pl.read_parquet_schema(io.BytesIO(content))
            if kind_of(table, name) is not None
        ]
        frame = pl.read_parquet(
            io.BytesIO(content),
            columns=[name for name in there if columns is None or name in columns],
        )
        absent = [
            name for name in columns or TABLES[table] if name not in frame.columns
        ]
        if missing := [
            name
            for name in absent
            if name in KEY or (table == "metrics" and name not in OPTIONAL)
        ]:
            raise DataError(f"{path}: has no column {', '.join(missing)}")
        kinds = {
            name: kind_of(table, name) for name in columns or (*frame.columns, *absent)
        }
        frame = frame.with_columns(pl.lit(None).alias(name) for name in absent)
        frame = frame.select(
            pl.col(name).cast(kind) for name, kind in kinds.items() if kind is not None
        )
    except UNREADABLE as error:
        raise DataError(
            f"{path}: is damaged ({one_line(error, 200) or type(error).__name__})"
        ) from None
    if frame.schema != kinds:  # a struct column can only be cast to another struct
        raise DataError(
            f"{path}: is damaged, it holds other things than names and numbers"
        )
    if any(frame[name].null_count() for name in KEY):
        raise DataError(f"{path}: is damaged, policy, seed or t is empty")
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def whole_table(
    folder: Path,
    table: str,
    policies: Sequence[str],
    most: int | None = None,
    sums: Sums | None = None,
) -> pl.DataFrame:
    """Return all rows of a run, sorted by round, then by policy in the given order,
    then by seed, as one process writes them.

    A value that was not measured is null. If a round was written twice, the later rows
    are used.
    """
    files = table_files(folder, table)
    try:
        frames = [read_table(path, table, None, most, sums) for path in files]
    except DataError:
        if list(table_files(folder, table)) == list(files):
            raise
        return whole_table(
            folder, table, policies, most, sums
        )  # the run has continued or finished in the meantime
    frame = pl.concat([pl.DataFrame(schema=TABLES[table]), *frames], how="diagonal")
    frame = frame.unique(list(KEY), keep="last", maintain_order=True)
    frame = frame.drop(
        name
        for name in (*LOSSES, *LOOKS)
        if name in frame and frame[name].null_count() == frame.height
    )
    place = pl.col("policy").replace_strict(
        {name: place for place, name in enumerate(policies)}, default=len(policies)
    )
    return frame.sort(
        "t", place, "seed", maintain_order=True
    ).rechunk()  # the same bytes for any division into parts


# rows in memory, of finished and unfinished runs: after the first read only new rows
# are read


Run = tuple[str, int]
"""(policy, seed)"""


class Rows:
    """Values of all runs and rounds, (runs, rounds, columns); memory pages are
    allocated only when rounds are stored.
    """

    def __init__(
        self,
        rounds: int,
        columns: int,
        dtype: type[np.generic],
        most_bytes: float = np.inf,
    ) -> None:
        self.rounds, self.index, self._most = rounds, dict[Run, int](), most_bytes
        self._values: NDArray[Any] = np.zeros((0, max(0, rounds), columns), dtype=dtype)
        self._seen = np.zeros(self._values.shape[:2], dtype=bool)
        self._reached = np.zeros(0, dtype=np.int64)
        self.itemsize = self._values.itemsize

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._seen.nbytes

    def put(
        self,
        runs: Sequence[Run],
        which: NDArray[Any],
        t: NDArray[np.int64],
        values: NDArray[Any],
    ) -> None:
        """Store rows; `which` is the position in `runs` of each row's run. A later row
        replaces an earlier one of its round.
        """
        if not t.size:
            return
        if t.min() < 1 or t.max() > self.rounds:
            raise DataError(
                f"t = {t[(t < 1) | (t > self.rounds)][0]}: the run has rounds 1 to"
                f" {self.rounds}"
            )
        places = np.array(
            [self.index.setdefault(run, len(self.index)) for run in runs]
        )[which]
        values_before, seen_before = self._values, self._seen
        if len(self.index) > len(values_before):
            shape = (len(self.index), *values_before.shape[1:])
            if np.prod(shape, dtype=np.float64) * self.itemsize > self._most:
                raise DataError(
                    f"{shape[0]} runs of {self.rounds} rounds: more than the page can"
                    " hold in memory"
                )
            self._values, self._seen = (
                np.zeros(shape, values_before.dtype),
                np.zeros(shape[:2], dtype=bool),
            )
            self._values[: len(values_before)], self._seen[: len(seen_before)] = (
                values_before,
                seen_before,
            )
        self._values[places, t - 1] = values
        self._seen[places, t - 1] = True
        self._reached = np.where(
            self._seen.all(axis=1), self.rounds, self._seen.argmin(axis=1)
        )

    def reached(self, runs: Sequence[Run]) -> NDArray[np.int64]:
        """Return the last round of each of these runs up to which no row is missing,
        (runs,).
        """
        places = np.array([self.index.get(run, -1) for run in runs], dtype=np.int64)
        if not self.index or not places.size:
            return np.zeros(places.size, dtype=np.int64)
        return np.where(places < 0, 0, self._reached[places])

    def check_whole(self, runs: Sequence[Run], table: str) -> None:
        """Raise DataError if a run lacks a round but has a later one."""
        for (policy, seed), place in (
            (run, self.index[run]) for run in runs if run in self.index
        ):
            if np.count_nonzero(self._seen[place]) > self._reached[place]:
                rounds = np.flatnonzero(self._seen[place]) + 1
                missing = f"rounds are missing, {rounds.size} of 1 to {rounds[-1]}"
                raise DataError(f"{table} of policy {policy}, seed {seed}: {missing}")

    def of(self, runs: Sequence[Run], rounds: int) -> NDArray[Any]:
        """Return the values of stored runs, (runs, rounds, columns), a view if the runs
        are adjacent; do not write to them.
        """
        places = [self.index[run] for run in runs]
        if places and places == list(range(places[0], places[0] + len(places))):
            return self._values[places[0] : places[0] + len(places), :rounds]
        return self._values[places, :rounds]


class Follower:
    """Follows columns of the metrics of a run, or one column of its clients table with
    `clients` numbers per row.

    `read_new` reads new rows. All rows may take `most_bytes` of memory, and one file
    may have `most` rows (None: no limit).
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
        self.folder, self.table, self.columns, self.clients = (
            folder,
            table,
            tuple(columns),
            clients,
        )
        self._rounds, self._most_bytes, self._most = rounds, most_bytes, most
        self._start_over()

    def _start_over(self) -> None:
        kind = np.int32 if self.columns in (("admitted",), ("held",)) else np.float64
        self.rows = Rows(
            self._rounds, self.clients or len(self.columns), kind, self._most_bytes
        )
        self.files: dict[Path, Mark] = {}

    def read_new(self) -> Rows:
        """Read the files that are new and return all rows."""
        found = table_files(self.folder, self.table)
        try:
            self._follow(found)
        except DataError:
            self._start_over()
            if table_files(self.folder, self.table).keys() == found.keys():
                raise
            # the run has continued, or has finished and merged its parts into a table
            return self.read_new()
        return self.rows

    def _follow(self, found: Mapping[Path, Mark]) -> None:
        if any(found.get(path) != mark for path, mark in self.files.items()):
            self._start_over()
        for path in [path for path in found if path not in self.files]:
            needed = (
                (self._most or 0)
                * (self.clients or len(self.columns))
                * self.rows.itemsize
            )
            if needed > self._most_bytes:
                raise DataError(
                    f"{path}: {needed / 2**20:,.0f} MiB of rows are more than the page"
                    " can hold in memory"
                )
            self.put(
                path, read_table(path, self.table, (*KEY, *self.columns), self._most)
            )
            self.files[path] = found[path]

    def put(self, path: Path, frame: pl.DataFrame) -> None:
        """Store the rows of a frame that was read from `path`."""
        if self.clients:
            frame, values = self._by_client(path, frame)
        else:
            values = np.empty((frame.height, len(self.columns)))
            for place, name in enumerate(
                self.columns
            ):  # the methods of the frame take longer for this than the read itself
                values[:, place] = frame[name].cast(pl.Float64).to_numpy()
        if (np.abs(values) > BEYOND).any():
            raise DataError(f"{path}: is damaged, it holds a number beyond {BEYOND:g}")
        names, seeds = (
            frame["policy"].cast(pl.Categorical).to_physical().to_numpy(),
            frame["seed"].to_numpy(),
        )
        least, span = (
            int(seeds.min(initial=0)),
            int(np.ptp(seeds)) + 1 if seeds.size else 1,
        )
        _, first, which = np.unique(
            names * np.int64(span) + (seeds - least),
            return_index=True,
            return_inverse=True,
        )
        runs = [(frame["policy"][place], int(seeds[place])) for place in first.tolist()]
        try:
            self.rows.put(runs, which, frame["t"].to_numpy(), values)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    def _by_client(
        self, path: Path, frame: pl.DataFrame
    ) -> tuple[pl.DataFrame, NDArray[Any]]:
        """Return the rows in which the column was recorded, and its values, (rows,
        clients).
        """
        (name,) = self.columns
        if name != "held" or frame[name].null_count() == frame.height:
            frame = frame.filter(pl.col(name).is_not_null())
        values, lengths = frame[name].explode(), frame[name].list.len()
        lacking = 0 if name in LOSSES else values.null_count()
        if frame.height and (
            lacking or not lengths.min() == lengths.max() == self.clients
        ):
            raise DataError(
                f"{path}: {name} does not hold one number for each of the"
                f" {self.clients} clients"
            )
        if frame.height and (values.min() or 0) < 0:  # type: ignore[operator]
            raise DataError(f"{path}: {name} is less than nothing for some client")
        kind = pl.Float64() if self.rows.itemsize == 8 else pl.Int32()
        return frame, values.cast(kind).to_numpy().reshape(-1, self.clients)


# folders of runs: sweep.json lists the run folders of the points of a sweep


SWEEP = "sweep.json"
STATE = "state.json"
BETWEEN = "~"
"""the separator in the name of a point, SWEEP~POINT"""


def points_of(folder: Path) -> list[Path]:
    """Return the run folders of all points of a sweep, or the folder itself if it is
    not a sweep.
    """
    if not (folder / SWEEP).exists():
        return [folder]
    names: Any = read_object(folder / SWEEP).get("points")
    fine = (
        isinstance(names, list)
        and len(names) <= POINTS
        and all(isinstance(name, str) for name in names)
    )
    if not fine or any(
        name in ("", ".", "..") or "\0" in name or Path(name).name != name
        for name in names
    ):
        raise DataError(f"{folder / SWEEP}: is damaged")
    points = [folder / name for name in names]
    check_no_link(*points)
    return points


def folder_name(label: str) -> str:
    """Return the name of the run folder for the point with this label.

    >>> folder_name("policies.acdpp.V=1e+3,prices.file=a/b")
    'policies.acdpp.V=1e_3,prices.file=a_b'
    """
    return "".join(c if c.isalnum() or c in "=.,-" else "_" for c in label)


def sweep_text(folder: Path, points: Sequence[Path]) -> bytes:
    """Return the content of sweep.json after these points are added to its list; a
    sweep may be run a few points at a time.
    """
    before = points_of(folder) if (folder / SWEEP).exists() else []
    return json.dumps(
        {"points": list(dict.fromkeys(point.name for point in (*before, *points)))}
    ).encode()


class FoundRun(NamedTuple):
    """A run folder that was found in another folder."""

    name: str
    sweep: str | None
    path: Path
    mark: Mark
    """the mark of the file with the state of the run"""


def find_runs(folder: Path) -> Iterator[FoundRun]:
    """Yield `folder` if it is a run folder; otherwise yield the run folders in it and
    in its sweeps. Do not follow links.
    """
    if (mark := mark_of(folder / STATE)) is not None:
        yield FoundRun(folder.resolve().name, None, folder, mark)
        return
    for path in _folders_in(folder):
        if (mark := mark_of(path / STATE)) is not None:
            yield FoundRun(path.name, None, path, mark)
        elif mark_of(path / SWEEP) is not None:
            for point in _folders_in(path):
                if (mark := mark_of(point / STATE)) is not None:
                    yield FoundRun(
                        f"{path.name}{BETWEEN}{point.name}", path.name, point, mark
                    )


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                Path(each.path)
                for each in entries
                if each.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []
