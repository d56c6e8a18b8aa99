"""The server's accounts of one run: its orders in each round, the reports of clients,
and the ledger computed from both.

This file does not depend on Flower or on a model. The ledger in memory always equals
the replay of the store.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from headgate.books.exact import NOTHING, exact, total
from headgate.books.ledger_store import (
    AmendmentRow,
    ClientRow,
    Event,
    LedgerStore,
    Ordered,
    RoundResult,
    RoundRow,
)
from headgate.books.messages import NO_LIMIT, Ahead, Order, Receipt
from headgate.books.moments import month_of, months_between, now
from headgate.control.amendments import Amendment
from headgate.control.controller import Controller
from headgate.control.policy import AdmissionPolicy
from headgate.control.supply import EVERYTHING, Supply
from headgate.control.types import Floats, Ints, Ledger, Losses, Orders, Report, System
from headgate.errors import DataError, HeadgateError, LedgerError, SettingError
from headgate.escaping import one_line

if TYPE_CHECKING:
    from headgate.control.prices import PriceProcess

MONTHS_AHEAD = 12
"""the most months that the date of a round may be after the latest one"""
SUSPECTS = 20
"""the most amendments that are tried, the latest first, to find the one without which
the accounts replay
"""
M = TypeVar("M", float, Decimal)


@dataclass(
    frozen=True,
    eq=False,
)
class OpenRound:
    """A round that has begun: its orders are on disk, and it is not settled."""

    orders: Orders
    before: Ledger
    kept_from: Ints
    limit: Ints | None
    outstanding: Mapping[int, Mapping[int, Ordered]]
    """orders without an answer, client → round → order, including those of this round
    """
    month: "Month"
    """the calendar month in which the purchases of this round count"""

    @property
    def t(self) -> int:
        return self.orders.t

    def ordered(self, client: int) -> int:
        own = self.outstanding.get(client, {}).get(self.t)
        return 0 if own is None else own.ordered

    def known(self, client: int) -> int:
        return int(self.before.admitted[0, client])

    def expected(self, client: int, admitted: int) -> int:
        """Return how many samples a client holds after it has admitted `admitted`
        samples more than the server knew of.
        """
        last = self.known(client) + admitted
        first = max(int(self.before.dropped[0, client]), int(self.kept_from[0, client]))
        if self.limit is not None:
            first = max(first, last - int(self.limit[client]))
        return last - first


class Closings(NamedTuple):
    """The orders that a report closes or corrects."""

    closed: list[Ordered]
    """open orders, each with the number of samples admitted on it"""
    corrected: list[Ordered]
    """samples missing from an earlier report on a closed order, each as a separate
    order
    """

    @property
    def admitted(self) -> int:
        """The number of samples that the server did not know of before this report."""
        return sum(row.admitted or 0 for row in (*self.closed, *self.corrected))


@dataclass(
    frozen=True,
    slots=True,
)
class Answer:
    """The judgement of a client's answer, which is either accepted as a whole or
    rejected as a whole for a reason.
    """

    client: int
    receipt: Receipt | None = None
    """the receipt in the answer, if it agrees with the orders; None: it does not, or
    there is no receipt
    """
    closes: Closings | None = None
    reason: str | None = None
    offence: bool = False
    """whether the client is at fault for the rejection; for a lost message it is not"""
    ahead: int = 0
    """the last round of which the client has done an order, if it is this round or a
    later one; otherwise 0
    """


@dataclass(frozen=True)
class Month:
    """The calendar month (UTC) in which purchases count. It never goes back, whatever
    the clock says.
    """

    name: str = ""
    """year and month, as in 2026-11; empty before the first round"""
    base: float = 0.0
    """money spent when the month began"""
    limit: float | None = None
    """the most money for a month; None or 0: no limit"""

    def at(self, begun: str, spent: float) -> "Month":
        """Return the month of a round begun at this time, when `spent` was spent: the
        later one of its date and this one.
        """
        name = month_of(begun)
        return (
            replace(
                self,
                name=name,
                base=spent,
            )
            if name > self.name
            else self
        )

    @property
    def money(self) -> float:
        """The most money that may be spent in all by the end of the month."""
        return self.base + self.limit if self.limit else np.inf


@dataclass(
    frozen=True,
    eq=False,
)
class Standing:
    """The terms, the ledger and the exact sum of money after a round. The running
    accounts and the replay share its steps.
    """

    controller: Controller
    ledger: Ledger
    paid: Decimal = NOTHING
    """exact sum of all that was spent"""
    month: Month = Month()
    amended: int = 0
    """id of the last amendment that was applied"""
    by_older: bool = False
    """whether an older version settled the last round; it added invoices to a sum of
    floats
    """

    def after_amendment(self, each: AmendmentRow) -> "Standing":
        """Return the standing after an amendment. After an invoice, what is spent is
        the exact sum, rounded once.
        """
        controller, ledger = self.controller.amend(self.ledger, each.change)
        limit = self.month.limit if each.change.month is None else each.change.month
        paid = total([self.paid, exact(each.change.adjust)])
        if each.change.adjust and not self.by_older:
            ledger = replace(ledger, spent=np.array([float(paid)]))
        return Standing(
            controller,
            ledger,
            paid,
            replace(self.month, limit=limit),
            each.id,
            self.by_older,
        )

    def month_at(self, begun: str) -> Month:
        """Return the month of the next round if it is begun at this time."""
        return self.month.at(begun, float(self.ledger.spent[0]))

    def after_round(
        self,
        orders: Orders,
        learned: Iterable[Ordered],
        losses: Losses | None,
        month: Month,
    ) -> "Standing":
        """Return the standing after a round that counts in this month, from what was
        learned in it.
        """
        rows = list(learned)
        ledger = self.controller.post(
            self.ledger, orders, report_of(orders, rows, losses)
        )
        paid = total([self.paid, *(row.exact_charge for row in rows)])
        return replace(
            self,
            ledger=ledger,
            paid=paid,
            month=month,
            by_older=False,
        )


class Accounts:
    """The accounts of one policy and one seed, in one store. `fixed` holds the fields
    that are the same in all orders.
    """

    def __init__(
        self,
        store: LedgerStore,
        system: System,
        policy: AdmissionPolicy,
        seed: int = 0,
        looks: float = 0.0,
        fixed: Mapping[str, Any] = MappingProxyType({}),
        name: str = "",
    ) -> None:
        from headgate.control.policies.references import held

        self.store, self.seed, self.looks = store, seed, looks
        self.policy = name or type(policy).__name__.lower()
        self.fixed = {"seed": seed, **fixed}
        self._first = Controller(system, policy, 1, np.array([seed]), looks=looks)
        keeps = held(policy) is policy
        with store.snapshot():
            store.check_quantum(system)
            self.standing = replay(store, self._first)
            self.clients = store.clients()
        if store.writes:
            store.remember(self._first.terms, system, keeps, self._refusals())
        self.take_up()

    def _refusals(self) -> dict[str, str]:
        """Return the fields of an amendment that the policy cannot work with, each with
        its reason.
        """
        system, found = self._first.system, {}
        tries = {
            "join": Amendment(join=1),
            "open end": Amendment(horizon="open"),
            "horizon": Amendment(horizon=(system.horizon or 1) + 1),
        }
        if system.clients > 1:
            tries["leave"] = Amendment(leave=system.clients - 1)
        for name, change in tries.items():
            try:
                self._first.amend(self._first.open(), change)
            except HeadgateError as error:
                found[name] = one_line(error)
            except Exception as error:  # a policy of one's own can fail in any way
                found[name] = one_line(repr(error))
        return found

    @property
    def controller(self) -> Controller:
        """The controller under the terms of the next round."""
        return self.standing.controller

    @property
    def ledger(self) -> Ledger:
        """The ledger after the last settled round."""
        return self.standing.ledger

    @property
    def system(self) -> System:
        """The system with all amendments so far."""
        return self.controller.system

    @property
    def left(self) -> set[int]:
        """The clients that have left."""
        return set() if self.system.amended is None else set(self.system.amended.left)

    @property
    def t(self) -> int:
        """The last settled round."""
        return self.ledger.t

    def client(self, client: int) -> ClientRow:
        """Return the state of a client by its last valid answer; zeros before the first
        one.
        """
        return self.clients.get(client, ClientRow(client, 0, 0, False, 0, 0, 0, 0))

    # begin, judge and settle a round

    def begin(
        self,
        price: Floats,
        present: Collection[int] | None,
        supply: Supply = EVERYTHING,
        when: str | None = None,
    ) -> OpenRound:
        """Begin the next round and write its orders to the clients in `present`; after
        a crash, return the written round.

        None: all clients that there are when the round is written, also those that
        another process made join meanwhile.

        Amendments are read, and the round decided and written, in one transaction: what
        another process amends is either in the decision or holds from the round after
        this one.
        """
        begun = self.store.begun()
        if begun is None:
            with self.store.writing():
                self.check_newest()
                self.take_up()
                if when is not None:
                    self._check_date(when)
                # another process may have lifted a quarantine
                self.clients = self.store.clients()
                orders, month = self._decided_and_written(
                    price, self.there(present), supply, when or now()
                )
        elif begun.round != self.t + 1:
            raise LedgerError(
                f"round {begun.round}: was begun after round {self.t};"
                f" {self.store.path} is damaged"
            )
        else:
            self.clients = self.store.clients()
            orders = decided(
                self.controller, self.ledger, begun.price, begun.reserved, begun.supply
            )
            check_orders(orders, self.store.orders(begun.round))
            month = self.standing.month_at(begun.begun)
        outstanding: dict[int, dict[int, Ordered]] = {}
        for row in self.store.outstanding():
            outstanding.setdefault(row.client, {})[row.round] = row
        buffers = self.controller.buffers
        return OpenRound(
            orders,
            self.ledger,
            buffers.kept_from(self.ledger, orders.t),
            buffers.limit,
            outstanding,
            month,
        )

    def why(self, now: OpenRound, controller: Controller | None = None) -> str:
        """Return in words why a round that was begun bought what it bought, under the
        controller that decided it.
        """
        found = [
            *self.store.rounds(now.t - 1, settled=False),
            *self.store.rounds(now.t - 1),
        ]
        begun = next(each for each in found if each.round == now.t)
        return (controller or self.controller).why(
            now.before, now.orders, np.array([begun.reserved]), begun.supply
        )

    def _decided_and_written(
        self,
        price: Floats,
        present: Collection[int],
        supply: Supply,
        when: str,
    ) -> tuple[Orders, Month]:
        """Decide the next round and write it, in a transaction of the caller."""
        reserved = self._reserved(price)
        if len(present) < self.system.clients:
            supply = supply._replace(
                present=np.isin(np.arange(self.system.clients), list(present))
            )
        month = self.standing.month_at(when)
        supply = supply._replace(money=min(supply.money, month.money))
        orders = decided(self.controller, self.ledger, price, reserved, supply)
        self.store.begin(
            orders.t, price, reserved, list(self._rows(orders, present)), supply, when
        )
        return orders, month

    def there(self, present: Collection[int] | None) -> list[int]:
        """Return the clients in `present` (None: all) that have not left and are not in
        quarantine.
        """
        away = self.left | {
            row.client for row in self.clients.values() if row.quarantined
        }
        named = range(self.system.clients) if present is None else sorted(present)
        return [client for client in named if client not in away]

    def _check_date(self, when: str) -> None:
        """Refuse a date far ahead: a month never goes back, so one wrong year would end
        a monthly budget for good.
        """
        latest = self.standing.month.name
        if not latest:
            return
        ahead = min(months_between(latest, when), months_between(now(), when))
        if ahead > MONTHS_AHEAD:
            where = (
                f"more than a year after the latest round ({latest}) and after the"
                " clock"
            )
            raise SettingError(
                f"begin: when = {when}: is {where}; a month never goes back"
            )

    def check_newest(self) -> None:
        """Refuse to go on if rounds were settled on disk that this process does not
        know of.
        """
        settled = self.store.settled
        if settled != self.t:
            what = (
                f"round {settled} is settled on disk, these accounts are at round"
                f" {self.t}"
            )
            raise LedgerError(f"{self.store.path}: {what}; open them again")

    def amend(
        self,
        change: Amendment,
        by: str,
        why: str = "",
        order: tuple[int, int] | None = None,
        key: str | None = None,
    ) -> bool:
        """Write an amendment, as `LedgerStore.amend`; it is applied at once unless a
        round is open.
        """
        written = self.store.amend(
            change, by, why, order, key, accepts=lambda: self._try(change)
        )
        if self.store.begun() is None:
            self.take_up()
        return written

    def _try(self, change: Amendment) -> None:
        """Raise an error if the policy cannot go on under the amended terms. Change
        nothing.
        """
        ledger = replace(self.ledger, t=self.store.last_begun)
        trial = replace(self.standing, ledger=ledger)
        for each in self.store.amendments(trial.amended):
            trial = applied(self.store, trial, each)
        trial.controller.amend(trial.ledger, change)

    def take_up(self) -> None:
        """Apply the amendments that are valid from the next round on, made by this
        process or by another one.
        """
        for each in self.store.amendments(self.standing.amended):
            if each.round > self.t:
                break
            if each.round < self.t:
                raise LedgerError(
                    f"{self.store.path}: {each.named()} was written after round"
                    f" {each.round}; open them again"
                )
            self.standing = applied(self.store, self.standing, each)

    def audit(self) -> None:
        """Raise LedgerError if the replay of the store differs from the ledger in
        memory, or a client holds too much.
        """
        path = self.store.path
        with self.store.snapshot():
            self.check_newest()
            if self.store.begun() is None:
                self.take_up()
            again = replay(self.store, self._first)
            for each in self.store.amendments(again.amended):
                if each.round == again.ledger.t:
                    again = applied(self.store, again, each)
        for name in ("spent", "admitted", "dropped"):
            if not np.array_equal(
                getattr(again.ledger, name), getattr(self.ledger, name)
            ):
                raise LedgerError(f"{path}: {name} is not what the replay says")
        if again.paid != self.standing.paid:
            raise LedgerError(
                f"{path}: {self.standing.paid:f} was spent, the replay says"
                f" {again.paid:f}"
            )
        if np.any(self.ledger.occupancy > self.system.buffer):
            raise LedgerError(f"{path}: a client holds more than its buffer")

    def rest(
        self,
        prices: "PriceProcess",
        rounds: int | None = None,
        runs: int = 100,
    ) -> dict[str, tuple[float, float, float]]:
        """Simulate the remaining rounds under `prices`; return the mean and the 5 % and
        95 % quantiles over `runs` paths.

        Only control is simulated, from the present ledger and with all clients present;
        open orders count as spent.
        """
        last = self.system.horizon if rounds is None else self.t + rounds
        if last is None:
            raise SettingError("rounds: must be stated where the end is open")
        seeds = np.arange(runs)
        controller = Controller(
            self.system, self.controller.policy, runs, seeds, looks=self.looks
        )
        ledger = start = self.ledger.of_runs(np.zeros(runs, dtype=np.int64))
        reserved = np.full(runs, reserve(self.store.outstanding()))
        path = prices.path(seeds, self.t + 1, last + 1) + self.looks
        for price in np.moveaxis(path, 1, 0):
            ledger = controller.post(
                ledger, controller.decide(ledger, np.ascontiguousarray(price), reserved)
            )
        found = {
            "spend": ledger.spent - start.spent,
            "samples": (ledger.ever - start.ever).astype(np.float64),
            "left": self.system.money(last) - ledger.spent - reserved,
        }
        return {
            name: (float(each.mean()), *np.quantile(each, (0.05, 0.95)).tolist())
            for name, each in found.items()
        }

    def _reserved(self, price: Floats) -> float:
        """Return the most that open orders may cost, plus the most that rounding may
        add for any sequence of answers.
        """
        from headgate.control.policies.budgeted.purse import kept_back

        open_, system = self.store.outstanding(), self.system
        overdraft = getattr(self.controller.policy, "overdraft", 0.0)
        amounts = np.concatenate(
            [self.ledger.spent, np.ravel(price), [row.price for row in open_]]
        )
        most = system.money(self.t + 1, overdraft)
        rounding = len(open_) * (system.quantum or 0.0) / 2
        kept = kept_back(most, amounts, len(open_) + system.clients)
        return reserve(open_) + rounding + kept

    def _rows(self, orders: Orders, present: Collection[int]) -> Iterable[Ordered]:
        """Yield the orders to write: only those with samples to admit, because the
        others cost nothing.
        """
        for client in sorted(present):
            ordered, free, price = order_to(orders, client)
            if ordered:
                yield Ordered(
                    orders.t, client, ordered, free, price, quantum=orders.quantum
                )

    def order(
        self,
        now: OpenRound,
        client: int,
        train: bool = True,
    ) -> Order:
        """Return the order to one client; a client without a written order admits
        nothing and trains on what it holds.
        """
        unheard = now.outstanding.get(client, {})
        return Order(
            experiment=self.store.experiment,
            round=now.t,
            client=client,
            known=now.known(client),
            last=now.known(client) + now.ordered(client),
            kept_from=int(now.kept_from[0, client]),
            limit=NO_LIMIT if now.limit is None else int(now.limit[client]),
            acknowledged=min(unheard, default=now.t) - 1,
            train=train,
            **self.fixed,
        )

    def judge(
        self,
        now: OpenRound,
        order: Order,
        receipt: Receipt | Ahead,
    ) -> Answer:
        """Return the judgement of a receipt; raise DataError if it does not agree with
        the order.
        """
        # an answer to another order says nothing about this one
        for name in ("experiment", "round", "client"):
            found, wanted = getattr(receipt, name), getattr(order, name)
            if found != wanted:
                raise DataError(
                    f"answers as {name} {found}, was asked as {name} {wanted}"
                )
        if isinstance(receipt, Ahead):
            reason = (
                "did not do this order: it has done orders up to round"
                f" {receipt.newest}"
            )
            return Answer(
                order.client,
                reason=reason,
                ahead=max(receipt.newest, now.t),
            )
        unheard = now.outstanding.get(order.client, {})
        past = self.store.closed(
            order.client, [t for t in receipt.rounds if t not in unheard and t < now.t]
        )
        closes = closings(
            receipt, order, unheard, past, self.store.lasts(past.values())
        )
        check_held(receipt, order, now.expected(order.client, closes.admitted))
        return Answer(order.client, receipt, closes)

    def check_up_to_date(self, now: OpenRound, answers: Iterable[Answer]) -> None:
        """Stop the run if the ledger is an old copy, under which correct reports of
        clients would be rejected.

        This needs more than half of the clients that answer to report later rounds, so
        one false report cannot stop a run.
        """
        answered = [
            answer
            for answer in answers
            if answer.receipt or answer.offence or answer.ahead
        ]
        ahead = [answer.ahead for answer in answered if answer.ahead]
        if 2 * len(ahead) > len(answered):
            why = (
                f"{len(ahead)} of {len(answered)} clients that answer have done orders"
                f" up to round {max(ahead)}"
            )
            raise LedgerError(
                f"{self.store.path}: is an old copy: {why}, it knows {self.t}; put the"
                " newest one in its place"
            )

    def settled(
        self,
        now: OpenRound,
        answers: Iterable[Answer],
        offences: int,
        losses: Losses | None = None,
    ) -> "Settlement":
        """Compute the settlement of a round from its answers and the `losses` that
        clients report. Change nothing.
        """
        closed, corrected = list[Ordered](), list[Ordered]()
        clients, events = list[ClientRow](), list[Event]()
        released = [row.client for row in self.clients.values() if row.quarantined]
        released += self.left
        for answer in answers:
            before = self.client(answer.client)
            caught = answer.offence and before.offences + 1 >= offences
            after = _after_answer(now.t, before, answer, caught)
            clients.append(after)
            events += _reported(now.t, before, answer)
            if answer.closes is not None and (answer.reason is None or caught):
                closed += answer.closes.closed
                corrected += answer.closes.corrected
                events += _late(now.t, answer.closes)
            elif caught:
                released.append(answer.client)
            if caught:
                why = f"after {after.offences} offences"
                events.append(Event(now.t, answer.client, "quarantined", why))

        for client in released:  # so that their money is available again
            open_ = sorted(now.outstanding.get(client, {}).values())
            if open_:
                closed += [
                    row._replace(
                        admitted=0,
                        learned=now.t,
                    )
                    for row in open_
                ]
                events.append(_released(now.t, client, open_))

        after_round = self.standing.after_round(
            now.orders, [*closed, *corrected], losses, now.month
        )
        return Settlement(
            ledger=after_round.ledger,
            paid=after_round.paid,
            closed=closed,
            corrected=corrected,
            clients=clients,
            events=events,
            now=now,
            after=after_round,
            known={**self.clients, **{row.client: row for row in clients}},
            losses=losses,
        )

    def commit(
        self,
        done: "Settlement",
        parameters: tuple[str, str],
        metrics: Mapping[str, Any],
        by_client: Mapping[str, Any] | None,
        keys: Iterable[tuple[int, int, str]] = (),
        events: Iterable[Event] = (),
    ) -> None:
        """Write a settled round and further events to disk, then update the ledger and
        the clients in memory.
        """
        self.check_newest()
        self.store.settle(
            done, [*done.events, *events], parameters, metrics, by_client, list(keys)
        )
        self.standing = done.after
        self.clients = done.known


@dataclass(
    frozen=True,
    eq=False,
)
class Settlement(RoundResult):
    """The result of a round and its answers, ready to be written."""

    now: OpenRound
    after: Standing
    """the accounts after the round"""
    known: dict[int, ClientRow]
    """all clients that have ever answered, with their state after the round"""
    losses: Losses | None = None


def _after_answer(
    t: int,
    row: ClientRow,
    answer: Answer,
    caught: bool,
) -> ClientRow:
    """Return the state of a client after its answer in round t; `caught` tells that it
    comes into quarantine.
    """
    receipt = answer.receipt
    if receipt is not None and answer.reason is None:
        row = row._replace(
            heard=t,
            lost=receipt.lost,
            withdrawn=receipt.withdrawn,
            erased=receipt.erased,
            distinct=receipt.distinct,
            uses=receipt.uses,
            squares=receipt.squares,
        )
    if answer.offence:
        row = row._replace(
            offences=row.offences + 1,
            quarantined=caught,
        )
    return row


def _reported(
    t: int,
    before: ClientRow,
    answer: Answer,
) -> Iterable[Event]:
    """Yield the events that an answer reports; `before` is the client's state before
    it.
    """
    client, receipt = answer.client, answer.receipt
    if answer.reason is not None:
        kind = "rejected" if answer.offence else "failed"
        yield Event(t, client, kind, answer.reason)
        return
    if receipt is None:
        return
    lost = receipt.lost - before.lost
    if lost > 0:
        yield Event(t, client, "lost", f"{lost} samples of a store that is gone")
    gone = max(receipt.withdrawn - before.withdrawn, receipt.erased - before.erased)
    if gone > 0:
        yield Event(t, client, "withdrawn", f"{gone} samples that it held")
    if receipt.note:
        yield Event(t, client, "short", receipt.note)


def _released(
    t: int,
    client: int,
    orders: Collection[Ordered],
) -> Event:
    ordered = sum(row.ordered for row in orders)
    rounds = ", ".join(str(row.round) for row in orders)
    return Event(t, client, "released", f"{ordered} samples ordered in rounds {rounds}")


def _late(t: int, closes: Closings) -> Iterable[Event]:
    for row in closes.closed:
        if row.round < t and row.admitted:
            yield Event(
                t,
                row.client,
                "late",
                f"{row.admitted} samples of round {row.round}, {row.charge:g} in all",
            )
    for row in closes.corrected:
        what = (
            f"{row.admitted} samples of round {row.round} that it had not reported,"
            f" {row.charge:g} in all"
        )
        yield Event(t, row.client, "corrected", what)


def closings(
    receipt: Receipt,
    order: Order,
    unheard: Mapping[int, Ordered],
    past: Mapping[int, Ordered],
    lasts: Mapping[int, int],
) -> Closings:
    """Return the orders that a report closes or corrects; raise DataError if it
    contradicts the orders.

    `unheard` are the open orders by round; an answer closes all of them, because a
    client ignores orders older than its last. `past` are closed orders of the rounds in
    the report, and `lasts` the positions up to which they went. Samples beyond those
    known are charged now, at the price of their order; charges are never taken back.
    """
    reported = dict(zip(receipt.rounds, receipt.admitted, strict=True))
    before, more = 0, dict[int, int]()
    position = receipt.position - sum(receipt.admitted)
    for t in sorted(reported.keys() | unheard.keys()):
        row, admitted = unheard.get(t) or past.get(t), reported.get(t, 0)
        known, ordered = 0, 0
        if row is not None:
            known, ordered = row.admitted or 0, row.ordered
        # an order states a position, so samples admitted since the last answer count
        # towards it
        left = max(
            min(ordered, lasts[t] - position) if t in past else ordered - before, 0
        )
        if admitted > left:
            raise DataError(
                f"admitted {admitted} samples in round {t}, {left} of {ordered} ordered"
                " ones were left"
            )
        before += admitted - known
        position += admitted
        if t in past and admitted > known:
            more[t] = admitted - known
    if receipt.position != order.known + before:
        raise DataError(
            f"has ever admitted {receipt.position} samples, by its answers"
            f" {order.known + before}"
        )
    closed = [
        row._replace(
            admitted=reported.get(t, 0),
            learned=receipt.round,
        )
        for t, row in sorted(unheard.items())
    ]
    owed = before - sum(row.admitted or 0 for row in closed)
    corrected = list[Ordered]()
    if owed < 0:
        raise DataError(f"takes back {-owed} samples that it reported before")
    # assign the missing samples to the oldest orders first
    for t, most in sorted(more.items()):
        count, row = min(most, owed), past[t]
        owed -= count
        if count:
            free = min(max(row.free - (row.admitted or 0), 0), count)
            corrected.append(
                row._replace(
                    ordered=count,
                    free=free,
                    admitted=count,
                    learned=receipt.round,
                )
            )
    return Closings(closed, corrected)


def check_held(
    receipt: Receipt,
    order: Order,
    expected: int,
) -> None:
    """Refuse a receipt unless it holds `expected` samples less those withdrawn; a
    client that lost a store may hold fewer.
    """
    expected -= receipt.withdrawn
    too_few = receipt.occupancy < expected and receipt.lost == 0
    if too_few or receipt.occupancy > expected:
        raise DataError(
            f"holds {receipt.occupancy} samples, {expected} were to be held"
        )
    if receipt.trained and not order.train:
        raise DataError("trained without being asked to")


# compute the ledger from the store


def replay(store: LedgerStore, controller: Controller) -> Standing:
    """Return the accounts after the last settled round, computed from all that is
    written.

    Raise LedgerError if the recorded orders, debts or spending differ from those that
    control computes. If they would not differ without one of the amendments, the error
    names it.
    """
    store.check_terms(controller.terms)
    amendments = store.amendments()
    try:
        return _replayed(store, controller, amendments)
    except HeadgateError as error:
        for each in reversed(amendments[-SUSPECTS:]):
            if _replays(
                store,
                controller,
                [other for other in amendments if other.id != each.id],
            ):
                raise LedgerError(f"{error}; {store.remedy(each)}") from None
        raise


def _replays(
    store: LedgerStore,
    controller: Controller,
    amendments: list[AmendmentRow],
) -> bool:
    try:
        _replayed(store, controller, amendments)
    except HeadgateError:
        return False
    return True


def _replayed(
    store: LedgerStore,
    controller: Controller,
    amendments: Iterable[AmendmentRow],
) -> Standing:
    standing, waiting = Standing(controller, controller.open()), deque(amendments)
    sent, learned = _by_round(store)
    policy, heard = controller.policy, dict[int, Losses]()
    if policy.hears:
        both = policy.selection is not None and policy.selection.listens
        heard = store.losses(3 if both else 2)
    for past in store.rounds():
        while waiting and waiting[0].round <= standing.ledger.t:
            standing = applied(store, standing, waiting.popleft())
        if past.round != standing.ledger.t + 1:
            raise LedgerError(
                f"round {standing.ledger.t + 1}: is missing in {store.path}"
            )
        orders = decided(
            standing.controller, standing.ledger, past.price, past.reserved, past.supply
        )
        check_orders(orders, sent.get(past.round, []))
        known = learned.get(past.round, [])
        if any(row.client >= orders.admitted.shape[1] for row in known):
            raise LedgerError(
                f"round {past.round}: has an order to a client that does not exist in"
                f" {store.path}"
            )
        standing = standing.after_round(
            orders, known, heard.get(past.round), standing.month_at(past.begun)
        )
        standing = replace(standing, by_older=past.paid is None)
        _check_result(store, standing, past)
    return standing


def _check_result(
    store: LedgerStore,
    standing: Standing,
    past: RoundRow,
) -> None:
    """Raise LedgerError if the result of a round differs from the one that was
    written.
    """
    ledger = standing.ledger
    pairs: list[tuple[str, Any, Any]] = [
        ("Z", float(ledger.debt[0]), past.debt),
        ("spend", float(ledger.spent[0]), past.spent),
    ]
    if past.paid is not None:
        pairs.append(("the exact sum", standing.paid, past.paid))
    for name, live, recorded in pairs:
        if live != recorded:
            raise LedgerError(
                f"round {past.round}: {name} is {live!r} by the replay, {recorded!r} in"
                f" {store.path}"
            )


def _by_round(
    store: LedgerStore,
) -> tuple[dict[int, list[Ordered]], dict[int, list[Ordered]]]:
    """Return the orders by the round in which they were sent, and by the one in which
    their answers came.
    """
    sent = defaultdict[int, list[Ordered]](list)
    learned = defaultdict[int, list[Ordered]](list)
    orders = store.orders()
    for row in orders:
        sent[row.round].append(row)
    for row in (*orders, *store.corrections()):
        if row.learned is not None:
            learned[row.learned].append(row)
    return sent, learned


def applied(
    store: LedgerStore,
    standing: Standing,
    each: AmendmentRow,
) -> Standing:
    """Return the accounts after an amendment; the error for one that cannot be applied
    names it.
    """
    try:
        return standing.after_amendment(each)
    except HeadgateError as error:
        raise store.cannot_apply(each, error) from None


def decided(
    controller: Controller,
    ledger: Ledger,
    price: Floats,
    reserved: float,
    supply: Supply = EVERYTHING,
) -> Orders:
    """Return the orders of the next round of one run at `price`, which is one number or
    one for each client.
    """
    prices = np.asarray(price, np.float64)
    paid = prices.reshape(1) if prices.size == 1 else prices[None, :]
    return controller.decide(ledger, paid, np.array([reserved]), supply)


def check_orders(orders: Orders, recorded: Iterable[Ordered]) -> None:
    """Raise LedgerError if a recorded order differs from the one that control gives."""
    clients = orders.admitted.shape[1]
    for row in recorded:
        if row.client >= clients:
            raise LedgerError(
                f"round {orders.t}: client {row.client} was ordered samples, there are"
                f" {clients} clients"
            )
        ordered, free, price = order_to(orders, row.client)
        if row.ordered != ordered:
            found = (
                f"client {row.client} was ordered {row.ordered} samples, the replay"
                f" orders {ordered}"
            )
            raise LedgerError(f"round {orders.t}: {found}")
        if (row.free, row.price) != (free, price):
            found = (
                f"client {row.client} had {row.free} samples free and paid"
                f" {row.price!r} for others"
            )
            raise LedgerError(
                f"round {orders.t}: {found}, by the replay {free} and {price!r}"
            )


def order_to(orders: Orders, client: int) -> tuple[int, int, float]:
    """Return how many samples are ordered from a client, how many of them are free, and
    the price of the others.
    """
    ordered = int(orders.admitted[0, client])
    free = 0 if orders.free is None else min(int(orders.free[0, client]), ordered)
    price = orders.price[0] if orders.price.ndim == 1 else orders.price[0, client]
    return ordered, free, float(price)


def report_of(
    orders: Orders,
    learned: Iterable[Ordered],
    losses: Losses | None = None,
) -> Report:
    """Return the report of a round: admissions on its own orders, and late ones on
    earlier orders at their prices.
    """
    admitted, late = np.zeros_like(orders.admitted), np.zeros_like(orders.admitted)
    charge = 0.0
    # a fixed order of summation
    for row in sorted(learned, key=lambda row: (row.client, row.round)):
        assert row.admitted is not None
        if row.round == orders.t:
            admitted[0, row.client] = row.admitted
        else:
            late[0, row.client] += row.admitted
            charge += row.charge
    if not late.any():
        return Report(admitted, losses=losses)
    return Report(admitted, late, np.array([charge]), losses)


def reserve(
    outstanding: Iterable[Ordered],
    money: Callable[[float], M] = float,  # type: ignore[assignment]
) -> M:
    """Return the most that outstanding orders may have cost, as a float or as the type
    that `money` makes of a price.

    The orders to a client overlap, because each states a position up to which to admit,
    and a sample is bought on only one of them. In the worst case, each sample was
    bought on the most expensive order that includes it.

    >>> client_0 = [Ordered(1, 0, 5, 0, 2.0), Ordered(2, 0, 8, 0, 1.0)]
    >>> reserve([*client_0, Ordered(2, 1, 1, 0, 1.0)])
    14.0
    """
    cost, by_client = money(0.0), defaultdict[int, list[Ordered]](list)
    for row in outstanding:
        by_client[row.client].append(row)
    for client in sorted(by_client):
        covered = 0
        for row in sorted(by_client[client], key=lambda row: (-row.price, row.round)):
            paid = row.ordered - row.free
            if paid > covered:
                cost += money(row.price) * (paid - covered)
                covered = paid
    return cost
