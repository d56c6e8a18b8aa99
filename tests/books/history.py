"""A history of two writers, as a state machine: what is done to accounts by two
processes, and what is true afterwards.

One process plays rounds, amends, adjusts, closes and opens accounts. A second, real one
amends, adjusts, shows and exports them between any two SQL statements of the first
one's calls. Every now and then an argument is a value that says nothing. A call is
accepted, or it is refused in one line and nothing was written. After each step the
accounts open again from a copy, the audit raises no alarm, and the statement says what
the model says (`expected`).

    python -m tests.books.history 10000 SEED
"""

import atexit
import shutil
import sys
import time
import warnings
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headgate import Books, Delivery, System
from headgate.books import books, journal
from headgate.books.statement import amend
from headgate.control import Amendment
from headgate.control.policies import Constant, Headgate
from headgate.control.prices import Uniform
from headgate.errors import HeadgateError

from .expected import Model
from .failpoints import (
    Request,
    Second,
    Visit,
    Watch,
    connection_of,
    copied,
    dump,
    watching,
)
from .kept import InPostgres, one_more
from .values import DATES, DAYS, KEYS, ODD, WrongError

STEPS, MACHINES = 50, 2
"""rules of one machine, in one folder, and machines of one seed"""
TAKEN = ("steps",)
BUFFERS, BUDGET = (4, 3, 5), 12.0
NAMES = ("clinic a", "clinic b", "ünïversity")
POLICIES = {"headgate": Headgate, "constant": lambda: Constant(rate=6.0, K=2)}
COUNTS: Counter[tuple[str, ...]] = Counter()
"""what was done in this process: steps, calls by their outcome, visits by their place,
odd values by argument and by name
"""
PRICES = [0.5, 1.0, 1.1, 2.0, 3.35, 7.0, [1.0, 2.25, 0.3]]
CHANGES: list[dict[str, Any]] = [
    {"money": 7.25}, {"money": -5.5}, {"money": -60.0}, {"money": 0.1},
    {"suspend": True}, {"suspend": False}, {"suspend": False}, {"leave": 0},
    {"leave": 1}, {"leave": 3}, {"join": 2}, {"join": 4, "weight": 0.5},
    {"month": 20.0}, {"month": 35.5}, {"month": 0.0}, {"horizon": 12}, {"horizon": 40},
    {"horizon": "open"}, {"budget": 9.0}, {"adjust": 1.25}, {"adjust": -0.75},
    {"money": 3.0, "month": 15.0},
]  # fmt: skip
SHARES = [-1.0, -0.5, -0.1, 0.1, 0.35, 2.0]
"""adjustments, as shares of what was paid on an order"""


class Operation(NamedTuple):
    """A call of the public face, and its arguments that may be odd."""

    call: Any
    slots: tuple[str, ...] = ()


def by_command(folder, changes, by, why, order=None):
    """Amend as `headgate ledger amend` does, in the first process."""
    amend(folder, Amendment(**changes), by, why, order)


FIELDS = (
    "money",
    "budget",
    "horizon",
    "join",
    "weight",
    "leave",
    "suspend",
    "month",
    "adjust",
)
OPERATIONS = {
    "begin": Operation(
        Books.begin,
        (
            "price",
            "present",
            "one present",
            "most",
            "in_all",
            "lot",
            "when",
            "under_way",
            "expires",
        ),
    ),
    "settle": Operation(
        Books.settle,
        (
            "reports",
            "client",
            "count",
            "keys",
            "one key",
            "cancelled",
            "rejected",
            "rejected key",
            "order",
            "refused",
            "why",
        ),
    ),
    "check": Operation(
        Books.check,
        ("client", "count", "keys", "one key", "cancelled", "rejected key", "order"),
    ),
    "amend": Operation(Books.amend, (*FIELDS, "by", "why")),  # and key, soon
    "adjust": Operation(
        Books.adjust, ("round", "client", "amount", "by", "why")
    ),  # and key, soon
    "command": Operation(by_command, (*FIELDS, "by", "why")),  # and key, soon
    "rest": Operation(Books.rest, ("rounds",)),
    "statement": Operation(Books.statement),
    "audit": Operation(Books.audit),
    # "backup": Operation(Books.backup, ("file",)), soon
}
"""what the first process can do with open accounts"""


class Outcome(NamedTuple):
    accepted: bool
    result: Any = None
    message: str = ""


