"""No update moves the model much farther than those of other clients: one that would is shortened.

The measure is the largest median length of a round's updates so far. The median of the latest round alone would be too
small: once most clients have learned what they hold, one that has bought new samples moves much farther than they do.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headgate.books.ledger_store import Event, Medians
from headgate.flower.rounds import Update
from headgate.flower.validation import NamedArrays, distance

KINDS = {"f": "its update", "iu": "its update of whole numbers"}
"""arrays that are measured together: numbers of steps are much larger than changes of parameters"""
FEWEST = 3
"""updates of a round whose median no client decides alone"""


def capped(
    t: int, updates: Sequence[Update], model: NamedArrays, multiple: float, known: Medians
) -> tuple[list[Update], Medians, list[Event]]:
    """The updates of round t, the largest medians now, and what is to be told.

    Parameters
    ----------
    multiple
        an update longer than this many medians gets the length of the median; all others stay as they are
    known
        the largest medians of earlier rounds, of real and of whole numbers. Where nobody's real numbers have moved yet, an
        update may have any length; where nobody's whole numbers have, they stay.
    """
    after, medians, events = list(updates), list[float | None](), list[Event]()
    for (kinds, what), median in zip(KINDS.items(), known, strict=True):
        lengths = [distance(update.model, model, kinds) for update in updates]
        if len(lengths) >= FEWEST:
            median = max(median or 0.0, float(np.median(lengths)))
        medians.append(median)
        if median is None or (median == 0 and kinds == "f"):
            continue
        for place, length in enumerate(lengths):
            if length > multiple * median:
                after[place] = _shortened(after[place], model, kinds, median / length)
                why = f"has length {length:.6g}, more than {multiple:g} times the median {median:.6g}, and gets the median's"
                events.append(Event(t, after[place].client, "shortened", f"{what} {why}"))
    return after, (medians[0], medians[1]), events


def _shortened(update: Update, model: NamedArrays, kinds: str, share: float) -> Update:
    """With this share of the way from the model, in the arrays of these kinds."""
    arrays = dict(update.model)
    for name, base in model.items():
        if base.dtype.kind in kinds:
            start = base.astype(np.float64)
            moved = start + share * (arrays[name].astype(np.float64) - start)
            arrays[name] = (np.rint(moved) if base.dtype.kind in "iu" else moved).astype(base.dtype)
    return replace(update, model=arrays)
