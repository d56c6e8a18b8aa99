"""The nouns of the accounts, each once: purchase, delivery, order, sample, entry and
balance.

An *order* is what a client was asked to buy in a round. Each of its samples is at any
time in one state: under way, delivered, cancelled, or rejected after its delivery.
Money, places, keys and the statement follow from these numbers alone.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

from headgate.books.exact import EXACT, NOTHING, charged, total

DELIVERED, REJECTED, BEYOND = "delivered", "rejected", "beyond"
"""states of a sample with a key: paid for; given back; or arrived beyond its order, and
so not paid for
"""
Client = int | str
"""a client: its number or, if the system has names, its name"""


class Purchase(NamedTuple):
    """What one client is asked to buy in a round, as `begin` returns it.

    Parameters
    ----------
    client : int or str
        The client: its name if the system has names, else its number.
    round : int
        The round.
    samples : int
        Number of new samples to buy. They are under way from now on.
    price : float
        Price of each sample.
    keep : int
        The most samples that the client may hold. What arrives replaces the oldest.
    last : int
        Samples delivered by the client before this round, plus `samples`. A client that
        counts its admissions up to here admits nothing twice.
    drop : tuple of str
        Keys of samples that were rejected since the client's last purchase, which it is
        to drop.

    Examples
    --------
    >>> bought = Purchase("clinic-a", 1, samples=3, price=2.5, keep=8, last=3)
    >>> bought.samples * bought.price, bought.held(3)
    (7.5, range(0, 3))
    """

    client: Client
    round: int
    samples: int
    price: float
    keep: int
    last: int
    drop: tuple[str, ...] = ()

    def held(self, position: int) -> range:
        """Return the admissions that the client holds once it has `position` of them.

        Parameters
        ----------
        position : int
            Number of samples that the client has ever admitted.

        Returns
        -------
        range
            Their numbers, counted from 0.

        Examples
        --------
        Three samples fewer than were ordered:

        >>> purchase = Purchase(0, 4, samples=5, price=2.0, keep=10, last=15)
        >>> purchase.held(12)
        range(2, 12)
        """
        return range(max(position - self.keep, 0), position)


class Delivery(NamedTuple):
    """What is reported about one order: a plain number is a delivery of that many
    samples of this round's order.

    Parameters
    ----------
    delivered : int, default 0
        Samples that arrived since the last report on this order.
    keys : iterable of str, optional
        Keys of these samples, one for each or none at all. A key that was paid for is
        refused.
    cancelled : int, default 0
        Samples that will not arrive: skipped, withdrawn or given up. Their money is
        free again.
    rejected : mapping of str to str, optional
        Delivered samples that are given back, by key, each with the reason. They are
        refunded, and the client is told to drop them.
    round : int, optional
        Round of the order; left out: the round that is open.
    erased : int, default 0
        Samples that the client should hold now but that were erased; they are recorded,
        and change nothing else.

    Examples
    --------
    >>> Delivery(2, keys=["photo-17", "photo-18"]).delivered
    2
    """

    delivered: int = 0
    keys: Iterable[str] = ()
    cancelled: int = 0
    rejected: Mapping[str, str] = MappingProxyType({})
    round: int | None = None
    erased: int = 0


class OrderState(NamedTuple):
    """An order, and how many of its samples are in which state.

    Parameters
    ----------
    round, client : int
        Round and number of the client.
    at : str
        Time in UTC at which it was written.
    price : decimal.Decimal
        Price of a sample.
    asked : int
        Samples that were ordered.
    free : int
        Samples of the order that are not paid for; they arrive first.
    delivered : int
        Samples that arrived, those that were rejected later included.
    cancelled : int
        Samples that will not arrive.
    rejected : int
        Delivered samples that were given back.
    beyond : int
        Samples that arrived beyond the order, or after it was cancelled: not charged.
    adjusted : decimal.Decimal
        Sum of the adjustments to invoices; below 0: a refund.
    answered : int or None
        Last round in which something of it was reported; None: nothing yet.
    expires : int, str or None
        Last round, or time in UTC, at which a sample may arrive; None: at any time.
    """

    round: int
    client: int
    at: str
    price: Decimal
    asked: int
    free: int = 0
    delivered: int = 0
    cancelled: int = 0
    rejected: int = 0
    beyond: int = 0
    adjusted: Decimal = NOTHING
    answered: int | None = None
    expires: int | str | None = None

    @property
    def under_way(self) -> int:
        """Samples that may still arrive."""
        return self.asked - self.delivered - self.cancelled

    @property
    def bought(self) -> int:
        """Samples that arrived, were not rejected, and are paid for."""
        return max(self.delivered - self.rejected - self.free, 0)

    def charged(self, quantum: Decimal) -> Decimal:
        """Return the price of the samples that arrived and were not rejected, in whole
        units of `quantum`.
        """
        return charged(self.price, self.bought, quantum)

    def paid(self, quantum: Decimal) -> Decimal:
        """Return the charge with the adjustments."""
        return EXACT.add(self.charged(quantum), self.adjusted)

    def reserved(self, quantum: Decimal) -> Decimal:
        """Return what the order costs more if all that is under way arrives."""
        if not self.under_way:
            return NOTHING
        bought = self.bought
        most = max(self.asked - self.cancelled - self.rejected - self.free, 0)
        if not quantum:
            return charged(self.price, most - bought)
        more = charged(self.price, most, quantum)
        return EXACT.subtract(more, charged(self.price, bought, quantum))

    def to_row(self) -> list[Any]:
        """Return the order as JSON holds it."""
        return [str(each) if isinstance(each, Decimal) else each for each in self]

    @classmethod
    def of_row(cls, row: Iterable[Any]) -> "OrderState":
        """Return the order in a row."""
        fields = dict(zip(cls._fields, row, strict=True))
        for name in ("price", "adjusted"):
            fields[name] = Decimal(fields[name])
        return cls(**fields)


class KeyedSample(NamedTuple):
    """A sample with a key.

    Parameters
    ----------
    client : int
        The client.
    key : str
        Its key, which is unique among the client's samples.
    round : int
        Round of the order on which it arrived.
    place : int
        Its number among all samples that were delivered by the client, from 0 on.
    state : str
        "delivered", "rejected" or "beyond".
    why : str
        Reason for which it was rejected.
    """

    client: int
    key: str
    round: int
    place: int
    state: str
    why: str = ""


class Entry(NamedTuple):
    """An entry of the log. The log is all that is true; everything else follows.

    Parameters
    ----------
    number : int
        Its number, from 1 on.
    at : str
        Time in UTC.
    kind : str
        What happened: opened, begun, settled, arrived, amended, adjusted, lifted.
    by, why : str
        Who did it, and the reason.
    request : str or None
        Key of the request. A request counts once.
    body : str
        What happened in detail, as JSON: the exact text that is stored and applied.
    hash : str
        SHA-256 of the hash of the entry before and all other fields.
    """

    number: int
    at: str
    kind: str
    by: str
    why: str
    request: str | None
    body: str
    hash: str


class Event(NamedTuple):
    """What happened to a client beside its orders, for the record.

    Parameters
    ----------
    round, client : int
        Round and number of the client; −1: no client.
    kind : str
        What happened, as rejected, quarantined, lifted or withdrawn.
    reason : str
        Why, in words.
    """

    round: int
    client: int
    kind: str
    reason: str


class ClientRow(NamedTuple):
    """The standing of a client, and what it last told of itself.

    Parameters
    ----------
    client : int
        Its number.
    name : int or str
        Its name if the system has names, else its number.
    heard : int
        Round of its last valid answer.
    offences : int
        Number of refused answers.
    quarantined : bool
        Whether it gets no purchases.
    lost, distinct, uses, squares, withdrawn, erased : int
        As in `Told`.
    """

    client: int
    name: Client
    heard: int
    offences: int
    quarantined: bool
    lost: int
    distinct: int
    uses: int
    squares: int
    withdrawn: int = 0
    erased: int = 0


class Node(NamedTuple):
    """The client that a node of Flower is.

    Parameters
    ----------
    node, client : int
        The node and the client.
    since : int
        Logical time at which the node last became this client, counted by `Roster`.
    """

    node: int
    client: int
    since: int


class Balance(NamedTuple):
    """The money, as it is now.

    Parameters
    ----------
    rounds : int
        Number of settled rounds.
    approved : decimal.Decimal
        Money approved up to the horizon; with an open end, up to the round after the
        last settled one.
    spent : decimal.Decimal
        Money spent.
    reserved : decimal.Decimal
        Price of what is under way.
    """

    rounds: int
    approved: Decimal
    spent: Decimal
    reserved: Decimal

    @property
    def left(self) -> Decimal:
        """The approved money that is neither spent nor reserved; below 0 if a cut or an
        invoice came after it was spent.
        """
        return total([self.approved, -self.spent, -self.reserved])
