"""A decorator that records which labels of the paper a function implements, the source
of `studies/paper/equations.md`.
"""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def paper(*labels: str) -> Callable[[T], T]:
    """Mark a function or class as the implementation of these labels of the paper."""

    def mark(thing: T) -> T:
        thing.__paper__ = labels  # type: ignore[attr-defined]
        return thing

    return mark
