"""idx, the format of MNIST and its relatives, gzipped or not."""

import gzip
import math
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from headgate.errors import DataError
from headgate.learning.formats.types import Labels, Pictures, Pixels, check_labels, reason
from headgate.limits import check_growth

MAGIC = (b"\x00\x00\x08\x01", b"\x00\x00\x08\x03")
"""How an idx file starts: unsigned bytes in one dimension or in three."""

GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class IdxFiles:
    """The four files of MNIST and its relatives."""

    train: tuple[Path, Path]
    test: tuple[Path, Path]
    format = "idx"

    def counts(self) -> tuple[int, int]:
        return _count(*self.train), _count(*self.test)

    def read(self, channels: int, classes: int) -> Pictures:
        self.counts()
        return Pictures(*_read_pair(*self.train, classes), *_read_pair(*self.test, classes))


def assemble(folder: Path, files: list[Path]) -> IdxFiles:
    """The four files among `files`, identified by their shape and their names or lengths."""
    by_rank: dict[int, list[Path]] = {1: [], 3: []}
    for path in files:
        if path.suffix != ".gz" or path.with_suffix("") not in files:  # some tools leave x.gz beside the x unpacked from it
            by_rank[len(idx_shape(path))].append(path)
    train_images, test_images = _train_and_test(folder, "image", by_rank[3])
    train_labels, test_labels = _train_and_test(folder, "label", by_rank[1])
    return IdxFiles((train_images, train_labels), (test_images, test_labels))


def read_idx(path: Path) -> Pixels:
    """The array in an idx file of labels (N,) or grey images (N, H, W), gzipped or not."""
    with _opened(path) as file:
        shape = _read_shape(path, file)
        expected = math.prod(shape)
        data, size = bytearray(), path.stat().st_size
        # In pieces: a damaged header may claim any length, and reading that much at once would allocate it.
        while len(data) <= expected and (piece := file.read(_CHUNK)):
            data += piece
            check_growth(path, len(data), size)
    if len(data) != expected:
        more = "more" if len(data) > expected else f"only {len(data)}"
        raise DataError(f"{path}: damaged idx file (its header promises {expected} bytes, {more} are there)")
    return np.frombuffer(data, np.uint8).reshape(shape)


def idx_shape(path: Path) -> tuple[int, ...]:
    """The shape an idx file's header promises."""
    with _opened(path) as file:
        return _read_shape(path, file)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The file's content, unpacked where it is gzipped; whatever goes wrong while reading it names the file."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP
            raw.seek(0)
            # A gzip file is a stream of bytes; its declared type is narrower than what it can do.
            yield gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged idx file ({reason(error)})") from None


def _read_shape(path: Path, file: IO[bytes]) -> tuple[int, ...]:
    magic = file.read(4)
    if magic not in MAGIC:
        raise DataError(f"{path}: not an idx file of labels or grey images (starts with {magic.hex() or 'nothing'})")
    head = file.read(4 * magic[3])
    if len(head) != 4 * magic[3]:
        raise DataError(f"{path}: damaged idx file (ends within its header)")
    shape = struct.unpack(f">{magic[3]}I", head)
    if not all(shape) and math.prod(filter(None, shape)) > _CHUNK:
        raise DataError(f"{path}: damaged idx file (nothing in it, its shape is {' x '.join(map(str, shape))})")
    return shape


def _count(images: Path, labels: Path) -> int:
    many, named = idx_shape(images)[0], idx_shape(labels)[0]
    if many != named:
        raise DataError(f"{labels}: {named} labels for the {many} images of {images.name}")
    return many


def _read_pair(images: Path, labels: Path, classes: int) -> tuple[Pixels, Labels]:
    pixels, marks = read_idx(images), read_idx(labels).astype(np.int64)
    check_labels(labels, marks, classes)
    return pixels[:, np.newaxis], marks


def _train_and_test(folder: Path, what: str, files: list[Path]) -> tuple[Path, Path]:
    """By name where the names say it, otherwise the longer file is the training file."""
    train = [path for path in files if "train" in path.name.lower()]
    test = [path for path in files if re.search(r"t10k|test|val", path.name.lower())]
    if len(train) == 1 and len(test) == 1 and train != test:
        return train[0], test[0]
    lengths = {path: idx_shape(path)[0] for path in files}
    if len(set(lengths.values())) == len(files) == 2:
        longer, shorter = sorted(files, key=lengths.__getitem__, reverse=True)
        return longer, shorter
    names = ", ".join(path.name for path in files) or "none"
    raise DataError(f"{folder}: needs one idx {what} file for training and one for test, found {names}")
