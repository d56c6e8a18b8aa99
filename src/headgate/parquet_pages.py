"""What a parquet file becomes in memory, told by its footer and the headers of its pages before any of them is unpacked.

Readers take the sizes in these headers at their word, so a few bytes may ask for gigabytes. The headers are Thrift's compact
protocol; of it only what they use is read here.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from headgate.errors import DataError
from headgate.limits import RATIO, SMALL, check_memory

BY_VALUE = 24
"""bytes for every value, beside its own"""
PREFIXES = 7
"""the encoding DELTA_BYTE_ARRAY: each text begins as the one before, so texts may grow without end"""
_MAGIC, _HEADER, _FOOTER, _DEEP = b"PAR1", 1 << 16, 1 << 26, 20
_ROWS, _GROUPS, _COLUMNS, _CHUNK, _VALUES, _COMPRESSED, _DATA_PAGE, _DICTIONARY = 3, 4, 1, 3, 5, 7, 9, 11
"""the numbers that the format gives to the fields"""


def check_parquet(path: Path) -> int:
    """The rows of the file, refused where it would take more memory than it may."""
    try:
        with path.open("rb") as file:
            rows, wanted = _sizes(file)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DataError(f"{path}: damaged parquet file ({str(error)[:100] or type(error).__name__})") from None
    check_growth(path, wanted, path.stat().st_size)
    return rows


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
    footer = _Compact(file.read(length)).struct()
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
        reader = _Compact(file.read(min(_HEADER, until - at)))
        page = reader.struct()
        if page[3] < 0:
            raise ValueError("a page of negative size")
        at += reader.at + page[3]
        yield page


class _Compact:
    """Thrift's compact protocol: structs as dicts by field number."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEP:
            raise ValueError("too deep")
        fields: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            step = head >> 4
            number = number + step if step else self.signed()
            fields[number] = self.value(head & 15, depth)
        return fields

    def value(self, kind: int, depth: int, inside: bool = False) -> Any:
        if kind in (1, 2):
            return self.byte() == 1 if inside else kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.signed()
        if kind == 7:
            return self.some(8)
        if kind == 8:
            return self.some(self.whole())
        if kind in (9, 10):
            return self.list(depth)
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("an unknown type in a header")

    def list(self, depth: int) -> list[Any]:
        head = self.byte()
        many = self.whole() if head >> 4 == 15 else head >> 4
        if many > len(self.data) - self.at:
            raise ValueError("a list beyond the end")
        return [self.value(head & 15, depth + 1, inside=True) for _ in range(many)]

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def some(self, many: int) -> bytes:
        if many > len(self.data) - self.at:
            raise ValueError("a text beyond the end")
        self.at += many
        return self.data[self.at - many : self.at]

    def whole(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number without end")

    def signed(self) -> int:
        value = self.whole()
        return value >> 1 ^ -(value & 1)
