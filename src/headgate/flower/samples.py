"""A sample as a client's store has it, and how it is looked at."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headgate.control.scores import Scores
from headgate.flower.sources import Label


class HeldSample(NamedTuple):
    position: int
    key: str
    payload: bytes
    label: Label | None
    round: int = 0
    """in which it was admitted"""


Look = Callable[[Sequence[HeldSample], tuple[str, ...]], Scores]
"""(samples, what is asked for) → what the model says of each of them"""
