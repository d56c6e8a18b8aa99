"""The sources of a client's samples: a data set, or a function.

A source returns the samples after a cursor, with a new cursor that is stored together with the samples. After a crash, samples
that were admitted are not read again, and no others are skipped. Labels may come later than samples.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from headgate.control.scores import Scores
from headgate.errors import DataError

Label = int | float | str


class Sample(NamedTuple):
    """A sample from a source: its key, its bytes, and its label if that is known."""

    key: str
    payload: bytes
    label: Label | None = None


class HeldSample(NamedTuple):
    """A sample in a client's store."""

    position: int
    key: str
    payload: bytes
    label: Label | None
    round: int = 0
    """round in which the sample was admitted"""


SampleScorer = Callable[[Sequence[HeldSample], tuple[str, ...]], Scores]
"""function of samples and the names of the requested scores that returns the scores of each sample under the model"""


class Batch(NamedTuple):
    """Samples and the cursor after them."""

    samples: list[Sample]
    cursor: int


class Source(Protocol):
    """The stream of one client."""

    def read(self, cursor: int, count: int) -> Batch:
        """Return up to `count` samples after `cursor`, which is 0 at first; fewer if the source has no more yet."""

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        """Return the labels by key of those samples, all admitted without a label, whose label is known now."""
        return {}


def pack(item: Any) -> bytes:
    """Return an item as a payload: an array, or a tuple or dict of arrays, numbers and text.

    >>> unpack(pack([[1, 2], [3, 4]]))
    array([[1, 2],
           [3, 4]])
    >>> unpack(pack({"text": "good", "label": 1}))
    {'text': np.str_('good'), 'label': np.int64(1)}
    """
    file = io.BytesIO()
    if isinstance(item, Mapping):
        named: dict[str, Any] = {str(name): _array(value) for name, value in item.items()}
        np.savez(file, **named)
    elif isinstance(item, tuple):
        np.savez(file, *map(_array, item))
    else:
        np.save(file, _array(item), allow_pickle=False)
    return file.getvalue()


def _array(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise DataError(f"source: a value of {type(value).__name__} is no array, number or text")
    return array


def unpack(payload: bytes) -> Any:
    """Return the item that `pack` has packed."""
    try:
        loaded = np.load(io.BytesIO(payload), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        item = {name: loaded[name][()] for name in loaded.files}
    except (ValueError, EOFError, OSError, BadZipFile) as error:
        raise DataError(f"a payload of {len(payload)} bytes holds no array ({error})") from None
    return tuple(item.values()) if "arr_0" in item else item


class DatasetSource(Source):
    """The items of a data set, in order. Each is read only when it is admitted, so that no other items are in memory.

    Parameters
    ----------
    columns
        One data set, such as a torch `Dataset` or one of Hugging Face's `datasets`, with a length or as a stream; or several
        of the same length, such as arrays of samples and labels, in memory or mapped from a file.
    label
        The key or index of the label in an item, or a function of the item. By default its key `label`, or its last element.

    Examples
    --------
    >>> source = DatasetSource(np.zeros((5, 2)), [3, 1, 4, 1, 5])
    >>> [sample.label for sample in source.read(cursor=1, count=2).samples]
    [1, 4]
    """

    def __init__(self, *columns: Any, label: str | int | Callable[[Any], Any] | None = None) -> None:
        self._columns, self._label = columns, label

    def read(self, cursor: int, count: int) -> Batch:
        samples = [Sample(str(place), pack(item), self._of(item)) for place, item in self._items(cursor, cursor + count)]
        return Batch(samples, cursor + len(samples))

    def _items(self, first: int, last: int) -> Iterator[tuple[int, Any]]:
        whole = self._columns[0]
        if not hasattr(whole, "__len__"):
            rest = whole.skip(first) if hasattr(whole, "skip") else islice(whole, first, None)
            yield from zip(range(first, last), rest, strict=False)
            return
        for place in range(first, min(last, len(whole))):
            item = tuple(column[place] for column in self._columns)
            yield place, item[0] if len(item) == 1 else item

    def _of(self, item: Any) -> Label:
        name = ("label" if isinstance(item, Mapping) else -1) if self._label is None else self._label
        try:
            label = np.asarray(name(item) if callable(name) else item[name]).item()
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(f"source: an item has no label {name!r} that is a number or text ({error})") from None
        found: Label = label
        return found


@dataclass(frozen=True)
class CallableSource(Source):
    """Samples 0, 1, 2, … from a function that returns None if there is none yet; `later` returns late labels by key."""

    function: Callable[[int], Sample | None]
    later: Callable[[Sequence[str]], Mapping[str, Label]] | None = None

    def read(self, cursor: int, count: int) -> Batch:
        samples: list[Sample] = []
        while len(samples) < count and (sample := self.function(cursor + len(samples))) is not None:
            samples.append(sample)
        return Batch(samples, cursor + len(samples))

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        return self.later(keys) if self.later else {}
