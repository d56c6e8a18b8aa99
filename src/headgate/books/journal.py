"""The journal: a log of entries, each checked and written in one transaction.

A writer takes the lock of the database, reads what others appended, applies its entry
to the state, which refuses what is wrong, and appends it. What is applied is the text
that is stored. So nothing is committed that does not replay, and of two writers one
comes after the other. Each entry has the hash of the one before. Snapshots make opening
fast, and `audit` proves them by the full replay.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from decimal import Decimal
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np

from headgate.books.addresses import Place
from headgate.books.border import Roll
from headgate.books.course import Course, Decided
from headgate.books.database import Tables
from headgate.books.exact import plainly, total
from headgate.books.moments import now
from headgate.books.nouns import (
    DELIVERED,
    Client,
    ClientRow,
    Entry,
    Event,
    KeyedSample,
    Node,
    OrderState,
)
from headgate.books.state import (
    Change,
    Conduct,
    State,
    Told,
    apply,
    opened,
    system_table,
    to_text,
)
from headgate.control.amendments import Amendment
from headgate.control.controller import Controller
from headgate.control.policy import AdmissionPolicy
from headgate.control.types import System, Terms
from headgate.errors import DataError, HeadgateError, LedgerError, SettingError
from headgate.escaping import one_line, shown

EVERY = 100
"""rounds between two snapshots"""
GENESIS = ""
"""the hash before the first entry"""
Make = Callable[[State], Mapping[str, Any]]
"""function that derives, from the newest state, what an entry adds to its request"""


class OtherRequestError(LedgerError):
    """The key is that of another request."""


class Standpoint(NamedTuple):
    """The accounts after an entry.

    Parameters
    ----------
    last : Entry
        The entry.
    state : State
        The accounts.
    course : Course or None
        The policy's side, where the policy is known.
    """

    last: Entry
    state: State
    course: Course | None


class Journal:
    """The accounts in one database.

    Parameters
    ----------
    tables : Tables
        The tables, which this object closes.
    policy : AdmissionPolicy, optional
        The policy; without it the accounts can be read, amended and adjusted.
    seed : int, default 0
        Seed of policies and rules that choose at random.
    looks : float, default 0.0
        The part of the price that pays for looking at samples.
    """

    def __init__(
        self,
        tables: Tables,
        policy: AdmissionPolicy | None = None,
        seed: int = 0,
        looks: float = 0.0,
    ) -> None:
        self.tables, self.policy, self.seed, self.looks = tables, policy, seed, looks
        self.by = ""
        """who writes, where an entry does not say it"""
        self._is_writing = False
        self.at: Standpoint
        """how far this process has read; one attribute, so that it is never half new"""
        if not tables.account:
            raise DataError(f"{tables.path}: holds no accounts yet")
        with tables.snapshot(), tables.readable("entries"):
            self._restore()
            self.catch_up()
        state = self.state
        tables.check_anchor(state.begun, state.settled, state.amendments)

    @classmethod
    def create_or_open(
        cls,
        tables: Tables,
        system: System,
        policy: AdmissionPolicy,
        seed: int,
        describe: Callable[[], Mapping[str, Any]] = dict,
        looks: float = 0.0,
    ) -> Self:
        """Open the accounts, which begin if there are none, with what
        `describe` returns in their first entry; refuse those of another system or
        policy.
        """
        first = Controller(system, policy, 1, np.array([seed]), looks=looks)
        if not tables.account:
            cls.create(tables, first, seed, describe())
        ledger = cls(tables, policy, seed, looks)
        known = Terms(**ledger.state.opening["terms"])
        known.check(first.terms, str(tables.path))
        before, given = ledger.state.opening["system"], system_table(system)
        _check_same(tables.path, before, given, ("names", "quantum"), "system")
        kept, settings = ledger.state.opening.get("policy"), describe().get("policy")
        if kept is not None and settings is not None:
            settings = json.loads(to_text(settings))
            names = sorted(kept.keys() | settings.keys())
            _check_same(tables.path, kept, settings, names, "policy")
        if tables.writes:
            tables.remember("refusals", json.dumps(refusals(first)))
        return ledger

    @staticmethod
    def create(
        tables: Tables,
        first: Controller,
        seed: int,
        more: Mapping[str, Any],
        by: str = "",
        request: str = "",
    ) -> None:
        """Write the first entry of accounts that begin."""
        opening = {
            "version": 4,
            "system": system_table(first.system),
            "terms": first.terms._asdict(),
            "seed": seed,
            **more,
        }
        with tables.transaction():
            tables.create(secrets.token_hex(8))
            body = to_text({"name": tables.account, **opening})
            fields = (1, now(), "opened", by, "", request, body)
            tables.append(Entry(*fields, chained(GENESIS, *fields)))
            tables.put_meta("refusals", json.dumps(refusals(first)))

    @property
    def last(self) -> Entry:
        """The last entry that was read."""
        return self.at.last

    @property
    def state(self) -> State:
        """The accounts after it."""
        return self.at.state

    @property
    def course(self) -> Course | None:
        """The policy's side after it."""
        return self.at.course

    @property
    def path(self) -> Place:
        """Where they are."""
        return self.tables.path

    @property
    def open_round(self) -> int | None:
        """The round that was begun and is not settled; None: no round is open."""
        with self.newest() as state:
            return None if state.open is None else state.open.round

    @property
    def settled(self) -> int:
        """The last settled round; 0 before the first one."""
        return self.state.settled

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all that the body reads be of one moment."""
        return self.tables.snapshot()

    def close(self) -> None:
        """Close the database."""
        self.tables.close()

    def nodes(self) -> list[Node]:
        """Return the nodes of a run on Flower."""
        return self.tables.nodes()

    def clients(self) -> dict[int, ClientRow]:
        """Return the standing of each client that answered, or was refused."""
        state, heard = self.state, dict[int, int]()
        for order in self.tables.orders():
            if order.answered is not None:
                answered = max(order.answered, heard.get(order.client, 0))
                heard[order.client] = answered
        named = heard.keys() | state.standing.keys() | state.told.keys()
        found = {}
        for client in sorted(named):
            told = state.told.get(client, Told(heard.get(client, 0)))
            conduct = state.standing.get(client, Conduct())
            own = {**told._asdict(), **conduct._asdict()}
            found[client] = ClientRow(client, state.system.named(client), **own)
        return found

    def events(self) -> list[Event]:
        """Return what happened to the standing of clients, the oldest first."""
        found, erased = list[Event](), dict[int, int]()
        for entry in self.tables.of_kinds("settled", "lifted", "noted"):
            body = json.loads(entry.body)
            found += [Event(*row) for row in body.get("events", [])]
            if entry.kind == "noted":
                continue
            if entry.kind == "lifted":
                lifted = "lifted", "gets orders again"
                found.append(Event(body["after"], body["client"], *lifted))
                continue
            t = body["round"]
            found += [
                Event(t, client, "rejected", why) for client, why in body["refused"]
            ]
            for client, *_, gone in body["reports"]:
                more = gone - erased.get(client, 0)
                erased[client] = gone
                if more > 0:
                    why = f"{more} samples that it held"
                    found.append(Event(t, client, "withdrawn", why))
            for client in body["caught"]:
                why = "after too many offences; what was under way is cancelled"
                found.append(Event(t, client, "quarantined", why))
        return found

    def controller(self, system: System) -> Controller:
        """Return the controller of these accounts under a system."""
        assert self.policy is not None
        seeds = np.array([self.seed])
        return Controller(system, self.policy, 1, seeds, looks=self.looks)

    def _restore(self) -> None:
        """Read the first entry, or the latest snapshot."""
        found = self.tables.snapshot_before(2**62)
        if found is None:
            self._begin_with(self._entry(1))
            return
        number, hash_, of_state, of_course = found
        last, state, course = self._entry(number), State.of_json(of_state), None
        if last.hash != hash_:
            raise LedgerError(
                f"{self.path}: entry {number} is not that of its snapshot"
            )
        if self.policy is not None:
            course = Course.of_json(of_course, self.controller(state.system))
        self.at = Standpoint(last, state, course)

    def _entry(self, number: int) -> Entry:
        entry = next(self.tables.entries(number - 1), None)
        if entry is None or entry.number != number:
            raise LedgerError(f"{self.path}: entry {number} is missing")
        return entry

    def _begin_with(self, first: Entry) -> None:
        check_chain(self.path, None, first)
        state, course = opened(first), None
        if self.policy is not None:
            controller = self.controller(state.system)
            course = Course(controller, controller.open())
        self.at = Standpoint(first, state, course)

    def catch_up(self) -> None:
        """Apply what other processes appended; refuse another log than the one that was
        read so far, as that of an old copy.
        """
        if self.tables.hash_of(self.last.number) != self.last.hash:
            raise LedgerError(
                f"{self.path}: is an old copy, or another ledger: {said(self.last)},"
                " which this process knows, is not in it; open the accounts again"
            )
        for entry in self.tables.entries(self.last.number):
            check_chain(self.path, self.last, entry)
            _, state, course = self.at
            with named_in(self.path, entry):
                change = apply(state, entry)
                if course is not None:
                    course = course.after(state, entry, change)
            self.at = Standpoint(entry, change.state, course)

    @contextmanager
    def newest(self) -> Iterator[State]:
        """Let the body see the newest state, in one snapshot of the database."""
        with self.tables.snapshot():
            self.catch_up()
            yield self.state

    # writing

    def write(
        self,
        kind: str,
        asked: Mapping[str, Any],
        make: Make = lambda state: {},
        request: str | None = None,
        by: str = "",
        why: str = "",
        at: str | None = None,
    ) -> Entry:
        """Append an entry, or return the one that was written for this request.

        Parameters
        ----------
        kind : str
            What happens.
        asked : dict
            What is asked for, as JSON.
        make : callable, optional
            Function of the newest state that returns the rest of the entry. It raises
            an error if the request cannot be met; nothing is written then.
        request : str, optional
            Key of the request.
        by, why : str, optional
            Who does it, and the reason.
        at : str, optional
            Time in UTC; left out: now.

        Raises
        ------
        LedgerError, SettingError
            If the entry cannot follow the newest state, or another one was written for
            this request. Nothing is written.
        """
        with self.transaction():
            if request is not None:
                known = self.tables.request(request)
                if known is not None:
                    check_same(known, kind, asked)
                    return known
            made = {**asked, **make(self.state)}
            decided: Decided | None = made.pop("decided", None)
            body = to_text(made)
            number = self.last.number + 1
            fields = (number, at or now(), kind, by or self.by, why, request, body)
            entry = Entry(*fields, chained(self.last.hash, *fields))
            change = apply(self.state, entry)
            course = self._course_after(entry, change, decided)
            self._keep(entry, change, course)
            self.at = Standpoint(entry, change.state, course)
        return entry

    def decide(
        self,
        t: int,
        inputs: Make,
        at: str,
    ) -> None:
        """Decide round t in the transaction that writes it.

        Parameters
        ----------
        t : int
            The round, whose decision is written once.
        inputs : callable
            Function of the newest state that returns what the decision depends on:
            price, supply, clients, expires and delay.
        at : str
            Time in UTC.
        """
        course = self.course
        assert course is not None
        overdraft = getattr(course.controller.policy, "overdraft", 0.0)

        def make(state: State) -> dict[str, Any]:
            assert self.course is not None
            made = {**inputs(state), "overdraft": overdraft}
            decided = self.course.decide(state.ready(at), {**made, "round": t}, at)
            if decided.paid != tuple(made["price"]):
                made["paid"] = decided.paid
            return {**made, "orders": decided.rows(), "decided": decided}

        self.write("begun", {"round": t}, make, f"begun {t}", at=at)

    def trial(
        self,
        kind: str,
        body: Mapping[str, Any],
    ) -> tuple[Change, Course | None]:
        """Return what an entry would do, without the amendments that hold after it.
        Write nothing.
        """
        last = self.last
        fields = (last.number + 1, last.at, kind, "", "", None, to_text(body))
        entry = Entry(*fields, GENESIS)
        change, course = apply(self.state, entry), self.course
        if course is not None:
            course = course.posted(self.state, entry, change)
        return change, course

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Let all entries of the body be one transaction, from the newest state on; a
        transaction inside is part of it.
        """
        if self._is_writing:
            yield
            return
        before = self.at
        try:
            with self.tables.transaction():
                self._is_writing = True
                self.catch_up()
                yield
        except BaseException:
            self.at = before
            raise
        finally:
            self._is_writing = False
        state = self.state
        self.tables.write_anchor(state.begun, state.settled, state.amendments)

    def once(
        self,
        key: str,
        digest: str,
        do: Callable[[], str],
        by: str = "",
    ) -> str:
        """Return what `do` returns, or what it returned when the request with this key
        was made; what it writes and its answer are one transaction.

        `digest` is that of the whole request.
        """
        before, self.by = self.by, by
        try:
            with self.transaction():
                known = self.tables.answer(key)
                if known is not None:
                    return _answer_again(key, digest, known)
                answer = do()
                self.tables.keep_answer(key, self.last.number, digest, answer)
                return answer
        finally:
            self.by = before

    def _course_after(
        self,
        entry: Entry,
        change: Change,
        decided: Decided | None,
    ) -> Course | None:
        if self.course is None:
            return None
        course = self.course
        if decided is not None:
            course = replace(course, decided=decided)
        course = course.after(self.state, entry, change)
        ahead = replace(course.ledger, t=change.state.begun)
        controller = course.controller
        for waiting in change.state.waiting:  # whether the policy can go on with them
            controller, ahead = controller.amend(ahead, Amendment(**waiting))
        return course

    def _keep(
        self,
        entry: Entry,
        change: Change,
        course: Course | None,
    ) -> None:
        self.tables.append(entry)
        self.tables.put_orders(change.orders.values())
        self.tables.put_samples(change.samples.values())
        state = change.state
        due = entry.kind == "settled" and state.settled % EVERY == 0
        if due and course is not None:
            self.tables.keep_snapshot(entry, state.to_json(), course.to_json())

    def samples(self, client: Client, keys: Collection[str]) -> dict[str, KeyedSample]:
        """Return those of a client's samples that arrived with these keys, by key."""
        with self.newest() as state:
            number = Roll(state.system).number("samples: client", client)
            found = self.tables.known(list(keys))
            return {each.key: each for each in found if each.client == number}

    def known(self, state: State, reports: Iterable[list[Any]]) -> dict[str, Any]:
        """Return what reports name that is not in the state: closed orders, and
        samples.
        """
        named, wanted = set[tuple[int, str]](), set[tuple[int, int]]()
        for client, t, _, keys, _, rejected, _ in reports:
            wanted.add((t, client))
            named |= {(client, key) for key in keys}
            named |= {(client, key) for key, _ in rejected}
        keys = sorted({key for _, key in named})
        samples = [each for each in self.tables.known(keys) if each[:2] in named]
        samples.sort()
        wanted |= {
            (each.round, each.client) for each in samples if each.state == DELIVERED
        }
        return self.closed(state, wanted) | ({"samples": samples} if samples else {})

    def closed(
        self,
        state: State,
        wanted: Iterable[tuple[int, int]],
    ) -> dict[str, Any]:
        """Return those of the orders that are not in the state."""
        missing = sorted(own for own in wanted if own not in state.orders)
        rows = [order.to_row() for order in self.tables.orders_named(missing)]
        return {"orders": rows} if rows else {}

    def check_amendable(self, change: Amendment | None = None) -> None:
        """Refuse an amendment that the policy of these accounts cannot work with."""
        if not self.state.keeps:
            raise SettingError(
                "the policy does not keep to its money: terms can be amended with one"
                " that does, as headgate"
            )
        if change is None:
            return
        hints = dict(json.loads(str(self.tables.meta("refusals") or "{}")))
        for name, value in changed(change).items():
            hint = "open end" if (name, value) == ("horizon", "open") else name
            if (why := hints.get(hint)) is not None:
                raise SettingError(
                    f"{name} = {value}: the policy of these accounts cannot work with"
                    f" it: {why}"
                )

    def amend(
        self,
        change: Amendment,
        by: str,
        why: str,
        key: str | None = None,
    ) -> None:
        """Write an amendment, which holds from the next round that begins."""
        self.check_amendable(change)
        self.write(
            "amended",
            {"change": changed(change)},
            lambda state: {"after": state.begun},
            requested(key),
            by,
            why,
        )

    def adjust(
        self,
        t: int,
        client: int,
        amount: Decimal,
        by: str,
        why: str,
        key: str | None = None,
    ) -> None:
        """Adjust the cost of an order to its invoice."""
        self.check_amendable()

        def make(state: State) -> dict[str, Any]:
            known = self.closed(state, [(t, client)])
            return {"known": known, "after": state.begun}

        asked = {"round": t, "client": client, "amount": plainly(amount)}
        self.write("adjusted", asked, make, requested(key), by, why)

    def lift(self, client: int) -> bool:
        """End a client's quarantine; return False if it is in none."""
        with self.newest() as state:
            if client not in state.quarantined:
                return False
        after = self.state.settled
        self.write("lifted", {"client": client, "after": after})
        return True

    # proof

    def audit(self) -> None:
        """Raise LedgerError unless the full replay gives the state in memory, each
        snapshot, and all rows of orders and samples.
        """
        with self.newest():
            Replay(self).run()


