"""The tables of a run in their files: what they are called, where they are, and how one is read.

While a run is played its rows are JSON lines that grow, in its folder or in those of its parts; then they are one table. Files
may be somebody else's: links are not followed, and what is too large is not unpacked.
"""

import io
import json
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from headgate.errors import DataError
from headgate.limits import CONCEPTS
from headgate.reading import check_parquet, opened
from headgate.records.sums import checksum

PARTS = "parts"
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
"""further columns of the clients, where they were asked: what their new samples and those held before lose before a round's
local steps, in the mean; null where a client has none, or did not tell"""
LOOKS: Mapping[str, pl.DataType] = {"looked": pl.Int64(), "looks": pl.Float64()}
"""further columns of the metrics, where clients look at samples before they buy: how many they looked at, and what of the money
spent was for that"""
TABLES = {"metrics": METRICS, "clients": CLIENTS}
CHANGED = "changed"
"""where the world changes: the share of the clients, by weight, whose concept is another one than in the round before"""
MEASURED = tuple(name for name in METRICS if name not in KEY)
MAY_LACK = ("excess", "validation_accuracy", *LOOKS)
"""what not every run records"""

UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""what polars says of a file that it cannot read"""


def concepts_of(config: Mapping[str, Any]) -> int:
    """Between how many concepts the world of a run changes; 0: it stands still."""
    data = config.get("data")
    said = data.get("concepts") if isinstance(data, dict) and "changes" in data else None
    return min(len(said), CONCEPTS) if isinstance(said, list) else 0


def may_look(config: Mapping[str, Any]) -> bool:
    """Whether clients of a run may look at samples before they buy."""
    data = config.get("data")
    window = data.get("window") if isinstance(data, dict) else None
    return isinstance(window, int) and window > 1


def schema_of(table: str, concepts: int, looks: bool = False) -> Mapping[str, pl.DataType]:
    """The columns of a table. Where the world changes there are more: the share of the clients in each concept, and the
    accuracy on its test set, null where nobody is in it; and where clients may look, those of looks."""
    if table != "metrics" or not (concepts or looks):
        return TABLES[table]
    own = [CHANGED, *(f"{name}_{concept}" for concept in range(concepts) for name in ("share", "accuracy"))] if concepts else []
    return {**METRICS, **dict.fromkeys(own, pl.Float64()), **(LOOKS if looks else {})}


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
    for candidate in [folder / f"{table}{suffix}" for suffix in (".parquet", ".jsonl")]:
        if (mark := mark_of(candidate)) is not None:
            return {candidate: mark}
    lines = [part / f"{table}.jsonl" for part in part_folders(folder)]
    return {path: mark for path in lines if (mark := mark_of(path)) is not None}


def read_bytes(path: Path, start: int = 0, most: int = -1) -> bytes:
    """Everything that is read of a table goes through here."""
    try:
        with opened(path) as file:
            file.seek(start)
            return file.read(most)
    except DataError as error:
        raise DataError(str(error).replace(f"{path.parent}{os.sep}", "")) from None


# one file


def read_table(
    path: Path, table: str, columns: Sequence[str], most: int | None = None, sums: Mapping[str, str] | None = None
) -> pl.DataFrame:
    """These columns of a whole file, parquet or JSON lines; a last line without its end is passed over.

    A parquet file may hold `most` rows, and must have the checksum that `sums` tells of it.
    """
    content = read_bytes(path)
    if path.suffix == ".jsonl":
        return lines_as_table(path, content[: content.rfind(b"\n") + 1], table, columns)
    if sums and sums.get(path.name, told := checksum(content)) != told:
        raise DataError(f"{path.name}: is not what was written, its checksum differs")
    if most is not None:
        check_parquet(Path(path.name), content, most)
    try:
        try:
            frame = pl.read_parquet(io.BytesIO(content), columns=list(columns))
        except pl.exceptions.ColumnNotFoundError:  # not every run records all
            there = set(pl.read_parquet_schema(io.BytesIO(content))) & set(columns)
            frame = pl.read_parquet(io.BytesIO(content), columns=sorted(there))
            frame = _named(path, frame, table, columns, there)
    except UNREADABLE as error:
        raise damaged(path, error) from None
    _check_flat(path, frame, table)
    return frame


def _check_flat(path: Path, frame: pl.DataFrame, table: str) -> None:
    """Refuses columns of other kinds than numbers, names and, of the clients, lists of numbers."""
    for name, kind in frame.schema.items():
        listed = isinstance(kind, pl.List)
        if name == "policy":
            fine = kind in (pl.String(), pl.Categorical())
        elif listed:
            fine = table == "clients" and name not in KEY and (kind.inner.is_numeric() or kind.inner == pl.Null())  # type: ignore[attr-defined]
        else:
            fine = kind.is_numeric() or kind == pl.Null()
        if not fine:
            raise DataError(f"{path.name}: is damaged, its column {name} is {str(kind)[:100]}")


def lines_as_table(path: Path, lines: bytes, table: str, columns: Sequence[str]) -> pl.DataFrame:
    """Whole lines of `path`."""
    numbers = pl.List(pl.Float64()) if table == "clients" else pl.Float64()  # 12.0 may stand where a count is meant
    schema = {name: pl.Float64() if name in KEY else numbers for name in columns} | {"policy": pl.String()}
    try:
        there = set(json.loads(lines.partition(b"\n")[0])) if lines else set(columns)
        frame = pl.read_ndjson(io.BytesIO(lines), schema=schema) if lines else pl.DataFrame(schema=schema)
    except (*UNREADABLE, ValueError, TypeError, RecursionError) as error:
        raise damaged(path, error) from None
    return _named(path, frame, table, columns, there)


def _named(path: Path, frame: pl.DataFrame, table: str, columns: Sequence[str], there: Collection[str]) -> pl.DataFrame:
    """What was not recorded of clients is missing or null."""
    missing = [name for name in columns if name not in there]
    if table == "clients":
        missing = [name for name in missing if name in KEY]
    if needed := [name for name in missing if name not in MAY_LACK]:
        raise DataError(f"{path.name}: has no column {', '.join(needed)}")
    return frame.with_columns(pl.lit(None, pl.Float64()).alias(name) for name in missing if name not in frame.columns)


def damaged(path: Path, error: BaseException) -> DataError:
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
    return DataError(f"{path.name}: {where}is damaged ({(str(error).strip() or type(error).__name__).splitlines()[0][:200]})")


def whole_table(
    folder: Path,
    table: str,
    policies: Sequence[str],
    most: int | None = None,
    sums: Mapping[str, str] | None = None,
    concepts: int = 0,
    looks: bool = False,
) -> pl.DataFrame:
    """All rows of a run as a frame."""
    paths = list(table_files(folder, table))
    try:
        return frame_of(paths, table, policies, most, sums, concepts, looks)
    except DataError:
        if list(table_files(folder, table)) == paths:
            raise
        return whole_table(folder, table, policies, most, sums, concepts, looks)  # the run has just finished: a table now


def frame_of(
    paths: Sequence[Path],
    table: str,
    policies: Sequence[str],
    most: int | None = None,
    sums: Mapping[str, str] | None = None,
    concepts: int = 0,
    looks: bool = False,
) -> pl.DataFrame:
    """By round, then policy as given, then seed: the order in which one process would write them. Null where nothing was
    measured. A round written twice, by a run that was taken up again, counts as last written."""
    schema = {**schema_of(table, concepts, looks), **(LOSSES if table == "clients" else {})}
    frames = [_typed(path, read_table(path, table, list(schema), most, sums), schema) for path in paths]
    frame = pl.concat([pl.DataFrame(schema=schema), *frames]).unique(list(KEY), keep="last", maintain_order=True)
    frame = frame.drop(name for name in (*LOSSES, *LOOKS) if name in schema and frame[name].null_count() == frame.height)
    place = pl.col("policy").replace_strict({name: place for place, name in enumerate(policies)}, default=len(policies))
    return frame.sort("t", place, "seed", maintain_order=True)


def _typed(path: Path, frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    absent = [pl.lit(None).alias(name) for name in schema if name not in frame.columns]
    try:
        frame = frame.with_columns(absent).select(pl.col(name).cast(kind) for name, kind in schema.items())
    except UNREADABLE as error:
        raise damaged(path, error) from None
    if any(frame[name].null_count() for name in KEY):
        raise DataError(f"{path.name}: is damaged, policy, seed or t is empty")
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))
