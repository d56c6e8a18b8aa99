"""CIFAR-10's binary distribution, cifar-10-batches-bin: records of one length."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from headgate.errors import DataError
from headgate.learning.formats.checks import check_labels, reason
from headgate.learning.formats.types import SIZE, Labels, Pictures, Pixels, Tick
from headgate.limits import check_growth

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
