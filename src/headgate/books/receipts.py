"""What a client's receipt must be before it may count, and what it settles."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headgate.books.ledger_store import Ordered
from headgate.books.messages import Ahead, Order, Receipt
from headgate.errors import DataError


class Closings(NamedTuple):
    """What a report says about the orders to its client."""

    closed: list[Ordered]
    """open orders, with what was admitted on each"""
    corrected: list[Ordered]
    """samples on orders that were closed too low by an earlier answer, as orders of their own"""

    @property
    def admitted(self) -> int:
        """Samples that the server had not known of."""
        return sum(row.admitted or 0 for row in (*self.closed, *self.corrected))


def check_address(receipt: Receipt | Ahead, order: Order) -> None:
    """An answer to another order says nothing about this one."""
    for name in ("experiment", "round", "client"):
        found, wanted = getattr(receipt, name), getattr(order, name)
        if found != wanted:
            raise DataError(f"answers as {name} {found}, was asked as {name} {wanted}")


def closings(
    receipt: Receipt, order: Order, unheard: Mapping[int, Ordered], past: Mapping[int, Ordered], lasts: Mapping[int, int]
) -> Closings:
    """What a report settles; refused where it contradicts what was ordered.

    `unheard` are the open orders by round; an answer settles all of them, since a client ignores orders older than its last.
    `past` are closed orders of the rounds it tells of, and `lasts` says up to where they went. What is more on these than was
    known is charged now, at their price; a claim that was paid stays paid.
    """
    said = dict(zip(receipt.rounds, receipt.admitted, strict=True))
    before, more, position = 0, dict[int, int](), receipt.position - sum(receipt.admitted)
    for t in sorted(said.keys() | unheard.keys()):
        row, admitted = unheard.get(t) or past.get(t), said.get(t, 0)
        known = (row.admitted or 0) if row is not None else 0
        ordered = 0 if row is None else row.ordered
        # an order says up to where: what was admitted since the last answer counts
        left = max(min(ordered, lasts[t] - position) if t in past else ordered - before, 0)
        if admitted > left:
            raise DataError(f"admitted {admitted} samples in round {t}, {left} of {ordered} ordered ones were left")
        before += admitted - known
        position += admitted
        if t in past and admitted > known:
            more[t] = admitted - known
    if receipt.position != order.known + before:
        raise DataError(f"has ever admitted {receipt.position} samples, by its answers {order.known + before}")
    closed = [row._replace(admitted=said.get(t, 0), learned=receipt.round) for t, row in sorted(unheard.items())]
    owed = before - sum(row.admitted or 0 for row in closed)
    if owed < 0:
        raise DataError(f"takes back {-owed} samples that it told of before")
    return Closings(closed, list(_corrected(past, more, owed, receipt.round)))


def _corrected(past: Mapping[int, Ordered], more: Mapping[int, int], owed: int, now: int) -> Iterator[Ordered]:
    """`owed` samples on the orders that were closed too low, the oldest first."""
    for t, most in sorted(more.items()):
        count, row = min(most, owed), past[t]
        owed -= count
        if count:
            free = max(row.free - (row.admitted or 0), 0)
            yield row._replace(ordered=count, free=min(free, count), admitted=count, learned=now)


def check_held(receipt: Receipt, order: Order, expected: int) -> None:
    """`expected` is what the client holds if it did as it says; less only by what it withdrew, or where a store is gone."""
    expected -= receipt.withdrawn
    if receipt.occupancy != expected if receipt.lost == 0 else receipt.occupancy > expected:
        raise DataError(f"holds {receipt.occupancy} samples, {expected} were to be held")
    if receipt.trained and not order.train:
        raise DataError("trained without being asked to")
