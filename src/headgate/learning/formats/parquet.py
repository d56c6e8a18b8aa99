"""Parquet as on the hub: rows of an encoded picture and a label."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.learning.formats.images import Encoded, decode_all
from headgate.learning.formats.types import TEST_NAMES, TRAIN_NAMES, Labels, Pictures, check_labels, reason
from headgate.limits import TEXT, check_growth
from headgate.reading import check_parquet

T = TypeVar("T")
BY_ROW = 300
"""bytes for every picture, beside its own"""


@dataclass(frozen=True)
class ParquetFiles:
    """Rows of {bytes, path} and a label, in one file or several a split."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]
    format = "parquet"

    def counts(self) -> tuple[int, int]:
        return sum(map(_rows, self.train)), sum(map(_rows, self.test))

    def read(self, channels: int, classes: int) -> Pictures:
        names = self._names()
        known = len(names) if names else classes
        train, test = (_Rows.join([_Rows.read(path, known) for path in files]) for files in (self.train, self.test))
        train_images, test_images = decode_all(train.pictures, test.pictures, channels)
        return Pictures(train_images, train.labels, test_images, test.labels, classes=names, columns=train.columns)

    def _names(self) -> tuple[str, ...] | None:
        """The class names on which all files agree."""
        names = _class_names(self.train[0])
        for path in self.train + self.test:
            if _class_names(path) != names:
                raise DataError(f"{path}: other class names than {self.train[0].name}")
        return names


def assemble(folder: Path, files: list[Path]) -> ParquetFiles:
    """The first complete configuration in the order of the subfolders' names.

    A hub repository may hold the same pictures in several configurations (160px, 320px), one
    subfolder each: taken together they would be duplicates.
    """
    groups: dict[Path, dict[str, list[Path]]] = {}
    for path in files:
        by_folder = _split_of(path.parent.name) if path.parent != folder else None
        split = _split_of(path.name) or by_folder
        if split is not None:
            groups.setdefault(path.parent.parent if by_folder else path.parent, {}).setdefault(split, []).append(path)
    for splits in groups.values():
        test = next((splits[name] for name in TEST_NAMES if name in splits), None)
        if "train" in splits and test:
            return ParquetFiles(_complete(splits["train"]), _complete(test))
    names = ", ".join(path.name for path in files)
    raise DataError(f"{folder}: needs train*.parquet and test*.parquet or validation*.parquet, found {names}")


def _split_of(name: str) -> str | None:
    """`train`, or which of the test names `name` begins with."""
    lower = name.lower()
    if lower.startswith(TRAIN_NAMES):
        return "train"
    return next((split for split in TEST_NAMES if lower.startswith(split)), None)


def _complete(files: list[Path]) -> tuple[Path, ...]:
    """The shards of a split, none missing."""
    for path in files:
        numbered = re.search(r"-\d{5}-of-(\d{5})\.", path.name)
        if numbered and len(files) != int(numbered[1]):
            raise DataError(f"{path}: one of {int(numbered[1])} parts, of which {len(files)} are there")
    return tuple(files)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a file or a split, their pictures not decoded yet."""

    pictures: list[Encoded]
    labels: Labels
    columns: dict[str, NDArray[Any]]

    @classmethod
    def read(cls, path: Path, classes: int) -> Self:
        check_growth(path, check_parquet(path) * BY_ROW, path.stat().st_size)
        frame = _guarded(path, lambda: _scan(path).collect())
        image, label = _image_and_label(path, frame.schema)
        data = frame[image].struct.field("bytes")
        check_growth(path, int(data.bin.size().sum()), path.stat().st_size)  # one picture may stand for many
        for column, name in ((data, image), (frame[label], label)):
            if column.null_count():
                raise DataError(f"{path}: column {name} is empty in row {column.is_null().arg_max()}")
        labels = np.array(_guarded(path, lambda: frame[label].cast(pl.Int64)))
        check_labels(path, labels, classes)
        pictures = [Encoded(f"{path}: row {row}", content) for row, content in enumerate(data.to_list())]
        others = frame.drop(image, label).iter_columns()
        return cls(pictures, labels, {column.name: _plain(path, column) for column in others if is_plain(column)})

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """All rows in order, with the columns which every part has."""
        shared = [name for name in parts[0].columns if all(name in part.columns for part in parts)]
        return cls(
            [picture for part in parts for picture in part.pictures],
            np.concatenate([part.labels for part in parts]),
            {name: np.concatenate([part.columns[name] for part in parts]) for name in shared},
        )


def is_plain(column: pl.Series) -> bool:
    """Worth keeping: numbers, truth values or text, filled in every row."""
    kind = column.dtype
    numbers = kind.is_float() or (kind.is_integer() and kind not in (pl.Int128, pl.UInt128))
    return (numbers or kind in (pl.Boolean, pl.String)) and column.null_count() == 0


def _plain(path: Path, column: pl.Series) -> NDArray[Any]:
    if column.dtype == pl.String:
        longest = int(column.str.len_chars().to_numpy().max(initial=0))  # which all of them become
        check_growth(path, 4 * len(column) * longest, path.stat().st_size)
    return np.array(column.to_list(), dtype=str) if column.dtype == pl.String else np.array(column.to_numpy())


def _scan(path: Path) -> pl.LazyFrame:
    """This one file, whatever its path looks like: brackets are no pattern, key=value folders no columns."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def _schema(path: Path) -> pl.Schema:
    return _guarded(path, lambda: _scan(path).collect_schema())


def _guarded(path: Path, read: Callable[[], T]) -> T:
    """What `read` returns; whatever polars refuses names the file."""
    try:
        return read()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"{path}: damaged parquet file ({reason(error)})") from None


def _rows(path: Path) -> int:
    """From the footer alone; the columns are checked too, so that a listing does not promise what loading refuses."""
    _image_and_label(path, _schema(path))
    return int(_guarded(path, lambda: _scan(path).select(pl.len()).collect()).item())


def _image_and_label(path: Path, schema: Mapping[str, Any]) -> tuple[str, str]:
    """The names of the picture and the label column."""
    image = next((name for name in ("img", "image") if name in schema), None)
    label = next((name for name in ("label", "labels") if name in schema), None)
    if image is None or label is None:
        raise DataError(f"{path}: needs the columns image (or img) and label, has {', '.join(schema)}")
    kind = schema[image]
    if not isinstance(kind, pl.Struct) or pl.Field("bytes", pl.Binary) not in kind.fields:
        raise DataError(f"{path}: column {image} is {kind}, not a struct with bytes")
    if not schema[label].is_integer():
        raise DataError(f"{path}: column {label} is {schema[label]}, not whole numbers")
    return image, label


def _class_names(path: Path) -> tuple[str, ...] | None:
    """Class names from the hub's metadata, where the file has them."""
    metadata = _guarded(path, lambda: pl.read_parquet_metadata(path))
    _, label = _image_and_label(path, _schema(path))
    if "huggingface" not in metadata:
        return None
    try:
        names = json.loads(metadata["huggingface"])["info"]["features"][label].get("names")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{path}: damaged metadata `huggingface`") from None
    if isinstance(names, list) and not all(isinstance(name, str | int) and len(str(name)) <= TEXT for name in names):
        raise DataError(f"{path}: damaged metadata `huggingface`")
    return tuple(map(str, names)) if isinstance(names, list) and names else None
