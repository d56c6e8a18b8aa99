"""The tables of a run: their columns, the files they lie in, and the one way in which these are read.

While a run is in progress its rows are in parts, `metrics/part-00012.json` with rows up to round 12, in its folder or in
those of its shards. When it is finished each table is one file. Files may be somebody else's: links are not followed, and
what is too large is not unpacked.
"""

import io
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from headgate.errors import DataError
from headgate.limits import POINTS, memory
from headgate.reading import check_parquet, one_line, read_bytes, read_object
from headgate.records.sums import checksum
from headgate.writing import check_no_link

SHARDS = "shards"
KEY: Mapping[str, pl.DataType] = {"policy": pl.String(), "seed": pl.Int64(), "t": pl.Int64()}
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
"""`validation_accuracy` is that on what was held out of the training images; `excess` the largest n_m(t) − B_m of any client"""
CLIENTS: Mapping[str, pl.DataType] = {
    **KEY,
    "admitted": pl.List(pl.Int32()),
    "held": pl.List(pl.Int32()),
    "paid": pl.List(pl.Float64()),
}
"""one number for each client: λ_m(t), n_m(t), and the money it was paid where prices differ between clients"""
LOSSES: Mapping[str, pl.DataType] = dict.fromkeys(("new_loss", "held_loss"), pl.List(pl.Float64()))
"""further columns of the clients, where they were asked: the mean loss of their new samples and of those held before, taken
before a round's local steps; null where a client has none, or did not answer"""
LOOKS: Mapping[str, pl.DataType] = {"looked": pl.Int64(), "looks": pl.Float64()}
"""further columns of the metrics, where clients look at samples before they buy: how many they looked at, and what of the money
spent was for that"""
TABLES = {"metrics": METRICS, "clients": CLIENTS}
CHANGED = "changed"
"""where the world changes: the share of the clients, by weight, whose concept is another one than in the round before"""
BY_CONCEPT = re.compile(r"(share|accuracy)_\d{1,3}")
"""likewise, of each concept: the share of the clients that are in it, and the accuracy on its test set, null where nobody is"""
MEASURED = tuple(name for name in METRICS if name not in KEY)
OPTIONAL = ("excess", "validation_accuracy", CHANGED, *LOOKS)
"""columns of the metrics that not every run records"""

UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, OverflowError, ValueError, RecursionError)
"""what polars and json raise for a file that they cannot read"""


def kind_of(table: str, column: str) -> pl.DataType | None:
    """The kind of a column; None where the table has no such column."""
    further = {**LOOKS, CHANGED: pl.Float64()} if table == "metrics" else LOSSES
    by_concept = pl.Float64() if table == "metrics" and BY_CONCEPT.fullmatch(column) else None
    return TABLES[table].get(column) or further.get(column) or by_concept


# files


class Mark(NamedTuple):
    """A file as it was seen: another mark, another content."""

    inode: int
    changed: int
    size: int


def mark_of(path: Path) -> Mark | None:
    """Return the mark of a plain file; None where there is none. A link is none."""
    try:
        seen = os.lstat(path)
    except (OSError, ValueError):
        return None
    return Mark(seen.st_ino, seen.st_mtime_ns, seen.st_size) if stat.S_ISREG(seen.st_mode) else None


def shard_folders(folder: Path) -> list[Path]:
    """Return the folders in which a run is written: its shards, or itself where it has none."""
    if (folder / SHARDS).is_symlink():
        return [folder]
    shards = sorted(path for path in (folder / SHARDS).glob("[0-9]*") if path.is_dir() and not path.is_symlink())
    return shards or [folder]


def part_name(table: str, t: int) -> str:
    """Return the name, within its shard, of the part of a table whose last round is `t`."""
    return f"{table}/part-{t:05d}.json"


def part_files(shard: Path, table: str) -> dict[int, Path]:
    """Return the parts of a table in a shard by their last round, in order."""
    within = shard / table
    names = [] if within.is_symlink() else [path.name for path in within.glob("part-*.json")]
    rounds = sorted(int(number) for name in names if (number := name[5:-5]).isdecimal() and len(number) < 10)
    return {t: shard / part_name(table, t) for t in rounds}


def table_files(folder: Path, table: str) -> dict[Path, Mark]:
    """Return the files in which a table lies now: one, or the parts of all shards."""
    whole = folder / f"{table}.parquet"
    if (mark := mark_of(whole)) is not None:
        return {whole: mark}
    parts = [path for shard in shard_folders(folder) for path in part_files(shard, table).values()]
    return {path: mark for path in parts if (mark := mark_of(path)) is not None}


# frames


def frame_of_rows(rows: Sequence[Mapping[str, Any]], table: str) -> pl.DataFrame:
    """Return rows as a frame; NaN and infinity become null."""
    names = dict.fromkeys(name for row in rows for name in row)
    schema = {name: kind for name in names if (kind := kind_of(table, name)) is not None}
    frame = pl.DataFrame(rows, schema=schema, strict=False)
    finite = pl.when(pl.element().is_finite()).then(pl.element())
    lists = [pl.col(name).list.eval(finite) for name in ("paid", *LOSSES) if name in schema]
    return frame.with_columns(pl.when(pl.col(pl.Float64).is_finite()).then(pl.col(pl.Float64)), *lists)