class Replay:
    """The full replay of a journal."""

    def __init__(self, ledger: Journal) -> None:
        self.ledger, self.path = ledger, ledger.path
        self.orders: dict[tuple[int, int], OrderState] = {}
        self.samples: dict[tuple[int, str], KeyedSample] = {}

    def run(self) -> None:
        """Replay all entries, and compare."""
        ledger, tables = self.ledger, self.ledger.tables
        snapshots = tables.snapshots()
        last, state, course = None, ledger.state, None
        for entry in tables.entries():
            check_chain(self.path, last, entry)
            with named_in(self.path, entry):
                if last is None:
                    state = opened(entry)
                    if ledger.policy is not None:
                        controller = ledger.controller(state.system)
                        course = Course(controller, controller.open())
                else:
                    self._check_known(entry)
                    change = apply(state, entry)
                    if course is not None:
                        course = course.after(state, entry, change)
                    state = change.state
                    self.orders |= change.orders
                    self.samples |= change.samples
            last = entry
            if entry.number in snapshots:
                self._check_snapshot(entry, snapshots[entry.number], state, course)
        if last != ledger.last:
            raise LedgerError(f"{self.path}: the log ends elsewhere than in memory")
        self._check_memory(state, course)
        self._check_rows(state)

    def _check_known(self, entry: Entry) -> None:
        """Compare what an entry says about closed orders and known keys."""
        body = json.loads(entry.body)
        known = body.get("known", {})
        for row in known.get("orders", []):
            order = OrderState.of_row(row)
            if self.orders.get(order[:2]) != order:
                raise LedgerError(f"order {order[:2]} is not what the entry says")
        said = {sample[:2]: sample for sample in map(_sample, known.get("samples", []))}
        for row in body.get("reports", []):
            keys = [*row[3], *(key for key, _ in row[5])]
            for own in ((row[0], key) for key in keys):
                if self.samples.get(own) != said.get(own):
                    raise LedgerError(f"sample {own} is not what the entry says")

    def _check_snapshot(
        self,
        entry: Entry,
        kept: tuple[str, str, str],
        state: State,
        course: Course | None,
    ) -> None:
        hash_, of_state, of_course = kept
        same = hash_ == entry.hash and of_state == state.to_json()
        if course is not None:
            same = same and of_course == course.to_json()
        if not same:
            raise LedgerError(
                f"{self.path}: the snapshot after entry {entry.number} is not what the"
                " replay says"
            )

    def _check_memory(self, state: State, course: Course | None) -> None:
        ledger = self.ledger
        if state.to_json() != ledger.state.to_json():
            raise LedgerError(
                f"{self.path}: {plainly(ledger.state.spent)} was spent, the replay says"
                f" {plainly(state.spent)}, or another number differs"
            )
        if course is None or ledger.course is None:
            return
        if course.to_json() != ledger.course.to_json():
            raise LedgerError(
                f"{self.path}: the policy's ledger is not what the replay says"
            )
        limit = course.controller.buffers.limit
        if limit is not None and np.any(course.ledger.occupancy > limit):
            raise LedgerError(f"{self.path}: a client holds more than its buffer")

    def _check_rows(self, state: State) -> None:
        """Compare the rows of orders and samples, and their sums."""
        tables = self.ledger.tables
        wanted = sorted(self.orders.values(), key=lambda order: order[:2])
        for order, row in zip_longest(wanted, tables.orders()):
            if order != row:
                raise LedgerError(f"{self.path}: {differing(order, row)}")
        rows = {sample[:2]: sample for sample in tables.samples()}
        for own in sorted(self.samples.keys() | rows.keys()):
            if self.samples.get(own) != rows.get(own):
                raise LedgerError(
                    f"{self.path}: key {shown(repr(own[1]))} of client {own[0]} is"
                    f" {rows.get(own)}, the log says {self.samples.get(own)}"
                )
        quantum = state.quantum
        paid = total(order.paid(quantum) for order in self.orders.values())
        reserved = total(order.reserved(quantum) for order in self.orders.values())
        if (paid, reserved) != (state.spent, state.reserved):
            raise LedgerError(
                f"{self.path}: the orders come to {plainly(paid)} and"
                f" {plainly(reserved)} reserved, the state says {plainly(state.spent)}"
                f" and {plainly(state.reserved)}"
            )


