"""The server's model: the clients' mean, what the server update makes of it, and their file, which is whole or not there."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from headgate.control.types import Floats
from headgate.errors import DataError, SettingError
from headgate.flower.validation import NamedArrays
from headgate.learning.server import ServerUpdate, State, between, newest_share
from headgate.theory.labels import paper
from headgate.writing import replace_file, sync

STATE, MEAN = "headgate server update: ", "headgate mean of models: "
"""begin the names of the server update's arrays in the file, and of those of the mean"""


class ServerModel(NamedTuple):
    """What the server has learned: the model, and what the server update remembers. All is written in one file."""

    model: NamedArrays
    """what training goes on from"""
    state: State
    mean: NamedArrays | None = None
    """of the models so far, where it is asked for"""

    @property
    def judged(self) -> NamedArrays:
        """What is evaluated, and what a run ends with."""
        return self.model if self.mean is None else self.mean

    @classmethod
    def first(cls, model: NamedArrays, update: ServerUpdate) -> "ServerModel":
        """Before round 1."""
        return cls(model, _arrays(update.start(_row(model))))

    def step(self, t: int, mean: NamedArrays, update: ServerUpdate) -> "ServerModel":
        """After round t, where `mean` is what averaging the clients' models gives. Whole numbers are the mean's."""
        row = _row(self.model)
        after, state = update.step(t, row, _row(mean), self.state)
        if np.shape(after) != row.shape:
            raise SettingError(f"server: {type(update).__name__}.step gave {np.shape(after)} for a model of {row.shape}")
        names, model, place = _moved(self.model), dict(mean), 0
        for name in names:
            start = self.model[name]
            model[name] = np.asarray(after)[0, place : place + start.size].reshape(start.shape).astype(start.dtype)
            place += start.size
        return ServerModel(model, _arrays(state), self.mean)

    def averaged(self, t: int, eta: float | None) -> "ServerModel":
        """With the mean of the models after round t; None: without. Whole numbers are the latest model's."""
        if eta is None:
            return self
        before, share = self.mean or self.model, newest_share(t, eta)
        moved = {name: between(before[name], self.model[name], share) for name in _moved(self.model)}
        return self._replace(mean={**self.model, **moved})


def _moved(model: NamedArrays) -> list[str]:
    """The parameters that a server update moves, in one order for all rounds: a file may have another."""
    return sorted(name for name, array in model.items() if array.dtype.kind == "f")


def _row(model: NamedArrays) -> NDArray[Any]:
    """The model as server updates see it: one run, one row."""
    return np.concatenate([np.zeros(0, np.float16), *(model[name].ravel() for name in _moved(model))])[None]


def _arrays(state: State) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(array) for name, array in state.items()}


@paper("eq:global-aggregation")
def average(model: NamedArrays, updates: Sequence[NamedArrays], weights: Floats) -> dict[str, NDArray[Any]]:
    """θ + Σ w_m·(θ_m − θ), summed in float64 in the order of the updates. Whole numbers are rounded to whole numbers."""
    after: dict[str, NDArray[Any]] = {}
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


def write_parameters(folder: Path, t: int, server: ServerModel) -> tuple[str, str]:
    """(file, its SHA-256); the file has its name only when it is on disk."""
    arrays = {**server.model, **{f"{STATE}{name}": array for name, array in server.state.items()}}
    arrays |= {f"{MEAN}{name}": array for name, array in (server.mean or {}).items()}
    content = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{t:08d}.safetensors"
    replace_file(final, content)
    sync(folder)
    return final.name, hashlib.sha256(content).hexdigest()


def read_parameters(folder: Path, name: str, sha256: str) -> ServerModel:
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
    state, mean = (
        {name.removeprefix(own): array for name, array in arrays.items() if name.startswith(own)} for own in (STATE, MEAN)
    )
    model = {name: array for name, array in arrays.items() if not name.startswith((STATE, MEAN))}
    return ServerModel(model, state, mean or None)


def keep_only(folder: Path, names: Sequence[str]) -> None:
    """Older parameters go; what a killed writer left, too."""
    for path in folder.glob("*"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    for path in folder.glob(".*.partial"):
        path.unlink(missing_ok=True)
