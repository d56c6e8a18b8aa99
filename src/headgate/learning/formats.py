"""Formats of image data sets on disk: idx, CIFAR-10's binary distribution, folders of
pictures and the hub's parquet.

The name of a file determines its format and its split; a file that does not match its
name is refused as damaged. All images are read into memory as uint8, and no content of
a file is ever executed.
"""

import gzip
import io
import math
import struct
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from headgate.errors import DataError, HeadgateError, SettingError
from headgate.escaping import one_line
from headgate.limits import check_memory

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
SIZE = 64
"""side in pixels to which pictures are resized if their sizes differ; pictures that
share one size keep it
"""
TRAIN_NAMES = ("train", "training")
TEST_NAMES = ("test", "validation", "valid", "val")
"""names of the test split in order of preference: a test split comes before a
validation split
"""


class Encoded(NamedTuple):
    """A picture as JPEG, PNG or WebP, not decoded yet, and its name in error
    messages.
    """

    name: str
    data: bytes | Path


class Split(NamedTuple):
    """The rows of a split: images (N, C, H, W), or pictures that are not decoded yet,
    and labels (N,).
    """

    images: Any
    labels: Labels
    columns: Mapping[str, NDArray[Any]] = {}
    """further columns, for example the writer of each digit; texts are replaced by
    their rank
    """