def read_table(
    path: Path,
    table: str,
    columns: Collection[str] | None = None,
    most: int | None = None,
    sums: Mapping[Path, str] | None = None,
) -> pl.DataFrame:
    """Read one file of a table.

    Parameters
    ----------
    columns : collection of str, optional
        Columns to read; by default all that are there.
    most : int, optional
        Rows that it may hold.
    sums : mapping, optional
        Checksums by path; the file must have the one that stands here for it.

    Raises
    ------
    DataError
        If the file is damaged, too large, a link, or not the one that was written.
    """
    content = read_bytes(path, int(memory()))
    if sums and path in sums and checksum(content) != sums[path]:
        raise DataError(f"{path}: is not what was written, its checksum differs")
    try:
        if path.suffix == ".json":
            rows = json.loads(content)
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise DataError(f"{path}: is damaged, it holds other things than rows")
            if most is not None and len(rows) > most:
                raise DataError(f"{path}: {len(rows):,} rows; at most {most:,}")
            frame = frame_of_rows(rows, table)
        else:
            if most is not None:
                check_parquet(path, content, most)
            there = [name for name in pl.read_parquet_schema(io.BytesIO(content)) if kind_of(table, name) is not None]
            frame = pl.read_parquet(io.BytesIO(content), columns=[name for name in there if columns is None or name in columns])
        absent = [name for name in columns or TABLES[table] if name not in frame.columns]
        if missing := [name for name in absent if name in KEY or (table == "metrics" and name not in OPTIONAL)]:
            raise DataError(f"{path}: has no column {', '.join(missing)}")
        kinds = {name: kind_of(table, name) for name in columns or (*frame.columns, *absent)}
        frame = frame.with_columns(pl.lit(None).alias(name) for name in absent)
        frame = frame.select(pl.col(name).cast(kind) for name, kind in kinds.items() if kind is not None)
    except UNREADABLE as error:
        raise DataError(f"{path}: is damaged ({one_line(error, 200) or type(error).__name__})") from None
    if frame.schema != kinds:  # a structure can be cast to a structure alone
        raise DataError(f"{path}: is damaged, it holds other things than names and numbers")
    if any(frame[name].null_count() for name in KEY):
        raise DataError(f"{path}: is damaged, policy, seed or t is empty")
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def whole_table(
    folder: Path, table: str, policies: Sequence[str], most: int | None = None, sums: Mapping[Path, str] | None = None
) -> pl.DataFrame:
    """Return all rows of a run by round, then policy as given, then seed: the order in which one process would write them.

    A value is null where nothing was measured. A round written twice counts as last written.
    """
    files = table_files(folder, table)
    try:
        frames = [read_table(path, table, None, most, sums) for path in files]
    except DataError:
        if list(table_files(folder, table)) == list(files):
            raise
        return whole_table(folder, table, policies, most, sums)  # the run has just gone on, or finished
    frame = pl.concat([pl.DataFrame(schema=TABLES[table]), *frames], how="diagonal")
    frame = frame.unique(list(KEY), keep="last", maintain_order=True)
    frame = frame.drop(name for name in (*LOSSES, *LOOKS) if name in frame and frame[name].null_count() == frame.height)
    place = pl.col("policy").replace_strict({name: place for place, name in enumerate(policies)}, default=len(policies))
    return frame.sort("t", place, "seed", maintain_order=True).rechunk()  # same bytes however it was split


# folders of runs: a sweep says in sweep.json which run folders are its points


SWEEP = "sweep.json"
STATE = "state.json"
BETWEEN = "~"
"""a point is listed as SWEEP~POINT"""


def points_of(folder: Path) -> list[Path]:
    """A run folder, or all of a sweep."""
    if not (folder / SWEEP).exists():
        return [folder]
    names: Any = read_object(folder / SWEEP).get("points")
    fine = isinstance(names, list) and len(names) <= POINTS and all(isinstance(name, str) for name in names)
    if not fine or any(name in ("", ".", "..") or "\0" in name or Path(name).name != name for name in names):
        raise DataError(f"{folder / SWEEP}: is damaged")
    points = [folder / name for name in names]
    check_no_link(*points)
    return points


def folder_name(label: str) -> str:
    """Of the point with this label.

    >>> folder_name("policies.acdpp.V=1e+3,prices.file=a/b")
    'policies.acdpp.V=1e_3,prices.file=a_b'
    """
    return "".join(c if c.isalnum() or c in "=.,-" else "_" for c in label)


def sweep_text(folder: Path, points: Sequence[Path]) -> bytes:
    """What sweep.json says with these points added to those that are there: a sweep may be run some points at a time."""
    before = points_of(folder) if (folder / SWEEP).exists() else []
    return json.dumps({"points": list(dict.fromkeys(point.name for point in (*before, *points)))}).encode()


class FoundRun(NamedTuple):
    """A run folder below another folder."""

    name: str
    sweep: str | None
    path: Path
    mark: Mark
    """of its state"""


def find_runs(folder: Path) -> Iterator[FoundRun]:
    """`folder` where it is a run itself; else the run folders below it, and in its sweeps. Links are not followed."""
    if (mark := mark_of(folder / STATE)) is not None:
        yield FoundRun(folder.resolve().name, None, folder, mark)
        return
    for path in _folders_in(folder):
        if (mark := mark_of(path / STATE)) is not None:
            yield FoundRun(path.name, None, path, mark)
        elif mark_of(path / SWEEP) is not None:
            for point in _folders_in(path):
                if (mark := mark_of(point / STATE)) is not None:
                    yield FoundRun(f"{path.name}{BETWEEN}{point.name}", path.name, point, mark)


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(each.path) for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return []
