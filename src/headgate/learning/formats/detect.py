"""Which layout lies in a folder, by the first bytes of its files; folders of pictures and CIFAR-10's binary records."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from headgate.errors import DataError
from headgate.learning.formats import idx
from headgate.learning.formats.images import Encoded, decode_all
from headgate.learning.formats.types import (
    TEST_NAMES,
    TRAIN_NAMES,
    Labels,
    PictureFiles,
    Pictures,
    Pixels,
    check_labels,
    reason,
)
from headgate.limits import check_growth

# folders of pictures, one for each class


_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp"})


@dataclass(frozen=True)
class ImageFolder:
    """train/CLASS/picture and val/CLASS/picture (or test); classes are the folder names in alphabetical order."""

    train: Path
    test: Path
    format = "image folder"

    def counts(self) -> tuple[int, int]:
        classes = self._classes()
        return len(self._list(self.train, classes)[0]), len(self._list(self.test, classes)[0])

    def read(self, channels: int, classes: int) -> Pictures:
        names = self._classes()
        train, train_labels = self._list(self.train, names)
        test, test_labels = self._list(self.test, names)
        train_images, test_images = decode_all(train, test, channels)
        return Pictures(train_images, train_labels, test_images, test_labels, classes=names)

    def _classes(self) -> tuple[str, ...]:
        return tuple(folder.name for folder in _class_folders(self.train))

    def _list(self, split: Path, classes: tuple[str, ...]) -> tuple[list[Encoded], Labels]:
        pictures: list[Encoded] = []
        labels: list[int] = []
        for folder in _class_folders(split):
            if folder.name not in classes:
                raise DataError(f"{folder}: this class has no folder in {self.train}")
            files = _picture_files(folder)
            pictures += [Encoded(str(path), path) for path in files]
            labels += [classes.index(folder.name)] * len(files)
        return pictures, np.array(labels, np.int64)


def find_image_folder(folder: Path) -> ImageFolder | None:
    """In `folder` itself or, as archives unpack, one level below."""
    for root in (folder, *sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))):
        train = next((root / name for name in TRAIN_NAMES if _class_folders(root / name)), None)
        if train is None:
            continue
        test = next((root / name for name in TEST_NAMES if _class_folders(root / name)), None)
        if test is None:
            raise DataError(f"{root}: class folders in {train.name}, but none in test, val or validation")
        return ImageFolder(train, test)
    return None


def _class_folders(split: Path) -> list[Path]:
    if not split.is_dir():
        return []
    return sorted(path for path in split.iterdir() if path.is_dir() and _picture_files(path))


def _picture_files(folder: Path) -> list[Path]:
    named = (path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and not path.name.startswith("."))
    return sorted(path for path in named if path.is_file())


# CIFAR-10's binary distribution, cifar-10-batches-bin: records of one length


RECORD = 3073
"""Bytes of one image in the binary distribution: the label, then 32 x 32 pixels in red, green and blue planes."""

PYTHON = "cifar-10-batches-py"
_SHAPE = (3, 32, 32)
_META = 1 << 16


@dataclass(frozen=True)
class CifarRecords:
    """Batches, with the class names where they lie beside."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]
    meta: Path | None = None
    format = "cifar-10-batches-bin"

    def counts(self) -> tuple[int, int]:
        train, test = (sum(path.stat().st_size // RECORD for path in files) for files in (self.train, self.test))
        return train, test

    def read(self, channels: int, classes: int) -> Pictures:
        names = None
        if self.meta is not None:
            with self.meta.open("rb") as file:
                names = tuple(file.read(_META).decode("utf-8", "replace").split()) or None
        train, test = (self._join(files, len(names or ()) or classes) for files in (self.train, self.test))
        return Pictures(*train, *test, classes=names)

    def _join(self, files: Iterable[Path], classes: int) -> tuple[Pixels, Labels]:
        """The images and labels of all files, in their order."""
        parts = [self._batch(path, classes) for path in files]
        return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])

    def _batch(self, path: Path, classes: int) -> tuple[Pixels, Labels]:
        try:
            check_growth(path, 3 * path.stat().st_size, path.stat().st_size)  # read, joined, and as they are handed on
            data = np.frombuffer(path.read_bytes(), np.uint8)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({reason(error)})") from None
        if not data.size or data.size % RECORD:
            raise DataError(f"{path}: {data.size} bytes are not whole records of {RECORD}")
        records = data.reshape(-1, RECORD)
        labels = records[:, 0].astype(np.int64)
        check_labels(path, labels, classes)
        return records[:, 1:].reshape(-1, *_SHAPE), labels


