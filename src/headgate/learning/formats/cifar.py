"""The two CIFAR-10 distributions: cifar-10-batches-py (pickles) and cifar-10-batches-bin (fixed records)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headgate.errors import DataError
from headgate.learning.formats.checks import check_labels, reason
from headgate.learning.formats.pickled import read_batch, to_text
from headgate.learning.formats.types import SIZE, Labels, Pictures, Pixels, Tick

RECORD = 3073
"""Bytes of one image in the binary distribution: the label, then 32 x 32 pixels in red, green and blue planes."""

_SHAPE = (3, 32, 32)
_Reader = Callable[[Path], tuple[Pixels, Labels]]


@dataclass(frozen=True)
class CifarPickles:
    """cifar-10-batches-py, with the class names where they lie beside."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]
    meta: Path | None = None
    format = "cifar-10-batches-py"

    def counts(self) -> tuple[int, int]:
        train, test = (sum(len(_read_pickle(path)[1]) for path in files) for files in (self.train, self.test))
        return train, test

    def read(self, channels: int, classes: int, size: int = SIZE, tick: Tick | None = None) -> Pictures:
        return _pictures(self.train, self.test, _read_pickle, self._names(), classes)

    def _names(self) -> tuple[str, ...] | None:
        if self.meta is None:
            return None
        names = read_batch(self.meta).get("label_names")
        if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
            raise DataError(f"{self.meta}: no `label_names`")
        return tuple(map(to_text, names))


@dataclass(frozen=True)
class CifarRecords:
    """cifar-10-batches-bin, with the class names where they lie beside."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]
    meta: Path | None = None
    format = "cifar-10-batches-bin"

    def counts(self) -> tuple[int, int]:
        train, test = (sum(path.stat().st_size // RECORD for path in files) for files in (self.train, self.test))
        return train, test

    def read(self, channels: int, classes: int, size: int = SIZE, tick: Tick | None = None) -> Pictures:
        return _pictures(self.train, self.test, _read_records, self._names(), classes)

    def _names(self) -> tuple[str, ...] | None:
        if self.meta is None:
            return None
        return tuple(self.meta.read_bytes().decode("utf-8", "replace").split()) or None


def assemble_pickles(folder: Path, files: list[Path]) -> CifarPickles:
    """The batches among `files`; batches.meta is a pickle too."""
    meta = [path for path in files if "meta" in path.name.lower()]
    train, test = _train_and_test(folder, CifarPickles.format, [path for path in files if path not in meta])
    return CifarPickles(train, test, meta[0] if meta else None)


def assemble_records(folder: Path, files: list[Path]) -> CifarRecords:
    """The batches among `files`; batches.meta.txt lies beside them."""
    train, test = _train_and_test(folder, CifarRecords.format, files)
    meta = sorted(path for path in files[0].parent.glob("*.meta.txt") if path.is_file())
    return CifarRecords(train, test, meta[0] if meta else None)


def _train_and_test(folder: Path, kind: str, files: list[Path]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    test = tuple(path for path in files if "test" in path.name.lower())
    train = tuple(path for path in files if path not in test)
    if not train or not test:
        raise DataError(f"{folder}: {kind} without {'test' if train else 'training'} batches")
    return train, test


def _pictures(
    train: Iterable[Path], test: Iterable[Path], read: _Reader, names: tuple[str, ...] | None, classes: int
) -> Pictures:
    known = len(names) if names else classes
    return Pictures(*_join(train, read, known), *_join(test, read, known), classes=names)


def _join(files: Iterable[Path], read: _Reader, classes: int) -> tuple[Pixels, Labels]:
    """The images and labels of all files, in their order."""
    parts = []
    for path in files:
        images, labels = read(path)
        check_labels(path, labels, classes)
        parts.append((images, labels))
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def _read_pickle(path: Path) -> tuple[Pixels, Labels]:
    batch = read_batch(path)
    data, labels = batch.get("data"), batch.get("labels")
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != RECORD - 1:
        raise DataError(f"{path}: not a CIFAR-10 batch (no `data` with {RECORD - 1} bytes an image)")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DataError(f"{path}: not a CIFAR-10 batch (no `labels` of whole numbers)")
    if len(labels) != len(data):
        raise DataError(f"{path}: {len(labels)} labels for {len(data)} images")
    return data.reshape(-1, *_SHAPE), np.array(labels, np.int64)


def _read_records(path: Path) -> tuple[Pixels, Labels]:
    try:
        data = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason(error)})") from None
    if not data.size or data.size % RECORD:
        raise DataError(f"{path}: {data.size} bytes are not whole records of {RECORD}")
    records = data.reshape(-1, RECORD)
    return records[:, 1:].reshape(-1, *_SHAPE), records[:, 0].astype(np.int64)
