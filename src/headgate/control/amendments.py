"""Amendments change the terms of a run in progress.

These are money, horizon, clients and corrected invoices. An amendment takes effect in
the next round. It does not change earlier approvals, decisions and payments.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import (
    amount,
    optional,
    text,
    true_or_false,
    whole_number,
)
from headgate.control.types import (
    LEDGER_ARRAYS,
    Amended,
    Contents,
    Floats,
    Ints,
    Ledger,
    System,
    Terms,
)
from headgate.errors import LedgerError, SettingError
from headgate.limits import CLIENTS, NUMBER, ROUNDS, SAMPLES, TINY

MONEY_ROUNDS = 1e-9
"""share of the amounts by which a sum of floats may differ from the exact sum of the
same amounts
"""


@dataclass(frozen=True)
class Amendment:
    """The terms that change from the next round on.

    A field that is left out changes nothing.

    Parameters
    ----------
    money : float, default 0.0
        Money approved in addition; below 0: money taken back. If less is approved than
        was spent, purchases stop.
    budget : float, optional
        New budget per round from the next round on; only with an open end.
    horizon : int or "open", optional
        New last round; the money approved is for the rounds up to it. A change from an
        open end approves the budget of each round up to it; a change to an open end
        keeps the present budget per round.
    join : int, optional
        Number of places of a client that joins; the client gets the next number and
        begins with an empty buffer.
    name : str, optional
        Name of the client that joins, if the clients have names.
    weight : float, optional
        Weight of the client that joins, as in `system.weights`; left out: the mean
        weight of the others.
    leave : int, optional
        Number of a client that leaves: it is given no more samples, and those that it
        holds are erased.
    suspend : bool, optional
        True: purchases stop until an amendment sets false.
    month : float, optional
        The most money that may be spent in a calendar month (UTC), in addition to all
        other limits; 0: removes this limit.
    adjust : float, default 0.0
        Amount by which an invoice exceeds what was charged; below 0: a refund.

    Raises
    ------
    SettingError
        If a value is not possible, or the amendment changes nothing.

    Examples
    --------
    >>> Amendment(money=500.0).changes_the_money
    True
    >>> Amendment(horizon=120).horizon
    120
    """

    money: float = 0.0
    budget: float | None = None
    horizon: int | Literal["open"] | None = None
    join: int | None = None
    weight: float | None = None
    leave: int | None = None
    suspend: bool | None = None
    month: float | None = None
    adjust: float = 0.0
    name: str | None = None

    def __post_init__(self) -> None:
        horizon = self.horizon
        if not isinstance(horizon, str) or horizon != "open":
            horizon = optional(whole_number, "horizon", horizon, 1, ROUNDS)
        checked = {
            "money": amount("money", self.money, -NUMBER),
            "budget": optional(amount, "budget", self.budget, TINY),
            "horizon": horizon,
            "join": optional(whole_number, "join", self.join, 1, SAMPLES),
            "weight": optional(amount, "weight", self.weight, TINY),
            "leave": optional(whole_number, "leave", self.leave, 0, CLIENTS),
            "suspend": optional(true_or_false, "suspend", self.suspend),
            "month": optional(amount, "month", self.month),
            "adjust": amount("adjust", self.adjust, -NUMBER),
            "name": optional(text, "name", self.name, 100),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.weight is not None and self.join is None:
            raise SettingError(
                f"weight = {self.weight:g}: is for a client that joins; name its places"
                " with join"
            )
        if self.name is not None and self.join is None:
            raise SettingError(
                f"name = {self.name}: is for a client that joins; name its places with"
                " join"
            )
        if all(getattr(self, own.name) == own.default for own in fields(self)):
            raise SettingError("the amendment changes nothing")

    @property
    def changes_the_money(self) -> bool:
        """Whether it changes how much may be spent, or until when."""
        return bool(self.money) or self.budget is not None or self.horizon is not None


def amended(
    system: System,
    change: Amendment,
    t: int,
    spent: float,
) -> System:
    """Return the system that holds from round t + 1 on.

    Parameters
    ----------
    system : System
        The system up to round t, with all earlier amendments.
    change : Amendment
        The change.
    t : int
        The last round under `system`.
    spent : float
        The money spent in rounds 1 to t.

    Raises
    ------
    SettingError
        If the change does not fit the system. More money spent never makes a change
        invalid that was valid before.
    """
    before = system.amended or Amended(0.0, 0)
    budget, horizon, money = _money_amended(system, change, t, spent)
    left, suspended = before.left, before.suspended
    if change.leave is not None:
        left = _left(system, left, change.leave)
    if change.suspend is not None:
        suspended = change.suspend
    buffer, weight = _clients_amended(system, change, left)
    return replace(
        system,
        buffer=buffer,
        weight=weight,
        names=_names_amended(system, change),
        budget=budget,
        horizon=horizon,
        amended=Amended(money, t, left, suspended),
    )


def _clients_amended(
    system: System,
    change: Amendment,
    left: tuple[int, ...],
) -> tuple[Ints, Floats]:
    """Return buffers and weights of the clients under the amended terms."""
    gone = np.isin(np.arange(system.clients), left)
    buffer, weight = system.buffer, np.where(gone, 0.0, system.weight)
    if not weight.any():
        raise SettingError(
            f"leave = {change.leave}: no other client has a weight above 0"
        )
    if change.join is None:
        return buffer, weight
    if system.clients >= CLIENTS:
        raise SettingError(
            f"join = {change.join}: there are {system.clients:,} clients, the most"
            " that there can be"
        )
    own = change.weight
    if own is None:
        own = weight[weight > 0].mean()
    return np.append(buffer, change.join), np.append(weight, own)


def _names_amended(system: System, change: Amendment) -> tuple[str, ...] | None:
    """Return the names of the clients under the amended terms."""
    if system.names is None:
        if change.name is not None:
            raise SettingError(
                f"name = {change.name}: these clients have numbers and no names"
            )
        return None
    if change.join is None:
        return system.names
    if change.name is None:
        raise SettingError(
            f"join = {change.join}: the clients have names; give the new one a name"
        )
    if change.name in system.names:
        raise SettingError(f"name = {change.name}: is a client already")
    return (*system.names, change.name)


def _money_amended(
    system: System,
    change: Amendment,
    t: int,
    spent: float,
) -> tuple[float, int | None, float]:
    """Return budget of a round, horizon and approved money under the amended terms."""
    closed = system.horizon is not None
    if change.budget is not None and (closed or change.horizon is not None):
        raise SettingError(
            f"budget = {change.budget:g}: can be amended where the end is open; with a"
            " horizon, amend the money"
        )
    horizon = _horizon_amended(system, change, t)
    budget = change.budget or system.budget
    money = system.money(t) + change.money  # with an open end, the money up to round t
    if horizon is None:
        if closed:
            money = spent + change.money
    elif not closed:
        money += system.budget * (horizon - t)
    elif change.changes_the_money and money > spent:
        budget = max((money - spent) / (horizon - t), TINY)
    if money < 0:
        raise SettingError(
            f"money = {change.money:g}: takes back more than the"
            f" {money - change.money:g} that were approved"
        )
    return budget, horizon, money


def _horizon_amended(
    system: System,
    change: Amendment,
    t: int,
) -> int | None:
    """Return the last round under the amended terms; None means an open end."""
    if change.horizon == "open":
        return None
    horizon = system.horizon if change.horizon is None else change.horizon
    if horizon is not None and horizon <= t and change.changes_the_money:
        what = f"horizon = {horizon}"
        if change.horizon is None:
            what = f"money = {change.money:g}"
        raise SettingError(
            f"{what}: round {t} is over; the last round must be a later one (horizon ="
            f" {t + 1} or more)"
        )
    return horizon


def _left(
    system: System,
    left: tuple[int, ...],
    leave: int,
) -> tuple[int, ...]:
    """Return the clients that have left after one more leaves."""
    remaining = system.clients - len(left)
    if not 0 <= leave < system.clients or leave in left:
        raise SettingError(f"leave = {leave}: is not a client; there are {remaining}")
    if remaining == 1:
        raise SettingError(f"leave = {leave}: is the last client")
    return tuple(sorted((*left, leave)))


def carried_over(
    ledger: Ledger,
    change: Amendment,
    empty: Ledger,
    terms: Terms,
) -> Ledger:
    """Return the ledger under the amended terms.

    `empty` is the ledger with which a new run under them begins.
    """
    spent = ledger.spent + change.adjust
    if np.any(spent < -MONEY_ROUNDS * ledger.spent):
        raise LedgerError(
            f"adjust = {change.adjust:g}: is more than the"
            f" {float(ledger.spent.min()):g} that were spent"
        )
    own: dict[str, Any] = {
        name: _into(getattr(empty, name), getattr(ledger, name))
        for name in LEDGER_ARRAYS
    }
    # A refund of all that was paid may leave a rounding error below 0.
    own["spent"] = np.maximum(spent, 0.0)
    memory = {
        name: _into(empty.memory[name], array) for name, array in ledger.memory.items()
    }
    return replace(
        empty,
        t=ledger.t,
        memory=memory,
        contents=_contents_into(empty.contents, ledger.contents),
        terms=terms,
        looks=ledger.looks,
        **own,
    )


def _contents_into(empty: Contents, contents: Contents) -> Contents:
    """Return `empty` with what is known of the samples of the clients so far."""
    both = zip(empty.recent, contents.recent, strict=True)
    recent = tuple(_into(new, old) for new, old in both)
    by_place = {
        name: _into(getattr(empty, name), array)
        for name, array in contents._asdict().items()
        if name != "recent" and array is not None
    }
    return Contents(recent, **by_place)


def _into(new: NDArray[Any], old: NDArray[Any]) -> NDArray[Any]:
    """Return `new` with the values of `old` at the beginning of each axis.

    Clients that join come last, as do their places.
    """
    if new.shape == old.shape:
        return old
    both = new.astype(old.dtype)
    both[tuple(slice(size) for size in old.shape)] = old
    return both
