"""What purchases saved, beside two buyers who spread them evenly over the same rounds.

Both see the recorded prices, and count the rounds in which anything could be bought:

- *the same labels*: each client's labels in equal parts over the rounds, at its price
  in each of them;
- *the same money*: in equal parts over the rounds, in each of them divided among the
  clients in proportion to the places that could be filled, and never more than these
  places. Money that a round cannot spend is left to later rounds. Parts of labels
  count, which favours this buyer.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from headgate.control.types import Floats, Ints

EQUAL = 1e-9
"""relative difference below which two amounts count as equal"""


def money_text(value: float, unit: str = "") -> str:
    """Return an amount for people, with its currency before it: two decimals, and three
    significant digits below 1.

    >>> money_text(389.6190347, "$"), money_text(0.0762762), money_text(0.08)
    ('$ 389.62', '0.0763', '0.08')
    >>> money_text(-4.5, "$"), money_text(0.0), money_text(1234.5)
    ('$ −4.50', '0.00', '1,234.50')
    """
    digits = 2
    if 0 < abs(value) < 0.995:
        digits -= math.floor(math.log10(abs(value)))
    text = f"{value:,.{digits}f}"
    while digits > 2 and text.endswith("0"):
        text, digits = text[:-1], digits - 1
    return f"{unit} {text.replace('-', '−')}".strip()


class BoughtRound(NamedTuple):
    """What one round offered, and what was bought in it.

    Parameters
    ----------
    price : array of float
        The price of a label, (1,), or (M,) if each client has its own.
    bought : array of int
        The labels that were paid for, (M,).
    paid : float
        Their price in all.
    places : array of int
        The most labels that each client could be given, (M,).
    """

    price: Floats
    bought: Ints
    paid: float
    places: Ints


class Saved(NamedTuple):
    """What purchases cost, and what even ones would have cost.

    Parameters
    ----------
    labels : int
        The labels that were bought.
    paid : float
        Their price in all.
    even_cost : float
        The price of the same labels, spread evenly over the rounds.
    even_labels : float
        The labels that the same money buys, spread evenly over the rounds.
    moved : bool
        Whether the price ever changed.
    """

    labels: int
    paid: float
    even_cost: float
    even_labels: float
    moved: bool

    @property
    def money(self) -> float:
        """The money saved on these labels; below 0: they cost more."""
        return self.even_cost - self.paid

    def sentence(self, unit: str = "") -> str:
        """Return both comparisons in words.

        Parameters
        ----------
        unit : str
            The currency.

        Returns
        -------
        str
            One or two sentences.
        """
        if not self.labels:
            return "No label was bought yet."
        each, even = self.paid / self.labels, self.even_cost / self.labels
        text = (
            f"{self.labels:,} labels for {money_text(self.paid, unit)},"
            f" {money_text(each, unit)} each"
        )
        if not self.moved:
            return f"{text}; the price never changed, so there was nothing to save."
        many = math.floor(self.even_labels * (1 + EQUAL))
        return (
            f"{text}; bought evenly at the same prices: {money_text(even, unit)} each;"
            f" {self._gain(unit)}. The same money spent evenly, within the same limits:"
            f" {many:,} labels."
        )

    def _gain(self, unit: str) -> str:
        """Return what was saved or lost, in words."""
        amount = money_text(abs(self.money), unit)
        if abs(self.money) <= EQUAL * self.even_cost:
            return "saved nothing"
        share = f"({abs(self.money) / self.even_cost:.0%})".replace("%", " %")
        if self.even_cost == 0:
            share = ""
        if self.money > 0:
            return f"saved {amount} {share}".rstrip()
        return f"cost {amount} more {share}".rstrip()


def saved(rounds: Iterable[BoughtRound]) -> Saved:
    """Compare purchases with those of two buyers who spread them evenly.

    Parameters
    ----------
    rounds : iterable of BoughtRound
        All rounds, also those without a purchase, which are read several times and need
        not be held. Clients that join later make the arrays of later rounds longer.

    Returns
    -------
    Saved
        Labels and money.

    Examples
    --------
    >>> places = np.array([10])
    >>> cheap = BoughtRound(np.array([1.0]), np.array([10]), 10.0, places)
    >>> dear = BoughtRound(np.array([4.0]), np.array([0]), 0.0, places)
    >>> found = saved([cheap, dear])
    >>> found.even_cost, found.even_labels
    (25.0, 6.25)
    >>> found.sentence("$").split(". ")[1]
    'The same money spent evenly, within the same limits: 6 labels.'
    """
    sums, paid = np.zeros((3, 0)), list[float]()
    low, high = math.inf, -math.inf
    for each in _offered(rounds):
        clients = each.bought.size
        if clients > sums.shape[1]:
            sums = np.pad(sums, [(0, 0), (0, clients - sums.shape[1])])
        sums[:, :clients] += np.broadcast_arrays(each.bought, each.price, 1)
        paid.append(each.paid)
        low, high = min(low, each.price.min()), max(high, each.price.max())
    labels, prices, seen = sums
    money = math.fsum(paid)
    return Saved(
        labels=int(labels.sum()),
        paid=money,
        even_cost=float((labels * (prices / np.maximum(seen, 1))).sum()),
        even_labels=_same_money(rounds, len(paid), money),
        moved=bool(low < high),
    )


def _offered(rounds: Iterable[BoughtRound]) -> Iterator[BoughtRound]:
    """Yield the rounds in which anything could be bought."""
    return (each for each in rounds if each.places.any() or each.bought.any())


def _same_money(
    rounds: Iterable[BoughtRound],
    number: int,
    money: float,
) -> float:
    """Return the labels that the money buys in equal parts in so many rounds, within
    the places.
    """
    labels = 0.0
    for left, each in zip(range(number, 0, -1), _offered(rounds), strict=True):
        places = np.maximum(each.places, each.bought)
        cost = float((each.price * places).sum())
        part = money / left
        share = 1.0 if cost <= part else part / cost
        labels += share * float(places.sum())
        money -= share * cost
    return labels