def differing(order: OrderState | None, row: OrderState | None) -> str:
    """Return in words how a row differs from the order that the log gives."""
    if order is None or row is None:
        found = row if order is None else order
        assert found is not None
        what = "is not in the log" if order is None else "is missing"
        return f"order of round {found.round}, client {found.client}: {what}"
    if order[:2] != row[:2]:
        return f"order of round {order.round}, client {order.client}: is missing"
    name, own, other = next(
        each
        for each in zip(OrderState._fields, row, order, strict=True)
        if each[1] != each[2]
    )
    return (
        f"order of round {order.round}, client {order.client}: {name} is {own}, the log"
        f" says {other}"
    )


def chained(before: str, *fields: Any) -> str:
    """Return the hash of an entry: of the hash before, and of its fields as they are
    stored.
    """
    *small, body = fields
    text = f"{before}\n{json.dumps(small)}\n{body}"
    return hashlib.sha256(text.encode()).hexdigest()


def check_chain(
    path: Place,
    before: Entry | None,
    entry: Entry,
) -> None:
    """Raise LedgerError if an entry is not as it was written after the one before."""
    number, hash_ = (0, GENESIS) if before is None else (before.number, before.hash)
    if entry.number != number + 1:
        raise LedgerError(f"{path}: entry {number + 1} is missing")
    if chained(hash_, *entry[:-1]) != entry.hash:
        raise LedgerError(f"{path}: {said(entry)} was changed after it was written")


