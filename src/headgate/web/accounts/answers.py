"""What accounts say to a request. The fields of the data classes are the keys of the
JSON object, and its schema. Amounts of money are exact decimal numbers, as text.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from headgate.books.books import Books, journal_of
from headgate.books.journal import Journal
from headgate.books.nouns import Balance, Client, Entry, OrderState, Purchase
from headgate.books.state import system_table
from headgate.books.statement import OrderLine, amendments, lines
from headgate.control.types import System
from headgate.errors import SettingError
from headgate.escaping import shown

Reported = int | str | None


@dataclass(frozen=True)
class AccountList:
    accounts: list[str]
    next: str | None
    """give it as `after` for the next page; null: this is the last one"""


@dataclass(frozen=True)
class NewAccountAnswer:
    name: str
    """also in its address"""
    accounts: str
    """a random name that identifies the accounts to clients"""
    begun: str


@dataclass(frozen=True)
class AccountDetail:
    name: str
    accounts: str
    begun: str
    terms: dict[str, Any]
    """the terms that the accounts were opened with"""
    system: dict[str, Any]
    """the system with all amendments that hold"""
    ahead: dict[str, Any] | None
    """the system with those that wait for the next round, too, if there are any"""
    policy: dict[str, Any]
    seed: int
    clients: list[Client]
    settled: int
    open: int | None
    """the round that was begun and is not settled"""
    rounds_left: int | None
    quarantined: list[Client]
    entry: int
    """number of the last entry of the ledger"""
    hash: str
    why: str
    """why the latest round bought what it bought"""
    role: str = ""
    """the role of the token that asks"""


@dataclass(frozen=True)
class RoundHistory:
    """The latest rounds. An order counts in the round in which it was written."""

    rounds: list[int]
    spent: list[float]
    """money spent up to and with each round"""
    reserved: list[float]
    """price of what is under way from these rounds"""
    asked: list[int]
    delivered: list[int]


@dataclass(frozen=True)
class BalanceAnswer:
    rounds: int
    approved: str
    spent: str
    reserved: str
    left: str


@dataclass(frozen=True)
class PurchaseAnswer:
    client: Client
    round: int
    samples: int
    price: float
    keep: int
    last: int
    drop: list[str]


@dataclass(frozen=True)
class RoundAnswer:
    round: int
    purchases: list[PurchaseAnswer]
    why: str


@dataclass(frozen=True)
class Done:
    entry: int
    """number of the last entry of the ledger"""
    settled: int
    """the last settled round"""
    balance: BalanceAnswer


@dataclass(frozen=True)
class Checked:
    held: int
    """samples that the client holds after its report"""


@dataclass(frozen=True)
class OrderAnswer:
    round: int
    client: Client
    at: str
    price: str
    asked: int
    free: int
    delivered: int
    under_way: int
    cancelled: int
    rejected: int
    beyond: int
    adjusted: str
    answered: int | None
    expires: Reported


@dataclass(frozen=True)
class OrderList:
    orders: list[OrderAnswer]
    next: str | None


@dataclass(frozen=True)
class LineAnswer:
    round: int
    client: Client
    time: str
    currency: str
    price: str
    asked: int
    delivered: int
    free: int
    charged: str
    adjusted: str
    paid: str
    answered: int | None
    keys: list[str]
    under_way: int
    cancelled: int
    rejected: int
    beyond: int


@dataclass(frozen=True)
class StatementPage:
    entry: int
    rounds: int
    currency: str
    approved: str
    spent: str
    reserved: str
    lines: list[LineAnswer]
    next: str | None


@dataclass(frozen=True)
class AmendmentAnswer:
    id: int
    round: int
    made: str
    by: str
    why: str
    change: dict[str, Any]
    order: list[int] | None
    """round and number of the client of the order that was adjusted"""
    key: str | None


@dataclass(frozen=True)
class AmendmentList:
    amendments: list[AmendmentAnswer]


@dataclass(frozen=True)
class OfferAnswer:
    round: int
    at: str
    by: str
    price: list[float]
    supply: dict[str, Any]


@dataclass(frozen=True)
class OfferList:
    rounds: list[OfferAnswer]
    next: int | None


@dataclass(frozen=True)
class EventAnswer:
    number: int
    at: str
    kind: str
    by: str
    why: str
    round: int | None
    hash: str


@dataclass(frozen=True)
class EventList:
    events: list[EventAnswer]
    next: int
    """give it as `after` for what comes later"""


@dataclass(frozen=True)
class Audited:
    agrees: bool
    entries: int
    hash: str
    balance: BalanceAnswer


@dataclass(frozen=True)
class Forecast:
    spend: list[float]
    """mean, 5 % and 95 % quantile"""
    samples: list[float]
    left: list[float]


# from the accounts


def exactly(amount: Decimal) -> str:
    """Return an amount as text, with all its digits."""
    return f"{amount:f}"


def balance_answer(balance: Balance) -> BalanceAnswer:
    """Return a balance for JSON."""
    money = (balance.approved, balance.spent, balance.reserved, balance.left)
    return BalanceAnswer(balance.rounds, *map(exactly, money))


def purchase_answers(purchases: Iterable[Purchase]) -> list[PurchaseAnswer]:
    """Return purchases for JSON."""
    return [PurchaseAnswer(*each[:6], list(each.drop)) for each in purchases]


def done(books: Books) -> Done:
    """Return how far the accounts have come."""
    balance, last = books.balance(), journal_of(books).last
    return Done(last.number, balance.rounds, balance_answer(balance))


def detail(name: str, books: Books) -> AccountDetail:
    """Return the terms and the state of accounts."""
    with journal_of(books).newest() as state:
        opening, system, last = state.opening, state.system, journal_of(books).last
        began = next(journal_of(books).tables.entries())
        return AccountDetail(
            name=name,
            accounts=books.name,
            begun=began.at,
            terms=dict(opening["terms"]),
            system=system_table(system),
            ahead=system_table(state.system_ahead()) if state.waiting else None,
            policy=dict(opening.get("policy", {})),
            seed=opening["seed"],
            clients=[system.named(client) for client in range(system.clients)],
            settled=state.settled,
            open=None if state.open is None else state.open.round,
            rounds_left=books.rounds_left,
            quarantined=sorted(books.quarantined, key=str),
            entry=last.number,
            hash=last.hash,
            why=books.why,
        )


def course_text(books: Books) -> str:
    """Return the policy's ledger after the last settled round, as text."""
    course = journal_of(books).course
    assert course is not None
    return course.to_json()


