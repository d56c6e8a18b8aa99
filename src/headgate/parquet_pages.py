"""What a parquet file becomes in memory, told by its footer and the headers of its pages before any of them is unpacked.

Readers take the sizes in these headers at their word, so a few bytes may ask for gigabytes. The headers are Thrift's compact
protocol; of it only what they use is read here.
"""

import io
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

from headgate.errors import DataError
from headgate.limits import RATIO, SMALL, check_memory

BY_NAME = 64
"""bytes of a value of a run's table, in the mean: numbers have 8, names of policies more"""
BY_VALUE = 24
"""bytes for every value, beside its own"""
PREFIXES = 7
"""the encoding DELTA_BYTE_ARRAY: each text begins as the one before, so texts may grow without end"""
_MAGIC, _HEADER, _FOOTER, _DEEP = b"PAR1", 1 << 16, 1 << 26, 20
_ROWS, _GROUPS, _COLUMNS, _CHUNK, _VALUES, _COMPRESSED, _DATA_PAGE, _DICTIONARY = 3, 4, 1, 3, 5, 7, 9, 11
"""the numbers that the format gives to the fields"""
_PATH = 3
_DAMAGES = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


def check_parquet(path: Path, content: bytes | None = None) -> int:
    """The rows of the file, refused where it would take more memory than it may. `content`: what was read of it already."""
    try:
        with path.open("rb") if content is None else io.BytesIO(content) as file:
            rows, wanted = _sizes(file)
            size = file.seek(0, os.SEEK_END)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except _DAMAGES as error:
        raise DataError(f"{path}: damaged parquet file ({str(error)[:100] or type(error).__name__})") from None
    check_growth(path, wanted, size)
    return rows


def check_values(what: str, content: bytes, columns: Collection[str], most: int) -> None:
    """Refuses a file, which is in memory, if one of these columns has more than `most` values, or bytes for more."""
    try:
        length = int.from_bytes(content[-8:-4], "little")
        if content[-4:] != _MAGIC or not 0 < length <= len(content) - 8:
            raise ValueError("no footer")
        footer, _ = _struct(content[-8 - length : -8])
        values, sizes = dict.fromkeys(columns, 0), dict.fromkeys(columns, 0)
        for chunk in [column[_CHUNK] for group in footer.get(_GROUPS, []) for column in group[_COLUMNS]]:
            name = chunk[_PATH][0].decode()
            if name in values:
                many, size = _column(content, chunk)
                values[name] += many
                sizes[name] += size
    except _DAMAGES as error:
        raise DataError(f"{what}: is damaged, it is no parquet file ({str(error)[:100] or type(error).__name__})") from None
    for name, many in values.items():
        if many > most or sizes[name] > most * BY_NAME + 2**20:
            said = f"{many:,} values of {name} in {sizes[name]:,} bytes"
            raise DataError(f"{what}: holds {said}, more than the {most:,} that the run can have")


def _column(content: bytes, chunk: dict[int, Any]) -> tuple[int, int]:
    """(values, bytes) of one column of one group of rows, as its pages unpack; a dictionary has bytes alone."""
    at = min(place for place in (chunk[_DATA_PAGE], chunk.get(_DICTIONARY)) if place)
    until, many, size = at + chunk[_COMPRESSED], 0, 0
    while at < until:
        page, at = _struct(content, at)
        inside = page.get(5) or page.get(8) or {}
        own = inside.get(1, 0)
        if page[2] < 0 or page[3] < 0 or own < 0:
            raise ValueError("a page of negative size")
        if inside.get(2 if 5 in page else 4) == PREFIXES:
            raise ValueError("texts that begin as the one before are not read")
        many, size, at = many + own, size + page[2], at + page[3]
    return max(many, chunk[_VALUES]), size


def check_growth(path: object, wanted: float, size: float) -> None:
    """That what takes `size` bytes on disk may become `wanted` bytes in memory."""
    if wanted > max(SMALL, RATIO * size):
        raise DataError(f"{path}: {size:,.0f} bytes become {wanted:,.0f}; at most {RATIO} times as many")
    check_memory(f"{path}: takes", wanted)


def _sizes(file: IO[bytes]) -> tuple[int, int]:
    """(rows, bytes that all columns take)."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(end - 8, 0))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or not 0 < length <= min(end - 8, _FOOTER):
        raise ValueError("no footer")
    file.seek(end - 8 - length)
    footer, _ = _struct(file.read(length))
    groups = footer.get(_GROUPS, [])
    wanted = sum(_chunk(file, column[_CHUNK], end) for group in groups for column in group[_COLUMNS])
    return int(footer[_ROWS]), wanted + length


def _chunk(file: IO[bytes], chunk: dict[int, Any], end: int) -> int:
    """Bytes of one column of one group of rows."""
    at = min(place for place in (chunk[_DATA_PAGE], chunk.get(_DICTIONARY)) if place)
    until, wanted = at + chunk[_COMPRESSED], chunk[_VALUES] * BY_VALUE
    if not 0 < at <= until <= end or chunk[_VALUES] < 0:
        raise ValueError("a column lies outside the file")
    for page in _pages(file, at, until):
        unpacked, inside = page[2], page.get(5) or page.get(8) or page.get(7) or {}
        values = inside.get(1, 0)
        if unpacked < 0 or values < 0:
            raise ValueError("a page of negative size")
        if inside.get(2 if 5 in page else 4) == PREFIXES:
            raise ValueError("texts that begin as the one before are not read")
        wanted += unpacked + values * BY_VALUE
    return int(wanted)


def _pages(file: IO[bytes], at: int, until: int) -> Iterator[dict[int, Any]]:
    """The headers of the pages from `at` on."""
    while at < until:
        file.seek(at)
        page, length = _struct(file.read(min(_HEADER, until - at)))
        if page[3] < 0:
            raise ValueError("a page of negative size")
        at += length + page[3]
        yield page


# Thrift's compact protocol: structs as dicts by field number, and where they end


def _struct(data: bytes, at: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
    if at < 0 or depth > _DEEP:
        raise ValueError("too deep")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        kind = head & 15
        if 4 <= kind <= 6 and data[at] < 128:  # most fields are small numbers, and every file is looked at
            fields[number] = data[at] >> 1 ^ -(data[at] & 1)
            at += 1
        else:
            fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if 4 <= kind <= 6:
        return _signed(data, at)
    if kind in (7, 8):
        many, at = _whole(data, at) if kind == 8 else (8, at)
        if many > len(data) - at:
            raise ValueError("a text beyond the end")
        return data[at : at + many], at + many
    if kind == 12:
        return _struct(data, at, depth + 1)
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (9, 10):
        return _list(data, at, depth)
    raise ValueError("an unknown type in a header")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    many, kind = data[at] >> 4, data[at] & 15
    many, at = _whole(data, at + 1) if many == 15 else (many, at + 1)
    if many > len(data) - at:
        raise ValueError("a list beyond the end")
    found = []
    for _ in range(many):
        each, at = (data[at] == 1, at + 1) if kind in (1, 2) else _value(data, at, kind, depth + 1)
        found.append(each)
    return found, at


def _whole(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number without end")


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _whole(data, at)
    return value >> 1 ^ -(value & 1), at