@dataclass(frozen=True)
class PictureFiles(ABC):
    """The files of a data set that was found on disk and is not read yet."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]
    format: ClassVar[str]

    @classmethod
    @abstractmethod
    def find(cls, folder: Path, files: list[Path]) -> Self:
        """Sort the files of this layout below `folder` into a training and a test
        split.
        """

    @abstractmethod
    def read_split(self, files: Sequence[Path], classes: int) -> Split:
        """Read all files of a split; its labels must lie in 0..classes-1."""

    def classes(self) -> tuple[str, ...] | None:
        """Return the names of the classes; None: the files do not name them."""
        return None

    def read(self, channels: int, classes: int) -> tuple[Split, Split]:
        """Return the training and the test split, decoded; pictures get `channels`
        channels, 1 or 3.

        Labels must lie in 0..classes-1 or, if the files name the classes, be one of
        these.
        """
        for path in self.train + self.test:
            check_memory(f"{path}: takes", path.stat().st_size)
        names = self.classes()
        known = len(names) if names else classes
        train, test = (
            self.read_split(self.train, known),
            self.read_split(self.test, known),
        )
        if isinstance(train.images, list):
            pixels = decode_all([*train.images, *test.images], channels)
            many = len(train.images)
            train, test = (
                train._replace(images=pixels[:many]),
                test._replace(images=pixels[many:]),
            )
        return train, test


@contextmanager
def naming(path: Path, wrong: str = "is damaged") -> Iterator[None]:
    """Turn any error of a library that reads a file into a DataError that names the
    file.
    """
    try:
        yield
    except (HeadgateError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of polars is not an Exception
        raise DataError(f"{path}: {wrong} ({one_line(error, 200)})") from None


def checked_labels(
    path: Path,
    labels: NDArray[Any],
    classes: int,
) -> Labels:
    """Return the labels read from `path` as int64; refuse labels outside 0..classes-1,
    and files without labels.
    """
    wrong = labels[(labels < 0) | (labels >= classes)]
    if wrong.size or not labels.size:
        raise DataError(
            f"{path}: "
            + (
                f"label {wrong[0]} is outside 0..{classes - 1}"
                if wrong.size
                else "holds no label"
            )
        )
    return labels.astype(np.int64)


# idx, the format of MNIST and similar data sets, gzipped or not


class IdxFiles(PictureFiles):
    """idx files: for each split, one file of images and one of labels."""

    format = "idx"

    @classmethod
    def find(cls, folder: Path, files: list[Path]) -> Self:
        found: dict[tuple[bool, str], Path] = {}
        for path in reversed(
            files
        ):  # some tools leave an unpacked file beside its .gz: prefer it
            name = path.name.lower()
            found["train" in name, name.rpartition("idx")[2][0]] = path
        if len(found) < 4:
            names = ", ".join(path.name for path in files)
            raise DataError(
                f"{folder}: needs idx files of images and of labels for training and"
                f" for test, found {names}"
            )
        return cls(
            (found[True, "3"], found[True, "1"]), (found[False, "3"], found[False, "1"])
        )

    def read_split(self, files: Sequence[Path], classes: int) -> Split:
        images, labels = (read_idx(path) for path in files)
        if len(images) != len(labels):
            raise DataError(
                f"{files[1]}: {len(labels)} labels for the {len(images)} images of"
                f" {files[0].name}"
            )
        return Split(images[:, np.newaxis], checked_labels(files[1], labels, classes))


def read_idx(path: Path) -> Pixels:
    """Return the array in an idx file, gzipped or not: labels (N,) or grey images (N,
    H, W).
    """
    with naming(path), path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = gzip.GzipFile(fileobj=raw) if packed else raw
        magic = file.read(4)
        if magic not in (b"\x00\x00\x08\x01", b"\x00\x00\x08\x03"):
            raise ValueError(
                "no idx file of labels or grey images, starts with"
                f" {magic.hex() or 'nothing'}"
            )
        shape = struct.unpack(f">{magic[3]}I", file.read(4 * magic[3]))
        size = math.prod(shape)
        check_memory(f"{path}: takes", size)
        data = bytearray(file.read(size + 1))
        if len(data) != size:
            more = "more" if len(data) > size else f"only {len(data)}"
            raise ValueError(f"its header promises {size} bytes, {more} are there")
        return np.frombuffer(data, np.uint8).reshape(shape)


# CIFAR-10's binary distribution


class CifarRecords(PictureFiles):
    """CIFAR-10's batches of records: each is the label, then 32 x 32 pixels in red,
    green and blue planes.
    """

    format = "cifar-10-batches-bin"
    record = 3073

    @classmethod
    def find(cls, folder: Path, files: list[Path]) -> Self:
        test = tuple(path for path in files if "test" in path.name)
        train = tuple(path for path in files if path not in test)
        if not train or not test:
            raise DataError(
                f"{folder}: {cls.format} without {'test' if train else 'training'}"
                " batches"
            )
        return cls(train, test)

    def read_split(self, files: Sequence[Path], classes: int) -> Split:
        images, labels = [], []
        for path in files:
            with naming(path):
                records = np.fromfile(path, np.uint8).reshape(-1, self.record)
            images.append(records[:, 1:].reshape(-1, 3, 32, 32))
            labels.append(checked_labels(path, records[:, 0], classes))
        return Split(np.concatenate(images), np.concatenate(labels))


# folders of pictures, one for each class


class ImageFolder(PictureFiles):
    """Folders train/CLASS and val/CLASS (or test/CLASS) of pictures; classes are the
    folder names in alphabetical order.
    """

    format = "image folder"

    @classmethod
    def find(cls, folder: Path, files: list[Path]) -> Self:
        for root in dict.fromkeys(path.parents[2] for path in files):
            splits = {
                name: tuple(path for path in files if path.parents[1] == root / name)
                for name in TRAIN_NAMES + TEST_NAMES
            }
            train, test = (
                next((splits[name] for name in names if splits[name]), ())
                for names in (TRAIN_NAMES, TEST_NAMES)
            )
            if train and not test:
                raise DataError(
                    f"{root}: class folders in {train[0].parents[1].name}, but none in"
                    " test, val or validation"
                )
            if train:
                return cls(train, test)
        raise DataError(f"{folder}: has pictures, but none in train/CLASS")

    def classes(self) -> tuple[str, ...]:
        return tuple(sorted({path.parent.name for path in self.train}))

    def read_split(self, files: Sequence[Path], classes: int) -> Split:
        numbers = {name: number for number, name in enumerate(self.classes())}
        for path in files:
            if path.parent.name not in numbers:
                raise DataError(
                    f"{path.parent}: this class has no folder in"
                    f" {self.train[0].parents[1]}"
                )
        labels = np.array([numbers[path.parent.name] for path in files], np.int64)
        return Split([Encoded(str(path), path) for path in files], labels)


def decode_all(pictures: Sequence[Encoded], channels: int) -> Pixels:
    """Decode pictures into one array (N, C, H, W): in their common size, otherwise in
    SIZE x SIZE.

    Decoding assumes a common size and starts again at the first picture of another
    size, usually one of the first few.
    """
    made: list[Pixels] = []
    size = None
    while len(made) < len(pictures):
        picture = pictures[len(made)]
        made.append(decode(picture.name, picture.data, channels, size))
        if made[-1].shape != made[0].shape:
            made, size = [], SIZE
        else:
            check_memory(
                f"{picture.name} and {len(made) - 1} pictures before it take",
                len(made) * made[0].nbytes,
            )
    return np.stack(made)


def decode(
    name: str,
    data: bytes | Path,
    channels: int,
    size: int | None = None,
) -> Pixels:
    """Decode a JPEG, PNG or WebP picture into (channels, H, W); if `size` is given,
    resize it to size x size.
    """
    library, file = _library(), io.BytesIO(data) if isinstance(data, bytes) else data
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", library.DecompressionBombWarning)
            with library.open(file, formats=("JPEG", "PNG", "WEBP")) as picture:
                if picture.mode.startswith(("I", "F")):
                    raise ValueError(
                        f"mode {picture.mode} has more than 8 bits a pixel"
                    )
                plain = picture.convert("L" if channels == 1 else "RGB")
        if size is not None:
            plain = plain.resize((size, size), library.Resampling.BILINEAR)
        pixels: Pixels = np.asarray(plain, np.uint8)
    except (
        Exception
    ) as error:  # decoders raise many types: OSError, SyntaxError, struct.error, ...
        unknown = isinstance(error, library.UnidentifiedImageError)
        why = "not a JPEG, PNG or WebP picture" if unknown else one_line(error, 200)
        raise DataError(f"{name}: picture cannot be decoded ({why})") from None
    return (
        pixels[np.newaxis]
        if channels == 1
        else np.ascontiguousarray(pixels.transpose(2, 0, 1))
    )


@cache
def _library() -> Any:
    """Import Pillow; raise an error that names the extra to install if it is
    missing.
    """
    try:
        from PIL import Image
    except ImportError:
        raise SettingError(
            "reading pictures needs pillow: pip install 'headgate[sim]'"
        ) from None
    return Image
