"""Where a client's samples come from: a function, arrays, a folder that fills up, a file of JSON lines or CSV that grows.

A source is asked for the samples after a cursor and tells the new cursor, which is stored together with the samples: what
was admitted before a crash is never asked for again, and what was not is not skipped. Labels may come later than samples.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.control.scores import Scores
from headgate.errors import DataError

Label = int | float | str
Taken = Callable[[str], bool]
"""whether a sample with this key was ever admitted"""


class Sample(NamedTuple):
    """A sample as it is stored: where it comes from, its bytes, and its label if that is known."""

    key: str
    payload: bytes
    label: Label | None = None


class HeldSample(NamedTuple):
    """A sample as a client's store has it."""

    position: int
    key: str
    payload: bytes
    label: Label | None
    round: int = 0
    """in which it was admitted"""


SampleScorer = Callable[[Sequence[HeldSample], tuple[str, ...]], Scores]
"""(samples, what is asked for) → what the model says of each of them"""


class Batch(NamedTuple):
    """Samples, and the cursor after them."""

    samples: list[Sample]
    cursor: int


class Source(Protocol):
    """The stream of one client."""

    def read(self, cursor: int, count: int, taken: Taken) -> Batch:
        """Up to `count` samples after `cursor`, 0 at the beginning; fewer where there are no more yet."""

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        """The labels of those of these samples, admitted without one, that have one now."""


@runtime_checkable
class SourceInRounds(Protocol):
    """A source whose samples depend on the round in which they are read."""

    def in_round(self, t: int) -> Source:
        """The same in round t."""


def pack(array: ArrayLike) -> bytes:
    """An array as a payload.

    >>> unpack(pack([[1, 2], [3, 4]]))
    array([[1, 2],
           [3, 4]])
    """
    file = io.BytesIO()
    np.save(file, np.asarray(array), allow_pickle=False)
    return file.getvalue()


def unpack(payload: bytes) -> NDArray[Any]:
    try:
        loaded: NDArray[Any] = np.load(io.BytesIO(payload), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"a payload of {len(payload)} bytes holds no array ({error})") from None
    return loaded