def history(books: Books, most: int = 1_000) -> RoundHistory:
    """Return what the latest rounds cost."""
    with journal_of(books).newest() as state:
        first, last = max(state.begun - most + 1, 1), state.begun
        found = RoundHistory(list(range(first, last + 1)), [], [], [], [])
        paid, reserved = [Decimal(0)] * most, [Decimal(0)] * most
        asked, delivered = [0] * most, [0] * most
        for order in journal_of(books).tables.orders(first):
            place = order.round - first
            paid[place] += order.paid(state.quantum)
            reserved[place] += order.reserved(state.quantum)
            asked[place] += order.asked
            delivered[place] += order.delivered - order.rejected
        spent = float(state.spent - sum(paid))
        reserved_so_far = 0.0
        for place in range(len(found.rounds)):
            spent += float(paid[place])
            reserved_so_far += float(reserved[place])
            found.spent.append(spent)
            found.reserved.append(reserved_so_far)
            found.asked.append(asked[place])
            found.delivered.append(delivered[place])
    return found


def order_answer(order: OrderState, system: System) -> OrderAnswer:
    """Return an order for JSON."""
    fields = {**order._asdict(), "under_way": order.under_way}
    fields["client"] = system.named(order.client)
    fields |= {name: exactly(fields[name]) for name in ("price", "adjusted")}
    return OrderAnswer(**fields)


