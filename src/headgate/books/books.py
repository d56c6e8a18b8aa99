"""Durable accounts for any training loop: purchases, deliveries and costs."""

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from headgate.books.accounts import Accounts, Answer, OpenRound, order_to
from headgate.books.border import (
    Delivery,
    clients_in,
    counts_for,
    delivery,
    name_of,
    order_of,
    prices_for,
    reasons_of,
    refund,
    reports_of,
    signed,
)
from headgate.books.ledger_store import LEDGER, LedgerStore, moment
from headgate.books.messages import LARGEST, Order, Receipt
from headgate.control.amendments import Amendment
from headgate.control.checks import optional, whole_number
from headgate.control.checks import path as checked_path
from headgate.control.controller import Controller
from headgate.control.policy import AdmissionPolicy, check_is_policy
from headgate.control.supply import Supply
from headgate.control.types import Ledger, System
from headgate.errors import DataError, LedgerError, SettingError
from headgate.escaping import shown
from headgate.limits import CLIENTS, ROUNDS, SAMPLES
from headgate.writing import FolderLock, clear_partial

if TYPE_CHECKING:
    from headgate.books.statement import Statement
    from headgate.control.prices import PriceProcess

NEVER = 2**31
"""number of offences before a quarantine, so large that no client is ever in quarantine
"""


class Purchase(NamedTuple):
    """The samples that one client may admit in a round, and the samples that it must
    hold afterwards.

    Parameters
    ----------
    client : int
        The client.
    round : int
        The round.
    samples : int
        The most new samples to admit.
    price : float
        Price of each new sample.
    first : int
        First admission that the client then holds, if its retention rule is a window;
        it holds first..last−1.
    last : int
        Number of samples that the client has ever admitted after this purchase.
        Repeating a purchase admits nothing twice.
    oldest : int
        Admission before which the client holds no sample, however few it admits.

    Examples
    --------
    >>> bought = Purchase(0, 1, 3, 2.5, first=0, last=3, oldest=0)
    >>> bought.samples * bought.price, bought.held(3)
    (7.5, range(0, 3))
    """

    client: int
    round: int
    samples: int
    price: float
    first: int
    last: int
    oldest: int

    def held(self, position: int) -> range:
        """Return the admissions that a client holds after a report.

        Parameters
        ----------
        position : int
            Number of samples that the client has ever admitted.

        Returns
        -------
        range
            Their numbers, counted from 0.

        Examples
        --------
        Three samples fewer than were ordered:

        >>> order = Purchase(0, 4, samples=5, price=2.0, first=5, last=15, oldest=0)
        >>> order.held(12)
        range(2, 12)
        """
        return range(max(self.oldest, self.first - (self.last - position)), position)