def _answer_again(
    key: str,
    digest: str,
    known: tuple[int, str, str],
) -> str:
    number, before, answer = known
    if digest != before:
        raise OtherRequestError(
            f"key = {shown(key)}: is that of another request; give this one another key"
        )
    if not answer:
        raise LedgerError(
            f"key = {shown(key)}: was done as entry {number}; its answer is not kept"
            " any more"
        )
    return answer


def check_same(
    known: Entry,
    kind: str,
    asked: Mapping[str, Any],
) -> None:
    """Raise LedgerError if a request was another one when it was written."""
    body = json.loads(known.body)
    again = json.loads(to_text(asked))
    if known.kind == kind and all(body.get(name) == again[name] for name in again):
        return
    if kind == "settled":
        raise LedgerError(
            f"round {asked['round']}: was settled otherwise, at {known.at}"
        )
    key = shown((known.request or "").removeprefix("key "))
    raise LedgerError(
        f"key = {key}: is that of {said(known)}; give this one another key"
    )


def said(entry: Entry) -> str:
    """Return an entry in words."""
    body = json.loads(entry.body)
    what = f", round {body['round']}" if "round" in body else ""
    by = f", by {entry.by}" if entry.by else ""
    return f"entry {entry.number} ({entry.kind}{what}{by}, {entry.at})"


