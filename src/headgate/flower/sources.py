"""The sources of a client's samples: a data set, or a function.

A source returns the samples after a cursor, with a new cursor that is stored together
with the samples. After a crash, samples that were admitted are not read again, and no
others are skipped. Labels may come later than samples.
"""

import io
import numbers
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import amount, text, whole_number
from headgate.control.scores import Scores
from headgate.errors import DataError, SettingError, require
from headgate.escaping import shown
from headgate.flower.border import function, unseen, writable_text

Label = int | float | str
KEY = 1_000
"""the most characters of a sample's key"""
STORED = 2**63 - 1
"""the largest whole number that a store can hold"""
REAL = sys.float_info.max


class Sample(NamedTuple):
    """A sample from a source: its key, its bytes, and its label if that is known."""

    key: str
    """one line of at most `KEY` printable characters"""
    payload: bytes
    label: Label | None = None
    """a finite number, text, or None if it is not known yet; truth values are stored as
    0 and 1
    """


class HeldSample(NamedTuple):
    """A sample in a client's store."""

    position: int
    key: str
    payload: bytes
    label: Label | None
    round: int = 0
    """round in which the sample was admitted"""


SampleScorer = Callable[[Sequence[HeldSample], tuple[str, ...]], Scores]
"""function of samples and the names of the requested scores that returns the scores of
each sample under the model
"""


class Batch(NamedTuple):
    """Samples and the cursor after them."""

    samples: list[Sample]
    cursor: int
    """whole number from 0 on, in which the source finds its place again"""


class Source(Protocol):
    """The stream of one client."""

    def read(self, cursor: int, count: int) -> Batch:
        """Return up to `count` samples after `cursor`, which is 0 at first; fewer if
        the source has no more yet.
        """

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        """Return the labels by key of those samples, all admitted without a label,
        whose label is known now.
        """
        return {}


# what a source returns


def checked_batch(
    source: str,
    batch: Batch,
    asked: int,
) -> Batch:
    """Return a batch of plain Python values, or raise an error with the source, the
    field and the value that is wrong.
    """
    unseen(f"{source}: read", batch, Batch, "a Batch")
    listed = unseen(
        f"{source}: samples", batch.samples, (list, tuple), "a list of samples"
    )
    if len(listed) > asked:
        raise DataError(
            f"{source}: gave {len(listed)} samples where {asked} were asked for"
        )
    samples = [
        _checked_sample(f"{source}: samples[{place}]", each)
        for place, each in enumerate(listed)
    ]
    return Batch(samples, whole_number(f"{source}: cursor", batch.cursor, most=STORED))


def _checked_sample(name: str, sample: Sample) -> Sample:
    """Return a sample of plain Python values."""
    unseen(name, sample, Sample, "a Sample")
    key = text(f"{name}.key", sample.key, KEY)
    payload = unseen(
        f"{name}.payload",
        sample.payload,
        (bytes, bytearray, memoryview),
        "bytes, as pack() returns them",
    )
    return Sample(key, bytes(payload), checked_label(f"{name}.label", sample.label))


def checked_label(name: str, label: object) -> Label | None:
    """Return a label as a plain number or text, or None if it is not known; numbers of
    numpy are numbers.
    """
    if label is None:
        return None
    if isinstance(label, str):
        return writable_text(name, label)
    if isinstance(label, bool | np.bool_):
        return int(label)
    if isinstance(label, numbers.Integral):
        return whole_number(name, label, -STORED, STORED)
    return amount(name, label, -REAL, REAL)


def checked_labels(source: str, found: Mapping[str, Label]) -> dict[str, Label]:
    """Return the labels by key that a source knows now, without those that it still
    does not know.
    """
    name = f"{source}: labels"
    unseen(name, found, Mapping, "a dict of labels by key")
    known: dict[str, Label] = {}
    for stated, label in found.items():
        key = writable_text(f"{name}: key", stated)
        plain = checked_label(f"{name}[{shown(key)}]", label)
        if plain is not None:
            known[key] = plain
    return known


# payloads


def pack(item: Any) -> bytes:
    """Return an item as a payload: an array, or a tuple or dict of arrays, numbers and
    text.

    >>> unpack(pack([[1, 2], [3, 4]]))
    array([[1, 2],
           [3, 4]])
    >>> unpack(pack({"text": "good", "label": 1}))
    {'text': np.str_('good'), 'label': np.int64(1)}
    """
    file = io.BytesIO()
    if isinstance(item, Mapping):
        named: dict[str, Any] = {
            str(name): _array(value) for name, value in item.items()
        }
        np.savez(file, **named)
    elif isinstance(item, tuple):
        np.savez(file, *map(_array, item))
    else:
        np.save(file, _array(item), allow_pickle=False)
    return file.getvalue()


