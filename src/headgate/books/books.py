"""Durable accounts for any training loop: purchases, deliveries and costs."""

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import date, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from headgate.books.addresses import Place, place_of
from headgate.books.beginning import Opening
from headgate.books.border import (
    Roll,
    clients_in,
    counts_for,
    expiry_of,
    name_of,
    order_of,
    prices_for,
    reasons_of,
    refund,
    reports_of,
    signed,
)
from headgate.books.course import Course, mask_of, supply_table
from headgate.books.database import Tables
from headgate.books.exact import exact
from headgate.books.journal import Journal
from headgate.books.moments import moment, months_between, now
from headgate.books.nouns import (
    Balance,
    Client,
    Delivery,
    OrderState,
    Purchase,
)
from headgate.books.opening import tables_at
from headgate.books.state import Begun, State
from headgate.control.amendments import Amendment
from headgate.control.checks import amount, optional, whole_number
from headgate.control.checks import path as checked_path
from headgate.control.policy import AdmissionPolicy
from headgate.control.supply import Supply
from headgate.control.types import Ledger, System
from headgate.errors import LedgerError, SettingError
from headgate.escaping import shown
from headgate.limits import CLIENTS, ROUNDS, SAMPLES

if TYPE_CHECKING:
    from headgate.books.statement import Statement
    from headgate.control.prices import PriceProcess

NEVER = 2**31
"""number of offences before a quarantine, so large that no client is ever in quarantine
"""
MONTHS_AHEAD = 12
"""the most months that the date of a round may be after the latest one"""
SERVICES = ("https://", "http://")
"""how the address of accounts at a service begins"""