@contextmanager
def named_in(path: Place, entry: Entry) -> Iterator[None]:
    """Name the entry in the error of its replay."""
    try:
        yield
    except HeadgateError as error:
        raise LedgerError(f"{path}: {said(entry)}: {error}") from None


def requested(key: str | None) -> str | None:
    """Return the key of a request as it is stored beside those of rounds."""
    return None if key is None else f"key {key}"


def changed(change: Amendment) -> dict[str, Any]:
    """Return the fields that an amendment changes, by name."""
    return {
        name: value
        for name, value in vars(change).items()
        if value != getattr(Amendment, name)
    }


def _check_same(
    path: Place,
    before: Mapping[str, Any],
    given: Mapping[str, Any],
    names: Iterable[str],
    what: str,
) -> None:
    """Raise LedgerError if a setting is not that with which the accounts began."""
    for name in names:
        own, other = before.get(name), given.get(name)
        if own != (list(other) if isinstance(other, tuple) else other):
            raise LedgerError(
                f"{path} was opened with {name} = {shown(own)}, this {what} has"
                f" {shown(other)}"
            )


def refusals(controller: Controller) -> dict[str, str]:
    """Return the fields of an amendment that the policy cannot work with, each with its
    reason, for processes that do not know the policy.
    """
    system, found = controller.system, {}
    name = None if system.names is None else f"{system.names[0]} and more"
    tries = {
        "join": Amendment(join=1, name=name),
        "open end": Amendment(horizon="open"),
        "horizon": Amendment(horizon=(system.horizon or 1) + 1),
    }
    if system.clients > 1:
        tries["leave"] = Amendment(leave=system.clients - 1)
    for field, change in tries.items():
        try:
            controller.amend(controller.open(), change)
        except HeadgateError as error:
            found[field] = one_line(error)
        except Exception as error:  # a policy of one's own can fail in any way
            found[field] = one_line(repr(error))
    return found


def _sample(row: Iterable[Any]) -> KeyedSample:
    return KeyedSample(*row)
