"""Save and load a ledger as a numpy npz file without pickle.

The file is written completely or not at all.
"""

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.buffers import kind_of
from headgate.control.controller import Controller
from headgate.control.delays import Pipeline
from headgate.control.types import (
    LEDGER_ARRAYS,
    Contents,
    Floats,
    Ledger,
    Losses,
    Terms,
)
from headgate.errors import DataError
from headgate.writing import replace_file

FORMAT = "headgate ledger 3"
PART_OF_SPEND = 1 + 1e-9
"""the most that looks may cost as a multiple of all spend, because sums round"""
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile)
"""errors of a file that holds no ledger"""
Named = dict[str, NDArray[Any]]
"""arrays by their names in a file"""


def save_ledger(ledger: Ledger, path: Path) -> None:
    """Write the ledger to `path`. If writing fails, an existing file stays unchanged.

    Whole numbers are stored in the narrowest type that holds them: most counts of a
    million clients need one byte.
    """
    arrays = {name: getattr(ledger, name) for name in LEDGER_ARRAYS}
    arrays |= _in("contents", _contents(ledger.contents))
    arrays |= _in("memory", dict(ledger.memory))
    if ledger.losses is not None:
        arrays |= _in("losses", _present(ledger.losses._asdict()))
    if ledger.looks is not None:
        arrays["looks"] = ledger.looks
    if ledger.pipeline is not None:
        arrays |= _in("pipeline", ledger.pipeline.arrays())
    stated = {"format": FORMAT, "t": ledger.t, "terms": ledger.terms._asdict()}
    stored = {"head": np.array(json.dumps(stated))}
    stored |= {name: _narrow(array) for name, array in arrays.items()}
    replace_file(path, lambda file: np.savez(file, **stored))  # type: ignore[arg-type]


def load_ledger(path: Path, controller: Controller) -> Ledger:
    """Return the ledger in `path`.

    DataError or LedgerError is raised if its terms, names, shapes or types differ from
    what `controller` would open.
    """
    t, file = _read(path, controller)
    empty = controller.open()
    own: dict[str, Any] = {
        name: file.take(name, getattr(empty, name)) for name in LEDGER_ARRAYS
    }
    contents = _load_contents(file, empty.contents)
    memory = {
        name: file.take(f"memory/{name}", like) for name, like in empty.memory.items()
    }
    losses = None
    if controller.policy.hears and "losses/new" in file.arrays:
        losses = _load_losses(file, np.zeros(empty.credit.shape))
    looks = None
    if empty.looks is not None:
        looks = file.take("looks", empty.looks)
    pipeline = empty.pipeline
    if pipeline is not None:
        known = pipeline.arrays().items()
        taken = {name: file.take(f"pipeline/{name}", like) for name, like in known}
        pipeline = Pipeline(**taken)
    if file.arrays:
        raise DataError(
            f"{path}: holds {', '.join(sorted(file.arrays))}, which this policy does"
            " not know"
        )
    ledger = replace(
        empty,
        t=t,
        contents=contents,
        memory=memory,
        losses=losses,
        looks=looks,
        pipeline=pipeline,
        **own,
    )
    if not _possible(ledger):
        raise DataError(
            f"{path}: negative occupancy, debt or spend; the file is damaged"
        )
    return ledger


class _File(NamedTuple):
    """The arrays of a file that are not taken yet."""

    path: Path
    arrays: Named

    def take(
        self,
        name: str,
        like: NDArray[Any],
        missing: bool = False,
    ) -> Any:
        """Return an array with the type of `like`, or raise DataError.

        Its shape and type must match; `missing` allows NaN.
        """
        found = self.arrays.pop(name, None)
        if found is None:
            raise DataError(
                f"{self.path}: {name} is missing; it was written by another policy or"
                " is damaged"
            )
        whole = found.dtype.kind == like.dtype.kind == "i"
        if found.shape == like.shape and whole and np.can_cast(found.dtype, like.dtype):
            return found.astype(like.dtype)
        if found.shape != like.shape or found.dtype != like.dtype:
            raise DataError(
                f"{self.path}: {name} is {found.dtype}{list(found.shape)}, expected"
                f" {like.dtype}{list(like.shape)}"
            )
        if found.dtype.kind == "f":
            fine = np.isfinite(found) | (missing & np.isnan(found))
            if not fine.all():
                raise DataError(
                    f"{self.path}: {name} holds numbers that are not finite; the file"
                    " is damaged"
                )
        return found


def _read(path: Path, controller: Controller) -> tuple[int, _File]:
    """Return the round of the ledger in a file, and its arrays."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        head = json.loads(str(arrays.pop("head")))
        t = head["t"]
    except UNREADABLE as error:
        raise DataError(f"{path}: not a readable ledger ({error})") from None
    if head.get("format") != FORMAT or not isinstance(t, int) or t < 0:
        raise DataError(f"{path}: not a ledger of this version")
    try:
        Terms(**head["terms"]).check(controller.terms, str(path))
    except (KeyError, TypeError):
        raise DataError(f"{path}: its terms are missing; the file is damaged") from None
    return t, _File(path, arrays)


def _load_contents(file: _File, empty: Contents) -> Contents:
    known = _contents(empty)
    if empty.born is not None:
        # The file may hold rounds in any integer type.
        known["born"] = np.broadcast_to(np.int32(0), empty.born.shape)
    held = {name: file.take(f"contents/{name}", like) for name, like in known.items()}
    recent = tuple(held.pop(f"recent.{slot}") for slot in range(len(empty.recent)))
    return Contents(recent, **held)


def _load_losses(file: _File, like: Floats) -> Losses:
    names = ["new", "held"]
    if "losses/right" in file.arrays:
        names.append("right")
    return Losses(*(file.take(f"losses/{name}", like, missing=True) for name in names))


def _possible(ledger: Ledger) -> bool:
    """Return whether no count and no amount of money is below what it can be."""
    least_zero = [ledger.occupancy, ledger.debt, ledger.spent]
    if ledger.pipeline is not None:
        reserved = ledger.committed - ledger.spent
        least_zero += [reserved, *ledger.pipeline.arrays().values()]
    if any(np.any(array < 0) for array in least_zero):
        return False
    if ledger.looks is None:
        return True
    most = ledger.spent * PART_OF_SPEND
    return bool(np.all((ledger.looks >= 0) & (ledger.looks <= most)))


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the narrowest type that holds them."""
    kind: Any = array.dtype
    if array.dtype.kind == "i" and array.size:
        kind = kind_of(max(int(array.max()), -int(array.min()) - 1))
    return array.astype(
        kind,
        order="C",
        copy=False,
    )


def _in(state: str, arrays: Named) -> Named:
    """Return arrays under their names in a file."""
    return {f"{state}/{name}": array for name, array in arrays.items()}


def _contents(contents: Contents) -> Named:
    """Return the arrays of `contents` by name, without those that are None."""
    recent = {f"recent.{slot}": array for slot, array in enumerate(contents.recent)}
    others = contents._asdict()
    del others["recent"]
    return recent | _present(others)


def _present(arrays: dict[str, Any]) -> Named:
    return {name: array for name, array in arrays.items() if array is not None}
