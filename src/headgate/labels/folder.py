"""A label queue of plain files: a file of tasks for each order, and files of labels
that come back, for a colleague with a spreadsheet or a firm that transfers files.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from headgate.control.checks import amount
from headgate.errors import SettingError
from headgate.escaping import cell, one_line, shown
from headgate.labels.nouns import (
    LABELLED,
    REJECTED,
    SKIPPED,
    Fate,
    Keys,
    LabelAnswer,
    LabelTask,
    Later,
    Queue,
)
from headgate.labels.rows import (
    Refusal,
    Row,
    is_table,
    replace_csv,
    report,
    rows_in,
)
from headgate.writing import replace_file

FORMATS = ("csv", "jsonl")
WITHDRAWN = "withdrawn.csv"
PATIENCE = 5.0
"""the most seconds that a look waits for a file that was just written"""
LONGEST = 10_000
"""the most characters of a label and of a reason"""
STATES: dict[str, Fate] = {
    "": LABELLED,
    "label": LABELLED,
    "labelled": LABELLED,
    "labeled": LABELLED,
    "skip": SKIPPED,
    "skipped": SKIPPED,
    "reject": REJECTED,
    "rejected": REJECTED,
}
"""what column `state` may say; with an empty one the label counts"""


class Mark(NamedTuple):
    """Time and size of a file, by which a change is noticed."""

    changed: int
    size: int


def _mark(path: Path) -> Mark:
    found = path.lstat()
    return Mark(found.st_mtime_ns, found.st_size)


@dataclass
class FolderQueue(Queue):
    """A queue of plain files.

    For each order a file with a row for each task is written to
    `tasks/CLIENT/round-0001.csv`. People fill in the column `label` and put
    the file, or one of their own with the columns `key` and `label`, into
    `labels/CLIENT/`. Column `state` may say `skipped` or `rejected`, and column `why`
    the reason. A row that cannot be taken is listed, with a reason, in a report beside
    its file.

    Parameters
    ----------
    tasks : str
        Folder of the tasks, relative to the gate's file.
    labels : str
        Folder of the labels; it may be that of the tasks, whose files are filled in
        then where they are.
    format : "csv" or "jsonl", default "csv"
        Format of the files of tasks. Labels may be in either.
    settled : float, default 2.0
        Seconds for which a file must not have changed before it is read, so that no
        half of a file is.
    """

    tasks: str = field(metadata={"path": True})
    labels: str = field(metadata={"path": True})
    format: str = "csv"
    settled: float = 2.0
    _read: dict[Path, Mark] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise SettingError(
                f"format = {shown(self.format)}: must be one of {', '.join(FORMATS)}"
            )
        amount("settled", self.settled, 0)

    # release

    def release(self, tasks: Sequence[LabelTask]) -> None:
        with _reached(self.tasks):
            of_order = attrgetter("client", "round")
            for (client, t), own in groupby(sorted(tasks, key=of_order), of_order):
                self._write(_made(Path(self.tasks) / client), t, list(own))
                _made(Path(self.labels) / client)

    def _write(self, folder: Path, t: int, tasks: Sequence[LabelTask]) -> None:
        """Write those tasks of an order that no file of it has."""
        first = folder / f"round-{t:04}.{self.format}"
        more = (first.with_stem(f"{first.stem}-{number}") for number in count(2))
        path, there = first, set[str]()
        while path.exists() or path.is_symlink():
            there |= {str(row.values.get("key", "")) for row in rows_in(path, [])}
            path = next(more)
        new = [task for task in tasks if not {task.key, cell(task.key)} & there]
        if new:
            self._write_tasks(path, new)

    def _write_tasks(self, path: Path, tasks: Sequence[LabelTask]) -> None:
        rows = [
            {"key": task.key, "round": task.round, **task.data, "label": None}
            for task in tasks
        ]
        if path.suffix == ".csv":
            columns = dict.fromkeys(name for row in rows for name in row)
            last = {"label": None, "state": None, "why": None}
            ordered = {**{name: None for name in columns if name != "label"}, **last}
            replace_csv(path, ordered, rows)
            return
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        replace_file(path, "".join(lines).encode("utf-8", "backslashreplace"))

    # collect

    def collect(self, known: Mapping[str, Mapping[str, str]]) -> Iterable[LabelAnswer]:
        with _reached(self.labels):
            for client, own in known.items():
                yield from self._answers(client, own)

    def _answers(self, client: str, known: Mapping[str, str]) -> Iterator[LabelAnswer]:
        """Return the answers in the files of a client that have changed."""
        folder = _made(Path(self.labels) / client)
        changed = list(self._changed(folder))
        if not changed:
            return
        as_cells = {cell(key): key for key in known}
        for path, mark in changed:
            refused = list[Refusal]()
            for row in rows_in(path, refused):
                try:
                    answer = _answer(client, as_cells, row)
                except ValueError as error:
                    key = one_line(row.values.get("key", ""), 100)
                    refused.append(Refusal(row.number, key, str(error)))
                    continue
                if answer is not None:
                    yield answer
            if not report(path, refused):  # a key may become that of a task later
                self._read[path] = mark

    def _changed(self, folder: Path) -> Iterator[tuple[Path, Mark]]:
        """Yield the files that were not read as they are now, by name."""
        for path in sorted(folder.iterdir()):
            if not is_table(path) or path.name == WITHDRAWN:
                continue
            mark = _mark(path)
            if self._read.get(path) != mark and self._is_settled(path, mark):
                yield path, mark

    def _is_settled(self, path: Path, mark: Mark) -> bool:
        """Return whether nobody writes a file any more, which may take a moment."""
        age = time.time() - mark.changed / 1e9
        if age >= self.settled:
            return True
        if age < 0 or self.settled > PATIENCE:
            return False
        time.sleep(self.settled - age)
        return _mark(path) == mark

    # withdraw

    def withdraw(self, keys: Keys) -> None:
        with _reached(self.tasks):
            for client, own in keys.items():
                path = _made(Path(self.tasks) / client) / WITHDRAWN
                before = rows_in(path, []) if path.exists() else ()
                known = dict.fromkeys(str(row.values.get("key")) for row in before)
                all_of_them = {**known, **dict.fromkeys(map(cell, own))}
                if len(all_of_them) > len(known):
                    rows = [{"key": key} for key in all_of_them]
                    replace_csv(path, ["key"], rows)


def _answer(client: str, as_cells: Mapping[str, str], row: Row) -> LabelAnswer | None:
    """Return the answer in a row, or None if it has none yet; raise ValueError if the
    row says what cannot be.
    """
    values = row.values
    written = _text(values, "key").strip()
    if not written:
        raise ValueError("has no key")
    label, word = values.get("label"), _text(values, "state").strip().lower()
    if isinstance(label, str):
        label = label.strip() or None
    if label is None and not word:
        return None
    key = as_cells.get(written, as_cells.get(cell(written)))
    if key is None:
        raise ValueError(
            f"is no task of {client}; a spreadsheet may have changed the key, as 0012"
            " to 12"
        )
    if word not in STATES:
        raise ValueError(
            f"state {shown(repr(word))}: must be labelled, skipped or rejected"
        )
    state = STATES[word]
    if state == LABELLED and label is None:
        raise ValueError("is labelled and has no label")
    if len(json.dumps(label)) > LONGEST:
        raise ValueError(f"label: longer than {LONGEST} characters")
    why = one_line(_text(values, "why"))
    return LabelAnswer(client, key, state, label if state == LABELLED else None, why)


def _text(values: Mapping[str, Any], name: str) -> str:
    """Return a value that must be a text; a number is one, and a missing one is
    empty.
    """
    value = values.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{name} {shown(repr(value))}: must be text")
    return str(value)


@contextmanager
def _reached(folder: str) -> Iterator[None]:
    """Raise `Later` if a folder, as of a network drive, cannot be used now."""
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        raise Later(f"{place}: cannot be used now ({error.strerror})") from None


def _made(folder: Path) -> Path:
    """Return the folder of a client, made if it does not exist; never through a
    link.
    """
    folder.parent.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    if folder.is_symlink():
        raise Later(f"{folder}: is a link; nothing is read or written through it")
    return folder
