"""The server's parameter files. Each has the model and the memory of the strategy, and
is written completely or not at all.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from logging import INFO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.common import log
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray
from safetensors.numpy import load, save

from headgate.books.updates import NamedArrays
from headgate.errors import DataError, SettingError
from headgate.escaping import one_line, shown
from headgate.flower.border import instance
from headgate.writing import replace_file, sync

NUMPY = np.ndarray | np.generic
NO_NUMBERS = "SUOMm"
"""kinds of dtype of text, objects and times"""
Record = ArrayRecord | ConfigRecord | MetricRecord
MEMORY, ORDER = "headgate strategy", "headgate order"
"""entries of the file: the memory of the strategy as Flower serialises records, and the
names of the model's arrays as JSON
"""
KINDS: dict[str, Callable[[Any], Any]] = {
    "record": lambda record: record,
    "dict": lambda record: {name: array.numpy() for name, array in record.items()},
    "list": lambda record: record.to_numpy_ndarrays(),
    "array": lambda record: record["0"].numpy(),
    "none": lambda record: None,
    "plain": lambda record: record["value"],
}
"""functions that turn a record into an attribute again, by the kind of attribute"""


class StrategyMemory:
    """The memory of any strategy from round to round: its attributes that have changed
    since it was made.

    Numbers, text, bytes, arrays, dicts and lists of arrays, and records of Flower can
    be saved. `unsaved` names the attributes that cannot; they have their first values
    after a restart. A strategy may list the attributes to save in its attribute
    `memory`. Pass the strategy before its first round. Strategies that it wraps are
    saved as well.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy, self.unsaved = strategy, list[str]()
        self._first = self._records()

    def now(self) -> RecordDict:
        """Return the attributes that have changed, each as a record."""
        changed = {
            name: record
            for name, record in self._records().items()
            if self._first.get(name) != record
        }
        return RecordDict(changed)

    def restore(self, memory: RecordDict) -> None:
        """Set the attributes of the strategy that `memory` has, and reset all others to
        their first values.
        """
        changed = {key.split(" ")[1]: key for key in memory}
        for key, record in {**self._first, **memory}.items():
            kind, name = key.split(" ")
            *inside, last = name.split(".")
            if changed.get(name, key) == key:
                owner = reduce(getattr, inside, self._strategy)
                setattr(owner, last, KINDS[kind](record))

    def _records(self) -> dict[str, Record]:
        found = {}
        for name, value in _attributes(self._strategy):
            try:
                kind, record = _record(value)
                found[f"{kind} {name}"] = record
            except TypeError:
                if name not in self.unsaved:
                    self.unsaved.append(name)
                    log(
                        INFO,
                        "headgate: %s.%s begins again after a restart",
                        type(self._strategy).__name__,
                        name,
                    )
        return found


def _attributes(strategy: Strategy, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of all attributes that are not functions."""
    for name in getattr(strategy, "memory", vars(strategy)):
        value = getattr(strategy, name)
        if isinstance(value, Strategy):
            yield from _attributes(value, f"{prefix}{name}.")
        elif not callable(value):
            yield f"{prefix}{name}", value


def _record(value: Any) -> tuple[str, Record]:
    """Return (kind, record); raise a TypeError for a value that cannot be saved."""
    if value is None:
        return "none", ConfigRecord()
    if isinstance(value, Record):
        return "record", value
    if isinstance(value, np.ndarray):
        return "array", ArrayRecord([value])
    if isinstance(value, dict) and _of_numpy(value.values()):
        return "dict", record_of(value)
    if isinstance(value, list) and _of_numpy(value):
        return "list", ArrayRecord([np.asarray(each) for each in value])
    if isinstance(value, np.generic):
        value = value.item()
    return "plain", ConfigRecord({"value": value})


def _of_numpy(values: Iterable[Any]) -> bool:
    return all(isinstance(each, NUMPY) for each in values)


def write_parameters(
    folder: Path,
    t: int,
    model: NamedArrays,
    memory: RecordDict | None = None,
) -> tuple[str, str]:
    """Write a parameter file; return its name and its SHA-256. It gets its name only
    after its content is on disk.
    """
    extra = {ORDER: json.dumps(list(model)).encode()}
    if memory:
        extra[MEMORY] = recorddict_to_proto(memory).SerializeToString(
            deterministic=True
        )
    arrays = {name: np.asarray(array, order="C") for name, array in model.items()}
    for name, own in extra.items():
        arrays[name] = np.frombuffer(own, np.uint8)
    content = save(arrays)
    folder.mkdir(
        parents=True,
        exist_ok=True,
    )
    final = folder / f"{t:08d}.safetensors"
    replace_file(final, content)
    sync(folder)
    return final.name, hashlib.sha256(content).hexdigest()


def read_parameters(
    folder: Path,
    name: str,
    sha256: str,
) -> tuple[dict[str, NDArray[Any]], RecordDict]:
    """Return the model and the memory of the strategy. A file that is missing or
    damaged is refused.
    """
    path = folder / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); the run cannot be continued"
        ) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"{path}: is damaged; the run cannot be continued")
    arrays = load(content)
    model = {each: arrays[each] for each in json.loads(arrays[ORDER].tobytes())}
    memory = RecordDict()
    if MEMORY in arrays:
        saved = ProtoRecordDict.FromString(arrays[MEMORY].tobytes())
        memory = recorddict_from_proto(saved)
    return model, memory


def keep_only(folder: Path, names: Sequence[str]) -> None:
    """Delete all other files: older parameters, and what a killed writer left."""
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()


def numpy_of(arrays: ArrayRecord) -> dict[str, NDArray[Any]]:
    return {name: array.numpy() for name, array in arrays.items()}


def model_of(name: str, arrays: ArrayRecord) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model that a user hands in, or raise SettingError unless
    all of them are arrays of numbers.
    """
    model = {}
    for key, packed in instance(name, arrays, ArrayRecord, "an ArrayRecord").items():
        try:
            model[key] = packed.numpy()
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"{name}[{key}]: cannot be read as an array of numpy"
                f" ({one_line(error)})"
            ) from None
        if model[key].dtype.kind in NO_NUMBERS:
            raise SettingError(
                f"{name}[{key}] = {shown(model[key])}: must be an array of numbers"
            )
    return model


def record_of(model: NamedArrays) -> ArrayRecord:
    return ArrayRecord(
        {name: Array(np.asarray(array, order="C")) for name, array in model.items()}
    )
