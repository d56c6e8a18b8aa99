"""What a client's answer must be before it may count: each check gives a reason to reject it, or None."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.flower.ledger_store import Ordered
from headgate.flower.messages import Order, Told

NamedArrays = Mapping[str, NDArray[Any]]
"""a model: its parameters by name"""


def wrong_address(told: Told, order: Order) -> str | None:
    """An answer to another order says nothing about this one."""
    for name in ("experiment", "round", "client"):
        found, wanted = getattr(told, name), getattr(order, name)
        if found != wanted:
            return f"answers as {name} {found}, was asked as {name} {wanted}"
    return None


def disagreement(told: Told, order: Order, unheard: Mapping[int, Ordered], expected: int) -> str | None:
    """Where an answer contradicts what was ordered. `unheard` are the orders it may answer, by round; `expected` is what
    the client holds if it did as it says."""
    said = dict(zip(told.rounds, told.admitted, strict=True))
    before = 0
    for t, admitted in said.items():
        ordered = unheard[t].ordered if t in unheard else 0
        left = max(ordered - before, 0)  # an order says up to where: what was admitted since the last answer counts
        if admitted > left:
            return f"admitted {admitted} samples in round {t}, {left} of {ordered} ordered ones were left"
        before += admitted
    position = order.known + sum(said.values())
    if told.position != position:
        return f"has ever admitted {told.position} samples, by its answers {position}"
    if told.occupancy != expected if told.lost == 0 else told.occupancy > expected:
        return f"holds {told.occupancy} samples, {expected} were to be held"
    if told.trained and not order.train:
        return "trained without being asked to"
    return None


def unfit(update: NamedArrays, model: NamedArrays, longest: float | None = None) -> str | None:
    """Why an update cannot be averaged into the model."""
    if update.keys() != model.keys():
        missing, extra = sorted(model.keys() - update.keys()), sorted(update.keys() - model.keys())
        return f"names differ: {', '.join(missing) or 'none'} missing, {', '.join(extra) or 'none'} too many"
    for name, array in update.items():
        if array.shape != model[name].shape:
            return f"{name} has shape {array.shape}, expected {model[name].shape}"
        if array.dtype != model[name].dtype:
            return f"{name} is {array.dtype}, expected {model[name].dtype}"
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            return f"{name} holds numbers that are not finite"
    if longest is not None:
        length = distance(update, model)
        if not length <= longest:
            return f"the update has length {length:.6g}, at most {longest:g} is accepted"
    return None


def distance(update: NamedArrays, model: NamedArrays) -> float:
    """‖θ_m − θ‖ over all parameters."""
    squares = (np.square(array.astype(np.float64) - model[name].astype(np.float64)).sum() for name, array in update.items())
    return float(np.sqrt(sum(squares)))
