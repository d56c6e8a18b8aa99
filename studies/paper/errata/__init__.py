"""Where the paper's text cannot be taken literally: what it says, what is true, and the numbers that show it."""

from collections.abc import Callable

Numbers = dict[str, float]
SHOWN: dict[int, Callable[[], Numbers]] = {}


def shows(number: int) -> Callable[[Callable[[], Numbers]], Callable[[], Numbers]]:
    """Mark a function as the numbers of this erratum, each under what it is."""
    return lambda function: SHOWN.setdefault(number, function)
