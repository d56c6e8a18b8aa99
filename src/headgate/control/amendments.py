"""Amendments change the terms of a run in progress: money, horizon, clients and corrected invoices.

An amendment takes effect in the next round. It does not change earlier approvals, decisions and payments.
"""

from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import LEDGER_ARRAYS, Amended, Contents, Ledger, System, Terms
from headgate.errors import LedgerError, SettingError, require
from headgate.limits import ROUNDS, SAMPLES


@dataclass(frozen=True)
class Amendment:
    """The terms that change from the next round on. A field that is left out changes nothing."""

    money: float = 0.0
    """money approved in addition; below 0: money taken back. If less is approved than was spent, purchases stop"""
    budget: float | None = None
    """new budget per round from the next round on; only with an open end"""
    horizon: int | Literal["open"] | None = None
    """new last round; the money approved is for the rounds up to it. A change from an open end approves the budget of each
    round up to it; a change to an open end keeps the present budget per round"""
    join: int | None = None
    """number of places of a client that joins; the client gets the next number and begins with an empty buffer"""
    weight: float | None = None
    """weight of the client that joins, as in `system.weights`; left out: the mean weight of the others"""
    leave: int | None = None
    """number of a client that leaves: it is given no more samples, and those that it holds are erased"""
    suspend: bool | None = None
    """true: purchases stop until an amendment sets false"""
    month: float | None = None
    """the most money that may be spent in a calendar month (UTC), in addition to all other limits; 0: removes this limit"""
    adjust: float = 0.0
    """amount by which an invoice exceeds what was charged; below 0: a refund"""

    def __post_init__(self) -> None:
        require(isfinite(self.money), "money", self.money, "a finite amount")
        require(isfinite(self.adjust), "adjust", self.adjust, "a finite amount")
        require(self.budget is None or 0 < self.budget < inf, "budget", self.budget, "a finite amount above 0")
        require(self.month is None or 0 <= self.month < inf, "month", self.month, "a finite amount, 0 or more")
        known = not isinstance(self.horizon, int) or 1 <= self.horizon <= ROUNDS
        require(known, "horizon", self.horizon, f"from 1 to {ROUNDS:,}, or open")
        require(self.join is None or 1 <= self.join <= SAMPLES, "join", self.join, f"from 1 to {SAMPLES:,} places")
        joins = self.weight is None or (self.join is not None and 0 < self.weight < inf)
        require(joins, "weight", self.weight, "above 0, for a client that joins")
        if all(getattr(self, own.name) == own.default for own in fields(self)):
            raise SettingError("the amendment changes nothing")


def amended(system: System, change: Amendment, t: int, spent: float) -> System:
    """Return the system that holds from round t + 1 on. `spent` is the money spent in rounds 1 to t."""
    before = system.amended or Amended(0.0, 0)
    closed = system.horizon is not None
    if change.budget is not None and (closed or change.horizon is not None):
        raise SettingError(f"budget = {change.budget:g}: can be amended where the end is open; with a horizon, amend the money")
    horizon = system.horizon if change.horizon is None else None if change.horizon == "open" else change.horizon
    if horizon is not None and horizon <= t:
        raise SettingError(f"horizon = {horizon}: round {t} is over; the last round must be a later one")
    budget = change.budget or system.budget
    money = system.money(t) + change.money  # with an open end, the money up to round t
    if horizon is not None and not closed:
        money += system.budget * (horizon - t)
    elif horizon is None and closed:
        money = spent + change.money
    elif horizon is not None and (change.money or change.horizon is not None) and money > spent:
        budget = (money - spent) / (horizon - t)
    if money < 0:
        raise SettingError(f"money = {change.money:g}: takes back more than the {money - change.money:g} that were approved")
    left, leave, remaining = before.left, change.leave, system.clients - len(before.left)
    if leave is not None:
        if not 0 <= leave < system.clients or leave in left:
            raise SettingError(f"leave = {leave}: is not a client; there are {remaining}")
        if remaining == 1:
            raise SettingError(f"leave = {leave}: is the last client")
        left = tuple(sorted((*left, leave)))
    suspended = before.suspended if change.suspend is None else change.suspend
    buffer, weight = system.buffer, np.where(np.isin(np.arange(system.clients), left), 0.0, system.weight)
    if change.join is not None:
        buffer = np.append(buffer, change.join)
        weight = np.append(weight, weight[weight > 0].mean() if change.weight is None else change.weight)
    news = Amended(money, t, left, suspended)
    return replace(system, buffer=buffer, weight=weight, budget=budget, horizon=horizon, amended=news)


def carried_over(ledger: Ledger, change: Amendment, empty: Ledger, terms: Terms) -> Ledger:
    """Return the ledger under the amended terms; `empty` is the ledger with which a new run under them begins."""
    spent = ledger.spent + change.adjust
    if np.any(spent < 0):
        raise LedgerError(f"adjust = {change.adjust:g}: is more than the {float(ledger.spent.min()):g} that were spent")
    own: dict[str, Any] = {name: _into(getattr(empty, name), getattr(ledger, name)) for name in LEDGER_ARRAYS}
    own["spent"] = spent
    memory = {name: _into(empty.memory[name], array) for name, array in ledger.memory.items()}
    recent = tuple(_into(new, old) for new, old in zip(empty.contents.recent, ledger.contents.recent, strict=True))
    held = {name: array for name, array in ledger.contents._asdict().items() if name != "recent" and array is not None}
    contents = Contents(recent, **{name: _into(getattr(empty.contents, name), array) for name, array in held.items()})
    return replace(empty, t=ledger.t, memory=memory, contents=contents, terms=terms, looks=ledger.looks, **own)


def _into(new: NDArray[Any], old: NDArray[Any]) -> NDArray[Any]:
    """Return `new` with the values of `old` at the beginning of each axis. Clients that join come last, as do their places."""
    if new.shape == old.shape:
        return old
    both = new.astype(old.dtype)
    both[tuple(slice(size) for size in old.shape)] = old
    return both
