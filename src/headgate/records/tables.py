"""The tables of a run: their columns, the files that contain them, and the functions
that read these files.

A run in progress stores each table in parts: `metrics/part-00012.parquet` ends with
round 12, and `metrics/c003-part-00012.parquet` has the rows of chunk 3 if the run is
divided into chunks. A finished run has one file per table. A folder may be from a
stranger: links are not followed, and files that are too large are not unpacked. A
checksum shows that a file was changed after it was written, not who wrote it.
"""

import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.limits import JSON, POINTS, memory
from headgate.reading import check_parquet, one_line, opened, read_bytes, read_object
from headgate.writing import check_no_link

NUMBER, COUNT = pl.Float64(), pl.Int64()
KEY: Mapping[str, pl.DataType] = {
    "policy": pl.String(),
    "seed": COUNT,
    "t": COUNT,
}
METRICS: Mapping[str, pl.DataType] = {
    **KEY,
    "test_accuracy": NUMBER,
    "test_loss": NUMBER,
    "validation_accuracy": NUMBER,
    "train_loss": NUMBER,
    "n": COUNT,
    "N": COUNT,
    "n_eff": NUMBER,
    "admitted": COUNT,
    "price": NUMBER,
    "spend": NUMBER,
    "debt": NUMBER,
    "bound": NUMBER,
    "excess": COUNT,
}
"""`validation_accuracy` is measured on held-out training images; `excess` is the
largest n_m(t) − B_m over all clients
"""
CLIENTS: Mapping[str, pl.DataType] = {
    **KEY,
    "admitted": pl.List(pl.Int32()),
    "held": pl.List(pl.Int32()),
    "paid": pl.List(NUMBER),
}
"""one number per client: λ_m(t), n_m(t), and, if prices differ between clients, the
money that the client was paid
"""
LOSSES: Mapping[str, pl.DataType] = dict.fromkeys(
    ("new_loss", "held_loss"), pl.List(NUMBER)
)
"""optional columns of the clients: the mean loss of a client's new samples and of those
it held before, computed before the local steps of the round; null if the client has no
such samples or did not answer"""
LOOKS: Mapping[str, pl.DataType] = {"looked": COUNT, "looks": NUMBER}
"""optional columns of the metrics, for clients that look at samples before they buy:
the number of samples they looked at, and the part of the spend that paid for looking"""
DELAYED: Mapping[str, pl.DataType] = {"under_way": COUNT, "reserved": NUMBER}
"""optional columns of the metrics, for samples that take rounds to arrive: the samples
that were ordered and are not there after the round, and the money reserved for them"""
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
OPTIONAL = ("excess", "validation_accuracy", CHANGED, *LOOKS, *DELAYED)
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
    if table == "clients":
        return CLIENTS.get(column) or LOSSES.get(column)
    if column == CHANGED or BY_CONCEPT.fullmatch(column):
        return NUMBER
    return METRICS.get(column) or LOOKS.get(column) or DELAYED.get(column)


def _kinds(table: str, columns: Iterable[str]) -> dict[str, pl.DataType]:
    """Return the types of those columns that the table may have."""
    kinds = {name: kind_of(table, name) for name in columns}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _always_there(table: str, column: str) -> bool:
    """Return whether every run records the column."""
    return column in KEY or (table == "metrics" and column not in OPTIONAL)


# files


def checksum(content: bytes) -> str:
    """Return the checksum of some bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def file_checksum(path: Path) -> str:
    """Return the checksum of a file of any size."""
    with opened(path) as file:
        digest = hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=16))
    return digest.hexdigest()


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
        raise changed(path)
    return facts


def changed(path: Path) -> DataError:
    """Return the error for a file whose checksum is not the recorded one."""
    return DataError(f"{path}: is not what was written, its checksum differs")


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
    if not stat.S_ISREG(seen.st_mode):
        return None
    return seen.st_ino, seen.st_mtime_ns, seen.st_size


PART = re.compile(r"(?:c(\d{3,6})-)?part-(\d{5,9})\.parquet")
"""the file name of a part of a table: its chunk, if there are several, and its last
round"""


class Part(NamedTuple):
    """A file with rows of a table that one chunk of a run has written.

    Parameters
    ----------
    chunk : int
        The number of the chunk.
    t : int
        The last round of the part.
    path : pathlib.Path
        The file.
    """

    chunk: int
    t: int
    path: Path


def prefix_of(chunk: int | None) -> str:
    """Return the beginning of the names of a chunk's files; None is an undivided run.

    >>> prefix_of(3), prefix_of(None)
    ('c003-', '')
    """
    return "" if chunk is None else f"c{chunk:03d}-"


def part_name(
    table: str,
    chunk: int | None,
    t: int,
) -> str:
    """Return the name within the run folder of the part that ends with round `t`."""
    return f"{table}/{prefix_of(chunk)}part-{t:05d}.parquet"


def parts_of(folder: Path, table: str) -> list[Part]:
    """Return the parts of a table, sorted by chunk and round; links are ignored."""
    within = folder / table
    found = map(PART.fullmatch, names_in(within))
    parts = [
        Part(int(one[1] or 0), int(one[2]), within / one[0]) for one in found if one
    ]
    return sorted(parts)


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, none if it is a link or cannot be listed."""
    if folder.is_symlink():
        return []
    try:
        return os.listdir(folder)
    except OSError:
        return []


