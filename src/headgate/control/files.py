"""Save and load a ledger as a numpy npz file without pickle, which is written
completely or not at all.
"""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.buffers import kind_of
from headgate.control.controller import Controller
from headgate.control.types import LEDGER_ARRAYS, Contents, Ledger, Losses, Terms
from headgate.errors import DataError
from headgate.writing import replace_file

FORMAT = "headgate ledger 3"


def save_ledger(ledger: Ledger, path: Path) -> None:
    """Write the ledger to `path`. If writing fails, an existing file stays unchanged.

    Whole numbers are stored in the narrowest type that holds them: most counts of a
    million clients need one byte.
    """
    arrays: dict[str, NDArray[Any]] = {
        name: getattr(ledger, name) for name in LEDGER_ARRAYS
    }
    arrays |= {
        f"contents/{name}": array for name, array in _contents(ledger.contents).items()
    }
    arrays |= {f"memory/{name}": array for name, array in ledger.memory.items()}
    if ledger.losses is not None:
        arrays |= {
            f"losses/{name}": array
            for name, array in ledger.losses._asdict().items()
            if array is not None
        }
    if ledger.looks is not None:
        arrays["looks"] = ledger.looks
    head = json.dumps(
        {"format": FORMAT, "t": ledger.t, "terms": ledger.terms._asdict()}
    )
    narrow = {}
    for name, array in arrays.items():
        whole = array.dtype.kind == "i" and array.size
        kind = (
            kind_of(max(int(array.max()), -int(array.min()) - 1))
            if whole
            else array.dtype
        )
        narrow[name] = array.astype(kind, order="C", copy=False)
    replace_file(path, lambda file: np.savez(file, head=np.array(head), **narrow))  # type: ignore[arg-type]


def load_ledger(path: Path, controller: Controller) -> Ledger:
    """Return the ledger in `path`, or raise if its terms, names, shapes or types differ
    from what `controller` would open.
    """
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        head = json.loads(str(stored.pop("head")))
        t = head["t"]
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        zipfile.BadZipFile,
    ) as error:
        raise DataError(f"{path}: not a readable ledger ({error})") from None
    if head.get("format") != FORMAT or not isinstance(t, int) or t < 0:
        raise DataError(f"{path}: not a ledger of this version")
    try:
        Terms(**head["terms"]).check(controller.terms, str(path))
    except (KeyError, TypeError):
        raise DataError(f"{path}: its terms are missing; the file is damaged") from None
    empty = controller.open()
    fields: dict[str, Any] = {
        name: _matching(path, name, stored.pop(name, None), getattr(empty, name))
        for name in LEDGER_ARRAYS
    }

    def matching(
        state: str, own: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        return {
            key: _matching(
                path, f"{state}/{key}", stored.pop(f"{state}/{key}", None), like
            )
            for key, like in own.items()
        }

    known = _contents(empty.contents)
    if empty.contents.born is not None:
        known["born"] = np.broadcast_to(
            np.int32(0), empty.contents.born.shape
        )  # the file may hold rounds in any integer type
    held, memory = matching("contents", known), matching("memory", empty.memory)
    losses = None
    if controller.policy.hears and "losses/new" in stored:
        unknown = np.zeros(empty.credit.shape)
        names = [
            f"losses/{name}"
            for name in Losses._fields
            if name != "right" or "losses/right" in stored
        ]
        losses = Losses(
            *(
                _matching(path, name, stored.pop(name, None), unknown, missing=True)
                for name in names
            )
        )
    looks = (
        None
        if empty.looks is None
        else _matching(path, "looks", stored.pop("looks", None), empty.looks)
    )
    if stored:
        raise DataError(
            f"{path}: holds {', '.join(sorted(stored))}, which this policy does not"
            " know"
        )
    recent = tuple(
        held.pop(f"recent.{slot}") for slot in range(len(empty.contents.recent))
    )
    contents = Contents(recent, **held)
    ledger = replace(
        empty,
        t=t,
        contents=contents,
        memory=memory,
        losses=losses,
        looks=looks,
        **fields,
    )
    in_order = looks is None or bool(
        np.all((looks >= 0) & (looks <= ledger.spent * (1 + 1e-9)))
    )
    if (
        not in_order
        or np.any(ledger.occupancy < 0)
        or np.any(ledger.debt < 0)
        or np.any(ledger.spent < 0)
    ):
        raise DataError(
            f"{path}: negative occupancy, debt or spend; the file is damaged"
        )
    return ledger


def _contents(contents: Contents) -> dict[str, NDArray[Any]]:
    """Return the arrays of `contents` by name, without those that are None."""
    named = {f"recent.{slot}": array for slot, array in enumerate(contents.recent)}
    return named | {
        name: array
        for name, array in contents._asdict().items()
        if name != "recent" and array is not None
    }


def _matching(
    path: Path,
    name: str,
    found: NDArray[Any] | None,
    like: NDArray[Any],
    missing: bool = False,
) -> NDArray[Any]:
    """Return the array with the type of `like`, or raise DataError if it does not
    match; `missing` allows NaN.
    """
    if found is None:
        raise DataError(
            f"{path}: {name} is missing; it was written by another policy or is damaged"
        )
    if (
        found.shape == like.shape
        and found.dtype.kind == like.dtype.kind == "i"
        and np.can_cast(found.dtype, like.dtype)
    ):
        return found.astype(like.dtype)
    if found.shape != like.shape or found.dtype != like.dtype:
        raise DataError(
            f"{path}: {name} is {found.dtype}{list(found.shape)}, expected"
            f" {like.dtype}{list(like.shape)}"
        )
    if found.dtype.kind == "f" and not np.all(
        np.isfinite(found) | (missing & np.isnan(found))
    ):
        raise DataError(
            f"{path}: {name} holds numbers that are not finite; the file is damaged"
        )
    return found
