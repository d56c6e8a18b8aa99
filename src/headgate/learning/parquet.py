"""Parquet as on the hub: rows of an encoded picture and a label."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import polars as pl
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.learning.formats import TEST_NAMES, TRAIN_NAMES, Encoded, PictureFiles, Split, checked_labels, naming
from headgate.limits import check_memory
from headgate.reading import check_parquet

IMAGE, LABEL = ("img", "image"), ("label", "labels")
"""names of the columns"""


class ParquetFiles(PictureFiles):
    """Rows of {bytes, path} and a label, in one file or several a split."""

    format = "parquet"

    @classmethod
    def find(cls, folder: Path, files: list[Path]) -> Self:
        """The first complete configuration in the order of the subfolders' names.

        A hub repository may hold the same pictures in several configurations (160px, 320px), one subfolder each: taken
        together they would be duplicates.
        """
        for parent in dict.fromkeys(path.parent for path in files):
            splits = {
                name: tuple(path for path in files if path.parent == parent and path.name.lower().startswith(name))
                for name in (*TRAIN_NAMES, *TEST_NAMES)
            }
            train, test = splits["train"], next((splits[name] for name in TEST_NAMES if splits[name]), ())
            for part in train + test if train and test else ():
                numbered, there = re.search(r"-of-(\d{5})\.", part.name), len(train if part in train else test)
                if numbered and there != int(numbered[1]):
                    raise DataError(f"{part}: one of {int(numbered[1])} parts, of which {there} are there")
            if train and test:
                return cls(train, test)
        names = ", ".join(path.name for path in files)
        raise DataError(f"{folder}: needs train*.parquet and test*.parquet or validation*.parquet, found {names}")

    def read_split(self, files: Sequence[Path], classes: int) -> Split:
        frames, pictures = [], []
        for path in files:
            check_parquet(path)
            image, label = _image_and_label(path)
            with naming(path):
                frame = _scan(path).collect()
                content, labels = frame[image].struct.field("bytes"), frame[label].cast(pl.Int64)
            for column, name in ((content, image), (labels, label)):
                if column.null_count():
                    raise DataError(f"{path}: column {name} is empty in row {column.is_null().arg_max()}")
            check_memory(f"{path}: its pictures take", int(content.bin.size().sum()))  # one may stand for many
            pictures += [Encoded(f"{path}: row {row}", each) for row, each in enumerate(content)]
            checked_labels(path, labels.to_numpy(), classes)
            frames.append(frame.drop(*IMAGE, *LABEL, strict=False).with_columns(labels.alias(LABEL[0])))
        joined = pl.concat(frames, how="diagonal_relaxed")
        others = joined.drop(LABEL[0]).iter_columns()
        return Split(pictures, joined[LABEL[0]].to_numpy(writable=True), plain_columns(others))


def plain_columns(columns: Iterable[pl.Series]) -> dict[str, NDArray[Any]]:
    """Columns of numbers, truth values or text that are filled in every row; texts are numbered in their order."""
    plain = {}
    for own in columns:
        numbers = own.dtype.is_float() or (own.dtype.is_integer() and own.dtype not in (pl.Int128, pl.UInt128))
        if (numbers or own.dtype in (pl.Boolean, pl.String)) and not own.null_count():
            plain[own.name] = (own.rank("dense") if own.dtype == pl.String else own).to_numpy()
    return plain


def _scan(path: Path) -> pl.LazyFrame:
    """This one file, whatever its path looks like: brackets are no pattern, key=value folders no columns."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def _image_and_label(path: Path) -> tuple[str, str]:
    """The names of the picture and the label column."""
    with naming(path):
        schema = _scan(path).collect_schema()
    image, label = (next((name for name in names if name in schema), "") for names in (IMAGE, LABEL))
    if not image or not label:
        raise DataError(f"{path}: needs the columns image (or img) and label, has {', '.join(schema)}")
    kind = schema[image]
    if not isinstance(kind, pl.Struct) or pl.Field("bytes", pl.Binary) not in kind.fields:
        raise DataError(f"{path}: column {image} is {kind}, not a struct with bytes")
    if not schema[label].is_integer():
        raise DataError(f"{path}: column {label} is {schema[label]}, not whole numbers")
    return image, label
