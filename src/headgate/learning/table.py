"""Readers that need polars: tables with one row for each sample as .csv or .parquet, an
.npz with an array of samples and an array of labels, and the hub's parquet files of
pictures."""

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
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
    Encoded,
    Labels,
    PictureFiles,
    Split,
    checked_labels,
    naming,
)
from headgate.learning.partition import share_of_each_class
from headgate.limits import CLASSES, COLUMNS, TEXT, check_memory
from headgate.reading import check_parquet, csv_text, remedy_of_number

GAPS = 8
"""the most empty cells of a column, and columns, that a message names"""
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
    drops: bool = False,
) -> dict[str, Any]:
    """Return the arrays of a data set; a second file is the test set, otherwise `share`
    of the rows of each class is.

    Rows with an empty label or feature are refused, or left out if it `drops` them.
    """
    path = files[0][0]
    train = _read(*files[0], label, features, drops)
    classes = _classes(path, label, train.labels)
    labels = _numbered(path, label, train, classes)
    held = np.zeros(len(labels), np.bool_)
    if len(files) > 1:
        test = _read(*files[1], label, train.names, drops)
        test_samples = test.samples
        test_labels = _numbered(files[1][0], label, test, classes)
    else:
        held = share_of_each_class(labels, share, Purpose.TEST)
        if not held.any():
            raise SettingError(
                f"data.test = {share:g}: holds no row for testing, no class of {path}"
                " has enough of them"
            )
        test_samples = train.samples[held]
        test_labels = labels[held]
    return {
        "train_images": train.samples[~held],
        "train_labels": labels[~held],
        "test_images": test_samples,
        "test_labels": test_labels,
        "classes": [str(each) for each in classes],
        "columns": {name: column[~held] for name, column in train.columns.items()},
    }


def _read(
    path: Path,
    content: bytes,
    label: str,
    features: tuple[str, ...] | None,
    drops: bool,
) -> _Rows:
    with naming(path, f"cannot be read as {path.suffix[1:]}"):
        if path.suffix == ".npz":
            rows = _npz(path, content, label, features)
        else:
            read = _csv if path.suffix == ".csv" else _parquet
            frame = read(path, content)
            if drops and label in frame.columns:
                frame = frame.filter(pl.col(label).is_not_null())
            rows = _from_frame(path, frame, label, features)
    if rows.samples.ndim == 2 and rows.samples.dtype.kind == "f":
        if drops:
            return _without_gaps(path, rows)
        _check_finite(path, rows)
    return rows


def _without_gaps(path: Path, rows: _Rows) -> _Rows:
    """Return the rows whose features are all there."""
    whole = np.isfinite(rows.samples).all(axis=1)
    if not whole.any():
        raise DataError(f"{path}: no row is left without empty cells")
    return _Rows(
        rows.samples[whole],
        rows.labels.filter(pl.Series(whole)),
        rows.names,
        {name: column[whole] for name, column in rows.columns.items()},
    )


def _check_finite(path: Path, rows: _Rows) -> None:
    """Refuse empty cells, and name all columns that have some."""
    gaps = ~np.isfinite(rows.samples)
    if not gaps.any():
        return
    found = []
    for column in np.flatnonzero(gaps.any(axis=0)):
        numbers = [str(row + 1) for row in np.flatnonzero(gaps[:, column])]
        named = ", ".join(numbers[:GAPS])
        if len(numbers) > GAPS:
            named += f" and {len(numbers) - GAPS:,} more"
        called = f"column {column + 1}"
        if path.suffix != ".npz":
            called = f'column "{shown(rows.names[column])}"'
        found.append(f"{called} is empty or not finite in row {named}")
    more = f"; {len(found) - GAPS} more columns too" if len(found) > GAPS else ""
    raise DataError(
        f"{path}: {'; '.join(found[:GAPS])}{more}; fill them in, or leave these rows"
        ' out: missing = "drop"'
    )


# columns


def _csv(path: Path, content: bytes) -> pl.DataFrame:
    text = csv_text(path, content)
    header = next(csv.reader(io.StringIO(text, newline="")), [])
    for number, name in enumerate(header, 1):
        # polars would decompress content that begins with certain bytes
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
    rows = check_parquet(path, content)
    _check_size(path, rows, len(pl.read_parquet_schema(io.BytesIO(content))))
    texts = pl.col(pl.Categorical, pl.Enum)
    return pl.read_parquet(io.BytesIO(content)).with_columns(texts.cast(pl.String))


