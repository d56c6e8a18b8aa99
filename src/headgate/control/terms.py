"""What a ledger was opened for. With other terms, money spent before would count against another budget."""

import hashlib
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from headgate.errors import LedgerError


class Terms(NamedTuple):
    policy: str
    """the name of its class"""
    runs: int
    clients: int
    budget: float
    horizon: int | None
    buffers: str
    """places of all clients, and a checksum of the list"""

    @classmethod
    def of(cls, policy: object, runs: int, buffer: NDArray[np.int64], budget: float, horizon: int | None) -> Self:
        buffers = f"{buffer.sum()} places ({hashlib.sha256(buffer.tobytes()).hexdigest()[:8]})"
        end = None if horizon is None else int(horizon)
        return cls(type(policy).__name__, int(runs), buffer.size, float(budget), end, buffers)

    def check(self, asked: Self, what: str) -> None:
        """Refuse a controller of other terms, naming the first that differs."""
        for name, own, other in zip(self._fields, self, asked, strict=True):
            if own != other:
                raise LedgerError(f"{what} was opened with {name} = {own}, this controller has {other}")
