"""The decision's side of the accounts: what the policy is asked, and what it is told.

Its numbers are floats and its memory is the policy's. The accounts in `state` hold the
money. Both meet in `within`, which never lets more out than there is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headgate.books.exact import EXACT, NOTHING, charged, exact, total
from headgate.books.nouns import Entry, KeyedSample
from headgate.books.state import Change, State, to_text
from headgate.control.controller import Controller
from headgate.control.supply import Supply
from headgate.control.types import (
    LEDGER_ARRAYS,
    Contents,
    Ledger,
    Losses,
    Orders,
    Report,
)
from headgate.errors import LedgerError, SettingError

if TYPE_CHECKING:
    from headgate.control.prices import PriceProcess

PATHS = 100
"""paths that a forecast simulates"""


class Decided(NamedTuple):
    """The decision of a round.

    Parameters
    ----------
    orders : Orders
        What the policy wants.
    samples : list of int
        What each client is asked for: at most that.
    free : list of int
        How many of these are not paid for.
    why : str
        Why, in words.
    paid : list of float
        The price of a sample, one for all clients or one for each, without that of
        looks that are not taken.
    """

    orders: Orders
    samples: list[int]
    free: list[int]
    why: str = ""
    paid: tuple[float, ...] = ()

    def rows(self) -> list[list[int]]:
        """Return client, samples and free ones of each order."""
        both = enumerate(zip(self.samples, self.free, strict=True))
        return [[client, *order] for client, order in both if order[0]]


@dataclass(
    frozen=True,
    eq=False,
)
class Course:
    """The policy's ledger after an entry.

    Parameters
    ----------
    controller : Controller
        The controller under the terms of the next round.
    ledger : Ledger
        The ledger after the last settled round.
    decided : Decided or None
        The decision of the round that is open.
    arrived : tuple
        What arrived since the last settled round outside of a round, as in `Change`.
    rejected : tuple of KeyedSample
        What was given back since.
    """

    controller: Controller
    ledger: Ledger
    decided: Decided | None = None
    arrived: tuple[tuple[int, int, int, Decimal], ...] = ()
    rejected: tuple[KeyedSample, ...] = ()

    def decide(
        self,
        ready: State,
        body: Mapping[str, Any],
        at: str,
    ) -> Decided:
        """Return the decision of the next round.

        Parameters
        ----------
        ready : State
            The state, without orders that have expired.
        body : dict
            The entry of the round, without its orders.
        at : str
            Time of the entry.
        """
        t, supply = body["round"], supply_of(body["supply"])
        available = ready.available(t, at, body["overdraft"])
        if ready.month.limit:
            month = ready.month.at(at, ready.spent)
            supply = supply._replace(money=float(month.base + month.limit))
        prices = np.asarray(body["price"], dtype=np.float64)
        paid = prices if prices.size == 1 else prices[None, :]
        orders = self.controller.decide(
            self.ledger,
            paid,
            np.array([float(ready.reserved)]),
            supply,
            under_way=sum(ready.under_way().values()),
            delay=body["delay"],
        )
        wanted = orders.admitted[0].tolist()
        free = [0] * len(wanted)
        if orders.free is not None:
            free = np.minimum(orders.free[0], orders.admitted[0]).tolist()
        lot, quantum, due = supply.lot, ready.quantum, orders.price.ravel().tolist()
        samples = wanted
        if ready.keeps:
            samples = within(wanted, due, available, lot, quantum, free)
        if samples != wanted:
            orders = replace(orders, admitted=np.array([samples]))
        free = [min(pair) for pair in zip(free, samples, strict=True)]
        reserved = np.array([float(ready.reserved)])
        why = self.controller.why(self.ledger, orders, reserved, supply)
        return Decided(orders, samples, free, why, tuple(due))

    def after(
        self,
        before: State,
        entry: Entry,
        change: Change,
    ) -> "Course":
        """Return the course after an entry; raise LedgerError if the policy decides
        otherwise than the entry says.
        """
        course = replace(
            self,
            arrived=(*self.arrived, *change.arrived),
            rejected=(*self.rejected, *change.rejected),
        )
        if entry.kind == "begun":
            course = course._begun(before, entry)
        if entry.kind == "settled":
            course = course._posted(losses_of(entry))
        for amendment in change.amended:
            controller, ledger = course.controller.amend(course.ledger, amendment)
            course = replace(
                course,
                controller=controller,
                ledger=ledger,
            )
        if is_plain(before, change):
            return course
        spent = np.array([float(change.state.spent)])
        return replace(course, ledger=replace(course.ledger, spent=spent))

    def posted(
        self,
        before: State,
        entry: Entry,
        change: Change,
    ) -> "Course":
        """Return the course after a settlement, without the amendments that hold from
        the next round on.
        """
        now = change._replace(amended=[])
        return self.after(before, entry, now)

    def _begun(self, before: State, entry: Entry) -> "Course":
        body = json.loads(entry.body)
        if self.decided is not None:  # decided by this process, just now
            return self
        decided = self.decide(before.ready(entry.at), body, entry.at)
        said = body["orders"]
        if body.get("recorded"):
            samples = [0] * len(decided.samples)
            for client, ordered, _ in said:
                samples[client] = ordered
            orders = replace(decided.orders, admitted=np.array([samples]))
            return replace(self, decided=Decided(orders, samples, decided.free))
        if decided.rows() != said:
            raise LedgerError(f"round {body['round']}: {_other(decided.rows(), said)}")
        if decided.paid != tuple(body.get("paid", body["price"])):
            raise LedgerError(f"round {body['round']}: the prices are not the replay's")
        return replace(self, decided=decided)

    def _posted(self, losses: Losses | None) -> "Course":
        """Return the course after a round, from what arrived in it."""
        assert self.decided is not None
        orders = self.decided.orders
        admitted, late = np.zeros_like(orders.admitted), np.zeros_like(orders.admitted)
        charge = NOTHING
        with localcontext(EXACT):
            for t, client, samples, cost in self.arrived:
                if t == orders.t:
                    admitted[0, client] += samples
                else:
                    late[0, client] += samples
                    charge += cost
        report = Report(admitted, losses=losses)
        if late.any():
            late_charge = np.array([max(float(charge), 0.0)])
            report = Report(admitted, late, late_charge, losses)
        ledger = self.controller.post(self.ledger, orders, report)
        for sample in self.rejected:
            buffers = self.controller.buffers
            ledger = buffers.without(ledger, sample.client, sample.place)
        return Course(self.controller, ledger)

    def forecast(
        self,
        state: State,
        prices: "PriceProcess",
        rounds: int | None,
    ) -> dict[str, tuple[float, float, float]]:
        """Simulate the remaining rounds; return mean, 5 % and 95 % quantiles of what is
        spent, bought and left. What is under way counts as spent.
        """
        system, settled, looks = state.system, state.settled, self.controller.looks
        last = system.horizon if rounds is None else settled + rounds
        if last is None:
            raise SettingError("rounds: must be stated where the end is open")
        seeds, policy = np.arange(PATHS), self.controller.policy
        controller = Controller(system, policy, PATHS, seeds, looks=looks)
        ledger = start = self.ledger.of_runs(np.zeros(PATHS, dtype=np.int64))
        reserved = np.full(PATHS, float(state.reserved))
        path = prices.path(seeds, settled + 1, last + 1) + looks
        for price in np.moveaxis(path, 1, 0):
            paid = np.ascontiguousarray(price)
            ledger = controller.post(ledger, controller.decide(ledger, paid, reserved))
        found = {
            "spend": ledger.spent - start.spent,
            "samples": (ledger.ever - start.ever).astype(np.float64),
            "left": system.money(last) - ledger.spent - reserved,
        }
        return {
            name: (float(each.mean()), *np.quantile(each, (0.05, 0.95)).tolist())
            for name, each in found.items()
        }

    # as text

    def to_json(self) -> str:
        """Return the ledger as text. It is written between two rounds only."""
        ledger, contents = self.ledger, self.ledger.contents
        arrays = {name: getattr(ledger, name) for name in LEDGER_ARRAYS}
        table: dict[str, Any] = {
            "t": ledger.t,
            "arrays": _to_table(arrays),
            "memory": _to_table(ledger.memory),
            "recent": [_to_list(each) for each in contents.recent],
        }
        places = {
            name: array
            for name, array in contents._asdict().items()
            if name != "recent" and array is not None
        }
        table["contents"] = _to_table(places)
        if ledger.losses is not None:
            table["losses"] = losses_table(ledger.losses)
        if ledger.looks is not None:
            table["looks"] = _to_list(ledger.looks)
        return to_text(table)

    @classmethod
    def of_json(cls, text: str, controller: Controller) -> "Course":
        """Return the course in a text."""
        table = json.loads(text)
        recent = tuple(_of_list(each) for each in table["recent"])
        ledger = Ledger(
            t=table["t"],
            contents=Contents(recent, **_of_table(table["contents"])),
            memory=_of_table(table["memory"]),
            terms=controller.terms,
            losses=_losses_in(table),
            looks=_of_list(table["looks"]) if "looks" in table else None,
            **_of_table(table["arrays"]),
        )
        return cls(controller, ledger)


def within(
    wanted: list[int],
    prices: list[float],
    available: Decimal,
    lot: int,
    quantum: Decimal,
    free: list[int] | None = None,
) -> list[int]:
    """Return the samples that each client is asked for, which never cost more than is
    available.

    Floats decide what is wanted, so its exact price may be a little more. Then the
    dearest clients are asked for less, in whole lots. `free` samples cost nothing.

    >>> within([2, 2], [0.1, 0.2], Decimal("0.5"), 1, NOTHING)
    [2, 1]
    """
    exact_prices = [exact(price) for price in prices]
    if len(exact_prices) == 1:
        exact_prices *= len(wanted)
    gifts = free or [0] * len(wanted)
    found = list(wanted)
    with localcontext(EXACT):
        costs = [
            charged(price, samples - gift, quantum)
            for price, samples, gift in zip(exact_prices, wanted, gifts, strict=True)
        ]
        over = sum(costs, NOTHING) - max(available, NOTHING)
        dearest = sorted(range(len(found)), key=lambda m: -exact_prices[m])
        for client in dearest:
            price = exact_prices[client]
            while over > 0 and found[client] and price:
                too_many = int(over // (price * lot)) + 1
                fewer = max(found[client] - too_many * lot, 0)
                cost = charged(price, max(fewer - gifts[client], 0), quantum)
                over += cost - costs[client]
                found[client], costs[client] = fewer, cost
    return found


def is_plain(before: State, change: Change) -> bool:
    """Return whether nothing was paid, or only for what arrived in its own round.

    Then the policy's ledger has the sum of floats that the simulator has, too; after
    anything else it has the exact sum, rounded once.
    """
    own = total(cost for t, _, _, cost in change.arrived if t == change.state.settled)
    return change.state.spent == total([before.spent, own])


def losses_table(losses: Losses) -> list[list[float | None]]:
    """Return losses as JSON holds them."""
    rows = [array[0].tolist() for array in losses.arrays]
    return [[None if np.isnan(each) else each for each in row] for row in rows]


def losses_of(entry: Entry) -> Losses | None:
    """Return the losses that clients reported in an entry."""
    return _losses_in(json.loads(entry.body))


def _losses_in(table: Mapping[str, Any]) -> Losses | None:
    if table.get("losses") is None:
        return None
    arrays = (np.array([row], dtype=np.float64) for row in table["losses"])
    return Losses(*arrays)


def _other(own: list[list[int]], said: list[list[int]]) -> str:
    """Return in words where the orders of the replay differ from those recorded."""
    replayed = {client: order for client, *order in own}
    recorded = {client: order for client, *order in said}
    client = min(
        m
        for m in replayed.keys() | recorded.keys()
        if replayed.get(m) != recorded.get(m)
    )
    ordered, _ = recorded.get(client, [0, 0])
    again, _ = replayed.get(client, [0, 0])
    return f"client {client} was ordered {ordered} samples, the replay orders {again}"


def mask_of(there: list[int], clients: int) -> list[bool] | None:
    """Return whether each client is there; None: all are."""
    if len(there) == clients:
        return None
    mask: list[bool] = np.isin(np.arange(clients), there).tolist()
    return mask


def supply_table(supply: Supply) -> dict[str, Any]:
    """Return a supply as JSON holds it, without what is usual."""
    table: dict[str, Any] = {"lot": supply.lot, "in_all": supply.in_all}
    for name in ("present", "most"):
        value = getattr(supply, name)
        table[name] = value if value is None else np.asarray(value).tolist()
    return {
        name: value
        for name, value in table.items()
        if value is not None and (name, value) != ("lot", 1)
    }


def supply_of(table: Mapping[str, Any]) -> Supply:
    """Return the supply in a table."""
    return Supply(**table)


def _to_list(array: Any) -> list[Any]:
    return [str(array.dtype), list(array.shape), array.ravel().tolist()]


def _of_list(kept: list[Any]) -> Any:
    kind, shape, values = kept
    return np.array(values, dtype=kind).reshape(shape)


def _to_table(arrays: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: _to_list(array) for name, array in arrays.items()}


def _of_table(table: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {name: _of_list(kept) for name, kept in table.items()}