class Books:
    """Accounts of one policy on disk, which stay consistent if the process is killed at
    any time.

    A round is two transactions: `begin` writes the purchases before any client receives
    one, and `settle` writes what arrived. If the process is killed in between, `begin`
    returns the same round with the same purchases. Every sample that was ordered is
    under way until it is reported as delivered or cancelled, in this round or in any
    later one. Every policy is limited to the approved money and to the buffers.

    Parameters
    ----------
    folder : str or pathlib.Path
        Folder of the accounts, created if it does not exist, or their address in
        PostgreSQL, as in "postgresql://host/database/account", or at a service, as in
        "https://host/accounts/name". Only one process at a time runs rounds; others may
        amend.
    system : System, optional
        Buffers, budget and horizon at the beginning; later changes are amendments. Left
        out, with the policy: those of the accounts that are there.
    policy : AdmissionPolicy, optional
        Policy that decides how many samples to admit.
    seed : int, optional
        Seed of policies and rules that choose at random.
    offences : int, optional
        Number of refused reports after which a client gets no more purchases and what
        is under way at it is cancelled; left out: never.
    wait : float, default 0
        Seconds to wait for the process that runs rounds now, until it ends or is
        killed.
    token : str, optional
        Token of a service; left out: that in HEADGATE_TOKEN.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from headgate.control.policies import Headgate
    >>> system = System({"north": 8, "south": 9, "west": 10}, budget=40.0, horizon=100)
    >>> books = Books(mkdtemp(), system, Headgate())
    >>> [(each.client, each.samples) for each in books.begin(3.0)]
    [('north', 8), ('south', 9), ('west', 10)]

    Three samples of west are still under way, and their money is reserved:

    >>> books.settle({"north": 8, "south": 9, "west": 7})
    >>> books.balance().spent, books.balance().reserved
    (Decimal('72.0'), Decimal('9.0'))
    """

    def __new__(cls, folder: Place | str, *given: Any, **more: Any) -> Self:
        """Return accounts of this class, or those at a service, which have the same
        methods.
        """
        if not str(folder).startswith(SERVICES):
            return super().__new__(cls)
        from headgate.books.remote import RemoteBooks

        return RemoteBooks(folder, *given, **more)  # type: ignore[return-value]

    def __init__(
        self,
        folder: Place | str,
        system: System | None = None,
        policy: AdmissionPolicy | None = None,
        seed: int = 0,
        offences: int | None = None,
        wait: float = 0.0,
        token: str | None = None,
    ) -> None:
        self._place = place = place_of("Books: folder", folder)
        if token is not None:
            raise SettingError(
                "Books: token: is for accounts at https://, which are no folder"
            )
        opening = None
        if system is not None or policy is not None:
            opening = Opening.checked(system, policy, seed, offences)
        patience = amount("Books: wait", wait)
        tables = tables_at(place, new=opening is not None)
        try:
            self._lead(tables, patience)
            if opening is None:
                opening = Opening.of(tables)
            self._offences = opening.offences or NEVER
            self._journal = Journal.create_or_open(
                tables,
                opening.system,
                opening.limited,
                opening.seed,
                opening.described,
            )
            self._why = ""
        except BaseException:
            tables.close()
            raise

    def _lead(self, tables: Tables, patience: float) -> None:
        """Become the one process that runs rounds."""
        tables.lead(patience)

    @property
    def ledger(self) -> Ledger:
        """The policy's ledger after the last settled round."""
        return self._course.ledger

    @property
    def name(self) -> str:
        """A random name that identifies these accounts to clients."""
        return self._journal.tables.account

    @property
    def system(self) -> System:
        """The system with all amendments that hold."""
        return self._journal.state.system

    @property
    def why(self) -> str:
        """Why the latest round that was begun here bought what it bought, in words, as
        in "price 0.08, below the limit of 0.11; 43 samples".
        """
        return self._why

    def __str__(self) -> str:
        """Return the statement as `headgate ledger show` prints it."""
        return str(self.statement())

    @property
    def quarantined(self) -> set[Client]:
        """The clients that get no purchases after too many refused reports, until
        `headgate flower clients --lift`.
        """
        with self._journal.newest() as state:
            return {state.system.named(client) for client in state.quarantined}

    @property
    def rounds_left(self) -> int | None:
        """The number of rounds in which samples can still be ordered that come before
        the horizon, by the delay learned from the deliveries; None: the end is open.
        """
        state = self._journal.state
        if state.system.horizon is None:
            return None
        return max(state.system.horizon - state.delay() - state.settled, 0)

    @property
    def _course(self) -> Course:
        course = self._journal.course
        assert course is not None
        return course

    def begin(
        self,
        price: ArrayLike | Mapping[str, float],
        present: Collection[int] | Collection[bool] | Collection[str] | None = None,
        most: ArrayLike | Mapping[str, int] | None = None,
        in_all: int | None = None,
        lot: int = 1,
        when: str | date | None = None,
        under_way: ArrayLike | Mapping[str, int] | None = None,
        expires: int | timedelta | None = None,
    ) -> list[Purchase]:
        """Begin the next round; a round that was begun and not settled is repeated with
        its recorded price and purchases.

        Parameters
        ----------
        price : array_like or mapping
            Price of a sample in this round: one number, or one for each client.
        present : collection of int, str or bool, optional
            The clients that take part, as their numbers or names, or as a mask with a
            truth value for each client; left out: all.
        most : array_like of int or mapping, optional
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
        under_way : array_like of int or mapping, optional
            The most samples that may be under way at each client, this purchase
            included: one number, or one for each client; left out: no limit.
        expires : int or datetime.timedelta, optional
            Number of rounds, or time, after which what has not arrived is cancelled;
            left out: never. What arrives later is recorded and not charged.

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
        with self._journal.newest() as state:
            if state.open is not None:
                given = self._inputs(
                    state, price, present, most, in_all, lot, under_way
                )
                return self._purchases(state.open, given["clients"])
            t = state.settled + 1
        at = now() if when is None else moment("begin: when", when)

        def inputs(state: State) -> dict[str, Any]:
            if when is not None:
                _check_date(state, at)
            made = self._inputs(state, price, present, most, in_all, lot, under_way)
            if made["clients"]:
                _check_horizon(state, self._place)
            made["expires"] = expiry_of("begin: expires", expires, t, at)
            made["delay"] = state.delay()
            return made

        self._journal.decide(t, inputs, at)
        open_ = self._journal.state.open
        assert open_ is not None
        return self._purchases(open_, open_.clients)

    def _inputs(
        self,
        state: State,
        price: object,
        present: object,
        most: object,
        in_all: object,
        lot: object,
        under_way: object,
    ) -> dict[str, Any]:
        """Return what the decision of a round depends on, as plain values."""
        roll = Roll(state.system)
        clients = roll.clients
        prices = prices_for("begin: price", roll.listed("begin: price", price), clients)
        named = None
        if present is not None:
            named = clients_in("begin: present", present, roll)
        there = state.there(named)
        limits = counts_for("begin: most", roll.listed("begin: most", most), clients)
        waiting = roll.listed("begin: under_way", under_way)
        free = counts_for("begin: under_way", waiting, clients)
        if free is not None:
            limits = _less(free, limits, state.under_way(), clients)
        supply = Supply(
            present=mask_of(there, clients),
            most=limits,
            in_all=optional(
                whole_number, "begin: in_all", in_all, 0, SAMPLES * CLIENTS
            ),
            lot=whole_number("begin: lot", lot, 1, SAMPLES),
        )
        return {
            "price": prices.tolist(),
            "supply": supply_table(supply),
            "clients": there,
        }

    def _purchases(self, open_: Begun, clients: list[int]) -> list[Purchase]:
        decided = self._course.decided
        self._why = "" if decided is None else decided.why
        state, limits = self._journal.state, self._course.controller.buffers.limit
        assert limits is not None
        found = []
        for client in clients:
            order = state.orders.get((open_.round, client))
            samples = 0 if order is None else order.asked
            price = open_.price[client if len(open_.price) > 1 else 0]
            known = state.delivered.get(client, 0) + state.beyond.get(client, 0)
            found.append(
                Purchase(
                    client=state.system.named(client),
                    round=open_.round,
                    samples=samples,
                    price=price,
                    keep=int(limits[client]),
                    last=known + samples,
                    drop=open_.drop.get(client, ()),
                )
            )
        return found

    def settle(
        self,
        reports: Mapping[Any, int | Delivery | list[Delivery]] | None = None,
        refused: Mapping[Any, str] = MappingProxyType({}),
        round: int | None = None,
        key: str | None = None,
    ) -> None:
        """Write what arrived, on orders of this round or of earlier ones, and finish
        the round. What is reported neither as delivered nor as cancelled stays under
        way, and its money is reserved.

        Between two rounds, and after the last one, deliveries that name their rounds
        are written alone.

        Parameters
        ----------
        reports : mapping of int or str to int, Delivery or list of Delivery, optional
            What arrived from each client: a number of samples of this round's order, a
            delivery, or several on different orders. Left out: every client delivered
            all that was ordered in this round.
        refused : mapping of int or str to str, optional
            Reason why the answer of each of these clients is rejected; it is recorded,
            and the purchases stay under way. If the client comes into quarantine with
            it, what its report says is charged, and the rest is cancelled.
        round : int, optional
            The round. With it the call can be repeated: if the round is settled with
            these reports already, nothing happens.
        key : str, optional
            Name of the reports, if no round is open. The same reports with the same key
            count once.

        Raises
        ------
        SettingError, LedgerError
            If a report is not what it must be, or contradicts the orders. The round
            stays open, and nothing is written.
        """
        with self._journal.newest() as state:
            open_, settled, system = state.open, state.settled, state.system
        t = None if open_ is None else open_.round
        if round is not None:
            t = whole_number("settle: round", round, 1, ROUNDS)
            if t > settled and (open_ is None or open_.round != t):
                raise SettingError(f"settle: round = {t}: was not begun")
        roll = Roll(system)
        rejected = reasons_of("settle: refused", refused, roll)
        if t is None and (reports is None or rejected):
            raise SettingError("settle: no round was begun")
        request = name_of("settle: key", key)
        asked: dict[str, Any] = {}
        if reports is not None:
            with _garbage_left_alone():
                asked["reports"] = reports_of("settle: reports", reports, roll, t)
        if t is None:
            self._write_reports("arrived", asked, f"key {request}" if request else None)
            return
        asked |= {"round": t, "refused": rejected, "all": reports is None}
        self._write_reports("settled", asked, f"settled {t}")

    def _write_reports(
        self,
        kind: str,
        asked: dict[str, Any],
        request: str | None,
    ) -> None:
        refused = [client for client, _ in asked.get("refused", [])]

        def make(state: State) -> dict[str, Any]:
            made: dict[str, Any] = {}
            if kind == "settled":
                made["caught"] = [
                    client
                    for client in refused
                    if _offences(state, client) + 1 >= self._offences
                ]
            if "reports" not in asked:
                made["reports"] = _all_of(state, set(refused))
            rows = made.get("reports", asked.get("reports", []))
            return {**made, "known": self._journal.known(state, rows)}

        try:
            with _garbage_left_alone():
                self._journal.write(kind, asked, make, request)
        except LedgerError as error:
            raise LedgerError(f"{error}; nothing was settled") from None

    def check(self, client: Client, report: int | Delivery | list[Delivery]) -> int:
        """Check a report without settling the round. Write nothing.

        Parameters
        ----------
        client : int or str
            The client that reports.
        report : int, Delivery or list of Delivery
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
        with self._journal.newest() as state:
            if state.open is None:
                raise SettingError("check: no round was begun")
            roll, t = Roll(state.system), state.open.round
            number = roll.number("check: client", client)
            rows = reports_of("check: report", {client: report}, roll, t)
            body = {"reports": rows, "known": self._journal.known(state, rows)}
        change, _ = self._journal.trial("arrived", body)
        arrived = sum(samples for _, _, samples, _ in change.arrived)
        course = self._course
        erased = max((int(row[-1]) for row in rows), default=0)
        held = int(course.ledger.occupancy[0, number]) + arrived - len(change.rejected)
        limit = course.controller.buffers.limit
        if limit is not None:
            held = min(held, int(limit[number]))
        if erased > held:
            raise LedgerError(
                f"round {t}: client {client}: erased {erased} samples, more than it was"
                " to hold"
            )
        return held - erased

    def order(self, round: int, client: Client) -> OrderState | None:
        """Return an order with the states of its samples.

        Parameters
        ----------
        round, client : int, and int or str
            Round and client of the order.

        Returns
        -------
        OrderState or None
            The order; None: there is none.
        """
        with self._journal.newest() as state:
            own = order_of("order", round, client, Roll(state.system))
            return state.orders.get(own) or self._journal.tables.order(*own)

    def under_way(self) -> dict[Client, dict[int, int]]:
        """Return what is under way.

        Returns
        -------
        dict
            Number of samples by client and by round of the order.
        """
        found = dict[Client, dict[int, int]]()
        with self._journal.newest() as state:
            for (t, client), order in sorted(state.orders.items()):
                own = found.setdefault(state.system.named(client), {})
                own[t] = order.under_way
        return found

    def amend(
        self,
        by: str | None = None,
        why: str = "",
        key: str | None = None,
        **changes: Any,
    ) -> None:
        """Change the terms from the next round on: money, budget, horizon, month, join,
        name, weight, leave, suspend.

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
            if isinstance(changes.get("leave"), str):
                roll = Roll(self._journal.state.system_ahead())
                changes["leave"] = roll.number("leave", changes["leave"])
            self._journal.amend(Amendment(**changes), author, reason, name)

    def adjust(
        self,
        round: int,
        client: Client,
        amount: float,
        by: str | None = None,
        why: str = "",
        key: str | None = None,
    ) -> None:
        """Adjust the cost of an order to its invoice, also after the last round.

        Parameters
        ----------
        round, client : int, and int or str
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
        system = self._journal.state.system_ahead()
        t, number = order_of("adjust", round, client, Roll(system))
        change = exact(refund("adjust: amount", amount))
        author, reason = signed("adjust", by, why)
        name = name_of("adjust: key", key)
        self._journal.adjust(t, number, change, author, reason, name)

    def rest(
        self, prices: "PriceProcess", rounds: int | None = None
    ) -> dict[str, tuple[float, float, float]]:
        """Return a forecast of the remaining rounds.

        Only control is simulated, with all clients present. What is under way counts as
        spent.

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
        number = optional(whole_number, "rest: rounds", rounds, 1, ROUNDS)
        with self._journal.newest() as state:
            return self._course.forecast(state, prices, number)

    def balance(self) -> Balance:
        """Return the money approved, spent, reserved and left.

        Returns
        -------
        Balance
            The money now, whatever the number of past rounds.
        """
        with self._journal.newest() as state:
            return state.balance()

    def statement(
        self,
        since: str | date | None = None,
        until: str | date | None = None,
    ) -> "Statement":
        """Return the statement of the accounts.

        Parameters
        ----------
        since, until : str, date or datetime, optional
            The orders from this time on, and before this one; left out: all.

        Returns
        -------
        Statement
            One line for each order, the amendments and the totals, in exact decimal
            numbers.
        """
        from headgate.books.statement import statement

        return statement(self._journal, since, until)

    def audit(self) -> "Statement":
        """Replay the accounts on disk and compare the results.

        Returns
        -------
        Statement
            As from `statement`.

        Raises
        ------
        LedgerError
            If an entry, an order or a key was changed after it was written; if the
            replay, the ledger in memory and a snapshot differ; or if a client holds
            more than its buffer. The message names the first difference.
        """
        with self._journal.tables.snapshot():
            self._journal.audit()
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

        return backup(self._journal, checked_path("backup: file", file))

    def close(self) -> None:
        """Close the accounts, so that another process can run rounds."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


