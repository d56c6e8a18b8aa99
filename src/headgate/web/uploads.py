"""What may be sent to the page: one body of a known kind and of limited size, and prices as CSV."""

import csv
import io
import json
from typing import Any

import numpy as np
from starlette.requests import Request

from headgate.control.prices import Trace
from headgate.errors import DataError, HeadgateError
from headgate.escaping import shown

MOST_CSV = 256 * 2**10
MOST_JSON = 2 * 2**20
MOST_PRICES = 100_000


class Refused(HeadgateError):
    """A request that is answered with `status` and nothing else."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def body(request: Request, kind: str, most: int) -> bytes:
    """All of it, or a refusal as soon as it is known to be too large.

    Pages elsewhere can send forms and plain text unasked, but neither of the kinds that are taken here.
    """
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said != kind:
        raise Refused(415, f"content-type = {said[:100]!r}: must be {kind}")
    length = request.headers.get("content-length", "")
    if length.isdigit() and len(length) < 20 and int(length) > most:
        raise Refused(413, f"content-length = {length}: at most {most} bytes are taken")
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > most:
            raise Refused(413, f"body: more than {most} bytes")
    return bytes(read)


def json_object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"body: not valid JSON ({str(error)[:200]})") from None
    if not isinstance(value, dict):
        raise Refused(400, "body: must be a JSON object")
    return value


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def prices_of(text: bytes, column: str | None = None) -> dict[str, Any]:
    """The prices in one column of a CSV file, checked, with what they come to; price or cost, where none is named."""
    try:
        lines = csv.reader(io.StringIO(text.decode("utf-8-sig"), newline=""), strict=True)
        columns = [name.strip() for name in next(lines, [])]
        column = column or ("cost" if "cost" in columns and "price" not in columns else "price")
        if column not in columns:
            there = ", ".join(name[:40] for name in columns[:20]) or "none"
            raise DataError(f'trace: no column "{shown(column)}"; it has {shown(there, 300)}')
        place, prices = columns.index(column), list[float]()
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            if len(prices) == MOST_PRICES:
                raise DataError(f"trace: more than {MOST_PRICES} prices")
            try:
                prices.append(float(line[place]))
            except (ValueError, IndexError):
                said = shown(line[place], 40) if place < len(line) else ""
                raise DataError(f'trace: "{said}" in row {number} of column "{shown(column)}" is not a number') from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"trace: cannot be read as CSV ({str(error)[:100]})") from None
    known = np.array(Trace(tuple(prices)).prices)
    return {
        "column": column,
        "columns": columns,
        "count": known.size,
        "prices": known.tolist(),
        "least": float(known.min()),
        "most": float(known.max()),
        "mean": float(known.mean()),
    }
