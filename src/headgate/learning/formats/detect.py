"""Which layout lies in a folder, told by the first bytes of its files."""

import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path

from headgate.errors import DataError
from headgate.learning.formats import cifar, idx
from headgate.learning.formats.checks import reason
from headgate.learning.formats.folder import find_image_folder
from headgate.learning.formats.types import PictureFiles


def _assemble_parquet(folder: Path, files: list[Path]) -> PictureFiles:
    from headgate.learning.formats import parquet  # and with it polars, which nothing else here needs

    return parquet.assemble(folder, files)


_ASSEMBLE: dict[str, Callable[[Path, list[Path]], PictureFiles]] = {
    "idx": idx.assemble,
    "parquet": _assemble_parquet,
    "records": cifar.assemble_records,
    "python": cifar.refuse_python,
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
    if path.suffix.lower() == ".bin" and head and head[0] < 10 and path.stat().st_size % cifar.RECORD == 0:
        return "records"
    return ""


def _promise(name: str) -> str:
    """The format a file's name stands for, so that a damaged file is not passed over in silence."""
    if name.endswith(".parquet"):
        return "parquet"
    if "idx" in name and "ubyte" in name:
        return "idx"
    if re.fullmatch(r"(data|test)_batch(_\d+)?\.bin", name):
        return f"a cifar-10-batches-bin file ({cifar.RECORD} bytes an image)"
    return ""
