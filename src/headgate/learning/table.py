"""Readers that need polars: tables with one row for each sample as .csv or .parquet, an
.npz with an array of samples and an array of labels, and the hub's parquet files of
pictures."""

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headgate.control.randomness import Purpose
from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.learning.formats import (
    TEST_NAMES,
    TRAIN_NAMES,
    Encoded,
    Labels,
    PictureFiles,
    Split,
    checked_labels,
    naming,
)
from headgate.learning.partition import share_of_each_class
from headgate.limits import CLASSES, COLUMNS, TEXT, check_memory
from headgate.reading import check_parquet

BY_CELL = 40
"""bytes of memory that each value of a table takes until the table is scaled and split
"""


class _Rows(NamedTuple):
    """The content of one file."""

    samples: NDArray[Any]
    """features (N, d) as float64; from an .npz, its array unchanged"""
    labels: pl.Series
    """labels as whole numbers or text, (N,)"""
    names: tuple[str, ...]
    """names of the features"""
    columns: dict[str, NDArray[Any]]
    """columns that are neither features nor labels; texts are replaced by their rank,
    because a text may be very long
    """


def arrays_of(
    files: Sequence[tuple[Path, bytes]],
    label: str,
    features: tuple[str, ...] | None,
    share: float,
) -> dict[str, Any]:
    """Return the arrays of a data set; a second file is the test set, otherwise `share`
    of the rows of each class is.
    """
    train = _read(*files[0], label, features)
    classes = _classes(files[0][0], label, train.labels)
    labels = _numbered(files[0][0], label, train, classes)
    if len(files) > 1:
        test = _read(*files[1], label, train.names)
        own: dict[str, Any] = {
            "test_images": test.samples,
            "test_labels": _numbered(files[1][0], label, test, classes),
        }
        kept = np.ones(len(labels), np.bool_)
    else:
        kept = ~share_of_each_class(labels, share, Purpose.TEST)
        if kept.all():
            raise SettingError(
                f"data.test = {share:g}: holds no row for testing, no class of"
                f" {files[0][0]} has enough of them"
            )
        own = {"test_images": train.samples[~kept], "test_labels": labels[~kept]}
    columns = {name: column[kept] for name, column in train.columns.items()}
    own |= {
        "train_images": train.samples[kept],
        "train_labels": labels[kept],
        "columns": columns,
    }
    return {**own, "classes": [str(each) for each in classes]}


def _read(
    path: Path, content: bytes, label: str, features: tuple[str, ...] | None
) -> _Rows:
    with naming(path, f"cannot be read as {path.suffix[1:]}"):
        if path.suffix == ".npz":
            rows = _npz(path, content, label, features)
        else:
            frame = (
                _csv(path, content)
                if path.suffix == ".csv"
                else _parquet(path, content)
            )
            rows = _from_frame(path, frame, label, features)
    if (
        rows.samples.ndim == 2
        and rows.samples.dtype.kind == "f"
        and not np.isfinite(rows.samples).all()
    ):
        row, column = (int(each) for each in np.argwhere(~np.isfinite(rows.samples))[0])
        called = (
            f'column "{shown(rows.names[column])}"'
            if path.suffix != ".npz"
            else f"column {column + 1}"
        )
        raise DataError(
            f"{path}: {called} is empty or not finite in row {row + 1}; fill it in, or"
            " leave the row out"
        )
    return rows


# columns


def _csv(path: Path, content: bytes) -> pl.DataFrame:
    header = next(
        csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline="")), []
    )
    for number, name in enumerate(
        header, 1
    ):  # polars would decompress content that begins with certain bytes
        if not name.isprintable():
            raise DataError(
                f'{path}: the name "{shown(name)}" of column {number} has characters'
                " that cannot be shown"
            )
    _check_size(path, content.count(b"\n"), len(header))
    for name, times in Counter(header).most_common(1):
        if times > 1:
            raise DataError(f'{path}: {times} columns are called "{shown(name)}"')
    return pl.read_csv(content, infer_schema_length=None)


def _parquet(path: Path, content: bytes) -> pl.DataFrame:
    _check_size(
        path,
        check_parquet(path, content),
        len(pl.read_parquet_schema(io.BytesIO(content))),
    )
    return pl.read_parquet(io.BytesIO(content)).with_columns(
        pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    )


def _check_size(path: Path, rows: int, columns: int) -> None:
    """Refuse a table of too many columns, or one that would not fit into memory, before
    it is read.
    """
    if columns > COLUMNS:
        raise DataError(f"{path}: {columns:,} columns; at most {COLUMNS:,}")
    check_memory(
        f"{path}: {rows:,} rows of {columns:,} columns take", rows * columns * BY_CELL
    )


