"""Cheap clients first, as far as every client keeps its share."""

import numpy as np

from headgate.control.types import Floats, Ints


def fair(wanted: Floats, bought: Ints, buffer: Ints, tolerance: float) -> Floats:
    """The purchase nearest to `wanted` (R, M) of the same size that keeps every client's share within ±`tolerance` of its due.

    A client's due is B_m/B̄ of all that was ever bought, and the tolerance is relative to it. Buying in
    proportion to the buffers moves no share away from its due; from there the line to `wanted` is followed
    until the first client would leave its band. So the bands hold after the round if they held before.

    >>> fair(np.array([[10.0, 0.0]]), np.array([[10, 10]]), np.array([10, 10]), 0.2)
    array([[8., 2.]])
    """
    due = buffer / buffer.sum()
    size, before = wanted.sum(axis=-1, keepdims=True), bought.sum(axis=-1, keepdims=True)
    step = wanted - size * due
    ahead = bought - before * due
    slack = tolerance * due * (before + size) - np.where(step > 0, ahead, -ahead)
    part = np.divide(slack, np.abs(step), out=np.ones_like(step), where=step != 0)
    return np.asarray(size * due + np.clip(part.min(axis=-1, keepdims=True), 0.0, 1.0) * step)


def divided(total: Floats, wanted: Floats, places: Ints) -> Ints:
    """A whole `total` (R,) among the clients, nearest to in proportion to `wanted` (R, M), nobody beyond its places.

    >>> divided(np.array([6.0]), np.array([[2.6, 2.5, 0.4]]), np.array([3, 3, 3]))
    array([[3, 3, 0]])
    """
    size = wanted.sum(axis=-1, keepdims=True)
    due = np.divide(total[:, None] * wanted, size, out=np.zeros_like(wanted), where=size > 0)
    whole = np.minimum(np.floor(due * (1 - 1e-12)), places)  # rounding never makes it more than there is
    while (left := total - whole.sum(axis=-1)).any():
        first = np.argsort(np.where(whole < places, whole - due, np.inf), axis=-1, kind="stable")
        rank = np.argsort(first, axis=-1, kind="stable")
        whole += (rank < left[:, None]) & (whole < places)
    return np.asarray(whole, dtype=np.int64)