def under_way(books: Books, after: str, limit: int) -> OrderList:
    """Return a page of the orders with samples under way."""
    start = _place(after)
    with journal_of(books).newest() as state:
        own = sorted(each for each in state.orders if each > start)
        shown_ = own[:limit]
        found = [order_answer(state.orders[each], state.system) for each in shown_]
    return OrderList(found, _next(shown_, len(own) > limit))


def statement_page(
    books: Books,
    after: str,
    limit: int,
) -> StatementPage:
    """Return a page of the statement, as the accounts are now."""
    with journal_of(books).newest() as state:
        some = list(islice(lines(journal_of(books), after=_place(after)), limit + 1))
        names = state.system_ahead()
        roll = {names.named(client): client for client in range(names.clients)}
        places = [(line.round, roll[line.client]) for line in some[:limit]]
        balance = state.balance()
        return StatementPage(
            entry=journal_of(books).last.number,
            rounds=balance.rounds,
            currency=names.currency,
            approved=exactly(balance.approved),
            spent=exactly(balance.spent),
            reserved=exactly(balance.reserved),
            lines=[_line_answer(line) for line in some[:limit]],
            next=_next(places, len(some) > limit),
        )


def _line_answer(line: OrderLine) -> LineAnswer:
    fields: dict[str, Any] = {
        name: exactly(value) if isinstance(value, Decimal) else value
        for name, value in line._asdict().items()
    }
    return LineAnswer(**{**fields, "keys": list(line.keys)})


def _place(after: str) -> tuple[int, int]:
    """Return the order after which a page begins; the first page is after none."""
    if not after:
        return 0, -1
    t, dash, client = after.partition("-")
    if not dash or not (t + client).isascii() or not (t + client).isdigit():
        raise SettingError(f"after = {shown(after)}: is not from the page before")
    return int(t or 0), int(client or 0)


def _next(places: list[tuple[int, int]], more: bool) -> str | None:
    return "-".join(map(str, places[-1])) if more and places else None


def amendment_list(books: Books) -> AmendmentList:
    """Return the amendments and adjustments, the oldest first."""
    found = []
    with journal_of(books).newest():
        for each in amendments(journal_of(books)):
            change = {
                name: value
                for name, value in vars(each.change).items()
                if value != getattr(type(each.change), name)
            }
            order = None if each.order is None else list(each.order)
            signed = each.id, each.round, each.made, each.by, each.why
            found.append(AmendmentAnswer(*signed, change, order, each.key))
    return AmendmentList(found)


def offers(
    journal: Journal,
    after: int,
    limit: int,
) -> OfferList:
    """Return the prices and the supply of rounds that were begun."""
    found, last = list[OfferAnswer](), after
    with journal.newest():
        for entry in journal.tables.entries(after):
            if entry.kind == "begun":
                if len(found) == limit:
                    return OfferList(found, last)
                body = json.loads(entry.body)
                own = body["round"], entry.at, entry.by, body["price"], body["supply"]
                found.append(OfferAnswer(*own))
            last = entry.number
    return OfferList(found, None)


def event_answer(entry: Entry) -> EventAnswer:
    """Return an entry of the ledger for JSON, without its details."""
    t = json.loads(entry.body).get("round")
    own = entry.number, entry.at, entry.kind, entry.by, entry.why, t, entry.hash
    return EventAnswer(*own)


def events(
    journal: Journal,
    after: int,
    limit: int,
) -> EventList:
    """Return what happened after an entry."""
    with journal.newest():
        some = islice(journal.tables.entries(after), limit)
        found = [event_answer(entry) for entry in some]
    return EventList(found, found[-1].number if found else after)


def audited(books: Books) -> Audited:
    """Replay everything, and say that it agrees."""
    books.audit()
    last = journal_of(books).last
    return Audited(True, last.number, last.hash, balance_answer(books.balance()))
