"""Reading of untrusted files: up to a stated size, never through a link, and with every
parser error caught.

A problem with a file is reported in one line that names the file.
"""

import errno
import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli

from headgate.errors import DataError
from headgate.escaping import one_line
from headgate.limits import JSON, RECIPE, check_memory


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open a plain file for reading, without following a link or waiting for a pipe."""
    try:
        descriptor = os.open(
            path,
            os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0),
        )
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise DataError(f"{path}: cannot be read (it is no plain file)")
        with open(descriptor, "rb") as file:
            yield file
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise DataError(f"{path}: cannot be read ({why})") from None
    except ValueError:
        raise DataError(f"{str(path)!r}: is no name of a file") from None


def read_bytes(path: Path, most: int = RECIPE) -> bytes:
    """Return the content of a plain file of at most `most` bytes; links and pipes are
    not read.
    """
    with opened(path) as file:
        content = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
    if len(content) > most:
        raise DataError(
            f"{path}: is larger than {most / 2**20:,.0f} MiB, the most that is read of"
            " it here"
        )
    return content


def read_text(path: Path, most: int = RECIPE) -> str:
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path}: is damaged, it is not UTF-8 text") from None


def csv_text(path: Path, content: bytes) -> str:
    """Return the text of a CSV file, which must be UTF-8 and have commas between its
    columns.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start + 1} is not UTF-8 text; save the file as CSV"
            " UTF-8"
        ) from None
    header = text.partition("\n")[0]
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if separator in header and "," not in header:
            raise DataError(
                f"{path}: has {name} between its columns; save it as CSV with commas"
                " between columns and points in numbers"
            )
    return text


def remedy_of_number(text: str) -> str:
    """Return what to do about a text that should be a number, or nothing.

    >>> remedy_of_number("1.234,5"), remedy_of_number("many")
    ('; write it with a point: 1234.5', '')
    """
    whole, comma, part = text.strip().rpartition(",")
    digits = whole.replace(".", "")
    if not comma or not digits.lstrip("+-").isdecimal() or not part.isdecimal():
        return ""
    return f"; write it with a point: {digits}.{part}"


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file of settings, in which infinity is allowed."""
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML text; `name` is its name in error messages."""
    try:
        return tomli.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number with thousands of digits raises a plain ValueError
        raise DataError(f"{name}: not valid TOML ({one_line(error, 200)})") from None


def read_object(path: Path, most: int = JSON) -> dict[str, Any]:
    """Return the value of a JSON file, which must be an object."""
    text = read_text(path, most)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({one_line(error, 200)})") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: must hold a JSON object")
    return value


def check_parquet(
    path: Path,
    content: bytes | None = None,
    most: int | None = None,
) -> int:
    """Return the number of rows in a parquet file's footer; raise an error for more
    than `most` or than memory allows.

    The memory is estimated at 8 bytes a value: the unpacked size of texts and lists is
    unknown. `content`: that of the file.
    """
    import polars as pl

    try:
        size = path.stat().st_size if content is None else len(content)
        scan = pl.scan_parquet(
            path if content is None else io.BytesIO(content),
            glob=False,
            hive_partitioning=False,
        )
        columns, rows = (
            len(scan.collect_schema()),
            int(scan.select(pl.len()).collect().item()),
        )
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(f"{path}: is damaged ({one_line(error, 200)})") from None
    if most is None:
        check_memory(
            f"{path}: {rows:,} rows of {columns:,} columns take",
            size + rows * columns * 8,
        )
    elif rows > most:
        raise DataError(f"{path}: {rows:,} rows; at most {most:,}")
    return rows