# for our own rooms


def journal_of(books: Books) -> Journal:
    """Return the log of accounts, for programs that show it or do each request once."""
    return books._journal


def deliver(
    books: Books,
    reports: Mapping[Any, Delivery | list[Delivery]],
    key: str | None = None,
) -> None:
    """Write what arrived on orders of any rounds, also while a round is open, which
    stays open.

    Parameters
    ----------
    books : Books
        The accounts.
    reports : mapping of int or str to Delivery or list of Delivery
        What arrived from each client; each delivery names its round.
    key : str, optional
        Name of the reports. The same reports with the same key count once.

    Raises
    ------
    SettingError, LedgerError
        If a report is not what it must be, or contradicts the orders; nothing is
        written then.
    """
    with journal_of(books).newest() as state:
        roll = Roll(state.system)
    request = name_of("deliver: key", key)
    rows = reports_of("deliver: reports", reports, roll, None)
    stored = f"key {request}" if request else None
    books._write_reports("arrived", {"reports": rows}, stored)


def _offences(state: State, client: int) -> int:
    known = state.standing.get(client)
    return 0 if known is None else known.offences


def _all_of(state: State, refused: set[int]) -> list[list[Any]]:
    """Return the reports by which every client delivered what was ordered."""
    open_ = state.open
    if open_ is None:
        return []
    found = []
    for client in open_.clients:
        order = state.orders.get((open_.round, client))
        if order is not None and client not in refused:
            found.append([client, open_.round, order.under_way, [], 0, [], 0])
    return found