def _array(value: Any) -> NDArray[Any]:
    refused = f"source: a value of {type(value).__name__} is no array, number or text"
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        raise DataError(refused) from None
    if array.dtype.hasobject:
        raise DataError(refused)
    return array


def unpack(payload: bytes) -> Any:
    """Return the item that `pack` has packed."""
    unseen("unpack: payload", payload, bytes, "bytes")
    try:
        loaded = np.load(io.BytesIO(payload), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        item = {name: loaded[name][()] for name in loaded.files}
    except (ValueError, EOFError, OSError, BadZipFile) as error:
        raise DataError(
            f"a payload of {len(payload)} bytes holds no array ({error})"
        ) from None
    return tuple(item.values()) if "arr_0" in item else item


class DatasetSource(Source):
    """The items of a data set, in order. Each is read only when it is admitted, so that
    no other items are in memory.

    Parameters
    ----------
    *columns : data set
        One data set, such as a torch `Dataset` or one of Hugging Face's `datasets`,
        with a length or as a stream; or several of the same length, such as arrays of
        samples and labels, in memory or mapped from a file.
    label : str, int or callable, optional
        The key or index of the label in an item, or a function of the item. By default
        its key `label`, or its last element.

    Examples
    --------
    >>> source = DatasetSource(np.zeros((5, 2)), [3, 1, 4, 1, 5])
    >>> [sample.label for sample in source.read(cursor=1, count=2).samples]
    [1, 4]
    """

    def __init__(
        self, *columns: Any, label: str | int | Callable[[Any], Any] | None = None
    ) -> None:
        require(
            bool(columns), "DatasetSource: columns", columns, "at least one data set"
        )
        lengths = [
            _length(f"DatasetSource: columns[{place}]", column)
            for place, column in enumerate(columns)
        ]
        for place, length in enumerate(lengths):
            if len(columns) > 1 and (length is None or length != lengths[0]):
                raise SettingError(
                    f"DatasetSource: columns[{place}] has length {length}: columns must"
                    " have the same length"
                )
        self._columns, self._label = columns, _label_in("DatasetSource: label", label)

    def read(self, cursor: int, count: int) -> Batch:
        cursor = whole_number("read: cursor", cursor, most=STORED)
        count = whole_number("read: count", count)
        samples = [
            Sample(str(place), pack(item), self._of(item))
            for place, item in self._items(cursor, cursor + count)
        ]
        return Batch(samples, cursor + len(samples))

    def _items(self, first: int, last: int) -> Iterator[tuple[int, Any]]:
        whole = self._columns[0]
        if not hasattr(whole, "__len__"):
            if hasattr(whole, "skip"):
                rest = whole.skip(first)
            else:
                rest = islice(whole, first, None)
            yield from zip(range(first, last), rest, strict=False)
            return
        for place in range(first, min(last, len(whole))):
            item = tuple(column[place] for column in self._columns)
            yield place, item[0] if len(item) == 1 else item

    def _of(self, item: Any) -> Label:
        name = self._label
        if name is None:
            name = "label" if isinstance(item, Mapping) else -1
        try:
            label: Label = np.asarray(
                name(item) if callable(name) else item[name]
            ).item()
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(
                f"source: an item has no label {name!r} that is a number or text"
                f" ({error})"
            ) from None
        return label


def _length(name: str, column: Any) -> int | None:
    """Return the length of a data set; None for a stream."""
    readable = hasattr(column, "__getitem__") or hasattr(column, "__iter__")
    require(
        readable and not isinstance(column, str | bytes | np.generic),
        name,
        column,
        "a data set or a stream of items",
    )
    if not hasattr(column, "__len__"):
        return None
    try:
        return len(column)
    except TypeError:  # an array without dimensions
        raise SettingError(
            f"{name} = {shown(column)}: must be a data set or a stream of items"
        ) from None


def _label_in(name: str, label: Any) -> Any:
    """Return where the label is in an item: a key, an index, or a function."""
    if label is None or isinstance(label, str) or callable(label):
        return label
    return whole_number(name, label, -STORED, STORED)


@dataclass(frozen=True)
class CallableSource(Source):
    """Samples 0, 1, 2, … from a function that returns None if there is none yet;
    `later` returns late labels by key.
    """

    function: Callable[[int], Sample | None]
    later: Callable[[Sequence[str]], Mapping[str, Label]] | None = None

    def __post_init__(self) -> None:
        function("CallableSource: function", self.function)
        if self.later is not None:
            function("CallableSource: later", self.later)

    def read(self, cursor: int, count: int) -> Batch:
        cursor = whole_number("read: cursor", cursor, most=STORED)
        count = whole_number("read: count", count)
        samples: list[Sample] = []
        for place in range(cursor, cursor + count):
            sample = self.function(place)
            if sample is None:
                break
            samples.append(sample)
        return Batch(samples, cursor + len(samples))

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        return self.later(keys) if self.later else {}