def table_files(folder: Path, table: str) -> dict[Path, Mark]:
    """Return the files that contain a table now, with their marks: one file, or parts.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    table : str
        "metrics" or "clients".

    Returns
    -------
    dict of pathlib.Path to tuple
        The mark of each file, in the order in which rows are read.
    """
    whole = folder / f"{table}.parquet"
    marks = {whole: mark_of(whole)}
    if marks[whole] is None:
        marks = {part.path: mark_of(part.path) for part in parts_of(folder, table)}
    return {path: mark for path, mark in marks.items() if mark is not None}


# frames


def frame_of_rows(rows: Sequence[Mapping[str, Any]], table: str) -> pl.DataFrame:
    """Convert rows to a data frame, with null in place of NaN and infinity."""
    schema = _kinds(table, (name for row in rows for name in row))
    frame = pl.DataFrame(
        rows,
        schema=schema,
        strict=False,
    )

    numbers, element = pl.col(pl.Float64), pl.element()
    finite = pl.when(element.is_finite()).then(element)
    lists = [name for name in ("paid", *LOSSES) if name in schema]
    return frame.with_columns(
        pl.when(numbers.is_finite()).then(numbers),
        *(pl.col(name).list.eval(finite) for name in lists),
    )


def read_table(
    path: Path,
    table: str,
    columns: Collection[str] | None = None,
    most: int | None = None,
    sums: Sums | None = None,
) -> pl.DataFrame:
    """Read one file of a table, by default with all columns that it contains.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    table : str
        "metrics" or "clients".
    columns : collection of str, optional
        The columns to read; a column that not every run records may be missing.
    most : int, optional
        The largest number of rows that is read.
    sums : mapping of pathlib.Path to str, optional
        The checksums of files, by path.

    Returns
    -------
    polars.DataFrame
        The columns with their types; what was not recorded is null.

    Raises
    ------
    DataError
        If the file is damaged, is a link, has more than `most` rows, or has another
        checksum than `sums` states.
    """
    content = read_bytes(path, int(memory()))
    if sums and path in sums and checksum(content) != sums[path]:
        raise changed(path)
    try:
        if most is not None:
            check_parquet(path, content, most)
        there = pl.read_parquet_schema(io.BytesIO(content))
        kinds = _kinds(table, columns or (*there, *TABLES[table]))
        absent = [name for name in kinds if name not in there]
        missing = [name for name in absent if _always_there(table, name)]
        if missing:
            raise DataError(f"{path}: has no column {', '.join(missing)}")
        present = [name for name in kinds if name in there]
        frame = pl.read_parquet(io.BytesIO(content), columns=present)
        frame = frame.with_columns(pl.lit(None).alias(name) for name in absent)
        frame = frame.select(pl.col(name).cast(kind) for name, kind in kinds.items())
    except UNREADABLE as error:
        why = one_line(error, 200) or type(error).__name__
        raise DataError(f"{path}: is damaged ({why})") from None
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
    then by seed.

    A value that was not measured is null. If a round was written twice, the later rows
    are used. The bytes do not depend on the division into chunks and parts.
    """
    files = table_files(folder, table)
    try:
        frames = [read_table(path, table, None, most, sums) for path in files]
    except DataError:
        if list(table_files(folder, table)) == list(files):
            raise
        # the run has continued or finished in the meantime
        return whole_table(folder, table, policies, most, sums)
    frame = pl.concat([pl.DataFrame(schema=TABLES[table]), *frames], how="diagonal")
    frame = frame.unique(
        list(KEY),
        keep="last",
        maintain_order=True,
    )
    further = [name for name in (*LOSSES, *LOOKS) if name in frame]
    rows = frame.height
    frame = frame.drop(name for name in further if frame[name].null_count() == rows)
    places = {name: place for place, name in enumerate(policies)}
    place = pl.col("policy").replace_strict(places, default=len(policies))
    return frame.sort("t", place, "seed", maintain_order=True).rechunk()


# rows in memory, of finished and unfinished runs: after the first read only new rows
# are read


Run = tuple[str, int]
"""(policy, seed)"""


class Rows:
    """Values of all runs and rounds, (runs, rounds, columns).

    Memory pages are allocated only when rounds are stored.

    Parameters
    ----------
    rounds : int
        The number of rounds of a run.
    columns : int
        The number of values in a row.
    dtype : type
        The type of the values.
    most_bytes : float
        The largest size of the values.
    """

    def __init__(
        self,
        rounds: int,
        columns: int,
        dtype: type[np.generic],
        most_bytes: float = np.inf,
    ) -> None:
        self.rounds, self._most = rounds, most_bytes
        self.index: dict[Run, int] = {}
        self._values: NDArray[Any] = np.zeros((0, max(0, rounds), columns), dtype)
        self._seen = np.zeros(self._values.shape[:2], bool)
        self._reached = np.zeros(0, np.int64)
        self.itemsize = self._values.itemsize

    @property
    def nbytes(self) -> int:
        """The size of the values in bytes."""
        return self._values.nbytes + self._seen.nbytes

    def put(
        self,
        runs: Sequence[Run],
        which: NDArray[Any],
        t: NDArray[np.int64],
        values: NDArray[Any],
    ) -> None:
        """Store rows; a later row replaces an earlier one of its round.

        Parameters
        ----------
        runs : sequence of (str, int)
            The runs that have rows.
        which : array
            The position in `runs` of each row's run, (rows,).
        t : array
            The round of each row, (rows,).
        values : array
            The values, (rows, columns).

        Raises
        ------
        DataError
            If a round is not one of the run's, or if the values become too large.
        """
        if not t.size:
            return
        beyond = t[(t < 1) | (t > self.rounds)]
        if beyond.size:
            raise DataError(f"t = {beyond[0]}: the run has rounds 1 to {self.rounds}")
        for run in runs:
            self.index.setdefault(run, len(self.index))
        self._make_room()
        places = np.array([self.index[run] for run in runs])[which]
        self._values[places, t - 1] = values
        self._seen[places, t - 1] = True
        first_gap = self._seen.argmin(axis=1)
        self._reached = np.where(self._seen.all(axis=1), self.rounds, first_gap)

    def _make_room(self) -> None:
        """Allocate values for the runs that have none."""
        before, shape = len(self._values), (len(self.index), *self._values.shape[1:])
        if before == len(self.index):
            return
        if np.prod(shape, dtype=np.float64) * self.itemsize > self._most:
            raise DataError(
                f"{shape[0]} runs of {self.rounds} rounds: more than the page can"
                " hold in memory"
            )
        values, seen = np.zeros(shape, self._values.dtype), np.zeros(shape[:2], bool)
        values[:before], seen[:before] = self._values, self._seen
        self._values, self._seen = values, seen

    def reached(self, runs: Sequence[Run]) -> NDArray[np.int64]:
        """Return the last round of each run up to which no row is missing, (runs,)."""
        places = np.array([self.index.get(run, -1) for run in runs], np.int64)
        return np.append(self._reached, 0)[places]  # the last is for unknown runs

    def check_whole(self, runs: Sequence[Run], table: str) -> None:
        """Raise DataError if a run lacks a round but has a later one."""
        for policy, seed in runs:
            place = self.index.get((policy, seed))
            if place is None:
                continue
            rounds = np.flatnonzero(self._seen[place]) + 1
            if rounds.size > self._reached[place]:
                missing = f"rounds are missing, {rounds.size} of 1 to {rounds[-1]}"
                raise DataError(f"{table} of policy {policy}, seed {seed}: {missing}")

    def of(self, runs: Sequence[Run], rounds: int) -> NDArray[Any]:
        """Return the values of stored runs, (runs, rounds, columns).

        They are a view if the runs are adjacent, so do not write to them.
        """
        places = [self.index[run] for run in runs]
        if places and places == list(range(places[0], places[0] + len(places))):
            return self._values[places[0] : places[0] + len(places), :rounds]
        return self._values[places, :rounds]


class Follower:
    """Follows columns of the metrics of a run, or one column of its clients table.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    table : str
        "metrics" or "clients".
    rounds : int
        The number of rounds of the run.
    columns : sequence of str
        The columns; of the clients table, one.
    clients : int
        The number of clients if the table is "clients", else 0.
    most_bytes : float
        The most memory that all rows may take.
    most : int, optional
        The most rows that one file may have.
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
        self.folder, self.table, self.columns = folder, table, tuple(columns)
        self.clients = clients
        self._rounds, self._most_bytes, self._most = rounds, most_bytes, most
        self._start_over()

    def _start_over(self) -> None:
        counts = self.columns in (("admitted",), ("held",))
        self.rows = Rows(
            self._rounds,
            self._width,
            np.int32 if counts else np.float64,
            self._most_bytes,
        )
        self.files: dict[Path, Mark] = {}

    @property
    def _width(self) -> int:
        return self.clients or len(self.columns)

    def read_new(self) -> Rows:
        """Read the files that are new, and return all rows.

        Returns
        -------
        Rows
            The rows of all files.

        Raises
        ------
        DataError
            If a file is damaged or the rows are too large.
        """
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
        needed = (self._most or 0) * self._width * self.rows.itemsize
        for path in [path for path in found if path not in self.files]:
            if needed > self._most_bytes:
                raise DataError(
                    f"{path}: {needed / 2**20:,.0f} MiB of rows are more than the page"
                    " can hold in memory"
                )
            names = (*KEY, *self.columns)
            self.put(path, read_table(path, self.table, names, self._most))
            self.files[path] = found[path]

    def put(self, path: Path, frame: pl.DataFrame) -> None:
        """Store the rows of a frame that was read from `path`."""
        if self.clients:
            frame, values = self._by_client(path, frame)
        else:
            # the methods of the frame take longer for this than the read itself
            values = np.empty((frame.height, len(self.columns)))
            for place, name in enumerate(self.columns):
                values[:, place] = frame[name].cast(pl.Float64).to_numpy()
        if (np.abs(values) > BEYOND).any():
            raise DataError(f"{path}: is damaged, it holds a number beyond {BEYOND:g}")
        runs, which = _runs_in(frame)
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
        lacking = not (frame[name].list.len() == self.clients).all()
        values = np.zeros((0, self.clients))
        if not lacking:
            values = frame[name].cast(pl.Array(pl.Float64(), self.clients)).to_numpy()
            lacking = name not in LOSSES and bool(np.isnan(values).any())
        if lacking:
            raise DataError(
                f"{path}: {name} does not hold one number for each of the"
                f" {self.clients} clients"
            )
        if (values < 0).any():
            raise DataError(f"{path}: {name} is less than nothing for some client")
        return frame, values