def _check_size(
    path: Path,
    rows: int,
    columns: int,
) -> None:
    """Refuse a table of too many columns, or one that would not fit into memory, before
    it is read.
    """
    if columns > COLUMNS:
        raise DataError(f"{path}: {columns:,} columns; at most {COLUMNS:,}")
    check_memory(
        f"{path}: {rows:,} rows of {columns:,} columns take", rows * columns * BY_CELL
    )


def _from_frame(
    path: Path,
    frame: pl.DataFrame,
    label: str,
    features: tuple[str, ...] | None,
) -> _Rows:
    _check_there(path, "column", (label, *(features or ())), frame.columns)
    names = features or tuple(name for name in frame.columns if name != label)
    if not names:
        raise DataError(f"{path}: holds no column beside {shown(label)}")
    if not frame.height:
        raise DataError(f"{path}: holds no row")
    if "" in names:
        raise DataError(
            f"{path}: column {frame.columns.index('') + 1} has no name; name it, or"
            " those to learn from: features"
        )
    others = [name for name in frame.columns if name not in {label, *names}]
    return _Rows(
        _numbers(path, frame[list(names)]),
        _labels(path, frame[label]),
        names,
        plain_columns(frame.select(others)),
    )


def _numbers(path: Path, frame: pl.DataFrame) -> NDArray[np.float64]:
    """Return the features (N, d), NaN for a missing value; a column of text is accepted
    if all of it can be read as numbers.
    """
    for name, kind in frame.schema.items():
        if kind == pl.String:
            _check_text(path, frame[name])
        elif not kind.is_numeric() and kind != pl.Boolean:
            raise DataError(
                f'{path}: column "{shown(name)}" holds {shown(kind)}, no numbers; name'
                " the columns to learn from: features = [...]"
            )
    stripped = frame.with_columns(pl.col(pl.String).str.strip_chars())
    return stripped.select(pl.all().cast(pl.Float64)).to_numpy()


def _check_text(path: Path, column: pl.Series) -> None:
    """Refuse a column of text that cannot be read as numbers."""
    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    odd = numbers.is_null() & column.is_not_null()
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise DataError(
            f'{path}: column "{shown(column.name)}" holds text'
            f' ("{shown(column[row])}" in row'
            f" {row + 1}){remedy_of_number(column[row])}; make numbers of it, or name"
            " the columns to learn from: features = [...]"
        )


# arrays


def _npz(
    path: Path,
    content: bytes,
    label: str,
    features: tuple[str, ...] | None,
) -> _Rows:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(info.file_size for info in archive.infolist())
    check_memory(f"{path}: takes", size)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        _check_there(path, "array", (label, *(features or ())), arrays.files)
        names = features or tuple(name for name in arrays.files if name != label)
        if len(names) != 1:
            many = shown(", ".join(names), 300) or "none"
            raise DataError(
                f'{path}: needs one array beside "{shown(label)}", has {many}; name it:'
                ' features = ["x"]'
            )
        samples, labels = np.asarray(arrays[names[0]]), np.asarray(arrays[label])

    rows = labels.shape if labels.ndim == 1 and labels.size else None
    if samples.shape[:1] != rows:
        raise DataError(
            f'{path}: "{shown(names[0])}" is {samples.shape}, "{shown(label)}"'
            f" {labels.shape}; must be (N, d) or images, and (N,) with a label for each"
        )
    if samples.ndim == 1:
        samples = samples[:, np.newaxis]
    if samples.ndim == 2:
        _check_size(path, *samples.shape)
    return _Rows(samples, _labels(path, pl.Series(label, labels)), names, {})


# labels


