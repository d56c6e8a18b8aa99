"""How large a parquet file is when it is read, told from its footer and the heads of its pages, before any is unpacked.

A file of some kilobytes may hold millions of values, by repetition or compression. Its own numbers are not believed where
they can be counted: every page says how many values it has and how large it becomes.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from headgate.errors import DataError

MAGIC = b"PAR1"
MOST_PAGES = 100_000
MOST_DEPTH = 12
MOST_VALUE = 64
"""bytes of a value when its page is unpacked, in the mean: numbers have 8, names of policies more"""
SPARE = 2**20
"""bytes more that a column may have: of its heads, its dictionary and its levels"""
Struct = dict[int, Any]
"""fields of a structure by number, as Thrift's compact protocol has them"""


def check_size(path: Path, content: bytes, columns: Collection[str], most: int) -> None:
    """Refuses a table whose columns hold more than `most` values each, or more bytes than so many values can have."""
    try:
        end = len(content) - 8
        length = int.from_bytes(content[end : end + 4], "little")
        if content[:4] != MAGIC or content[-4:] != MAGIC or not 0 < length < end:
            raise DataError(f"{path.name}: is damaged, it is no parquet file")
        footer, _ = _struct(content, end - length)
        values, sizes = dict.fromkeys(columns, 0), dict.fromkeys(columns, 0)
        for chunk in [chunk[3] for group in footer.get(4, ()) for chunk in group[1]]:
            name = chunk[3][0].decode()
            if name in values:
                own, size = _unpacked(content, chunk)
                values[name] += own
                sizes[name] += size
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path.name}: is damaged, its footer cannot be read ({type(error).__name__})") from None
    for name, own in values.items():
        if own > most or sizes[name] > most * MOST_VALUE + SPARE:
            said = f"{own:,} values of {name} in {sizes[name]:,} bytes"
            raise DataError(f"{path.name}: holds {said}, more than the {most:,} that the run can have")


def _unpacked(content: bytes, chunk: Struct) -> tuple[int, int]:
    """(values, bytes) of the pages of a column; a dictionary counts as bytes alone."""
    place = min(chunk[9], chunk.get(11) or chunk[9])
    end, values, size = place + chunk[7], 0, 0
    for _ in range(MOST_PAGES):
        if place >= end:
            return max(values, chunk[5]), max(size, chunk[6])
        page, place = _struct(content, place)
        size += page[2]
        values += (page.get(5) or page.get(8) or {}).get(1, 0)
        if page[2] < 0 or page[3] < 0:
            break
        place += page[3]
    raise ValueError


def _struct(content: bytes, place: int, depth: int = 0) -> tuple[Struct, int]:
    """A structure and where it ends; a damaged one ends in an IndexError or a ValueError."""
    if place < 0 or depth > MOST_DEPTH:
        raise ValueError
    found, number = Struct(), 0
    while head := content[place]:
        place += 1
        if head >> 4:
            number += head >> 4
        else:
            value, place = _number(content, place)
            number = (value >> 1) ^ -(value & 1)
        found[number], place = _value(content, place, head & 15, depth)
    return found, place + 1


def _value(content: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if 4 <= kind <= 6:
        value, place = _number(content, place)
        return (value >> 1) ^ -(value & 1), place
    if kind == 8:
        length, place = _number(content, place)
        if length > len(content) - place:
            raise ValueError
        return content[place : place + length], place + length
    if kind == 12:
        return _struct(content, place, depth + 1)
    if kind in (1, 2):
        return kind == 1, place
    if kind == 9:
        head, place = content[place], place + 1
        length, kind = head >> 4, head & 15
        if length == 15:
            length, place = _number(content, place)
        if length > len(content) - place:
            raise ValueError
        listed = []
        for _ in range(length):
            value, place = (content[place], place + 1) if kind in (1, 2) else _value(content, place, kind, depth + 1)
            listed.append(value)
        return listed, place
    if kind in (3, 7):
        return None, place + (1 if kind == 3 else 8)
    raise ValueError


def _number(content: bytes, place: int) -> tuple[int, int]:
    byte = content[place]
    if byte < 128:
        return byte, place + 1
    value = byte & 127
    for shift in range(7, 70, 7):
        place += 1
        byte = content[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place + 1
    raise ValueError
