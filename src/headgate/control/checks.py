"""What a setting may be; each check refuses with the setting's name and value."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.errors import SettingError


def positive(name: str, value: ArrayLike) -> None:
    if not np.all(np.isfinite(value)) or np.any(np.asarray(value) <= 0):
        raise SettingError(f"{name} = {value!r}: must be a positive, finite number")


def zero_or_more(name: str, value: ArrayLike) -> None:
    if not np.all(np.isfinite(value)) or np.any(np.asarray(value) < 0):
        raise SettingError(f"{name} = {value!r}: must be a finite number, zero or more")


def inside_unit(name: str, value: ArrayLike) -> None:
    if not np.all((np.asarray(value) > 0) & (np.asarray(value) < 1)):
        raise SettingError(f"{name} = {value!r}: must lie strictly between 0 and 1")


def whole_numbers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """A fresh int64 array of the values, refused where they are not whole numbers."""
    array = np.array(values)
    if array.size and (array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)) or np.any(array != np.floor(array))):
        raise SettingError(f"{name} = {np.array2string(array, threshold=8)}: must be whole numbers")
    return array.astype(np.int64)