class Books:
    """Accounts of one policy on disk, which stay consistent if the process is killed at
    any time.

    A round is two transactions: `begin` writes the purchases before any client receives
    one, and `settle` writes the deliveries. If the process is killed in between,
    `begin` returns the same round with the same purchases. Every policy is limited to
    the approved money and to the buffers.

    Parameters
    ----------
    folder : str or pathlib.Path
        Folder of the accounts, created if it does not exist. Only one process at a time
        runs rounds; others may amend.
    system : System
        Buffers, budget and horizon at the beginning; later changes are amendments.
    policy : AdmissionPolicy
        Policy that decides how many samples to admit.
    seed : int, optional
        Seed of policies and rules that choose at random.
    offences : int, optional
        Number of refused reports after which a client gets no more purchases and its
        open ones are released; left out: never.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from headgate.control.policies import Headgate
    >>> system = System([8, 9, 10], budget=20.0, horizon=100)
    >>> books = Books(mkdtemp(), system, Headgate())
    >>> [(each.client, each.samples) for each in books.begin(3.0, present=[0, 2])]
    [(0, 8), (2, 10)]

    Client 2 delivers three samples fewer than it was asked for, and is not charged for
    them:

    >>> books.settle({0: 8, 2: 7})
    >>> books.statement().spent
    Decimal('45.0')
    """

    def __init__(
        self,
        folder: Path | str,
        system: System,
        policy: AdmissionPolicy,
        seed: int = 0,
        offences: int | None = None,
    ) -> None:
        # a policy is of a module that is loaded already; this one need not be before
        from headgate.control.policies.references import held

        path = checked_path("Books: folder", folder)
        if not isinstance(system, System):
            raise SettingError(
                f"Books: system = {shown(system)}: must be a headgate.System"
            )
        self._offences = (
            NEVER
            if offences is None
            else whole_number("Books: offences", offences, least=1)
        )
        seed = whole_number("Books: seed", seed, 0, LARGEST)
        check_is_policy(policy, "Books: policy")
        limited = held(policy)
        Controller(
            system, limited, 1, np.array([seed])
        )  # refuses what cannot be before anything is on disk
        self._lock = FolderLock()
        try:
            self._store = LedgerStore(path / LEDGER)
            self._lock.callback(self._store.close)
            self._lock.take(path, path)
            clear_partial(path)
            self._accounts = Accounts(self._store, system, limited, seed)
        except BaseException:
            self._lock.close()
            raise
        self._now: OpenRound | None = None
        self._latest: tuple[OpenRound, Controller] | None = None
        self._orders: dict[int, Order] = {}

    @property
    def ledger(self) -> Ledger:
        """The ledger after the last settled round."""
        return self._accounts.ledger

    @property
    def name(self) -> str:
        """A random name that identifies these accounts to clients."""
        return self._store.experiment

    @property
    def system(self) -> System:
        """The system with all amendments so far."""
        return self._accounts.system

    @property
    def why(self) -> str:
        """Why the latest round that was begun here bought what it bought, in words, as
        in "price 0.08, below the limit of 0.11; 43 samples".
        """
        return "" if self._latest is None else self._accounts.why(*self._latest)

    def __str__(self) -> str:
        """Return the statement as `headgate ledger show` prints it."""
        return str(self.statement())

    @property
    def quarantined(self) -> set[int]:
        """The clients that get no purchases after too many refused reports, until
        `headgate flower clients --lift`.
        """
        return self._store.quarantined()

    def begin(
        self,
        price: ArrayLike,
        present: Collection[int] | Collection[bool] | None = None,
        most: ArrayLike | None = None,
        in_all: int | None = None,
        lot: int = 1,
        when: str | date | None = None,
    ) -> list[Purchase]:
        """Begin the next round; a round that was begun and not settled is repeated with
        its recorded price and purchases.

        Parameters
        ----------
        price : array_like
            Price of a sample in this round: one number, or one for each client.
        present : collection of int or of bool, optional
            The clients that take part, as their numbers or as a mask with a truth value
            for each client; left out: all.
        most : array_like of int, optional
            The most samples that each client can deliver: one number, or one for each
            client.
        in_all : int, optional
            The most samples that all clients together can deliver.
        lot : int, optional
            Number of which every purchase is a multiple.
        when : str, date or datetime, optional
            ISO date of the round, as in 2026-11-18, or date and time; left out: now. A
            time without an offset is in UTC. It determines the month of a monthly
            budget, which never goes back: an earlier date counts in the latest month. A
            date more than a year after both the latest round and the clock is refused.

        Returns
        -------
        list of Purchase
            One purchase for each client that takes part.

        Raises
        ------
        SettingError
            If a value is not what it must be, or all rounds up to the horizon are over
            and somebody is present; nothing is written then.
        """
        accounts = self._accounts
        if self._store.begun() is None:
            accounts.take_up()
        clients = self.system.clients
        prices = prices_for("begin: price", price, clients)
        named = (
            None if present is None else clients_in("begin: present", present, clients)
        )
        if self._store.begun() is None and (named is None or named):
            self._check_horizon()
        supply = Supply(
            most=counts_for("begin: most", most, clients),
            in_all=optional(
                whole_number, "begin: in_all", in_all, 0, SAMPLES * CLIENTS
            ),
            lot=whole_number("begin: lot", lot, 1, SAMPLES),
        )
        begun = None if when is None else moment("begin: when", when)
        now = accounts.begin(prices, named, supply, begun)
        self._now, self._orders = now, {}
        self._latest = now, accounts.controller
        return [self._purchase(now, client) for client in accounts.there(named)]

    def _check_horizon(self) -> None:
        """Refuse to buy in a round after the last one."""
        t, horizon = self._accounts.t + 1, self.system.horizon
        if horizon is not None and t > horizon:
            raise SettingError(
                f"begin: round {t}: the horizon is {horizon}, so all rounds are over;"
                f" amend(horizon={t}) adds one, and present=[] takes late reports"
            )

    def _purchase(self, now: OpenRound, client: int) -> Purchase:
        self._orders[client] = order = self._accounts.order(now, client)
        _, _, price = order_to(now.orders, client)
        ordered = now.ordered(client)
        first = order.last - now.expected(client, ordered)
        oldest = max(int(now.before.dropped[0, client]), order.kept_from)
        return Purchase(client, now.t, ordered, price, first, order.last, oldest)

    def settle(
        self,
        reports: Mapping[int, int | Delivery] | None = None,
        refused: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Write the reports of the round and finish it. A purchase without a report
        stays open, and its money is reserved.

        Parameters
        ----------
        reports : mapping of int to int or Delivery, optional
            Number of samples that each client admitted. Left out: every client admitted
            all that was ordered.
        refused : mapping of int to str, optional
            Reason why the answer of each of these clients is rejected; it is recorded,
            and the purchases stay open. If the client comes into quarantine with it,
            what its report says is charged, and the rest is released.

        Raises
        ------
        SettingError, LedgerError
            If a report is not what it must be, or contradicts the purchases. The round
            stays open, and nothing is written.
        """
        now = self._begun("settle")
        rejected = reasons_of("settle: refused", refused)
        if reports is None:
            orders = [
                row for row in self._store.orders(now.t) if row.client not in rejected
            ]
            given = {row.client: Delivery(row.ordered) for row in orders}
        else:
            given = reports_of("settle: reports", reports)
        answers = {client: Answer(client) for client in rejected}
        try:
            for client in rejected:
                self._order(now, client)
            with _garbage_left_alone():
                answers |= {
                    client: self._judged(now, client, each)
                    for client, each in given.items()
                }
        except LedgerError as error:
            raise LedgerError(f"{error}; nothing was settled") from None
        for client, why in rejected.items():
            answers[client] = replace(
                answers[client],
                reason=why,
                offence=True,
            )
        done = self._accounts.settled(
            now,
            [answers[client] for client in sorted(answers)],
            offences=self._offences,
        )
        believed = {
            client: each for client, each in given.items() if client not in rejected
        }
        keys = [
            (now.t, client, key)
            for client, each in believed.items()
            for key in each.keys
        ]
        self._accounts.commit(done, ("", ""), {}, None, keys=keys)
        self._now = None

    def check(self, client: int, report: Delivery) -> int:
        """Check a report without settling the round. Write nothing.

        Parameters
        ----------
        client : int
            The client that reports.
        report : Delivery
            Its report.

        Returns
        -------
        int
            Number of samples that the client holds after its report.

        Raises
        ------
        LedgerError
            If `settle` would refuse the report.
        """
        now = self._begun("check")
        number = whole_number("check: client", client, 0, CLIENTS)
        receipt = self._judged(now, number, delivery("check: report", report)).receipt
        return 0 if receipt is None else receipt.occupancy

    def _begun(self, call: str) -> OpenRound:
        if self._now is None:
            raise SettingError(f"{call}: no round was begun")
        return self._now

    def _order(self, now: OpenRound, client: int) -> Order:
        """Return the order to a client, also to one that does not take part; refuse a
        client that there is not.
        """
        if client in self._orders:
            return self._orders[client]
        if client in self._accounts.left or client >= self.system.clients:
            raise LedgerError(f"round {now.t}: client {client}: has left or is none")
        return self._accounts.order(now, client)

    def _judged(
        self,
        now: OpenRound,
        client: int,
        report: Delivery,
    ) -> Answer:
        order = self._order(now, client)
        try:
            return self._accounts.judge(now, order, self._receipt(now, client, report))
        except DataError as error:
            raise LedgerError(f"round {now.t}: client {client}: {error}") from None

    def _receipt(
        self,
        now: OpenRound,
        client: int,
        report: Delivery,
    ) -> Receipt:
        if now.t in report.earlier:
            raise DataError(f"earlier has round {now.t}, which is this one")
        reported = {**report.earlier, now.t: report.admitted}
        rounds = sorted(reported)
        open_ = now.outstanding.get(client, {})
        closed = [t for t in report.earlier if t not in open_ and t < now.t]
        known = self._store.closed(
            client, closed
        )  # repeated reports, as after a kill right after settling
        admitted = sum(reported.values()) - sum(
            row.admitted or 0 for row in known.values()
        )
        held = now.expected(client, admitted) - report.erased
        if held < 0:
            raise DataError(f"erased {report.erased} samples, more than it was to hold")
        return Receipt(
            experiment=self._store.experiment,
            round=now.t,
            client=client,
            rounds=tuple(rounds),
            admitted=tuple([reported[t] for t in rounds]),
            position=now.known(client) + admitted,
            occupancy=held,
            n=held,
            trained=False,
            note="",
            withdrawn=report.erased,
            lost=0,
            distinct=0,
            uses=0,
            squares=0,
        )

    def amend(
        self,
        by: str | None = None,
        why: str = "",
        key: str | None = None,
        **changes: Any,
    ) -> None:
        """Change the terms from the next round on: money, budget, horizon, month, join,
        weight, leave, suspend.

        Parameters
        ----------
        by : str, optional
            Name of the person who makes the amendment; left out: the user of this
            process.
        why : str, optional
            Reason in one line, for the record.
        key : str, optional
            Name of this amendment. The same amendment with the same key counts once, so
            that it can safely be repeated.
        **changes
            The fields of `headgate.control.Amendment`, without `adjust`.

        Raises
        ------
        SettingError, LedgerError
            If the change does not fit the terms with all amendments so far; nothing is
            written then.
        """
        author, reason = signed("amend", by, why)
        name = name_of("amend: key", key)
        known = [field.name for field in fields(Amendment) if field.name != "adjust"]
        for each in changes:
            if each not in known:
                raise SettingError(f"amend: {each}: is none of {', '.join(known)}")
        with _named("amend"):
            self._accounts.amend(Amendment(**changes), author, reason, key=name)

    def adjust(
        self,
        round: int,
        client: int,
        amount: float,
        by: str | None = None,
        why: str = "",
        key: str | None = None,
    ) -> None:
        """Adjust the cost of an order to its invoice, also after the last round.

        Parameters
        ----------
        round, client : int
            Round and client of the order.
        amount : float
            Amount of the invoice less the amount charged; below 0: a refund, at most of
            all that was paid.
        by, why, key : str, optional
            As for `amend`; the number of the invoice is a good key.

        Raises
        ------
        SettingError, LedgerError
            If there is no such order, or the refund is more than was paid on it;
            nothing is written then.
        """
        order = order_of("adjust", round, client)
        change = Amendment(adjust=refund("adjust: amount", amount))
        author, reason = signed("adjust", by, why)
        name = name_of("adjust: key", key)
        with _named("adjust"):
            self._accounts.amend(change, author, reason, order, name)

    def rest(
        self, prices: "PriceProcess", rounds: int | None = None
    ) -> dict[str, tuple[float, float, float]]:
        """Return a forecast of the remaining rounds.

        Parameters
        ----------
        prices : PriceProcess
            Expected prices, as in `headgate.control.prices.Uniform(1.0, 10.0)`.
        rounds : int, optional
            Number of rounds to forecast, needed if the horizon is open.

        Returns
        -------
        dict
            `spend`, `samples` and `left`, each with the mean and the 5 % and 95 %
            quantiles over 100 simulated paths.

        Raises
        ------
        SettingError
            If an argument is not what it must be, or `rounds` is left out where the
            horizon is open.
        """
        from headgate.control.prices import PriceProcess

        if not isinstance(prices, PriceProcess):
            raise SettingError(
                f"rest: prices = {shown(prices)}: must be prices, as"
                " headgate.control.prices.Uniform"
            )
        return self._accounts.rest(
            prices, optional(whole_number, "rest: rounds", rounds, 1, ROUNDS)
        )

    def statement(self) -> "Statement":
        """Return the statement of the accounts.

        Returns
        -------
        Statement
            One line for each order, the amendments and the totals, in exact decimal
            numbers.
        """
        from headgate.books.statement import statement

        return statement(self._store)

    def audit(self) -> "Statement":
        """Replay the accounts on disk and compare the results.

        Returns
        -------
        Statement
            As from `statement`.

        Raises
        ------
        LedgerError
            If the replay, the ledger in memory and the statement differ, or a client
            holds more than its buffer.
        """
        with self._store.snapshot():
            self._accounts.audit()
            return self.statement()

    def backup(self, file: Path | str) -> "Statement":
        """Copy the accounts as they are now into one file, also while a round is open.

        A plain copy of the folder lacks what SQLite still holds in its log, at times
        all rounds.

        Parameters
        ----------
        file : str or pathlib.Path
            The copy. It becomes accounts again as `ledger.sqlite` in a folder of its
            own.

        Returns
        -------
        Statement
            The statement of the copy.
        """
        from headgate.books.statement import backup

        return backup(self._store, checked_path("backup: file", file))

    def close(self) -> None:
        """Close the files, so that another process can run rounds."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextmanager
def _garbage_left_alone() -> Iterator[None]:
    """Do not search for garbage meanwhile: among the answers of thousands of clients
    there is none, and it takes a third of the time."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


@contextmanager
def _named(call: str) -> Iterator[None]:
    """Name the call in the error for a setting."""
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{call}: {error}") from None
