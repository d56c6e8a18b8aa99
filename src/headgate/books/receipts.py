"""What an answer says about each order to a client that counts its samples.

A client admits samples up to where its last order went, and ignores an order once it
has done a later one. So an answer says about all its orders under way what became of
them: what it does not report will not arrive.
"""

from collections.abc import Mapping

from headgate.books.nouns import Delivery, OrderState
from headgate.errors import LedgerError


def deliveries(
    admitted: Mapping[int, int],
    orders: Mapping[int, OrderState],
) -> list[Delivery]:
    """Return what an answer says about each order.

    Parameters
    ----------
    admitted : dict of int to int
        Samples that the client says it has admitted in each of some rounds.
    orders : dict of int to OrderState
        Its orders under way, and its other orders of these rounds, by round.

    Returns
    -------
    list of Delivery
        One for each order, by round.

    Raises
    ------
    LedgerError
        If it reports more than was ordered, or less than it did before.

    Examples
    --------
    Of five samples that were ordered three came, so two are cancelled:

    >>> from decimal import Decimal
    >>> order = OrderState(1, 0, "2026-11-19", Decimal(2), asked=5)
    >>> (found,) = deliveries({1: 3}, {1: order})
    >>> found.delivered, found.cancelled
    (3, 2)
    """
    found, before = list[Delivery](), 0
    for t in sorted(admitted.keys() | orders.keys()):
        said, order = admitted.get(t, 0), orders.get(t)
        asked = known = left = 0
        if order is not None:
            asked, known = order.asked, order.delivered + order.beyond
            # an order states a position, so samples of earlier orders count in it
            left = max(asked - known - before, 0)
        more = said - known
        if more > left:
            raise LedgerError(
                f"admitted {said} samples in round {t}, {left} of {asked} ordered ones"
                " were left"
            )
        if more < 0:
            raise LedgerError(f"takes back {-more} samples that it reported before")
        before += more
        if order is not None:
            cancelled = max(order.under_way - more, 0)
            found.append(Delivery(more, cancelled=cancelled, round=t))
    return found
