"""What the arrays and metrics of a client's answer must be before they may count."""

import io
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array
from numpy.lib import format as npy
from numpy.typing import NDArray

from headgate.books.messages import LARGEST, TEXT
from headgate.errors import DataError

NamedArrays = Mapping[str, NDArray[Any]]
"""a model: its parameters by name"""
HEADER = 4_096
"""bytes that an array's form may take beside its numbers"""
LONGEST = 2**28
"""bytes of an array whose shape is not the model's"""
METRICS = 100
"""numbers beside the model that an answer may hold"""
HUGE = 1e100
"""no number in an update is larger, so a mean of updates is finite; metrics beyond it are left out"""


def read_arrays(packed: Mapping[str, Array], model: NamedArrays, fixed_shapes: bool = True) -> dict[str, NDArray[Any]]:
    """The arrays of an answer, each of the name, shape and type that the model has; nothing else is read, or copied.

    Without `fixed_shapes` shapes may be others, of at most `LONGEST` bytes.
    """
    if packed.keys() != model.keys():
        missing, extra = (
            ", ".join(sorted(names)[:3]) or "none" for names in (model.keys() - packed.keys(), packed.keys() - model.keys())
        )
        raise DataError(f"names differ: {missing} missing, {extra} too many")
    return {name: read_array(name, packed[name], model[name], fixed_shapes) for name in model}


def read_array(name: str, packed: Array, expected: NDArray[Any], fixed_shape: bool = True) -> NDArray[Any]:
    """The one form that is read is numpy's own for a single array; its size is looked at first."""
    data = packed.data
    if packed.stype != "numpy.ndarray" or not isinstance(data, bytes) or not data.startswith(npy.MAGIC_PREFIX):
        raise DataError(f"{name} cannot be read: it is not in numpy's form for one array")
    if len(data) > (most := (expected.nbytes if fixed_shape else LONGEST) + HEADER):
        raise DataError(f"{name} has {len(data)} bytes, expected at most {most}")
    file = io.BytesIO(data[:HEADER])
    try:
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
        shape, by_column, dtype = read(file, max_header_size=HEADER)
    except Exception as error:  # a header is parsed as Python's literals, which fail in many ways
        raise DataError(f"{name} cannot be read ({type(error).__name__} in its header)") from None
    if fixed_shape and shape != expected.shape:
        raise DataError(f"{name} has shape {shape}, expected {expected.shape}")
    if dtype != expected.dtype or dtype.hasobject:
        raise DataError(f"{name} is {dtype}, expected {expected.dtype}")
    nbytes = math.prod(shape) * dtype.itemsize
    if len(data) != file.tell() + nbytes:
        raise DataError(f"{name} cannot be read: it has {len(data) - file.tell()} bytes of numbers, not {nbytes}")
    flat = np.frombuffer(data, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if by_column else "C")


def check_update(update: NamedArrays, model: NamedArrays, longest: float | None = None) -> None:
    """Refuses an update that cannot be averaged into the model."""
    for name, array in update.items():
        if array.dtype.kind in "fc" and not float(np.abs(array).max(initial=0)) <= HUGE:
            raise DataError(f"{name} holds numbers that are not finite, or beyond {HUGE:g}")
        if array.dtype.kind in "iu" and distance({name: array}, model) > LARGEST:
            raise DataError(f"{name} moves whole numbers by more than {LARGEST}")
    if longest is not None:
        length = distance(update, model)
        if not length <= longest:
            raise DataError(f"the update has length {length:.6g}, at most {longest:g} is accepted")


def numbers(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The numbers among an answer's metrics; lists and what is not finite are left out."""
    found: dict[str, float] = {}
    for record in records:
        if len(found) + len(record) > METRICS:
            raise DataError(f"its answer has more than {METRICS} metrics")
        for name, value in record.items():
            if len(name) > TEXT or not name.isprintable():
                raise DataError(f"a metric's name is not one line of at most {TEXT} printable characters")
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= HUGE:
                found[name] = float(value)
    return found


def distance(update: NamedArrays, model: NamedArrays, kinds: str = "fiubc") -> float:
    """‖θ_m − θ‖ over the parameters of these kinds of numbers."""
    both = ((array, model[name]) for name, array in update.items() if array.dtype.kind in kinds)
    return float(np.sqrt(sum(np.square(array.astype(np.float64) - base.astype(np.float64)).sum() for array, base in both)))