def attempt(call, *given, **named):
    """Return what a call gave, or the line by which it was refused. Warnings are errors
    here, as in all tests.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return Outcome(True, call(*given, **named))
    except HeadgateError as error:
        one_line(str(error))
        return Outcome(False, message=str(error))
    except Exception as error:
        raise WrongError(f"{type(error).__name__}: {error}") from error


def one_line(message):
    if len(message.splitlines()) != 1:
        raise WrongError(f"the message is not one line: {message!r}")


# what is drawn

PLACES = st.sampled_from(
    [0, 0, *range(20)]
)  # all calls have a first statement, and it is outside a transaction
CLIENT = st.integers(0, 2)
CHANGE = st.sampled_from(CHANGES)
INVOICE = st.tuples(st.integers(0, 7), st.sampled_from(SHARES))


def some(slots, one_in=3):
    """An odd value for one argument in three calls, or in `one_in`; else None."""
    values = st.sampled_from(sorted(ODD))
    keys, dates = st.sampled_from(sorted(KEYS)), st.sampled_from(sorted(DATES))
    special = {"one key": keys, "when": dates}
    one = st.sampled_from(slots).flatmap(
        lambda slot: st.tuples(st.just(slot), special.get(slot, values))
    )
    chances = st.integers(0, one_in - 1)
    return chances.flatmap(lambda chance: st.none() if chance else one)


REQUEST = st.one_of(
    st.tuples(st.just("amend"), CHANGE, some(OPERATIONS["command"].slots)),
    st.tuples(st.just("amend"), CHANGE, st.none()),
    st.tuples(
        st.just("adjust"), INVOICE, some(("round", "client", "amount", "by", "why"))
    ),
    st.tuples(st.just("show")),
    st.tuples(st.just("export"), st.sampled_from(["csv", "csv", "json"])),
    st.tuples(st.just("play")),
)
VISITS = st.integers(0, 1).flatmap(
    lambda chance: (
        st.just([])
        if chance
        else st.lists(st.tuples(PLACES, REQUEST), min_size=1, max_size=2)
    )
)
DELIVERED = st.lists(
    st.sampled_from(
        [
            "all",
            "all",
            "all",
            "short",
            "nothing",
            "silent",
            "late",
            "again",
            "more",
            "skipped",
            "rejected",
            "rejected",
        ]
    ),
    min_size=4,
)


def odd(slot, name, fits):
    """Return the odd value of a name; `fits` is the whole number that would fit."""
    COUNTS["slot", slot] += 1
    COUNTS["odd", name] += 1
    return (
        KEYS[name]
        if name in KEYS
        else DATES[name]
        if name in DATES
        else ODD[name](fits)
    )


class TheSecond:
    """The second process of this process, started when it is first needed."""

    process: Second | None = None

    @classmethod
    def get(cls):
        if cls.process is None:
            cls.process = Second()
            atexit.register(cls.end)
        return cls.process

    @classmethod
    def end(cls):
        if cls.process is not None:
            cls.process.close()
            cls.process = None


class History(RuleBasedStateMachine):
    """Accounts of three clients, and two processes."""

    looks = True
    """whether it is seen after each call what is true"""
    database = None
    """address of the database of PostgreSQL that the accounts are in; None: a folder"""

    @initialize(
        policy=st.sampled_from(sorted(POLICIES)),
        horizon=st.sampled_from([60, 60, 8, None]),
        month=st.sampled_from([None, 25.0]),
        names=st.booleans(),
    )
    def start(self, policy, horizon, month, names=False):
        self.patches = ExitStack()
        self.patches.enter_context(patch("headgate.books.durable.SYNCHRONOUS", "OFF"))
        for module in (books, journal):  # wherever the clock is read
            if hasattr(module, "now"):
                self.patches.enter_context(
                    patch.object(
                        module, "now", lambda: self.clock.isoformat(timespec="seconds")
                    )
                )
        self.folder, self.copies, self.tags = Path(mkdtemp(prefix="history-")), 0, 0
        self.accounts = self.folder / "accounts"
        if self.database:
            self.accounts = one_more(InPostgres(f"{self.database}/history"))
        self.made = 0
        self.clock = datetime(2026, 10, 30, 12, tzinfo=UTC)
        self.policy, self.horizon = POLICIES[policy], horizon
        buffers = dict(zip(NAMES, BUFFERS, strict=True)) if names else list(BUFFERS)
        self.system = System(buffers, budget=BUDGET, horizon=horizon)
        self.model = Model(
            BUFFERS, BUDGET, horizon, getattr(self.policy(), "overdraft", 0.0)
        )
        self.model.names = list(NAMES) if names else None
        self.purchases, self.ready = (
            [],
            False,
        )  # what `begin` returned, and whether it did since the accounts were opened
        self.books = self.open(self.accounts)
        if month:
            self.do_amend("amend", {"month": month}, None, [])

    def open(self, folder):
        return Books(folder, self.system, self.policy())

    def teardown(self):
        if hasattr(self, "folder"):
            if hasattr(self, "books"):
                self.books.close()
            self.patches.close()
            shutil.rmtree(self.folder)

    # what happens

    @rule(
        price=st.sampled_from(PRICES),
        present=st.none() | st.sets(CLIENT).map(sorted),
        most=st.sampled_from([None, None, 2, [1, 2, 3]]),
        in_all=st.sampled_from([None, None, 0, 5]),
        lot=st.sampled_from([1, 1, 2]),
        when=st.sampled_from(DAYS),
        under_way=st.sampled_from([None, None, 4]),
        expires=st.sampled_from([None, None, 0, 1, 3]),
        spoil=some(OPERATIONS["begin"].slots),
        visits=VISITS,
    )
    def begin(
        self, price, present, most, in_all, lot, when, under_way, expires, spoil, visits
    ):
        self.do_begin(
            {
                "price": price,
                "present": present,
                "most": most,
                "in_all": in_all,
                "lot": lot,
                "when": when,
                "under_way": under_way,
                "expires": expires,
            },
            spoil,
            visits,
        )

    @rule(
        price=st.sampled_from(PRICES),
        when=st.sampled_from(DAYS),
        visits=VISITS,
        more=VISITS,
        style=DELIVERED,
    )
    def play(self, price, when, visits, more, style):
        """A round of plain values."""
        self.do_begin(
            {"price": price, "present": None, "most": None, "when": when}, None, visits
        )
        self.do_settle(style, {}, None, more)

    @precondition(lambda self: self.model.open)
    @rule(
        style=st.none() | DELIVERED,
        refused=st.dictionaries(
            CLIENT, st.sampled_from(["wrong", "of two\nlines", "=1+1"]), max_size=1
        ),
        spoil=some(OPERATIONS["settle"].slots),
        visits=VISITS,
    )
    def settle(self, style, refused, spoil, visits):
        self.do_settle(style, refused, spoil, visits)

    @precondition(lambda self: self.ready)
    @rule(
        place=st.integers(0, 3),
        style=DELIVERED,
        spoil=some(OPERATIONS["check"].slots, one_in=2),
    )
    def check(self, place, style, spoil):
        """A report is checked, and nothing is written."""
        reports = self.reports(style)
        client = sorted(reports)[place % len(reports)] if reports else place
        deliveries = reports.get(client, [Delivery(round=self.model.begun)])
        reports, _ = self.spoiled({client: deliveries}, {}, spoil, "check")
        ((client, deliveries),) = reports.items()
        done = self.do("check", (self.who(client), deliveries), {})
        if done.accepted and (type(done.result) is not int or done.result < 0):
            raise WrongError(f"check says {done.result!r}")

    @precondition(lambda self: not self.model.open and self.model.orders)
    @rule(style=DELIVERED, visits=VISITS, again=st.booleans())
    def arrive(self, style, visits, again):
        """Samples arrive between two rounds, and are reported under a key."""
        reports = {
            client: [each for each in deliveries if each.round <= self.model.settled]
            for client, deliveries in self.reports(style).items()
        }
        given, key = {self.who(client): each for client, each in reports.items()}, None
        if again:
            key = self.tag()
        note = self.settling(reports, {})
        done = self.do("settle", (given, {}, None, key), {}, visits, note)
        if done.accepted and again:
            self.do("settle", (given, {}, None, key), {}, (), lambda _: None)

    @rule(change=CHANGE, spoil=some(OPERATIONS["amend"].slots), visits=VISITS)
    def amend(self, change, spoil, visits):
        self.do_amend("amend", change, spoil, visits)

    @rule(change=CHANGE, spoil=some(OPERATIONS["command"].slots), visits=VISITS)
    def command(self, change, spoil, visits):
        self.do_amend("command", change, spoil, visits)

    @rule(
        invoice=INVOICE,
        spoil=some(OPERATIONS["adjust"].slots, one_in=2),
        visits=VISITS,
    )
    def adjust(self, invoice, spoil, visits):
        tag, (t, client, amount, by, why) = self.invoice(invoice, spoil)
        given = {"round": t, "client": client, "amount": amount, "by": by, "why": why}
        self.do(
            "adjust",
            (),
            given,
            visits,
            lambda result: self.model.amend(tag, {"adjust": amount}, (t, client)),
        )

    @precondition(
        lambda self: (
            any(order.paid > 0 for order in self.model.orders.values())
            and self.going_on()
        )
    )
    @rule(place=st.integers(0, 7), parts=st.sampled_from([(3, 3), (1, 9), (7, 2)]))
    def refund(self, place, parts):
        """What was paid on an order is given back in three parts, to the last cent."""
        paid = {
            own: order.paid
            for own, order in self.model.orders.items()
            if order.paid > 0
        }
        (t, client), rest = sorted(paid.items())[place % len(paid)]
        if rest > self.model.spent:
            return
        cuts = [
            (rest * tenths / 10).quantize(Decimal("0.01"), ROUND_DOWN)
            for tenths in parts
        ]
        for amount in [part for part in (*cuts, rest - sum(cuts)) if part > 0]:
            tag, given = (
                self.tag(),
                {
                    "round": t,
                    "client": client,
                    "amount": -float(amount),
                    "by": "finance",
                },
            )
            note = self.noting(tag, {"adjust": given["amount"]}, (t, client))
            done = self.do("adjust", (), {**given, "why": tag}, (), note)
            if not done.accepted:
                raise WrongError(
                    f"a refund of {amount} of {paid[t, client]} paid was refused:"
                    f" {done.message}"
                )

    @rule(days=st.sampled_from([-40, -31, -1, 1, 2, 31, 400]))
    def step(self, days):
        """The clock steps, also back."""
        COUNTS[TAKEN] += 1
        COUNTS["clock", "forward" if days > 0 else "back"] += 1
        self.clock += timedelta(days=days)

    @rule(
        rounds=st.sampled_from([1, 2, 3]),
        spoil=some(("rounds",), one_in=2),
        visits=VISITS,
    )
    def rest(self, rounds, spoil, visits):
        rounds = odd("rest: rounds", spoil[1], rounds) if spoil else rounds
        self.do("rest", (Uniform(1.0, 10.0), rounds), {}, visits)

    @rule(name=st.sampled_from(["statement", "audit"]), visits=VISITS)
    def look(self, name, visits):
        self.do(name, (), {}, visits)

    @rule(visits=VISITS, other=st.sampled_from([None, None, "buffers", "budget"]))
    def close_and_open(self, visits, other):
        """Other accounts of that name are refused; then the right ones open, and the
        second process is let in meanwhile.
        """
        self.books.close()
        if other:
            system = (
                System([9, 9, 9], budget=BUDGET)
                if other == "buffers"
                else System(list(BUFFERS), budget=5.0)
            )
            done = attempt(Books, self.accounts, system, self.policy())
            COUNTS[
                "first",
                f"open with another {other}",
                "accepted" if done.accepted else "refused",
            ] += 1
            if done.accepted:
                done.result.close()
                raise WrongError(f"the accounts opened with another {other}")
        visits = [
            each for each in visits if each[1][0] != "play"
        ]  # nobody holds the accounts while they are opened
        watch = Watch(TheSecond.get(), self.resolved(visits))
        with watching(self.accounts, None, watch.before):
            done = attempt(self.open, self.accounts)
        COUNTS["first", "open", "accepted" if done.accepted else "refused"] += 1
        if not done.accepted:
            raise WrongError(f"the accounts do not open: {done.message}")
        self.books = done.result
        before, after = watch.after()
        self.hear(before + after)
        self.purchases, self.ready = [], False
        self.see()

    @rule(request=REQUEST)
    def visit(self, request):
        """The second process is let in between two calls."""
        self.do("statement", (), {}, [(10**9, request)])

    # how

    def do(self, name, positional, given, visits=(), note=lambda result: None):
        """Call an operation, let the second process in, tell the model what was
        accepted, and look at the accounts.
        """
        before = dump(self.accounts)
        watch = Watch(TheSecond.get(), self.resolved(visits))
        own, connection = self.books, connection_of(self.books)
        if name == "command":
            own, connection = self.accounts, None
        with watching(self.accounts, connection, watch.before):
            done = attempt(OPERATIONS[name].call, own, *positional, **given)
        COUNTS["first", name, "accepted" if done.accepted else "refused"] += 1
        earlier, later = watch.after()
        changes = self.hear(earlier)
        if done.accepted:
            note(done.result)
        changes += self.hear(later)
        if not done.accepted or name in ("check", "rest", "statement", "audit"):
            unchanged(before, dump(self.accounts), changes)
        self.see()
        return done

    def who(self, client):
        """Return a client as it is named to the accounts."""
        if self.model.names is None or type(client) is not int:
            return client
        return (
            self.model.names[client] if 0 <= client < len(self.model.names) else client
        )

    def do_begin(self, given, spoil, visits):
        given = self.odd_begin(dict(given), *spoil) if spoil else given
        repeated, going_on = self.model.open, self.going_on()
        joined = any(
            request[0] == "amend" and {"join", "leave"} & request[1].keys()
            for _, request in visits
        )

        def note(purchases):
            numbered = [
                each._replace(client=self.model.number(each.client))
                for each in purchases
            ]
            self.model.begin(numbered, given, self.clock, exactly=not joined)
            self.purchases, self.ready = numbered, True

        done = self.do("begin", (), given, visits, note)
        plain = not spoil and all(
            client < self.model.clients for client in given["present"] or ()
        )
        plain = plain and not any(
            isinstance(given[name], list) for name in ("price", "most")
        )
        nobody = isinstance(given["present"], list) and not given["present"]
        over = not nobody and not (going_on and self.going_on())
        if not done.accepted and plain and not (repeated or joined or over):
            raise WrongError(f"begin of {given} was refused: {done.message}")

    def odd_begin(self, given, slot, name):
        if slot == "one present":
            given["present"] = [0, odd("begin: one present", name, 2)]
        elif slot == "present":
            given["present"] = odd("begin: present", name, 1)
            if name == "numpy bool":  # a mask for each client
                given["present"] = np.arange(self.model.clients) != 1
            elif name == "bool":
                given["present"] = [client != 1 for client in range(self.model.clients)]
            elif name in ("int64", "uint8"):
                given["present"] = np.array([0, 2], dtype=name)
        else:
            given[slot] = odd(f"begin: {slot}", name, 2)
        return given

    def do_settle(self, style, refused, spoil, visits):
        if not self.model.open:
            return
        reports = None if style is None else self.reports(style)
        sound = not spoil and not refused
        sound = sound and not any(kind == "again" for kind in style or ())
        if spoil:
            reports, refused = self.spoiled(
                {} if reports is None else reports, refused, spoil
            )
        given = reports
        if isinstance(reports, dict):
            given = {self.who(client): each for client, each in reports.items()}
        named = {self.who(client): why for client, why in refused.items()}
        note, t = self.settling(reports, refused), self.model.begun
        done = self.do("settle", (given, named), {}, visits, note)
        if done.accepted:
            self.purchases, self.ready = [], False
            if not spoil:  # sent again, as after a kill
                again = self.do("settle", (given, named, t), {}, (), lambda _: None)
                if not again.accepted:
                    raise WrongError(f"the repeat was refused: {again.message}")
        elif sound and self.ready:
            raise WrongError(f"settle({given}) was refused: {done.message}")

    def settling(self, reports, refused):
        """Return a function that tells the model what was settled."""
        plain = reports
        if isinstance(reports, dict):
            plain = {
                client: [
                    (each, (), 0, {}, self.model.begun)
                    if not isinstance(each, Delivery)
                    else (*each[:4], each.round or self.model.begun)
                    for each in (own if isinstance(own, list) else [own])
                ]
                for client, own in reports.items()
            }
        return lambda _: self.model.settle(plain, refused)

    def reports(self, style):
        """What the clients report, each in its style, on all orders to them."""
        reports = {}
        for client in range(self.model.clients):
            kind = style[client % len(style)]
            orders = {
                t: order
                for (t, m), order in sorted(self.model.orders.items())
                if m == client
            }
            if kind == "silent" or not orders:
                continue
            found = {}
            now = self.model.begun if self.model.open else None
            if now in orders:
                under_way = orders[now].under_way
                count = max(under_way - (kind in ("short", "skipped")), 0)
                count = 0 if kind in ("nothing", "late") else count
                count += 2 * (kind == "more")
                keys = self.keys(client, now, count) if client % 2 else ()
                found[now] = Delivery(count, keys, int(kind == "skipped"), round=now)
            earlier = [t for t in orders if t != now]
            if kind in ("late", "more", "skipped") and earlier:
                t = earlier[len(earlier) // 2]
                many = 1 + (kind == "more")
                found[t] = Delivery(many, self.keys(client, t, many), 1, round=t)
            told = {
                key: (t, state)
                for t, order in orders.items()
                for key, state in order.keys.items()
                if state == "delivered" and order.paid >= order.price
            }
            if kind == "rejected" and told:
                key, (t, _) = min(told.items())
                known = found.get(t, Delivery(round=t))
                found[t] = known._replace(rejected={key: "blurred"})
            if kind == "again" and told and earlier:
                t = earlier[-1]
                found[t] = Delivery(1, [min(told)], round=t)
            reports[client] = list(found.values())
        return reports

    def keys(self, client, t, many):
        """Return new keys of samples."""
        self.made += many
        return [f"{client}-{t}-{n}" for n in range(self.made - many, self.made)]

    def spoiled(self, reports, refused, spoil, name_of_call="settle"):
        """Put one odd value into reports, or into the reasons of refusals."""
        if spoil is None:
            return reports, refused
        slot, name = spoil
        what = f"{name_of_call}: {slot}"
        if slot == "reports":
            value = odd(what, name, 1)
            return ({} if value is None else value), refused
        if slot in ("refused", "why"):
            return reports, (
                {odd(what, name, 1): "wrong"}
                if slot == "refused" and name not in UNHASHABLE
                else {1: odd(what, name, 1)}
            )
        client = min(reports, default=0)
        own = [each for each in reports.pop(client, []) if each.round]
        first, *more = own or [Delivery(round=self.model.begun)]
        if slot == "client" and name not in UNHASHABLE:
            client = odd(what, name, client)
        elif slot == "count":
            count = odd(what, name, first.delivered)
            if place_bare(name):
                return {**reports, client: count}, refused
            first = first._replace(delivered=count, keys=())
        elif slot == "keys":
            first = first._replace(keys=odd(what, name, 1))
        elif slot == "one key":
            value, many = odd(what, name, 1), max(first.delivered, 1)
            keys = [value, *self.keys(client, 0, many - 1)]
            first = first._replace(delivered=many, keys=keys)
        elif slot == "cancelled":
            first = first._replace(cancelled=odd(what, name, 1))
        elif slot == "rejected":
            first = first._replace(rejected=odd(what, name, 1))
        elif slot == "rejected key" and name not in UNHASHABLE:
            first = first._replace(rejected={odd(what, name, 1): "wrong"})
        elif slot == "order":
            first = first._replace(round=odd(what, name, self.model.begun))
        return {**reports, client: [first, *more]}, refused

    def do_amend(self, name, change, spoil, visits):
        tag, changes, by, why = self.change(change, spoil, name)
        note = self.noting(tag, changes)
        must_be = not spoil and not visits and self.model.can_be_made(change)
        if name == "amend":
            done = self.do("amend", (), {"by": by, "why": why, **changes}, visits, note)
        else:
            done = self.do("command", (changes, by, why), {}, visits, note)
        if must_be and not done.accepted:
            raise WrongError(f"{name}({changes}) was refused: {done.message}")

    def noting(self, tag, changes, order=None):
        return lambda result: self.model.amend(tag, changes, order)

    def tag(self):
        self.tags += 1
        return f"#{self.tags}"

    def change(self, change, spoil, name):
        """Return an amendment as it is handed in: its tag, its fields, its author and
        its reason.
        """
        tag, changes = self.tag(), dict(change)
        by, why = "anna", tag
        if self.model.names and "join" in changes:
            changes["name"] = f"joined {tag}"
        if spoil:
            slot, odd_name = spoil
            value = odd(f"{name}: {slot}", odd_name, 3)
            if slot == "by":
                by = value
            elif slot == "why":
                by, why = tag, value
            else:
                changes = {slot: value} | ({"join": 2} if slot == "weight" else {})
                if self.model.names and "join" in changes:
                    changes["name"] = f"joined {tag}"
        return tag, changes, by, why

    def invoice(self, invoice, spoil):
        """Return an adjustment as it is handed in: its tag, then round, client, amount,
        author and reason.
        """
        place, share = invoice
        orders = sorted(self.model.orders)
        t, client = orders[place % len(orders)] if orders else (1, 0)
        paid = self.model.orders[t, client].paid if orders else Decimal(1)
        given = {
            "round": t,
            "client": client,
            "amount": float(paid * Decimal(str(share)) or Decimal("0.25")),
            "by": "anna",
        }
        given["why"] = tag = self.tag()
        if spoil:
            slot, name = spoil
            given["by"] = tag if slot == "why" else given["by"]
            given[slot] = odd(
                f"adjust: {slot}",
                name,
                given[slot] if slot in ("round", "client") else 2,
            )
        return tag, tuple(given.values())

    def resolved(self, visits):
        """Return visits whose requests name the orders of now."""
        return [Visit(at, self.request(*request)) for at, request in visits]

    def request(self, name, *drawn):
        """Return a request for the second process; the tag of what it amends comes
        last, and is not sent.
        """
        folder = str(self.accounts)
        if name == "amend":
            tag, changes, by, why = self.change(*drawn, "command")
            return Request("amend", (folder, changes, by, why, None), tag)
        if name == "adjust":
            tag, (t, client, amount, by, why) = self.invoice(*drawn)
            return Request(
                "amend", (folder, {"adjust": amount}, by, why, (t, client)), tag
            )
        if name == "export":
            drawn = (str(self.folder / f"exported.{drawn[0]}"),)
        return Request(name, (folder, *drawn))

    def hear(self, visited):
        """Tell the model what the second process did; return how many amendments it
        made.
        """
        made = 0
        for each in visited:
            COUNTS["second", each.request.name, each.outcome] += 1
            COUNTS["failpoint", each.where] += 1
            if each.outcome == "raw":
                raise WrongError(f"second process, {each.request}: {each.result}")
            if each.outcome == "refused":
                one_line(each.result)
            elif each.request.name == "amend":
                _, changes, _, _, order = each.request.arguments
                self.model.amend(each.request.tag, changes, order)
                made += 1
            elif each.request.name == "play":
                raise WrongError("a second process may play rounds")
            elif each.request.name == "export":
                exported(*each.result, self.model.loose)
        return made

    def going_on(self):
        return self.model.horizon is None or self.model.begun < self.model.horizon

    # what is true

    def see(self):
        """Open a copy, audit both, and compare the statements with the model."""
        if not self.looks:
            return
        COUNTS[TAKEN] += 1
        self.copies += 1
        copy = self.folder / f"copy-{self.copies}"
        copied(self.accounts, copy)
        try:
            again = self.open(copy)
        except Exception as error:
            raise WrongError(
                f"the accounts do not open again: {type(error).__name__}: {error}"
            ) from error
        with again:
            found = self.audited(again, "opened again")
        shutil.rmtree(copy)
        own = self.audited(self.books, "open")
        if own != found:
            raise WrongError(f"the accounts say {own}, opened again they say {found}")
        self.model.agree(own)
        ledger = self.books.ledger
        held = ledger.occupancy[0].tolist()
        if any(
            count > places
            for count, places in zip(held, self.model.buffers, strict=False)
        ):
            raise WrongError(
                f"clients hold {held}, there are {self.model.buffers} places"
            )

    @staticmethod
    def audited(books, which):
        try:
            found = books.audit()
        except Exception as error:
            raise WrongError(
                f"audit of accounts {which}: {type(error).__name__}: {error}"
            ) from error
        return found._replace(system=plain_system(found.system))


UNHASHABLE = ("list", "array", "array without axes", "empty array", "decimal NaN")


def place_bare(name):
    """Whether an odd count stands alone, without a `Delivery` around it: for every
    second name.
    """
    return sorted(ODD).index(name) % 2 == 0


def plain_system(system):
    """Return a system as a tuple that can be compared."""
    return (
        system.buffer.tolist(),
        system.weight.tolist(),
        system.budget,
        system.horizon,
        system.amended,
    )


def unchanged(before, after, amendments):
    """Raise unless the tables are as they were, apart from so many new amendments."""
    for name in before.keys() | after.keys():
        old, new = before.get(name, []), after.get(name, [])
        if name == "entries":
            kept = [row for row in new if row in old]
            if kept != old or len(new) != len(old) + amendments:
                raise WrongError(
                    f"entries were {old}, {amendments} more were accepted, and now they"
                    f" are {new}"
                )
        elif old != new and not amendments:
            raise WrongError(
                f"nothing was to be written, but {name} was {old} and is {new}"
            )


def exported(spent, rows, loose):
    """Raise unless the rows of an exported file come to what was spent, and no text in
    it is a formula.
    """
    if rows is None:
        return
    paid = sum((Decimal(row["paid"]) for row in rows), Decimal(0))
    if paid + loose != spent:
        raise WrongError(
            f"the exported lines come to {paid}, invoices to {loose}, the statement"
            f" says {spent}"
        )
    for row in rows:
        if row["keys"].startswith(("=", "+", "-", "@")):
            raise WrongError(f"an exported cell is a formula: {row['keys']!r}")


def several(examples, steps=STEPS, **more):
    given = {
        "deadline": None,
        "database": None,
        "suppress_health_check": list(HealthCheck),
        "report_multiple_bugs": False,
        **more,
    }
    return settings(max_examples=examples, stateful_step_count=steps, **given)


CASES = [
    (name, slot, value)
    for name, operation in OPERATIONS.items()
    for slot in operation.slots
    for value in sorted(KEYS if slot == "one key" else DATES if slot == "when" else ODD)
]
"""each odd value in each argument of each call"""
SOME = [
    case
    for place, case in enumerate(CASES)
    if place % 23 == 0 or case[:2] in (("settle", "one key"), ("begin", "when"))
]
"""one of 23, with all odd keys and dates; each value and each argument comes up"""


def sweep(cases, each=8):
    """Hand in one odd value after another; play a round around each. Return the
    counts.
    """
    COUNTS.clear()
    for first in range(0, len(cases), each):
        machine = History()
        try:
            machine.start(policy="headgate", horizon=60, month=None)
            for case in cases[first : first + each]:
                try:
                    hand_in(machine, *case)
                except Exception as error:
                    error.add_note(f"{case}")
                    raise
        finally:
            machine.teardown()
    return dict(COUNTS)


def hand_in(machine, name, slot, value):
    """Hand in one odd value: before a round begins, while it is open, or when it is
    settled.
    """
    plain = {"price": 1.0, "present": None, "most": None, "when": "2026-11-01"}
    machine.looks = name == "begin"
    if name == "begin":
        machine.do_begin(plain, (slot, value), [])
    if not machine.model.open:
        machine.looks = False
        machine.do_begin(plain, None, [])
    machine.looks = True
    if name == "settle":
        machine.do_settle(["short"], {}, (slot, value), [])
    elif name == "check":
        machine.check(place=0, style=["all"], spoil=(slot, value))
    elif name == "adjust":
        machine.adjust(invoice=(0, 0.1), spoil=(slot, value), visits=[])
    elif name == "rest":
        machine.rest(rounds=1, spoil=(slot, value), visits=[])
    elif name in ("amend", "command"):
        machine.do_amend(name, {"money": 1.0}, (slot, value), [])
    machine.do_settle(["all"], {}, None, [])


def main(steps=10_000, seed=0, database=None, say=print, shrink=False):
    """Play machines until so many steps are done; return the counts. With the address
    of a database of PostgreSQL the accounts are in it, else in a folder.

    The first machine that fails is raised as it was found, within seconds; with
    `shrink` the smallest one that fails alike.
    """
    COUNTS.clear()
    began, machines, told = time.monotonic(), 0, 0
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    there = type("History", (History,), {"database": database})
    while (done := COUNTS[TAKEN]) < steps:
        if done // 1000 > told:
            told = done // 1000
            say(f"{done} steps, {time.monotonic() - began:.0f} s", flush=True)
        try:
            run_state_machine_as_test(
                seeded(seed + machines)(there),
                settings=several(MACHINES, phases=phases),
            )
        except Exception:
            say(
                f"seed {seed + machines} fails after {COUNTS[TAKEN]} steps and"
                f" {time.monotonic() - began:.1f} s"
            )
            raise
        machines += 1
    return dict(COUNTS)


if __name__ == "__main__":
    for what, count in sorted(main(*map(int, sys.argv[1:])).items(), key=str):
        print(what, count)
