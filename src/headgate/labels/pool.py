"""Files of unlabelled samples, read again whenever they have grown."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headgate.errors import DataError
from headgate.labels.rows import Refusal, Row, report, rows_in
from headgate.labels.tasks import Tasks
from headgate.limits import LINE

TAKEN = ("round", "label", "state", "why", "rejected")
"""columns of tasks and labels, which a sample cannot have"""


def take_new(tasks: Tasks, client: str, path: Path) -> tuple[int, int]:
    """Take the new samples of a client's file; return how many there are, and how many
    rows were refused. The reasons are in a report beside the file.

    A sample is known by its `key`, or by a digest of all its values if it has none.
    Samples that were taken stay, also if the file loses them.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    mark = f"{found.st_mtime_ns} {found.st_size}"
    name = f"samples/{client}"
    if tasks.mark_of(name) == mark:
        return 0, 0
    refused = list[Refusal]()
    new = tasks.take(name, mark, client, _samples(path, refused))
    return new, report(path, refused)


def _samples(
    path: Path, refused: list[Refusal]
) -> Iterator[tuple[str, dict[str, Any]]]:
    seen = set[str]()
    for row in rows_in(path, refused):
        try:
            key, data = _sample(row)
        except ValueError as error:
            refused.append(Refusal(row.number, "", str(error)))
            continue
        if key in seen:
            refused.append(Refusal(row.number, key, "is in the file already"))
            continue
        seen.add(key)
        yield key, data


def _sample(row: Row) -> tuple[str, dict[str, Any]]:
    data = dict(row.values)
    taken = [name for name in TAKEN if name in data]
    if taken:
        raise ValueError(f"has a column {taken[0]!r}, which is that of an answer")
    key = data.pop("key", "")
    if key == "":
        text = json.dumps(data, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16], data
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise ValueError("key: must be text")
    key = str(key)
    if len(key) > LINE or not key.isprintable() or key != key.strip():
        raise ValueError(f"key: must be one line of at most {LINE} printable ones")
    return key, data
