"""The two CIFAR-10 distributions: cifar-10-batches-py (pickles) and cifar-10-batches-bin (fixed records)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from headgate.errors import DataError
from headgate.learning.formats.checks import check_labels, reason
from headgate.learning.formats.pickled import read_batch, to_text
from headgate.learning.formats.types import SIZE, Labels, Pictures, Pixels, Tick
from headgate.parquet_pages import check_growth

RECORD = 3073
"""Bytes of one image in the binary distribution: the label, then 32 x 32 pixels in red, green and blue planes."""

_SHAPE = (3, 32, 32)
_META = 1 << 16


@dataclass(frozen=True)
class _CifarFiles(ABC):
    """Batches, with the class names where they lie beside."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]
    meta: Path | None = None
    format: ClassVar[str]

    def counts(self) -> tuple[int, int]:
        return sum(map(self._count, self.train)), sum(map(self._count, self.test))

    def read(self, channels: int, classes: int, size: int = SIZE, tick: Tick | None = None) -> Pictures:
        names = None if self.meta is None else self._names(self.meta)
        known = len(names) if names else classes
        return Pictures(*self._join(self.train, known), *self._join(self.test, known), classes=names)

    def _join(self, files: Iterable[Path], classes: int) -> tuple[Pixels, Labels]:
        """The images and labels of all files, in their order."""
        parts = [self._batch(path, classes) for path in files]
        return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])

    def _batch(self, path: Path, classes: int) -> tuple[Pixels, Labels]:
        images, labels = self._read(path)
        check_labels(path, labels, classes)
        return images, labels

    @abstractmethod
    def _count(self, path: Path) -> int: ...

    @abstractmethod
    def _names(self, meta: Path) -> tuple[str, ...] | None: ...

    @abstractmethod
    def _read(self, path: Path) -> tuple[Pixels, Labels]: ...


class CifarPickles(_CifarFiles):
    format = "cifar-10-batches-py"

    def _count(self, path: Path) -> int:
        return len(self._read(path)[1])

    def _names(self, meta: Path) -> tuple[str, ...]:
        names = read_batch(meta).get("label_names")
        if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
            raise DataError(f"{meta}: no `label_names`")
        return tuple(map(to_text, names))

    def _read(self, path: Path) -> tuple[Pixels, Labels]:
        batch = read_batch(path)
        data, labels = batch.get("data"), batch.get("labels")
        if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != RECORD - 1:
            raise DataError(f"{path}: not a CIFAR-10 batch (no `data` with {RECORD - 1} bytes an image)")
        if not isinstance(labels, list) or not all(type(label) is int for label in labels):
            raise DataError(f"{path}: not a CIFAR-10 batch (no `labels` of whole numbers)")
        if len(labels) != len(data):
            raise DataError(f"{path}: {len(labels)} labels for {len(data)} images")
        return data.reshape(-1, *_SHAPE), np.array(labels, np.int64)


class CifarRecords(_CifarFiles):
    format = "cifar-10-batches-bin"

    def _count(self, path: Path) -> int:
        return path.stat().st_size // RECORD

    def _names(self, meta: Path) -> tuple[str, ...] | None:
        with meta.open("rb") as file:
            return tuple(file.read(_META).decode("utf-8", "replace").split()) or None

    def _read(self, path: Path) -> tuple[Pixels, Labels]:
        try:
            check_growth(path, 3 * path.stat().st_size, path.stat().st_size)  # read, joined, and as they are handed on
            data = np.frombuffer(path.read_bytes(), np.uint8)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({reason(error)})") from None
        if not data.size or data.size % RECORD:
            raise DataError(f"{path}: {data.size} bytes are not whole records of {RECORD}")
        records = data.reshape(-1, RECORD)
        return records[:, 1:].reshape(-1, *_SHAPE), records[:, 0].astype(np.int64)


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
