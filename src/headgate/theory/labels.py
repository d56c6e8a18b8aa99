"""Ties a function to the labels of the paper it implements; `studies/paper/equations.md` is made from it."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def paper(*labels: str) -> Callable[[T], T]:
    """Mark a function or class as the code behind these labels of the paper."""

    def mark(thing: T) -> T:
        thing.__paper__ = labels  # type: ignore[attr-defined]
        return thing

    return mark
