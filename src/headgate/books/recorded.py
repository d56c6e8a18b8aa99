"""What the accounts record beside their orders: amendments, and what was offered."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from headgate.books.course import supply_of
from headgate.books.journal import changed
from headgate.control.amendments import Amendment
from headgate.control.supply import Supply


class Offered(NamedTuple):
    """What could be bought in a settled round.

    Parameters
    ----------
    round : int
        The round.
    begun : str
        Time in UTC at which the orders were written.
    price : tuple of float
        The price of a sample, or one for each client.
    stated : dict
        The supply as it is written.
    """

    round: int
    begun: str
    price: tuple[float, ...]
    stated: Mapping[str, Any]

    @property
    def supply(self) -> Supply:
        """The clients that were present, and what could be bought."""
        return supply_of(self.stated)


class AmendmentRow(NamedTuple):
    """An amendment or an adjustment, with its date and its author.

    Parameters
    ----------
    id : int
        Its number.
    round : int
        The last round before it.
    made : str
        Time in UTC at which it was made.
    by, why : str
        Who made it, and the reason.
    change : Amendment
        What changes.
    order : tuple of int or None
        Round and client of the order whose cost is adjusted; None: no order is.
    key : str or None
        Name under which it counts once, as the number of an invoice.
    """

    id: int
    round: int
    made: str
    by: str
    why: str
    change: Amendment
    order: tuple[int, int] | None
    key: str | None = None

    def stated(self) -> str:
        """Return the change in one line, as in `money 500`."""
        text = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in changed(self.change).items()
        )
        if self.order is None:
            return text
        return f"{text} of round {self.order[0]}, client {self.order[1]}"