def _runs_in(frame: pl.DataFrame) -> tuple[list[Run], NDArray[Any]]:
    """Return the runs of the rows of a frame, and the position of each row's run."""
    keys = frame.select("policy", "seed")
    runs = keys.unique(maintain_order=True)
    numbered = runs.with_row_index("run")
    rows = keys.join(
        numbered,
        on=runs.columns,
        how="left",
        maintain_order="left",
    )
    return runs.rows(), rows["run"].to_numpy()


# folders of runs: sweep.json lists the run folders of the points of a sweep


SWEEP = "sweep.json"
STATE = "state.json"
BETWEEN = "~"
"""the separator in the name of a point, SWEEP~POINT"""


def points_of(folder: Path) -> list[Path]:
    """Return the run folders of a sweep's points, or the folder if it is no sweep.

    Parameters
    ----------
    folder : pathlib.Path
        The folder of a sweep or of a run.

    Returns
    -------
    list of pathlib.Path
        The run folders, which lie in `folder`.

    Raises
    ------
    DataError
        If the list of the points is damaged, or a point is a link.
    """
    if not (folder / SWEEP).exists():
        return [folder]
    names: Any = read_object(folder / SWEEP).get("points")
    listed = isinstance(names, list) and len(names) <= POINTS
    if not listed or not all(map(_is_name, names)):
        raise DataError(f"{folder / SWEEP}: is damaged")
    points = [folder / name for name in names]
    check_no_link(*points)
    return points


def _is_name(name: object) -> bool:
    """Return whether this is the name of a file within a folder."""
    if not isinstance(name, str) or name in ("", ".", "..") or "\0" in name:
        return False
    return Path(name).name == name


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
    names = dict.fromkeys(point.name for point in (*before, *points))
    return json.dumps({"points": list(names)}).encode()


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
    for path in folders_in(folder):
        if (mark := mark_of(path / STATE)) is not None:
            yield FoundRun(path.name, None, path, mark)
        elif mark_of(path / SWEEP) is not None:
            yield from _points_in(path)


def _points_in(sweep: Path) -> Iterator[FoundRun]:
    """Yield the points of a sweep that have begun."""
    for point in folders_in(sweep):
        if (mark := mark_of(point / STATE)) is not None:
            name = f"{sweep.name}{BETWEEN}{point.name}"
            yield FoundRun(name, sweep.name, point, mark)


def folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted by name, without links."""
    try:
        with os.scandir(folder) as entries:
            found = [
                each.path for each in entries if each.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return sorted(map(Path, found))