def refuse_python(folder: Path, files: Sequence[Path] = ()) -> NoReturn:
    """Say in one line what to take in place of CIFAR-10's python version, which is pickles."""
    raise DataError(f"{folder}: CIFAR-10's python version (pickles) is not read; take the binary version or parquet")


def assemble_records(folder: Path, files: list[Path]) -> CifarRecords:
    """The batches among `files`; batches.meta.txt lies beside them."""
    test = tuple(path for path in files if "test" in path.name.lower())
    train = tuple(path for path in files if path not in test)
    if not train or not test:
        raise DataError(f"{folder}: {CifarRecords.format} without {'test' if train else 'training'} batches")
    meta = sorted(path for path in files[0].parent.glob("*.meta.txt") if path.is_file())
    return CifarRecords(train, test, meta[0] if meta else None)


# what lies where


def _assemble_parquet(folder: Path, files: list[Path]) -> PictureFiles:
    from headgate.learning.formats import parquet  # and with it polars, which nothing else here needs

    return parquet.assemble(folder, files)


_ASSEMBLE: dict[str, Callable[[Path, list[Path]], PictureFiles]] = {
    "idx": idx.assemble,
    "parquet": _assemble_parquet,
    "records": assemble_records,
    "python": refuse_python,
}


def recognise(folder: Path) -> PictureFiles | None:
    """The data set in `folder` or its subfolders, or None where there is none.

    Where several layouts lie side by side the first complete one in the order image folder, idx,
    parquet, cifar-10-batches-bin is taken.
    """
    found: dict[str, list[Path]] = {}
    try:
        pictures = find_image_folder(folder)
        if pictures is not None:
            return pictures
        for path in _visible_files(folder):
            found.setdefault(_kind(path), []).append(path)
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({reason(error)})") from None
    problem: DataError | None = None
    for kind, assemble in _ASSEMBLE.items():
        if kind in found:
            try:
                return assemble(folder, found[kind])
            except DataError as error:
                problem = problem or error
    if problem is not None:
        raise problem
    return None


def _visible_files(folder: Path) -> list[Path]:
    """All files below `folder` in a fixed order; hidden ones and unfinished downloads are not data."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part")
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _kind(path: Path) -> str:
    """Which layout the bytes of `path` belong to, or the empty string."""
    with path.open("rb") as file:
        head = file.read(4)
    packed = head.startswith(idx.GZIP)
    if packed:
        head = _gzip_head(path)
    if head in idx.MAGIC:
        return "idx"
    if not packed and (kind := _unpacked_kind(path, head)):
        return kind
    promised = _promise(path.name.lower())
    if promised:
        raise DataError(f"{path}: named like {promised}, but starts with the bytes {head.hex() or '(none)'}")
    return ""


def _gzip_head(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read(4)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return b""


def _unpacked_kind(path: Path, head: bytes) -> str:
    """The layouts which are never gzipped."""
    if head == b"PAR1":
        return "parquet"
    if re.fullmatch(r"(data|test)_batch(_\d+)?", path.name):
        return "python"
    if path.suffix.lower() == ".bin" and head and head[0] < 10 and path.stat().st_size % RECORD == 0:
        return "records"
    return ""


def _promise(name: str) -> str:
    """The format a file's name stands for, so that a damaged file is not passed over in silence."""
    if name.endswith(".parquet"):
        return "parquet"
    if "idx" in name and "ubyte" in name:
        return "idx"
    if re.fullmatch(r"(data|test)_batch(_\d+)?\.bin", name):
        return f"a cifar-10-batches-bin file ({RECORD} bytes an image)"
    return ""
