"""A ledger as a file: numpy's npz without pickle, written whole or not at all."""

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.controller import Controller
from headgate.control.types import Ledger
from headgate.errors import DataError

FORMAT = "headgate ledger 1"
STATES = ("retained", "memory")
FIELDS = (
    "debt",
    "spent",
    "admitted",
    "dropped",
    "uses",
    "squared_uses",
    "uses_in_memory",
    "carry",
    "credit",
)


def save_ledger(ledger: Ledger, path: Path) -> None:
    """Write to a file beside `path` and move it there once it is on disk.

    Whole numbers go into the narrowest type that holds them: a million clients' counts are mostly single bytes.
    """
    arrays: dict[str, NDArray[Any]] = {name: getattr(ledger, name) for name in FIELDS}
    for state in STATES:
        arrays |= {f"{state}/{name}": array for name, array in getattr(ledger, state).items()}
    head = json.dumps({"format": FORMAT, "t": ledger.t})
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            narrow = {name: _narrow(array) for name, array in arrays.items()}
            np.savez(file, head=np.array(head), **narrow)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)


def load_ledger(path: Path, controller: Controller) -> Ledger:
    """The ledger in `path`, checked against what `controller` would open: same names, shapes and kinds of number."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        head = json.loads(str(stored.pop("head")))
        t = head["t"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a readable ledger ({error})") from None
    if head.get("format") != FORMAT or not isinstance(t, int) or t < 0:
        raise DataError(f"{path}: not a ledger of this version")
    empty = controller.open()
    fields = {name: _matching(path, name, stored.pop(name, None), getattr(empty, name)) for name in FIELDS}
    states = {
        state: {
            name: _matching(path, f"{state}/{name}", stored.pop(f"{state}/{name}", None), array)
            for name, array in getattr(empty, state).items()
        }
        for state in STATES
    }
    if stored:
        raise DataError(f"{path}: holds {', '.join(sorted(stored))}, which this policy does not know")
    ledger = replace(empty, t=t, **fields, **states)  # type: ignore[arg-type]
    if np.any(ledger.occupancy < 0) or np.any(ledger.debt < 0) or np.any(ledger.spent < 0):
        raise DataError(f"{path}: negative occupancy, debt or spend; the file is damaged")
    return ledger


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind == "i" and array.size:
        least, most = array.min(), array.max()
        for kind in (np.int8, np.int16, np.int32):
            if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
                return array.astype(kind)
    return array


def _matching(path: Path, name: str, found: NDArray[Any] | None, like: NDArray[Any]) -> NDArray[Any]:
    if found is None:
        raise DataError(f"{path}: {name} is missing; it was written by another policy or is damaged")
    if found.shape == like.shape and found.dtype.kind == like.dtype.kind == "i" and np.can_cast(found.dtype, like.dtype):
        return found.astype(like.dtype)
    if found.shape != like.shape or found.dtype != like.dtype:
        raise DataError(f"{path}: {name} is {found.dtype}{list(found.shape)}, expected {like.dtype}{list(like.shape)}")
    if found.dtype.kind == "f" and not np.all(np.isfinite(found)):
        raise DataError(f"{path}: {name} holds numbers that are not finite; the file is damaged")
    return found