def _check_there(
    path: Path,
    what: str,
    wanted: Sequence[str],
    there: Sequence[str],
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
    if column.dtype == pl.Boolean:
        column = column.cast(pl.String)
    if not column.dtype.is_integer() and column.dtype != pl.String:
        raise DataError(
            f"{called} holds {shown(column.dtype)}; labels are whole numbers or text"
        )
    if column.null_count():
        row = int(column.is_null().arg_max() or 0)
        raise DataError(f"{called} is empty in row {row + 1}; every row needs a label")
    return column if column.dtype == pl.String else column.cast(pl.Int64)


def _classes(
    path: Path,
    label: str,
    labels: pl.Series,
) -> list[Any]:
    """Return the distinct labels in ascending order."""
    classes = labels.unique().sort().to_list()
    called = f'{path}: column "{shown(label)}" has'
    many = f"{called} {len(classes):,} different labels"
    if len(classes) < 2:
        raise DataError(f"{many}; there must be at least 2 to learn anything")
    if len(classes) > CLASSES:
        raise DataError(
            f"{many}; at most {CLASSES:,}: is it a number to be predicted? Labels are"
            " classes"
        )
    if any(len(str(each)) > TEXT for each in classes):
        raise DataError(f"{called} a label of more than {TEXT:,} characters")
    return classes


def _numbered(
    path: Path,
    label: str,
    rows: _Rows,
    classes: list[Any],
) -> Labels:
    """Return the number of the class of each row, (N,)."""
    kind = pl.String if isinstance(classes[0], str) else pl.Int64
    numbers = rows.labels.cast(kind, strict=False).replace_strict(
        classes,
        range(len(classes)),
        default=None,
        return_dtype=pl.Int64,
    )
    if numbers.null_count():
        row = int(numbers.is_null().arg_max() or 0)
        raise DataError(
            f'{path}: "{shown(rows.labels[row])}" in row {row + 1} of column'
            f' "{shown(label)}" is a label that no training row has'
        )
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
                for name in ("train", *TEST_NAMES)
            }
            train = splits["train"]
            test = next((splits[name] for name in TEST_NAMES if splits[name]), ())
            if train and test:
                _check_parts(train)
                _check_parts(test)
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
                content = frame[image].struct.field("bytes")
                labels = frame[label].cast(pl.Int64)
            for column, name in ((content, image), (labels, label)):
                if column.null_count():
                    row = column.is_null().arg_max()
                    raise DataError(f"{path}: column {name} is empty in row {row}")
            size = int(content.bin.size().sum())
            check_memory(f"{path}: its pictures take", size)  # bytes after decoding
            pictures += [
                Encoded(f"{path}: row {row}", each) for row, each in enumerate(content)
            ]
            checked_labels(path, labels.to_numpy(), classes)
            others = frame.drop(*IMAGE, *LABEL, strict=False)
            frames.append(others.with_columns(labels.alias(LABEL[0])))
        joined = pl.concat(frames, how="diagonal_relaxed")
        numbers = joined[LABEL[0]].to_numpy(writable=True)
        return Split(pictures, numbers, plain_columns(joined.drop(LABEL[0])))


def _check_parts(files: Sequence[Path]) -> None:
    """Refuse a split of which a part is missing."""
    for path in files:
        numbered = re.search(r"-of-(\d{5})\.", path.name)
        if numbered and len(files) != int(numbered[1]):
            raise DataError(
                f"{path}: one of {int(numbered[1])} parts, of which {len(files)} are"
                " there"
            )


def plain_columns(frame: pl.DataFrame) -> dict[str, NDArray[Any]]:
    """Return the columns of numbers, truth values or text that have no empty row; texts
    are replaced by their rank.
    """
    plain = {}
    for column in frame.iter_columns():
        kind = column.dtype
        numbers = kind.is_float() or kind.is_integer()
        if kind in (pl.Int128, pl.UInt128) or column.null_count():
            continue
        if kind == pl.String:
            plain[column.name] = column.rank("dense").to_numpy()
        elif numbers or kind == pl.Boolean:
            plain[column.name] = column.to_numpy()
    return plain


def _scan(path: Path) -> pl.LazyFrame:
    """Scan this one file: brackets in its path are not a pattern, and key=value folders
    do not become columns.
    """
    return pl.scan_parquet(
        path,
        glob=False,
        hive_partitioning=False,
    )


def _image_and_label(path: Path) -> tuple[str, str]:
    """Return the names of the picture column and the label column."""
    with naming(path):
        schema = _scan(path).collect_schema()
    image = next((name for name in IMAGE if name in schema), "")
    label = next((name for name in LABEL if name in schema), "")
    if not image or not label:
        raise DataError(
            f"{path}: needs the columns image (or img) and label, has"
            f" {', '.join(schema)}"
        )
    kind = schema[image]
    fields = kind.fields if isinstance(kind, pl.Struct) else []
    if pl.Field("bytes", pl.Binary) not in fields:
        raise DataError(f"{path}: column {image} is {kind}, not a struct with bytes")
    if not schema[label].is_integer():
        raise DataError(f"{path}: column {label} is {schema[label]}, not whole numbers")
    return image, label
