"""What a list of many folders takes in all. The small ones come first, so that no number of large ones hides a small one."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Each = TypeVar("Each")


class Allowance:
    """Bytes that may still be read."""

    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def take(self, size: int) -> bool:
        """Whether they may be read, and then they are counted."""
        fits = size <= self.left
        self.left -= size if fits else 0
        return fits

    def over(self, what: str) -> str:
        return f"{what} of this list are more than {self.most / 2**20:,.0f} MiB, and this one is among the largest: not read"


def smallest_first(all_: Iterable[Each], size: Callable[[Each], int]) -> list[tuple[Each, int]]:
    """Each with its size."""
    return sorted(((each, size(each)) for each in all_), key=lambda pair: pair[1])
