"""The server's files: the model and what the strategy remembers, in one file that is whole or not there."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from headgate.errors import DataError
from headgate.flower.validation import NamedArrays
from headgate.writing import replace_file, sync

MEMORY = "headgate strategy: "
"""begins the names of the strategy's arrays in the file; the one called `MEMORY` alone has their forms, and the order of the
model's arrays, as JSON"""
PAIRS: dict[str, Callable[..., Any]] = {kind.__name__: kind for kind in (dict, ArrayRecord, ConfigRecord, MetricRecord)}
ROWS: dict[str, Callable[..., Any]] = {"list": list, "tuple": tuple}
Memory = dict[str, tuple[Any, list[NDArray[Any]]]]
"""attribute → its form as JSON and the arrays in it; a dot leads to the strategy inside"""


class StrategyMemory:
    """What a strategy of any kind remembers from round to round: its attributes that have changed since it was made.

    Numbers, text, arrays and lists, dicts and records of them can be saved. `unsaved` names the attributes that cannot:
    after a restart these begin again. A strategy may name those that matter in its attribute `memory`.

    Parameters
    ----------
    strategy
        As it was made, before its first round; strategies that it wraps are looked into as well.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy, self.unsaved = strategy, list[str]()
        self._first: Memory = {}
        for name, value in _attributes(strategy):
            try:
                self._first[name] = _packed(value)
            except TypeError:
                self.unsaved.append(name)

    def now(self) -> Memory:
        """Return the attributes that have changed."""
        found: Memory = {}
        for name, value in _attributes(self._strategy):
            try:
                packed = _packed(value)
            except TypeError:
                continue
            if name not in self._first or not _same(packed, self._first[name]):
                found[name] = packed
        return found

    def restore(self, memory: Memory) -> None:
        """Give the strategy the attributes of `memory`, and all others as they were first."""
        for name, packed in {**self._first, **memory}.items():
            *inside, last = name.split(".")
            setattr(reduce(getattr, inside, self._strategy), last, _unpacked(*packed))


def _attributes(strategy: Strategy, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(name, value) of all attributes but functions."""
    named = getattr(strategy, "memory", vars(strategy))
    for name, value in [(name, getattr(strategy, name)) for name in named]:
        if isinstance(value, Strategy):
            yield from _attributes(value, f"{prefix}{name}.")
        elif not callable(value):
            yield f"{prefix}{name}", value


def _packed(value: Any) -> tuple[Any, list[NDArray[Any]]]:
    arrays: list[NDArray[Any]] = []

    def form(each: Any) -> list[Any]:
        kind = type(each).__name__
        if each is None or type(each) in (bool, int, float, str):
            return ["plain", each]
        if kind in PAIRS:
            return [kind, [[form(key), form(own)] for key, own in each.items()]]
        if kind in ROWS:
            return [kind, [form(own) for own in each]]
        array = np.frombuffer(each, np.uint8) if kind == "bytes" else each.numpy() if kind == "Array" else each
        if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "fiub":
            raise TypeError(kind)
        arrays.append(np.asarray(array))
        return [kind if kind in ("bytes", "Array", "ndarray") else "number", len(arrays) - 1]

    return form(value), arrays


def _unpacked(form: Any, arrays: Sequence[NDArray[Any]]) -> Any:
    kind, said = form
    if kind == "plain":
        return said
    if kind in PAIRS:
        return PAIRS[kind]({_unpacked(key, arrays): _unpacked(own, arrays) for key, own in said})
    if kind in ROWS:
        return ROWS[kind](_unpacked(own, arrays) for own in said)
    array = arrays[said].copy()
    return {"bytes": array.tobytes, "Array": lambda: Array(array), "number": lambda: array[()]}.get(kind, lambda: array)()


def _same(one: tuple[Any, list[NDArray[Any]]], other: tuple[Any, list[NDArray[Any]]]) -> bool:
    return one[0] == other[0] and all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one[1], other[1], strict=True)
    )


def write_parameters(folder: Path, t: int, model: NamedArrays, memory: Mapping[str, Any] | None = None) -> tuple[str, str]:
    """(file, its SHA-256); the file has its name only when it is on disk."""
    arrays, forms = dict(model), dict[str, Any]()
    for name, (form, own) in (memory or {}).items():
        forms[name] = [form, len(own)]
        arrays |= {f"{MEMORY}{name} {place}": array for place, array in enumerate(own)}
    arrays[MEMORY] = np.frombuffer(json.dumps([list(model), forms]).encode(), np.uint8)
    content = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{t:08d}.safetensors"
    replace_file(final, content)
    sync(folder)
    return final.name, hashlib.sha256(content).hexdigest()


def read_parameters(folder: Path, name: str, sha256: str) -> tuple[dict[str, NDArray[Any]], Memory]:
    """The model and what the strategy remembers."""
    path = folder / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); the run cannot be continued") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"{path}: is damaged; the run cannot be continued")
    try:
        arrays = load(content)
    except SafetensorError as error:
        raise DataError(f"{path}: is damaged ({error}); the run cannot be continued") from None
    order, forms = json.loads(arrays[MEMORY].tobytes())
    memory = {each: (form, [arrays[f"{MEMORY}{each} {place}"] for place in range(n)]) for each, (form, n) in forms.items()}
    return {each: arrays[each] for each in order}, memory


def keep_only(folder: Path, names: Sequence[str]) -> None:
    """Older parameters go; what a killed writer left, too."""
    for path in folder.glob("*"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    for path in folder.glob(".*.partial"):
        path.unlink(missing_ok=True)


def numpy_of(arrays: ArrayRecord) -> dict[str, NDArray[Any]]:
    return {name: array.numpy() for name, array in arrays.items()}


def record_of(model: NamedArrays) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array, order="C")) for name, array in model.items()})