def _from_frame(
    path: Path, frame: pl.DataFrame, label: str, features: tuple[str, ...] | None
) -> _Rows:
    _check_there(path, "column", (label, *(features or ())), frame.columns)
    names = features or tuple(name for name in frame.columns if name != label)
    if not names or not frame.height:
        raise DataError(
            f"{path}: holds no {'row' if names else f'column beside {shown(label)}'}"
        )
    if "" in names:
        raise DataError(
            f"{path}: column {frame.columns.index('') + 1} has no name; name it, or"
            " those to learn from: features"
        )
    columns = plain_columns(
        frame[name] for name in frame.columns if name not in {label, *names}
    )
    return _Rows(
        _numbers(path, frame[list(names)]), _labels(path, frame[label]), names, columns
    )


def _numbers(path: Path, frame: pl.DataFrame) -> NDArray[np.float64]:
    """Return the features (N, d), NaN for a missing value; a column of text is accepted
    if all of it can be read as numbers.
    """
    for name, kind in frame.schema.items():
        called = f'{path}: column "{shown(name)}"'
        if kind == pl.String:
            odd = (
                frame[name].str.strip_chars().cast(pl.Float64, strict=False).is_null()
                & frame[name].is_not_null()
            )
            if odd.any():
                row = int(odd.arg_max() or 0)
                problem = f'holds text ("{shown(frame[name][row])}" in row {row + 1})'
                raise DataError(
                    f"{called} {problem}; make numbers of it, or name the columns to"
                    " learn from: features = [...]"
                )
        elif not kind.is_numeric() and kind != pl.Boolean:
            raise DataError(
                f"{called} holds {shown(kind)}, no numbers; name the columns to learn"
                " from: features = [...]"
            )
    return (
        frame.with_columns(pl.col(pl.String).str.strip_chars())
        .select(pl.all().cast(pl.Float64))
        .to_numpy()
    )


# arrays


