"""The server's model: averaging updates into it, and its file, which is whole or not there."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from headgate.control.types import Floats
from headgate.errors import DataError
from headgate.flower.validation import Model
from headgate.records.writer import sync
from headgate.theory.labels import paper


@paper("eq:global-aggregation")
def average(model: Model, updates: Sequence[Model], weights: Floats) -> dict[str, NDArray[Any]]:
    """θ + Σ w_m·(θ_m − θ), summed in float64 in the order of the updates. Whole numbers are rounded to whole numbers."""
    after = {}
    for name, start in model.items():
        if not updates:
            after[name] = start
            continue
        base = start.astype(np.float64)
        total = np.zeros_like(base)
        for update, weight in zip(updates, weights, strict=True):
            total += weight * (update[name].astype(np.float64) - base)
        moved = base + total
        after[name] = (np.rint(moved) if start.dtype.kind in "iu" else moved).astype(start.dtype)
    return after


def write_parameters(folder: Path, t: int, model: Model) -> tuple[str, str]:
    """(file, its SHA-256); the file has its name only when it is on disk."""
    content = save({name: np.asarray(array, order="C") for name, array in model.items()})
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{t:08d}.safetensors"
    partial = folder / f".{final.name}.partial"
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(final)
    sync(folder)
    return final.name, hashlib.sha256(content).hexdigest()


def read_parameters(folder: Path, name: str, sha256: str) -> dict[str, NDArray[Any]]:
    path = folder / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); the run cannot be continued") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"{path}: is damaged; the run cannot be continued")
    try:
        return dict(load(content))
    except SafetensorError as error:
        raise DataError(f"{path}: is damaged ({error}); the run cannot be continued") from None


def keep_only(folder: Path, names: Sequence[str]) -> None:
    """Older parameters go; what a killed writer left, too."""
    for path in folder.glob("*"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    for path in folder.glob(".*.partial"):
        path.unlink(missing_ok=True)
