"""Ties a function to the erratum whose numbers it computes."""

from collections.abc import Callable

Numbers = dict[str, float]
SHOWN: dict[int, Callable[[], Numbers]] = {}


def shows(number: int) -> Callable[[Callable[[], Numbers]], Callable[[], Numbers]]:
    """Mark a function as the numbers of this erratum, each under what it is."""

    def mark(function: Callable[[], Numbers]) -> Callable[[], Numbers]:
        SHOWN[number] = function
        return function

    return mark
