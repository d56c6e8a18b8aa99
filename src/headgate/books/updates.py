"""Updates of a model from clients that nobody has to trust: how long they are, which
are refused, which are shortened.

Flower and NVFlare share these rules. This file needs numpy alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.limits import LARGEST

NamedArrays = Mapping[str, NDArray[Any]]
"""the parameters of a model, by name"""
HUGE = 1e100
"""largest absolute value in an update, so that a mean of updates is finite; larger
metrics are left out
"""
UNKNOWN = -1.0
"""a median that is not known yet"""
KINDS = {"f": "its update", "iu": "its update of whole numbers"}
"""kinds of dtype that are measured together, and their names in events: step counts
change much more than parameters
"""
FEWEST = 3
"""smallest number of updates whose median no single client decides"""


class Shortened(NamedTuple):
    """The note that an update was shortened."""

    place: int
    """place of the update among those of the round"""
    reason: str


def distance(
    update: NamedArrays,
    model: NamedArrays,
    kinds: str = "fiubc",
) -> float:
    """Return ‖θ_m − θ‖ over the parameters with these kinds of dtype."""
    both = (
        (array, model[name])
        for name, array in update.items()
        if array.dtype.kind in kinds
    )
    return float(
        np.sqrt(
            sum(
                np.square(array.astype(np.float64) - base.astype(np.float64)).sum()
                for array, base in both
            )
        )
    )


def in_type_of(start: NDArray[Any], moved: NDArray[Any]) -> NDArray[Any]:
    """Return `moved` in the dtype of `start`, rounded if that holds whole numbers."""
    whole = start.dtype.kind in "iu" and moved.dtype.kind == "f"
    return (np.rint(moved) if whole else moved).astype(start.dtype, copy=False)


def check_update(
    update: NamedArrays,
    model: NamedArrays,
    longest: float | None = None,
) -> None:
    """Refuse an update that cannot be averaged into the model."""
    for name, array in update.items():
        if array.dtype.kind in "fc" and not float(np.abs(array).max(initial=0)) <= HUGE:
            raise DataError(
                f"{name} holds numbers that are not finite, or beyond {HUGE:g}"
            )
        if array.dtype.kind in "iu" and distance({name: array}, model) > LARGEST:
            raise DataError(f"{name} moves whole numbers by more than {LARGEST}")
    if longest is not None:
        length = distance(update, model)
        if not length <= longest:
            raise DataError(
                f"the update has length {length:.6g}, at most {longest:g} is accepted"
            )


def shorten(
    updates: Sequence[NamedArrays],
    model: NamedArrays,
    multiple: float,
    known: Sequence[float],
) -> tuple[list[NamedArrays], list[float], list[Shortened]]:
    """Return the updates of a round, the largest medians so far, and notes on the
    updates that were shortened.

    An update longer than `multiple` times the median gets the length of the median, so
    that no client moves the model much farther than others. The measure is the largest
    median of any round so far (`known`, for real and for whole numbers): once most
    clients have learned what they hold, a client with new samples moves much farther
    than they do. As long as the median of real numbers is 0, an update may have any
    length; as long as that of whole numbers is 0, they do not change.
    """
    after, medians, notes = list(updates), list[float](), list[Shortened]()
    for (kinds, what), median in zip(KINDS.items(), known, strict=True):
        lengths = [distance(update, model, kinds) for update in updates]
        if len(lengths) >= FEWEST:
            median = max(median, float(np.median(lengths)))
        medians.append(median)
        if median == UNKNOWN or (median == 0 and kinds == "f"):
            continue
        for place, length in enumerate(lengths):
            if length > multiple * median:
                after[place] = _shortened(after[place], model, kinds, median / length)
                why = (
                    f"has length {length:.6g}, more than {multiple:g} times the median"
                    f" {median:.6g}, and gets the median's"
                )
                notes.append(Shortened(place, f"{what} {why}"))
    return after, medians, notes


def _shortened(
    update: NamedArrays,
    model: NamedArrays,
    kinds: str,
    share: float,
) -> NamedArrays:
    """Return the update with the change of its arrays of these kinds, relative to the
    model, multiplied by `share`.
    """
    arrays = dict(update)
    for name, base in model.items():
        if base.dtype.kind in kinds:
            start = base.astype(np.float64)
            arrays[name] = in_type_of(
                base, start + share * (arrays[name].astype(np.float64) - start)
            )
    return arrays
