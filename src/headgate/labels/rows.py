"""Rows of CSV and JSONL files that other people write: read one by one, and refused one
by one with a reason.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headgate.errors import DataError
from headgate.escaping import cell, one_line
from headgate.limits import TABLE
from headgate.reading import csv_text, read_bytes, read_text
from headgate.writing import check_no_link, replace_file

ENDS = (".csv", ".jsonl")
"""the ends of the names of files that are read"""
REFUSED = ".refused.csv"
"""the end of the name of a report of refused rows, beside the file that it is about"""
COLUMNS = 200
"""the most columns of a row"""
VALUE = 2**20
"""the most characters of a value"""


class Row(NamedTuple):
    """A row of a file.

    Parameters
    ----------
    number : int
        Its number in the file as an editor counts it, from 1 on.
    values : dict of str to JSON
        Its values by the name of the column; those of a CSV file are texts.
    """

    number: int
    values: dict[str, Any]


class Refusal(NamedTuple):
    """Why a row is not taken; number 0 is the whole file."""

    number: int
    key: str
    why: str


def is_table(path: Path) -> bool:
    """Return whether a file is one of rows, and not a report or an incomplete file."""
    name = path.name
    return (
        name.endswith(ENDS) and not name.startswith(".") and not name.endswith(REFUSED)
    )


def rows_in(path: Path, refused: list[Refusal]) -> Iterator[Row]:
    """Yield the rows of a CSV or JSONL file.

    Parameters
    ----------
    path : Path
        The file. Links are not followed, and a file above the limit is not read.
    refused : list of Refusal
        Rows that cannot be read are appended here, and the file itself if it cannot.
    """
    read = _csv_rows if path.suffix == ".csv" else _json_rows
    try:
        yield from read(path, refused)
    except (DataError, csv.Error) as error:
        why = one_line(error).removeprefix(f"{path}: ")
        refused.append(Refusal(0, "", why))


def _csv_rows(path: Path, refused: list[Refusal]) -> Iterator[Row]:
    text = csv_text(path, read_bytes(path, TABLE))
    csv.field_size_limit(VALUE)
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = [name.strip() for name in next(rows, [])]
    _check_header(path, header)
    for values in rows:
        if not any(values):
            continue
        if len(values) > len(header):
            why = (
                f"has {len(values)} columns, the header has {len(header)}; put a value"
                " with a comma between double quotes"
            )
            refused.append(Refusal(rows.line_num, values[0], why))
            continue
        yield Row(rows.line_num, dict(zip(header, values, strict=False)))


def _check_header(path: Path, header: list[str]) -> None:
    if len(header) > COLUMNS:
        raise DataError(f"{path}: has {len(header)} columns; at most {COLUMNS}")
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise DataError(f"{path}: has column {twice[0]!r} twice")


def _json_rows(path: Path, refused: list[Refusal]) -> Iterator[Row]:
    text = read_text(path, TABLE).removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield Row(number, _object(line))
        except (ValueError, RecursionError) as error:
            refused.append(Refusal(number, "", f"not valid JSON ({one_line(error)})"))


def _object(line: str) -> dict[str, Any]:
    if len(line) > VALUE:
        raise ValueError(f"the line is longer than {VALUE} characters")
    value = json.loads(line, parse_constant=_no_number)
    if not isinstance(value, dict):
        raise ValueError("the line must hold an object, as {...}")
    if len(value) > COLUMNS:
        raise ValueError(f"{len(value)} values; at most {COLUMNS}")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def report(path: Path, refused: Iterable[Refusal]) -> int:
    """Write which rows of a file were refused into a report beside it, and remove the
    report if there are none; return their number.
    """
    beside = path.with_name(path.name + REFUSED)
    rows = [each._asdict() for each in refused]
    check_no_link(beside)
    if rows:
        replace_csv(beside, Refusal._fields, rows)
    else:
        beside.unlink(missing_ok=True)
    return len(rows)


def replace_csv(
    path: Path,
    columns: Iterable[str],
    rows: Iterable[Mapping[str, Any]],
) -> None:
    """Write a CSV file whole or not at all. No text in it is a formula to a
    spreadsheet.
    """
    content = io.StringIO(newline="")
    writer = csv.DictWriter(content, list(columns))
    writer.writeheader()
    for row in rows:
        writer.writerow({name: as_cell(value) for name, value in row.items()})
    # spreadsheets take a file for UTF-8 by its first three bytes
    replace_file(path, content.getvalue().encode("utf-8-sig"))


def as_cell(value: Any) -> str:
    """Return a value of JSON as the text of a cell.

    >>> as_cell("=1+1"), as_cell(["a", 1]), as_cell(None)
    ("'=1+1", '["a", 1]', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return cell(value)
    return json.dumps(value, ensure_ascii=False)
