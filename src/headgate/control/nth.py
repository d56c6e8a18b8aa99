"""The value at a place of the ascending order, of many, without ordering them."""

import numpy as np

from headgate.control.types import Floats

SAMPLE = 8192
"""values by which the others are divided into below, between and above"""
AROUND = 256
"""values of the sample to either side of the place: five times as far off as that of a random sample usually is"""
MANY = 2**16
"""values from which looking around is quicker"""


def nth(values: Floats, n: int) -> float:
    """The same as sorted(values)[n].

    Of a million it lies between two values of a sample, where a fraction of them is left to be divided. Where it does not,
    all are.
    """
    if values.size >= MANY:
        sample = np.sort(values[:: values.size // SAMPLE | 1])
        place = n * sample.size // values.size
        low, high = sample[max(place - AROUND, 0)], sample[min(place + AROUND, sample.size - 1)]
        within = n - np.count_nonzero(values < low)
        between = values[np.flatnonzero((values >= low) & (values <= high))]
        if 0 <= within < between.size:
            return float(np.partition(between, within)[within])
    return float(np.partition(values, n)[n])
