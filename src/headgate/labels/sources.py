"""Labelled files as the streams of Flower's clients."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headgate.control.checks import path as checked_path
from headgate.control.checks import whole_number
from headgate.errors import DataError
from headgate.flower.sources import STORED, Batch, Label, Sample, Source, pack
from headgate.reading import opened

BESIDE = ("key", "round", "label")
"""columns of a labelled file that are not part of the sample"""


class LabelledSource(Source):
    """The samples of a labelled file, in the order in which they were paid for. A
    sample that was rejected by the time it is read is left out.

    Parameters
    ----------
    file : str or pathlib.Path
        The file labelled/CLIENT.jsonl of a gate, which may grow, and may not exist yet.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "team.jsonl")
    >>> line = {"key": "a", "round": 1, "text": "shadow", "label": "tumour"}
    >>> written = file.write_text(json.dumps(line) + "\\n")
    >>> LabelledSource(file).read(cursor=0, count=5).samples[0].label
    'tumour'
    """

    def __init__(self, file: Path | str) -> None:
        self._file = checked_path("LabelledSource: file", file)

    def read(self, cursor: int, count: int) -> Batch:
        cursor = whole_number("read: cursor", cursor, most=STORED)
        count = whole_number("read: count", count)
        lines, samples = list(self._lines(cursor)), list[Sample]()
        rejected = {line["key"] for line, _ in lines if "rejected" in line}
        for line, after in lines:
            if len(samples) == count:
                break
            cursor = after
            if "label" in line and line["key"] not in rejected:
                samples.append(_sample(line))
        return Batch(samples, cursor)

    def _lines(self, cursor: int) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield the whole lines from a byte on, each with the byte after it."""
        if not self._file.exists():
            return
        with opened(self._file) as file:
            file.seek(cursor)
            for line in file:
                cursor += len(line)
                if not line.endswith(b"\n"):  # it is still written
                    return
                try:
                    yield json.loads(line), cursor
                except ValueError:
                    raise DataError(
                        f"{self._file}: byte {cursor - len(line)} begins no line of a"
                        " labelled file"
                    ) from None


def _sample(line: Mapping[str, Any]) -> Sample:
    """Return the sample in a line: a single value as it is, several by their names."""
    data = {name: value for name, value in line.items() if name not in BESIDE}
    payload = pack(next(iter(data.values())) if len(data) == 1 else data)
    return Sample(line["key"], payload, _label(line["label"]))


def _label(value: Any) -> Label:
    """Return a label as a store can hold it; what is no number or text becomes JSON."""
    if isinstance(value, int | float | str):
        return value
    return json.dumps(value, ensure_ascii=False)