@dataclass(frozen=True)
class CallableSource:
    """Sample number 0, 1, 2, … by a function, which returns None where there is none yet."""

    function: Callable[[int], Sample | None]
    later: Callable[[Sequence[str]], Mapping[str, Label]] | None = None

    def read(self, cursor: int, count: int, taken: Taken) -> Batch:
        samples: list[Sample] = []
        while len(samples) < count and (sample := self.function(cursor + len(samples))) is not None:
            samples.append(sample)
        return Batch(samples, cursor + len(samples))

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        return self.later(keys) if self.later else {}


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Samples and labels that are all there already, one after the other; the payloads are arrays."""

    samples: Sequence[ArrayLike]
    targets: Sequence[Label]

    def read(self, cursor: int, count: int, taken: Taken) -> Batch:
        last = max(min(cursor + count, len(self.targets)), cursor)
        return Batch([Sample(str(i), pack(self.samples[i]), _scalar(self.targets[i])) for i in range(cursor, last)], last)

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        return {}


@dataclass(frozen=True)
class FolderSource:
    """Files of a folder in the order in which they came. The label of NAME is the text of NAME.label, which may come later.

    A file is whole when it appears under its name: write it under a name that begins with a dot, then rename it. It is copied
    when it is admitted, and may go afterwards.
    """

    path: Path | str
    pattern: str = "*"

    def read(self, cursor: int, count: int, taken: Taken) -> Batch:
        samples: list[Sample] = []
        for path in self._files():
            if len(samples) == count:
                break
            if not taken(path.name):
                samples.append(Sample(path.name, _content(path), self._label(path)))
        return Batch(samples, cursor + len(samples))

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        found = {key: self._label(Path(self.path) / key) for key in keys}
        return {key: label for key, label in found.items() if label is not None}

    def _files(self) -> Iterator[Path]:
        folder = Path(self.path)
        if not folder.is_dir():
            raise DataError(f"source {folder}: no such folder")
        files = [path for path in folder.glob(self.pattern) if path.is_file() and not path.name.startswith(".")]
        yield from sorted(
            (path for path in files if path.suffix != ".label"), key=lambda path: (path.stat().st_mtime_ns, path.name)
        )

    @staticmethod
    def _label(path: Path) -> Label | None:
        beside = path.with_name(f"{path.name}.label")
        return _plain(_content(beside).decode().strip()) if beside.is_file() else None


@dataclass(frozen=True)
class JsonLinesSource:
    """Objects, one a line, in a file that is only ever appended to; a line counts when its end is there.

    `label` is the field that holds the label; where it is missing or null, it may come later as a line of the file `later`
    with the fields `key` and `label`. A sample's key is its field `key`, or its place in the file. The payload is the line.
    """

    path: Path | str
    label: str = "label"
    later: Path | str | None = None

    def read(self, cursor: int, count: int, taken: Taken) -> Batch:
        samples: list[Sample] = []
        for place, line in _lines(Path(self.path), cursor):
            if len(samples) == count:
                break
            value = _object(Path(self.path), place, line)
            samples.append(Sample(str(value.get("key", place)), line, _label_of(self.path, value.get(self.label))))
            cursor = place + len(line) + 1
        return Batch(samples, cursor)

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        if self.later is None or not Path(self.later).is_file():
            return {}
        wanted, found = set(keys), {}
        for place, line in _lines(Path(self.later), 0):
            value = _object(Path(self.later), place, line)
            label = _label_of(self.later, value.get("label"))
            if value.get("key") in wanted and label is not None:
                found[str(value["key"])] = label
        return found


@dataclass(frozen=True)
class CsvSource:
    """Rows of a CSV file with a header, which is only ever appended to; a row is one line, and counts when its end is there.

    `label` names the column of the label; where it is empty, it may come later as a row of the CSV file `later` with the
    columns `key` and `label`. The payload is the row as a JSON object.
    """

    path: Path | str
    label: str = "label"
    later: Path | str | None = None

    def read(self, cursor: int, count: int, taken: Taken) -> Batch:
        samples: list[Sample] = []
        header: list[str] | None = None
        for place, line in _lines(Path(self.path), 0):
            row = next(csv.reader([line.decode()]), [])
            if header is None:
                header = row
                cursor = max(cursor, len(line) + 1)
                continue
            if place < cursor:
                continue
            if len(samples) == count:
                break
            value = _row(Path(self.path), place, header, row)
            label = _plain(value[self.label]) if value.get(self.label) else None
            samples.append(Sample(value.get("key", str(place)), json.dumps(value).encode(), label))
            cursor = place + len(line) + 1
        return Batch(samples, cursor)

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        if self.later is None or not Path(self.later).is_file():
            return {}
        wanted = set(keys)
        lines = [next(csv.reader([line.decode()]), []) for _, line in _lines(Path(self.later), 0)]
        rows = [_row(Path(self.later), number, lines[0], row) for number, row in enumerate(lines[1:], 1)]
        return {row["key"]: _plain(row["label"]) for row in rows if row.get("key") in wanted and row.get("label")}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"source {path}: cannot be read ({error.strerror})") from None


def _lines(path: Path, cursor: int) -> Iterator[tuple[int, bytes]]:
    """(where it begins, the line) of all complete lines after `cursor` bytes; empty ones are passed over."""
    try:
        with path.open("rb") as file:
            file.seek(cursor)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # somebody is still writing it
                if line.strip():
                    yield cursor, line[:-1]
                cursor += len(line)
    except OSError as error:
        raise DataError(f"source {path}: cannot be read ({error.strerror})") from None


def _object(path: Path, place: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise DataError(f"source {path}: the line at byte {place} is not a JSON object")
    return value


def _row(path: Path, place: int, header: list[str], row: list[str]) -> dict[str, str]:
    if len(row) != len(header):
        raise DataError(f"source {path}: the row at {place} has {len(row)} entries for {len(header)} columns")
    return dict(zip(header, row, strict=True))


def _label_of(path: Path | str, value: Any) -> Label | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float | str)):
        raise DataError(f"source {path}: label = {value!r} must be a number or text")
    return value


def _scalar(value: Any) -> Label:
    """A number of numpy's as one of Python's, which is what SQLite takes."""
    plain: Label = value.item() if isinstance(value, np.generic) else value
    return plain


def _plain(text: str) -> Label:
    """A number where it is one.

    >>> [_plain(text) for text in ("7", "0.5", "cat")]
    [7, 0.5, 'cat']
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