def _less(
    free: int | list[int],
    limits: int | list[int] | None,
    under_way: Mapping[int, int],
    clients: int,
) -> list[int]:
    """Return the most samples of each client, of whose `free` places for samples under
    way some are taken.
    """
    places = np.full(clients, free)
    for client, samples in under_way.items():
        places[client] -= samples
    places = np.maximum(places, 0)
    if limits is not None:
        places = np.minimum(places, limits)
    return [int(each) for each in places]


def _check_horizon(state: State, place: Place) -> None:
    """Refuse to buy in a round after the last one."""
    t, horizon = state.settled + 1, state.system.horizon
    if horizon is not None and t > horizon:
        raise SettingError(
            f"begin: round {t}: the horizon is {horizon}, so all rounds of the accounts"
            f" in {place} are over; another folder begins at round 1,"
            f" amend(horizon={t}) adds a round, and present=[] takes late reports"
        )


def _check_date(state: State, when: str) -> None:
    """Refuse a date far ahead: a month never goes back, so one wrong year would end a
    monthly budget for good.
    """
    latest = state.month.name
    if not latest:
        return
    ahead = min(months_between(latest, when), months_between(now(), when))
    if ahead > MONTHS_AHEAD:
        where = (
            f"more than a year after the latest round ({latest}) and after the clock"
        )
        raise SettingError(f"begin: when = {when}: is {where}; a month never goes back")


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
