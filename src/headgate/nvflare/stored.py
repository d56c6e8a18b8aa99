"""The model of a run on disk, in one file with what the cap on updates remembers, so
that both survive a kill together.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from headgate.books.updates import KINDS, UNKNOWN, check_update
from headgate.control.checks import amount
from headgate.errors import DataError, HeadgateError
from headgate.escaping import one_line
from headgate.nvflare.answers import Model
from headgate.writing import replace_file, sync

MEDIANS = "headgate.medians"
"""key of the medians in the file's meta data"""
LONGEST = 1e150
"""largest median that a file can state: no update of numbers up to `HUGE` is as long"""


class KeptModel(NamedTuple):
    """The model after a round, and the largest median lengths of updates so far."""

    arrays: Model
    medians: list[float]


def first(arrays: Model) -> KeptModel:
    return KeptModel(arrays, [UNKNOWN] * len(KINDS))


def write_model(path: Path, kept: KeptModel) -> None:
    """Write a model and its medians, whole or not at all."""
    arrays = {name: np.asarray(own, order="C") for name, own in kept.arrays.items()}
    replace_file(path, save(arrays, {MEDIANS: json.dumps(kept.medians)}))
    sync(path.parent)


def read_model(path: Path) -> KeptModel:
    """Return the model and its medians; a file of an older version has none."""
    try:
        with safe_open(path, framework="numpy") as file:
            stated = (file.metadata() or {}).get(MEDIANS)
            names = file.keys()  # it is no mapping
            arrays = {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError, TypeError) as error:
        raise DataError(f"{path}: cannot be read ({one_line(error, 200)})") from None
    try:
        check_update(arrays, arrays)
        return first(arrays) if stated is None else KeptModel(arrays, _medians(stated))
    except HeadgateError as error:
        raise DataError(f"{path}: is damaged: {error}") from None


def _medians(stated: str) -> list[float]:
    try:
        found: Any = json.loads(stated)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != len(KINDS):
        raise DataError(f"{MEDIANS}: must be {len(KINDS)} numbers")
    return [
        amount(
            MEDIANS,
            median,
            least=UNKNOWN,
            most=LONGEST,
        )
        for median in found
    ]
