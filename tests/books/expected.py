"""What accounts must say: a model that knows prices, deliveries, invoices and
amendments, in exact decimal numbers.

The model learns only of calls that were accepted, in the order in which they were
committed. It decides nothing: how much is bought is the policy's affair, and what it
costs is not.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal, localcontext

import numpy as np

from headgate.control import Amendment

from .values import WrongError, clients_of, money, month, truth, whole

NEGLIGIBLE = Decimal("1e-6")
"""what sums of floats may be away from sums of decimal numbers"""


def end(value):
    """Read a horizon: a number of rounds, or "open"."""
    if isinstance(value, str) and value == "open":
        return value
    return whole(value)


KINDS = {
    "money": money, "budget": money, "month": money, "adjust": money, "weight": money,
    "name": str, "join": whole, "leave": whole, "suspend": truth, "horizon": end,
}  # fmt: skip
"""how the fields of an amendment are read"""


def must(fits, what):
    if not fits:
        raise WrongError(what)


@dataclass
class Order:
    price: Decimal
    asked: int
    expires: int | None = None
    delivered: int = 0
    cancelled: int = 0
    rejected: int = 0
    beyond: int = 0
    answered: bool = False
    keys: dict = field(default_factory=dict)
    """state of each sample with a key: delivered, rejected or beyond"""
    adjusted: Decimal = Decimal(0)

    @property
    def under_way(self):
        return self.asked - self.delivered - self.cancelled

    @property
    def paid(self):
        return self.price * (self.delivered - self.rejected) + self.adjusted

    def cancel(self):
        self.cancelled += self.under_way


@dataclass
class Made:
    """An amendment that was accepted."""

    tag: str
    round: int
    change: dict
    order: tuple | None


class Model:
    """The accounts as they must be."""

    def __init__(self, buffers, budget, horizon, overdraft=0.0):
        self.buffers, self.left, self.horizon = list(buffers), set(), horizon
        self.approved = None if horizon is None else money(budget) * horizon
        """money approved; None: the model does not know, because the end is or was open
        """
        self.in_advance, self.budgets = overdraft, [money(budget)]
        """rounds' budgets that may be spent in advance where the end is open, and all
        budgets of a round so far
        """
        self.begun = self.settled = 0
        self.clients, self.gone = len(buffers), set()
        """clients and those that have left, by the terms of the round that is or was
        last open
        """
        self.orders, self.made, self.loose = (
            dict[tuple[int, int], Order](),
            list[Made](),
            Decimal(0),
        )
        self.names = None
        """names of the clients, if they have names"""
        self.latest, self.base = "", Decimal(0)
        self.to_drop = defaultdict(list)
        """keys of rejected samples, by the client that is to be told of them"""
        self.bought = None
        """(spent, month's budget, spent when the month began) if the round that is open
        bought anything under one
        """
        self.over, self.lowered, self.moved = Decimal(0), Decimal(0), False
        """by how much more was spent and reserved than is approved, what has explained
        more since, and whether the end moved
        """

    # what the accounts must say

    @property
    def spent(self):
        with localcontext(prec=60):
            return sum((order.paid for order in self.orders.values()), self.loose)

    @property
    def open(self):
        return self.begun > self.settled

    @property
    def month(self):
        """The budget of a month; None: there is none."""
        said = [each.change["month"] for each in self.made if "month" in each.change]
        return said[-1] or None if said else None

    def number(self, client):
        """Return the number of a client as the accounts name it."""
        must(
            isinstance(client, str) == (self.names is not None),
            f"client {client!r}: the names are {self.names}",
        )
        return client if self.names is None else self.names.index(client)

    def open_orders(self, client):
        return sorted(
            t
            for (t, m), order in self.orders.items()
            if m == client and order.under_way
        )

    # what happens

    def begin(self, purchases, given, clock, exactly):
        """A round begins, or one that was begun and not settled is repeated; `exactly`:
        no client joined or left meanwhile.
        """
        for each in purchases:
            must(
                all(type(value) in (int, float, tuple) for value in each),
                f"{each}: not all are numbers of Python",
            )
        if self.open:
            for each in purchases:
                order = self.orders.get((self.begun, each.client))
                must(each.round == self.begun, f"{each}: round {self.begun} is open")
                must(
                    each.samples == (order.asked if order else 0),
                    f"{each}: is not the order {order} that was given",
                )
            return
        self.begun += 1
        for order in self.orders.values():
            if order.expires is not None and order.expires < self.begun:
                order.cancel()
        self.clients, self.gone = len(self.buffers), set(self.left)
        named = (
            set(range(self.clients))
            if given.get("present") is None
            else clients_of(given["present"], self.clients)
        )
        there = [each.client for each in purchases]
        must(
            not exactly or there == sorted(named - self.gone),
            f"{there}: present were {sorted(named)}, gone {self.gone}",
        )
        must(
            named <= set(range(self.clients)),
            f"clients {named} were accepted, there are {self.clients}",
        )
        self._order(purchases, given)
        when = month(given.get("when"), clock)
        if when > self.latest:
            self.latest, self.base = when, self.spent
        bought = any(each.samples for each in purchases)
        self.bought = (
            (self.spent, self.month, self.base)
            if bought and self.month is not None
            else None
        )

    def _order(self, purchases, given):
        prices = np.asarray(given["price"], dtype=np.float64).ravel()
        most = None if given.get("most") is None else np.asarray(given["most"]).ravel()
        lot, expires = whole(given.get("lot", 1)), given.get("expires")
        if expires is not None:
            expires = self.begun + whole(expires)
        for each in purchases:
            price = money(prices[each.client % prices.size])
            must(each.round == self.begun, f"{each}: is not of round {self.begun}")
            must(money(each.price) == price, f"{each}: the price is {price}")
            must(
                each.samples >= 0 and each.samples % lot == 0, f"{each}: lots of {lot}"
            )
            must(
                most is None or each.samples <= most[each.client % most.size],
                f"{each}: at most {most}",
            )
            if each.samples:
                order = Order(price, each.samples, expires)
                self.orders[each.round, each.client] = order
            drop = self.to_drop.pop(each.client, ())
            must(each.drop == tuple(drop), f"{each}: rejected were {drop}")
        if given.get("in_all") is not None:
            total = sum(each.samples for each in purchases)
            must(
                total <= whole(given["in_all"]),
                f"{total} samples, in all {given['in_all']}",
            )

    def settle(self, reports, refused):
        """`reports`: client → its deliveries, each with the round of its order.

        The round that is open is over; None: what arrived between two rounds.
        """
        rejected = {whole(client) for client in refused}
        must(
            all(0 <= client < self.clients for client in rejected),
            f"{refused} were refused, and not all are clients",
        )
        if reports is None:
            reports = {
                m: [(order.asked, (), 0, {}, t)]
                for (t, m), order in self.orders.items()
                if t == self.begun
            }
        for client, deliveries in reports.items():
            if whole(client) not in rejected:  # refusing wins
                for delivery in deliveries:
                    self._deliver(whole(client), *delivery)
        if not self.open:
            return
        self.settled, self.bought = self.begun, None
        self._release()

    def _release(self):
        """What is under way at clients that have left is cancelled."""
        for (_, client), order in self.orders.items():
            if client in self.left:
                order.cancel()

    def _deliver(self, client, delivered, keys, cancelled, rejected, t):
        must(0 <= client < len(self.buffers), f"client {client}: there is no such one")
        delivered, cancelled, t = whole(delivered), whole(cancelled), whole(t)
        must(min(delivered, cancelled) >= 0, "less than nothing was delivered")
        order = self.orders.get((t, client))
        if order is None:
            must(not delivered, f"{delivered} samples without an order")
        elif delivered or cancelled:
            taken = min(delivered, order.under_way)
            order.delivered += taken
            order.beyond += delivered - taken
            order.cancelled += min(cancelled, order.under_way)
            order.answered = True
            for place, key in enumerate(keys):
                must(isinstance(key, str), f"{keys!r} were accepted as keys")
                _, known = self._sample(client, key)
                must(known != "delivered", f"key {key!r} was paid for twice")
                self._forget(client, key)
                order.keys[key] = "delivered" if place < taken else "beyond"
        for key in rejected:
            own, known = self._sample(client, key)
            must(known == "delivered", f"key {key!r} was rejected, and is {known}")
            own.rejected += 1
            own.answered = True
            own.keys[key] = "rejected"
            self.to_drop[client].append(key)
            must(own.paid >= 0, f"key {key!r}: more is given back than was paid")

    def _sample(self, client, key):
        """Return the order on which a sample arrived, and its state."""
        for (_, m), order in self.orders.items():
            if m == client and key in order.keys:
                return order, order.keys[key]
        return None, None

    def _forget(self, client, key):
        order, _ = self._sample(client, key)
        if order is not None:
            del order.keys[key]

    def amend(self, tag, given, order=None):
        """An amendment or, with an order, an adjustment was accepted and committed."""
        change = {
            name: KINDS[name](value)
            for name, value in given.items()
            if value is not None
        }
        order = None if order is None else (whole(order[0]), whole(order[1]))
        if (leaver := change.get("leave")) is not None:
            there = set(range(len(self.buffers))) - self.left
            must(leaver in there, f"client {leaver} left, and there are {there}")
            must(len(there) > 1, f"client {leaver} left, and was the last one")
            self.left.add(leaver)
            if not self.open:
                self._release()
        if "join" in change:
            self.buffers.append(change["join"])
            if self.names is not None:
                must(change["name"] not in self.names, f"{change}: is there already")
                self.names.append(change["name"])
        if "horizon" in change:
            must(
                change["horizon"] == "open" or change["horizon"] > self.begun,
                f"{change}: round {self.begun} has begun",
            )
            if self.horizon is None or change["horizon"] == "open":
                self.approved = None
            self.horizon = None if change["horizon"] == "open" else change["horizon"]
        more, invoice = (
            change.get("money", Decimal(0)),
            change.get("adjust", Decimal(0)),
        )
        if self.approved is not None:
            self.approved += more
            must(self.approved >= 0, f"{change}: takes back more than was approved")
        self.budgets += [change["budget"]] if "budget" in change else []
        self._invoice(order, invoice)
        self.lowered += max(-more, 0) + max(invoice, 0)
        self.moved |= "horizon" in change or "budget" in change
        self.made.append(Made(tag, self.begun, change, order))

    def _invoice(self, order, invoice):
        if order is None:
            self.loose += invoice
        else:
            must(order in self.orders, f"order {order} was adjusted, and there is none")
            self.orders[order].adjusted += invoice
            must(
                self.orders[order].paid >= 0,
                f"order {order}: {invoice} is more than was paid",
            )
        must(self.spent >= 0, f"{invoice} is more than was spent")

    def can_be_made(self, given):
        """Whether an amendment of plain values is one that must be accepted now."""
        if self.horizon is not None and self.begun >= self.horizon:
            return False
        (name, value), *more = given.items()
        there = set(range(len(self.buffers))) - self.left
        fits = {
            "money": lambda: value > 0,
            "suspend": lambda: True,
            "month": lambda: True,
            "join": lambda: True,
            "leave": lambda: value in there and len(there) > 1,
        }
        return not more and name in fits and fits[name]()

    # whether they say it

    def agree(self, found):
        """Compare a statement with the model."""
        tags = [
            (each.why if each.why.startswith("#") else each.by).split()[0]
            for each in found.amendments
        ]
        must(
            tags == [each.tag for each in self.made],
            f"amendments {tags}, accepted were {[each.tag for each in self.made]}",
        )
        for row, each in zip(found.amendments, self.made, strict=True):
            self._agree_amendment(row, each)
        lines = {(line.round, self.number(line.client)): line for line in found.lines}
        must(len(lines) == len(found.lines), "an order has two lines")
        must(
            lines.keys() == self.orders.keys(),
            f"lines {sorted(lines)}, orders {sorted(self.orders)}",
        )
        for own, order in self.orders.items():
            self._agree_line(lines[own], order)
        with localcontext(prec=60):
            paid = sum((line.paid for line in found.lines), self.loose)
            must(
                paid == found.spent,
                f"lines and invoices come to {paid}, the statement says {found.spent}",
            )
            must(
                found.spent == self.spent,
                f"spent {self.spent}, the statement says {found.spent}",
            )
        must(
            found.rounds == self.settled,
            f"{found.rounds} rounds, {self.settled} were settled",
        )
        if self.approved is not None and not any(
            "horizon" in each.change for each in self.made
        ):
            must(
                abs(found.approved - self.approved) <= NEGLIGIBLE,
                f"approved {self.approved}, the statement says {found.approved}",
            )
        self._agree_limits(found)

    def _agree_amendment(self, row, each):
        must(
            row.round == each.round, f"{row}: round {each.round} was the last one begun"
        )
        must(row.order == each.order, f"{row}: the order was {each.order}")
        for name, value in each.change.items():
            stored = getattr(row.change, name)
            same = KINDS[name](stored) == value
            plain = type(stored) is type(getattr(Amendment, name)) or type(stored) in (
                int,
                float,
                bool,
                str,
            )
            must(same and plain, f"{row}: {name} was {value}")

    def _agree_line(self, line, order):
        stated = (
            line.price,
            line.asked,
            line.delivered,
            line.cancelled,
            line.rejected,
            line.beyond,
            line.under_way,
            line.adjusted,
            line.paid,
            line.answered is not None,
        )
        wanted = (
            order.price,
            order.asked,
            order.delivered,
            order.cancelled,
            order.rejected,
            order.beyond,
            order.under_way,
            order.adjusted,
            order.paid,
            order.answered,
        )
        must(stated == wanted, f"{line}: must say {wanted}")
        must(
            all(type(value) is int for value in (line.asked, line.delivered)),
            f"{line}: not all counts are whole numbers",
        )
        kept = {key for key, state in order.keys.items() if state == "delivered"}
        must(set(line.keys) == kept, f"{line}: the keys were {order.keys}")

    def _agree_limits(self, found):
        """Money that open orders may cost, the approved money and the budget of the
        month.
        """
        with localcontext(prec=60):
            reserved = sum(
                (order.price * order.under_way for order in self.orders.values()),
                Decimal(0),
            )
        must(
            found.reserved == reserved,
            f"reserved {found.reserved}, what is under way costs {reserved}",
        )
        over = found.spent + found.reserved - found.approved
        ever_open = self.approved is None
        in_advance = (
            money(self.in_advance) * max(self.budgets) if ever_open else Decimal(0)
        )
        explained = max(self.over, in_advance) + self.lowered + NEGLIGIBLE
        must(
            self.moved or over <= explained,
            f"{over} more is spent and reserved than approved, {explained} are"
            " explained",
        )
        self.over, self.lowered = over, Decimal(0)
        if not self.open:
            self.moved = any(
                each.round == self.settled and self._moves(each) for each in self.made
            )
        if self.bought is not None:
            spent, month, base = self.bought
            cost = spent + found.reserved - base
            must(
                cost <= month + NEGLIGIBLE,
                f"{self.latest} may cost {month}, and costs {cost} with open orders",
            )

    @staticmethod
    def _moves(made):
        return "horizon" in made.change or "budget" in made.change