def _npz(
    path: Path, content: bytes, label: str, features: tuple[str, ...] | None
) -> _Rows:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_memory(
            f"{path}: takes", sum(info.file_size for info in archive.infolist())
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        _check_there(path, "array", (label, *(features or ())), archive.files)
        found = features or tuple(name for name in archive.files if name != label)
        if len(found) != 1:
            many = shown(", ".join(found), 300) or "none"
            raise DataError(
                f'{path}: needs one array beside "{shown(label)}", has {many}; name it:'
                ' features = ["x"]'
            )
        samples, labels = (np.asarray(archive[name]) for name in (found[0], label))
    if (
        labels.ndim != 1
        or not samples.ndim
        or len(samples) != len(labels)
        or not labels.size
    ):
        shapes = (
            f'"{shown(found[0])}" is {samples.shape}, "{shown(label)}" {labels.shape}'
        )
        raise DataError(
            f"{path}: {shapes}; must be (N, d) or images, and (N,) with a label for"
            " each"
        )
    samples = samples.reshape(len(samples), 1) if samples.ndim == 1 else samples
    if samples.ndim == 2:
        _check_size(path, *samples.shape)
    return _Rows(samples, _labels(path, pl.Series(label, labels)), found, {})


# labels


def _check_there(
    path: Path, what: str, wanted: Sequence[str], there: Sequence[str]
) -> None:
    known = set(there)
    for name in wanted:
        if name not in known:
            named = ", ".join(f'"{each}"' for each in there) or "nothing"
            raise DataError(
                f'{path}: no {what} "{shown(name)}"; it has {shown(named, 300)}'
            )


def _labels(path: Path, column: pl.Series) -> pl.Series:
    """Return the labels as whole numbers or text, one for each row."""
    called = f'{path}: column "{shown(column.name)}"'
    column = column.cast(pl.String) if column.dtype == pl.Boolean else column
    if not column.dtype.is_integer() and column.dtype != pl.String:
        raise DataError(
            f"{called} holds {shown(column.dtype)}; labels are whole numbers or text"
        )
    if column.null_count():
        raise DataError(
            f"{called} is empty in row {int(column.is_null().arg_max() or 0) + 1};"
            " every row needs a label"
        )
    return column if column.dtype == pl.String else column.cast(pl.Int64)


def _classes(path: Path, label: str, labels: pl.Series) -> list[Any]:
    """Return the distinct labels in ascending order."""
    classes = labels.unique().sort()
    called = f'{path}: column "{shown(label)}" has {len(classes):,} different labels'
    if len(classes) < 2:
        raise DataError(f"{called}; there must be at least 2 to learn anything")
    if len(classes) > CLASSES:
        raise DataError(
            f"{called}; at most {CLASSES:,}: is it a number to be predicted? Labels are"
            " classes"
        )
    named = classes.to_list()
    if max(len(str(each)) for each in named) > TEXT:
        raise DataError(
            f'{path}: column "{shown(label)}" has a label of more than {TEXT:,}'
            " characters"
        )
    return named


def _numbered(path: Path, label: str, rows: _Rows, classes: list[Any]) -> Labels:
    """Return the number of the class of each row, (N,)."""
    own = rows.labels.cast(
        pl.String if isinstance(classes[0], str) else pl.Int64, strict=False
    )
    numbers = own.replace_strict(
        classes, range(len(classes)), default=None, return_dtype=pl.Int64
    )
    if numbers.null_count():
        row = int(numbers.is_null().arg_max() or 0)
        place = (
            f'"{shown(rows.labels[row])}" in row {row + 1} of column "{shown(label)}"'
        )
        raise DataError(f"{path}: {place} is a label that no training row has")
    return np.array(numbers.to_numpy(), np.int64)


# pictures


IMAGE, LABEL = ("img", "image"), ("label", "labels")
"""names that the columns of pictures and of labels may have"""


class ParquetFiles(PictureFiles):
    """Parquet files with rows of {bytes, path} and a label, one or more files for each
    split.
    """

    format = "parquet"

    @classmethod
    def find(cls, folder: Path, files: list[Path]) -> Self:
        """Return the first complete configuration in the order of the subfolders'
        names.

        A hub repository may hold the same pictures in several configurations (160px,
        320px), each in a subfolder. Reading all of them would duplicate the pictures.
        """
        for parent in dict.fromkeys(path.parent for path in files):
            splits = {
                name: tuple(
                    path
                    for path in files
                    if path.parent == parent and path.name.lower().startswith(name)
                )
                for name in (*TRAIN_NAMES, *TEST_NAMES)
            }
            train, test = (
                splits["train"],
                next((splits[name] for name in TEST_NAMES if splits[name]), ()),
            )
            for part in train + test if train and test else ():
                numbered, there = (
                    re.search(r"-of-(\d{5})\.", part.name),
                    len(train if part in train else test),
                )
                if numbered and there != int(numbered[1]):
                    raise DataError(
                        f"{part}: one of {int(numbered[1])} parts, of which {there} are"
                        " there"
                    )
            if train and test:
                return cls(train, test)
        names = ", ".join(path.name for path in files)
        raise DataError(
            f"{folder}: needs train*.parquet and test*.parquet or validation*.parquet,"
            f" found {names}"
        )

    def read_split(self, files: Sequence[Path], classes: int) -> Split:
        frames, pictures = [], []
        for path in files:
            check_parquet(path)
            image, label = _image_and_label(path)
            with naming(path):
                frame = _scan(path).collect()
                content, labels = (
                    frame[image].struct.field("bytes"),
                    frame[label].cast(pl.Int64),
                )
            for column, name in ((content, image), (labels, label)):
                if column.null_count():
                    raise DataError(
                        f"{path}: column {name} is empty in row"
                        f" {column.is_null().arg_max()}"
                    )
            check_memory(
                f"{path}: its pictures take", int(content.bin.size().sum())
            )  # bytes after decoding
            pictures += [
                Encoded(f"{path}: row {row}", each) for row, each in enumerate(content)
            ]
            checked_labels(path, labels.to_numpy(), classes)
            frames.append(
                frame.drop(*IMAGE, *LABEL, strict=False).with_columns(
                    labels.alias(LABEL[0])
                )
            )
        joined = pl.concat(frames, how="diagonal_relaxed")
        others = joined.drop(LABEL[0]).iter_columns()
        return Split(
            pictures, joined[LABEL[0]].to_numpy(writable=True), plain_columns(others)
        )


def plain_columns(columns: Iterable[pl.Series]) -> dict[str, NDArray[Any]]:
    """Return the columns of numbers, truth values or text that have no empty row; texts
    are replaced by their rank.
    """
    plain = {}
    for own in columns:
        numbers = own.dtype.is_float() or (
            own.dtype.is_integer() and own.dtype not in (pl.Int128, pl.UInt128)
        )
        if (numbers or own.dtype in (pl.Boolean, pl.String)) and not own.null_count():
            plain[own.name] = (
                own.rank("dense") if own.dtype == pl.String else own
            ).to_numpy()
    return plain


def _scan(path: Path) -> pl.LazyFrame:
    """Scan this one file: brackets in its path are not a pattern, and key=value folders
    do not become columns.
    """
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def _image_and_label(path: Path) -> tuple[str, str]:
    """Return the names of the picture column and the label column."""
    with naming(path):
        schema = _scan(path).collect_schema()
    image, label = (
        next((name for name in names if name in schema), "") for names in (IMAGE, LABEL)
    )
    if not image or not label:
        raise DataError(
            f"{path}: needs the columns image (or img) and label, has"
            f" {', '.join(schema)}"
        )
    kind = schema[image]
    if (
        not isinstance(kind, pl.Struct)
        or pl.Field("bytes", pl.Binary) not in kind.fields
    ):
        raise DataError(f"{path}: column {image} is {kind}, not a struct with bytes")
    if not schema[label].is_integer():
        raise DataError(f"{path}: column {label} is {schema[label]}, not whole numbers")
    return image, label
