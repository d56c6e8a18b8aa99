"""The accounts after an entry of the log, and `apply`, the one place where the rules of
money and of samples stand.

`apply` is pure: it makes the next state from a state and an entry alone. What an entry
needs to know about orders that are closed, and about keys that are known, is part of
its text; `audit` compares this with the full replay. No policy is needed here, so every
process can check and write an entry. What the policy decides is in `course`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np

from headgate.books.exact import EXACT, NOTHING, exact, plainly, total
from headgate.books.nouns import (
    BEYOND,
    DELIVERED,
    REJECTED,
    Balance,
    Entry,
    KeyedSample,
    OrderState,
)
from headgate.control.amendments import Amendment, amended
from headgate.control.charges import decimals_of
from headgate.control.delays import LONGEST, learned
from headgate.control.types import Amended, System
from headgate.errors import LedgerError, SettingError
from headgate.escaping import shown


class Conduct(NamedTuple):
    """How often answers of a client were refused.

    Parameters
    ----------
    offences : int
        Number of refused answers.
    quarantined : bool
        Whether it gets no purchases.
    """

    offences: int = 0
    quarantined: bool = False


class Told(NamedTuple):
    """What a client has last told of itself, beside its deliveries.

    Parameters
    ----------
    heard : int, default 0
        Round of its last valid answer.
    lost : int, default 0
        Samples of an earlier store, which no longer exists.
    distinct, uses, squares : int, default 0
        Samples ever trained on, the sum of their use counts, and of the squares.
    withdrawn : int, default 0
        Samples that it should hold but that were erased.
    erased : int, default 0
        Samples ever erased.
    """

    heard: int = 0
    lost: int = 0
    distinct: int = 0
    uses: int = 0
    squares: int = 0
    withdrawn: int = 0
    erased: int = 0


class Begun(NamedTuple):
    """A round that was begun and is not settled.

    Parameters
    ----------
    round : int
        The round.
    clients : list of int
        The clients that take part.
    price : list of float
        Price of a sample, one for all clients or one for each.
    drop : dict of int to tuple of str
        Keys of rejected samples, for each client that is to drop some.
    """

    round: int
    clients: list[int]
    price: list[float]
    drop: dict[int, tuple[str, ...]]


class CalendarMonth(NamedTuple):
    """The calendar month (UTC) in which purchases count. It never goes back.

    Parameters
    ----------
    name : str
        Year and month, as in 2026-11; empty before the first round.
    base : decimal.Decimal
        Money spent when the month began.
    limit : decimal.Decimal
        The most money for a month; 0: no limit.
    """

    name: str = ""
    base: Decimal = NOTHING
    limit: Decimal = NOTHING

    def at(self, time: str, spent: Decimal) -> "CalendarMonth":
        """Return the month of a round that begins at this time, or the later one."""
        name = time[:7]
        return self._replace(name=name, base=spent) if name > self.name else self


@dataclass(frozen=True, eq=False)
class State:
    """The accounts after an entry: all that the next one needs.

    Parameters
    ----------
    opening : dict
        What the accounts began with: name, system, policy, seed.
    system : System
        The system with all amendments that hold.
    settled : int
        The last settled round.
    open : Begun or None
        The round that was begun and is not settled.
    orders : dict of (int, int) to OrderState
        The orders with samples under way, by round and client.
    spent, reserved : decimal.Decimal
        The money spent, and the price of what is under way.
    month : CalendarMonth
        The month, and its limit.
    delivered : dict of int to int
        Samples ever delivered and charged, by client.
    beyond : dict of int to int
        Samples that arrived and were not charged, by client.
    standing : dict of int to Conduct
        Clients of which an answer was refused.
    told : dict of int to Told
        What clients have told of themselves.
    drop : dict of int to tuple of str
        Keys of rejected samples that clients were not told to drop yet.
    delays : dict of int to int
        Samples that arrived, by the number of rounds that they took.
    waiting : tuple of dict
        Amendments made since the open round was begun, which hold after it.
    amendments : int
        Number of amendments and adjustments.
    """

    opening: Mapping[str, Any]
    system: System
    settled: int = 0
    open: Begun | None = None
    orders: dict[tuple[int, int], OrderState] = field(default_factory=dict)
    spent: Decimal = NOTHING
    reserved: Decimal = NOTHING
    month: CalendarMonth = field(default_factory=CalendarMonth)
    delivered: dict[int, int] = field(default_factory=dict)
    beyond: dict[int, int] = field(default_factory=dict)
    standing: dict[int, Conduct] = field(default_factory=dict)
    told: dict[int, Told] = field(default_factory=dict)
    drop: dict[int, tuple[str, ...]] = field(default_factory=dict)
    delays: dict[int, int] = field(default_factory=dict)
    waiting: tuple[dict[str, Any], ...] = ()
    amendments: int = 0

    @property
    def begun(self) -> int:
        """The last round that was begun."""
        return self.settled if self.open is None else self.open.round

    @property
    def quantum(self) -> Decimal:
        """The unit to which a charge is rounded; 0: none."""
        return quantum_of(self.system)

    @property
    def keeps(self) -> bool:
        """Whether the policy keeps to its money, which only one of a run on Flower may
        not do.
        """
        return bool(self.opening.get("keeps", True))

    @property
    def left(self) -> set[int]:
        """The clients that have left."""
        return set() if self.system.amended is None else set(self.system.amended.left)

    @property
    def quarantined(self) -> set[int]:
        """The clients that get no purchases after too many refused answers."""
        return {client for client, own in self.standing.items() if own.quarantined}

    def there(self, present: Iterable[int] | None) -> list[int]:
        """Return the clients in `present` (None: all) that may get a purchase."""
        away = self.left | self.quarantined
        named = range(self.system.clients) if present is None else sorted(present)
        return [client for client in named if client not in away]

    def available(self, t: int, at: str, overdraft: float) -> Decimal:
        """Return the money that a round may still cost."""
        approved = exact(self.system.money(t, overdraft))
        left = total([approved, -self.spent, -self.reserved])
        month = self.month.at(at, self.spent)
        if not month.limit:
            return left
        of_month = [month.base, month.limit, -self.spent, -self.reserved]
        return min(left, total(of_month))

    def balance(self) -> Balance:
        """Return the money as it is now, with all amendments."""
        system = self.system_ahead()
        approved = exact(system.money(self.settled + 1))
        return Balance(self.settled, approved, self.spent, self.reserved)

    def system_ahead(self) -> System:
        """Return the system with all amendments, also those that wait."""
        system = self.system
        for change in self.waiting:
            system = amended(system, Amendment(**change), self.begun, float(self.spent))
        return system

    def under_way(self) -> dict[int, int]:
        """Return how many samples are under way at each client that has any."""
        found = dict[int, int]()
        for order in self.orders.values():
            found[order.client] = found.get(order.client, 0) + order.under_way
        return found

    def delay(self) -> int:
        """Return the rounds that samples take to arrive, as learned from those that
        arrived and from those that are waited for longer.
        """
        arrived, waiting = np.zeros((2, 1, LONGEST + 1), dtype=np.int64)
        for age, samples in self.delays.items():
            arrived[0, age] = samples
        for order in self.orders.values():
            age = self.settled + 1 - order.round
            waiting[0, min(age, LONGEST)] += order.under_way
        return int(learned(arrived, waiting)[0])

    def ready(self, at: str) -> "State":
        """Return the state in which a round is decided at this time: without orders
        that have expired.
        """
        late = [
            order
            for order in self.orders.values()
            if order.expires is not None
            and _expired(order.expires, self.settled + 1, at)
        ]
        if not late:
            return self
        change = _Work(self, {})
        for order in late:
            change.cancel(order)
        return change.done().state

    # as text

    def to_json(self) -> str:
        """Return the state as text."""
        table = {
            "opening": self.opening,
            "system": system_table(self.system),
            "settled": self.settled,
            "orders": [order.to_row() for order in self.orders.values()],
            "spent": str(self.spent),
            "reserved": str(self.reserved),
            "month": [self.month.name, str(self.month.base), str(self.month.limit)],
            "delivered": list(self.delivered.items()),
            "beyond": list(self.beyond.items()),
            "standing": [[client, *own] for client, own in self.standing.items()],
            "drop": list(self.drop.items()),
            "delays": list(self.delays.items()),
            "waiting": self.waiting,
            "amendments": self.amendments,
        }
        if self.open is not None:
            table["open"] = [*self.open[:3], list(self.open.drop.items())]
        if self.told:
            table["told"] = [[client, *own] for client, own in self.told.items()]
        return to_text(table)

    @classmethod
    def of_json(cls, text: str) -> "State":
        """Return the state in a text."""
        table = json.loads(text)
        orders = [OrderState.of_row(row) for row in table["orders"]]
        name, base, limit = table["month"]
        open_ = table.get("open")
        if open_ is not None:
            t, clients, price, drop = open_
            open_ = Begun(t, clients, price, _keys(drop))
        return cls(
            opening=table["opening"],
            system=system_of(table["system"]),
            settled=table["settled"],
            open=open_,
            orders={order[:2]: order for order in orders},
            spent=Decimal(table["spent"]),
            reserved=Decimal(table["reserved"]),
            month=CalendarMonth(name, Decimal(base), Decimal(limit)),
            delivered=dict(table["delivered"]),
            beyond=dict(table["beyond"]),
            standing={client: Conduct(*own) for client, *own in table["standing"]},
            told={client: Told(*own) for client, *own in table.get("told", [])},
            drop=_keys(table["drop"]),
            delays=dict(table["delays"]),
            waiting=tuple(table["waiting"]),
            amendments=table["amendments"],
        )


class Change(NamedTuple):
    """What an entry does.

    Parameters
    ----------
    state : State
        The state after it.
    orders : dict of (int, int) to OrderState
        The orders that it made or changed.
    samples : dict of (int, str) to KeyedSample
        The samples that it made or changed.
    arrived : list of tuple
        Round, client, number and charge of the samples that arrived and were charged.
    rejected : list of KeyedSample
        The samples that were given back.
    amended : list of Amendment
        The amendments that hold from now on.
    """

    state: State
    orders: dict[tuple[int, int], OrderState]
    samples: dict[tuple[int, str], KeyedSample]
    arrived: list[tuple[int, int, int, Decimal]]
    rejected: list[KeyedSample]
    amended: list[Amendment]


def opened(entry: Entry) -> State:
    """Return the state after the first entry."""
    body = json.loads(entry.body)
    return State(body, system_of(body["system"]))


def apply(state: State, entry: Entry) -> Change:
    """Return what an entry does to a state.

    Parameters
    ----------
    state : State
        The state, which is not changed.
    entry : Entry
        The entry, as it is stored.

    Returns
    -------
    Change
        The next state, and what changed.

    Raises
    ------
    LedgerError, SettingError
        If the entry cannot follow this state.
    """
    body = json.loads(entry.body)
    with localcontext(EXACT):
        work = _Work(state, body.get("known", {}))
        RULES[entry.kind](work, entry, body)
        return work.done()


class _Work:
    """A change in the making. The state that it begins with is never changed."""

    def __init__(self, state: State, known: Mapping[str, Any]) -> None:
        self.state = state
        self.new: dict[str, Any] = {}
        """fields of the next state"""
        self.closed = {
            order[:2]: order
            for order in map(OrderState.of_row, known.get("orders", []))
        }
        known_samples = (KeyedSample(*row) for row in known.get("samples", []))
        self.known = {sample[:2]: sample for sample in known_samples}
        self.quantum = state.quantum
        self.orders: dict[tuple[int, int], OrderState] = {}
        self.samples: dict[tuple[int, str], KeyedSample] = {}
        self.delivered = dict[int, int]()
        self.beyond = dict[int, int]()
        self.drop = dict[int, tuple[str, ...]]()
        self.delays = dict[int, int]()
        self.spent = self.reserved = NOTHING
        self.arrived: list[tuple[int, int, int, Decimal]] = []
        self.rejected: list[KeyedSample] = []
        self.amended: list[Amendment] = []

    def order(self, t: int, client: int) -> OrderState | None:
        own = (t, client)
        for orders in (self.orders, self.state.orders, self.closed):
            if own in orders:
                return orders[own]
        return None

    def needed(self, t: int, client: int) -> OrderState:
        found = self.order(t, client)
        if found is None:
            raise LedgerError(
                f"order = round {t}, client {self.named(client)}: there is none"
            )
        return found

    def named(self, client: int) -> str:
        return name_of(self.state.system, client)

    def put(self, before: OrderState | None, order: OrderState) -> Decimal:
        """Take an order in place of the one before; return what it costs more."""
        paid, reserved = order.paid(self.quantum), order.reserved(self.quantum)
        if before is not None:
            paid -= before.paid(self.quantum)
            reserved -= before.reserved(self.quantum)
        self.spent += paid
        self.reserved += reserved
        self.orders[order[:2]] = order
        return paid

    def cancel(self, order: OrderState) -> None:
        """Cancel what is under way of an order."""
        cancelled = order.cancelled + order.under_way
        self.put(order, order._replace(cancelled=cancelled))

    def cancel_all(self, client: int) -> None:
        """Cancel all that is under way at a client."""
        both = {**self.state.orders, **self.orders}
        for own, order in both.items():
            if own[1] == client and order.under_way:
                self.cancel(order)

    # samples

    def report(self, now: int, row: list[Any]) -> None:
        """Take what is reported about one order."""
        client, t, delivered, keys, cancelled, rejected, _ = row
        before = self.order(t, client)
        if before is None:
            if delivered:
                raise LedgerError(
                    f"round {t}: client {self.named(client)}: delivered {delivered}"
                    " samples, none were ordered"
                )
        elif delivered or cancelled:
            self._arrive(now, before, delivered, keys, cancelled)
        for key, why in rejected:
            self._reject(now, client, key, why)

    def _arrive(
        self,
        now: int,
        before: OrderState,
        delivered: int,
        keys: list[str],
        cancelled: int,
    ) -> None:
        t, client = before.round, before.client
        taken = min(delivered, before.under_way)
        order = before._replace(
            delivered=before.delivered + taken,
            cancelled=before.cancelled + min(cancelled, before.under_way - taken),
            beyond=before.beyond + delivered - taken,
            answered=now,
        )
        cost = self.put(before, order)
        ever = self.delivered.get(client)
        if ever is None:
            ever = self.state.delivered.get(client, 0)
        for place, key in enumerate(keys):
            state = DELIVERED if place < taken else BEYOND
            self._deliver(KeyedSample(client, key, t, ever + place, state))
        self.delivered[client] = ever + taken
        if delivered > taken:
            more = self.beyond.get(client, self.state.beyond.get(client, 0))
            self.beyond[client] = more + delivered - taken
        if taken:
            self.arrived.append((t, client, taken, cost))
            age = min(now - t, LONGEST)
            self.delays[age] = self.delays.get(age, 0) + taken

    def _deliver(self, sample: KeyedSample) -> None:
        known = self.samples.get(sample[:2]) or self.known.get(sample[:2])
        if known is not None and known.state == DELIVERED:
            raise LedgerError(
                f"client {self.named(sample.client)}: key {shown(repr(sample.key))}:"
                f" was delivered in round {known.round}, and paid for"
            )
        self.samples[sample[:2]] = sample

    def _reject(
        self,
        now: int,
        client: int,
        key: str,
        why: str,
    ) -> None:
        who = f"client {self.named(client)}: key {shown(repr(key))}"
        sample = self.samples.get((client, key)) or self.known.get((client, key))
        if sample is None:
            raise LedgerError(f"{who}: cannot be rejected, it was not delivered")
        if sample.state != DELIVERED:
            raise LedgerError(f"{who}: cannot be rejected, it is {sample.state}")
        before = self.needed(sample.round, client)
        order = before._replace(rejected=before.rejected + 1, answered=now)
        if order.paid(self.quantum) < 0:
            raise LedgerError(f"{who}: cannot be rejected, its order was refunded")
        self.put(before, order)
        self.samples[client, key] = sample._replace(state=REJECTED, why=why)
        self.rejected.append(sample)
        told = self.drop.get(client)
        if told is None:
            told = self.state.drop.get(client, ())
        self.drop[client] = (*told, key)

    # terms

    def amend(self, system: System, change: Mapping[str, Any], t: int) -> System:
        """Return the system after an amendment."""
        made = Amendment(**change)
        spent = float(self.state.spent + self.spent)
        system = amended(system, made, t, spent)
        self.amended.append(made)
        if made.leave is not None:
            self.cancel_all(made.leave)
        if made.month is not None:
            month = self.new.get("month", self.state.month)
            self.new["month"] = month._replace(limit=exact(made.month))
        return system

    def done(self) -> Change:
        before = self.state
        new: dict[str, Any] = dict(self.new)
        if self.orders:
            orders = {**before.orders, **self.orders}
            for own, order in self.orders.items():
                if not order.under_way:
                    del orders[own]
            new["orders"] = orders
            new["spent"] = before.spent + self.spent
            new["reserved"] = before.reserved + self.reserved
        if self.delivered:
            new["delivered"] = {**before.delivered, **self.delivered}
        if self.beyond:
            new["beyond"] = {**before.beyond, **self.beyond}
        if self.drop:
            new["drop"] = {**before.drop, **self.drop}
        if self.delays:
            delays = dict(before.delays)
            for age, count in self.delays.items():
                delays[age] = delays.get(age, 0) + count
            new["delays"] = delays
        return Change(
            replace(before, **new),
            self.orders,
            self.samples,
            self.arrived,
            self.rejected,
            self.amended,
        )


# the rules


def _begun(work: _Work, entry: Entry, body: dict[str, Any]) -> None:
    state, t = work.state, body["round"]
    if state.open is not None or t != state.settled + 1:
        raise LedgerError(f"round {t}: cannot begin, {state.settled} is settled")
    for order in state.orders.values():
        if order.expires is not None and _expired(order.expires, t, entry.at):
            work.cancel(order)
    spent = state.spent + work.spent
    prices = [exact(price) for price in body.get("paid", body["price"])]
    for client, samples, free in body["orders"]:
        price = prices[client if len(prices) > 1 else 0]
        order = OrderState(t, client, entry.at, price, samples, free)
        work.put(None, order._replace(expires=body["expires"]))
    over = state.available(t, entry.at, body["overdraft"]) - work.reserved
    bounded = state.keeps and not body.get("recorded")
    if body["orders"] and over < 0 and bounded:
        raise LedgerError(
            f"round {t}: its orders cost {plainly(-over)} more than there is"
        )
    drop = {
        client: state.drop[client] for client in body["clients"] if client in state.drop
    }
    rest = {client: keys for client, keys in state.drop.items() if client not in drop}
    work.new["drop"] = rest
    work.new["month"] = state.month.at(entry.at, spent)
    work.new["open"] = Begun(t, body["clients"], body["price"], drop)


def _settled(work: _Work, entry: Entry, body: dict[str, Any]) -> None:
    state, t = work.state, body["round"]
    if state.open is None or state.open.round != t:
        raise LedgerError(f"round {t}: is not open, so it cannot be settled")
    refused, caught = dict(body["refused"]), set(body["caught"])
    for row in body["reports"]:
        if row[0] not in refused or row[0] in caught:
            work.report(t, row)
    standing = dict(state.standing)
    for client in refused:
        offences = standing.get(client, Conduct()).offences + 1
        standing[client] = Conduct(offences, client in caught)
    for client in caught:
        work.cancel_all(client)
    work.new["standing"] = standing
    if "told" in body:
        told = {client: Told(t, *own) for client, *own in body["told"]}
        work.new["told"] = {**state.told, **told}
    work.new["settled"], work.new["open"] = t, None
    system = state.system
    for change in state.waiting:
        system = work.amend(system, change, t)
    work.new["system"], work.new["waiting"] = system, ()


def _arrived(work: _Work, entry: Entry, body: dict[str, Any]) -> None:
    for row in body["reports"]:
        work.report(work.state.begun, row)


def _amended(work: _Work, entry: Entry, body: dict[str, Any]) -> None:
    state, change = work.state, body["change"]
    work.new["amendments"] = state.amendments + 1
    if state.open is None:
        work.new["system"] = work.amend(state.system, change, state.settled)
        return
    spent = float(state.spent)
    amended(state.system_ahead(), Amendment(**change), state.open.round, spent)
    work.new["waiting"] = (*state.waiting, change)


def _adjusted(work: _Work, entry: Entry, body: dict[str, Any]) -> None:
    before, amount = work.needed(body["round"], body["client"]), Decimal(body["amount"])
    order = before._replace(adjusted=before.adjusted + amount)
    if order.paid(work.quantum) < 0:
        paid = plainly(before.paid(work.quantum))
        raise LedgerError(
            f"adjust = {plainly(amount)}: is more than the {paid} that were paid on"
            " this order"
        )
    work.put(before, order)
    work.new["amendments"] = work.state.amendments + 1


def _lifted(work: _Work, entry: Entry, body: dict[str, Any]) -> None:
    client = body["client"]
    if client not in work.state.quarantined:
        raise SettingError(f"client {work.named(client)}: is not in quarantine")
    standing = dict(work.state.standing)
    del standing[client]
    work.new["standing"] = standing


def _noted(work: _Work, entry: Entry, body: dict[str, Any]) -> None:
    """Change nothing: the entry is for the record."""


RULES = {
    "begun": _begun,
    "settled": _settled,
    "arrived": _arrived,
    "amended": _amended,
    "adjusted": _adjusted,
    "lifted": _lifted,
    "noted": _noted,
}
"""what each kind of entry does, besides the first one, which is `opened`"""


def _expired(expires: int | str, t: int, at: str) -> bool:
    return expires < t if isinstance(expires, int) else expires < at


def _keys(rows: Iterable[tuple[int, list[str]]]) -> dict[int, tuple[str, ...]]:
    return {client: tuple(keys) for client, keys in rows}


# systems and moments


def quantum_of(system: System) -> Decimal:
    """Return the unit to which charges are rounded; 0: none."""
    if system.quantum is None:
        return NOTHING
    return Decimal(1).scaleb(-decimals_of(system.quantum))


def name_of(system: System, client: int) -> str:
    """Return the name of a client, or its number as text."""
    return str(system.named(client))


def system_table(system: System) -> dict[str, Any]:
    """Return a system as JSON holds it."""
    names = ("budget", "horizon", "currency", "names", "quantum", "amended")
    table = {name: getattr(system, name) for name in names}
    table |= {"buffer": system.buffer.tolist(), "weight": system.weight.tolist()}
    return {name: value for name, value in table.items() if value is not None}


def system_of(table: Mapping[str, Any]) -> System:
    """Return the system in a table."""
    own = dict(table)
    if "amended" in own:
        money, since, left, suspended = own["amended"]
        own["amended"] = Amended(money, since, tuple(left), suspended)
    return System(**own)


def to_text(table: Any) -> str:
    """Return JSON in the one form in which the log has it."""
    return json.dumps(
        table,
        ensure_ascii=False,
        separators=(",", ":"),
    )
