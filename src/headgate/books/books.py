"""Durable accounts for any training loop: purchases, deliveries and costs."""

import getpass
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from headgate.books.accounts import Accounts, Answer, OpenRound
from headgate.books.ledger_store import LEDGER, LedgerStore
from headgate.books.messages import Receipt
from headgate.books.statement import Statement, statement
from headgate.control.amendments import Amendment
from headgate.control.checks import whole_number
from headgate.control.policies.references import held
from headgate.control.policy import AdmissionPolicy
from headgate.control.prices import PriceProcess
from headgate.control.supply import Supply
from headgate.control.types import Floats, Ledger, System
from headgate.errors import DataError, LedgerError, SettingError
from headgate.writing import FolderLock

NEVER = 2**31
"""number of offences before a quarantine, so large that no client is ever in quarantine"""


class Purchase(NamedTuple):
    """The samples that one client may admit in a round, and the samples that it must hold afterwards."""

    client: int
    round: int
    samples: int
    """the most new samples to admit"""
    price: float
    """price of each new sample"""
    first: int
    """first admission that the client then holds, if its retention rule is a window; it holds first..last−1"""
    last: int
    """number of samples that the client has ever admitted after this purchase; repeating a purchase admits nothing twice"""
    oldest: int
    """admission before which the client holds no sample, however few it admits"""

    def held(self, position: int) -> range:
        """Return the admissions that a client holds after it has ever admitted `position` samples.

        Examples
        --------
        >>> Purchase(0, 4, samples=5, price=2.0, first=5, last=15, oldest=0).held(12)       # three less than was ordered
        range(2, 12)
        """
        return range(max(self.oldest, self.first - (self.last - position)), position)


class Delivery(NamedTuple):
    """The report of a client on its purchases."""

    admitted: int
    """samples admitted on this round's purchase"""
    keys: Sequence[str] = ()
    """keys of these samples for the statement, one for each sample or none at all"""
    earlier: Mapping[int, int] = MappingProxyType({})
    """samples admitted on purchases of earlier rounds, by round; an open purchase that is left out counts as 0. A repeated
    report is not charged again"""
    erased: int = 0
    """samples that the client should hold now but that were erased"""


class Books:
    """Accounts of one policy on disk, which stay consistent if the process is killed at any time.

    A round is two transactions: `begin` writes the purchases before any client receives one, and `settle` writes the
    deliveries. If the process is killed in between, `begin` returns the same round with the same purchases. Every policy is
    limited to the approved money and to the buffers.

    Parameters
    ----------
    folder : str or pathlib.Path
        Folder of the accounts, created if it does not exist. Only one process at a time runs rounds; others may amend.
    system : System
        Buffers, budget and horizon at the beginning; later changes are amendments.
    policy : AdmissionPolicy
        Policy that decides how many samples to admit.
    seed : int, optional
        Seed of policies and rules that choose at random.
    offences : int, optional
        Number of refused reports after which a client gets no more purchases and its open ones are released; left out: never.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from headgate.control.policies import Headgate
    >>> books = Books(mkdtemp(), System([8, 9, 10], budget=20.0, horizon=100), Headgate())
    >>> [(each.client, each.samples) for each in books.begin(3.0, present=[0, 2])]
    [(0, 8), (2, 10)]
    >>> books.settle({0: 8, 2: 7})                       # client 2 delivered three samples less, and is not charged for them
    >>> books.statement().spent
    Decimal('45.0')
    """

    def __init__(
        self, folder: Path | str, system: System, policy: AdmissionPolicy, seed: int = 0, offences: int | None = None
    ) -> None:
        path = Path(folder)
        self._offences = NEVER if offences is None else whole_number("Books: offences", offences, least=1)
        self._held = FolderLock()
        try:
            self._store = LedgerStore(path / LEDGER)
            self._held.callback(self._store.close)
            self._held.take(path, path)
            self._accounts = Accounts(self._store, system, held(policy), seed)
        except BaseException:
            self._held.close()
            raise
        self._now: OpenRound | None = None

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
    def quarantined(self) -> set[int]:
        """The clients that get no purchases after too many refused reports, until `headgate flower clients --lift`."""
        return self._store.quarantined()

    def begin(
        self,
        price: ArrayLike,
        present: Collection[int] | None = None,
        most: ArrayLike | None = None,
        in_all: int | None = None,
        lot: int = 1,
        when: str | None = None,
    ) -> list[Purchase]:
        """Begin the next round; a round that was begun and not settled is repeated with its recorded price and purchases.

        Parameters
        ----------
        price : array_like
            Price of a sample in this round: one number, or one for each client.
        present : collection of int, optional
            The clients that take part; left out: all.
        most : array_like, optional
            The most samples that each client can deliver: one number, or one for each client.
        in_all : int, optional
            The most samples that all clients together can deliver.
        lot : int, optional
            Number of which every purchase is a multiple.
        when : str, optional
            Date of the round, as in 2026-11-18, or date and time; left out: now. It determines the month of a monthly budget.

        Returns
        -------
        list of Purchase
            One purchase for each client that takes part.
        """
        if self._store.begun() is None:
            self._accounts.take_up()
        clients = self.system.clients
        there = sorted(set(range(clients) if present is None else present) - self._accounts.left - self.quarantined)
        if not all(0 <= client < clients for client in there):
            raise SettingError(f"present = {there}: clients are 0 to {clients - 1}")
        paid: Floats = np.asarray(price, dtype=np.float64)
        if paid.size not in (1, clients):
            raise SettingError(f"price = {paid.tolist()}: must be one number, or one for each of {clients} clients")
        self._now = now = self._accounts.begin(paid.ravel(), there, Supply(None, most, in_all, lot), when)
        return [self._purchase(now, client) for client in there]

    def _purchase(self, now: OpenRound, client: int) -> Purchase:
        order = self._accounts.order(now, client)
        price = now.orders.price[0] if now.orders.price.ndim == 1 else now.orders.price[0, client]
        ordered = now.ordered(client)
        first = order.last - now.expected(client, ordered)
        oldest = max(int(now.before.dropped[0, client]), order.kept_from)
        return Purchase(client, now.t, ordered, float(price), first, order.last, oldest)

    def settle(
        self, reports: Mapping[int, int | Delivery] | None = None, refused: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        """Write the reports of the round and finish it. A purchase without a report stays open, and its money is reserved.

        Parameters
        ----------
        reports : mapping of int to int or Delivery, optional
            Number of samples that each client admitted. Left out: every client admitted all that was ordered.
        refused : mapping of int to str, optional
            Reason why the report of each of these clients is rejected; it is recorded, and the purchases stay open.
        """
        now = self._begun()
        if reports is None:
            reports = {row.client: row.ordered for row in self._store.orders(now.t)}
        given = {client: each if isinstance(each, Delivery) else Delivery(each) for client, each in sorted(reports.items())}
        try:
            answers = [self._judged(now, client, each) for client, each in given.items()]
        except LedgerError as error:
            raise LedgerError(f"{error}; nothing was settled") from None
        answers += [Answer(client, reason=why, offence=True) for client, why in refused.items()]
        done = self._accounts.settled(now, answers, offences=self._offences)
        keys = [(now.t, client, key) for client, each in given.items() for key in each.keys]
        self._accounts.commit(done, ("", ""), {}, None, keys=keys)
        self._now = None

    def check(self, client: int, report: Delivery) -> int:
        """Return how many samples a client holds after its report. Write nothing.

        Parameters
        ----------
        client : int
            The client that reports.
        report : Delivery
            Its report.

        Raises
        ------
        LedgerError
            If `settle` would refuse the report.
        """
        receipt = self._judged(self._begun(), client, report).receipt
        return 0 if receipt is None else receipt.occupancy

    def _begun(self) -> OpenRound:
        if self._now is None:
            raise SettingError("settle: no round was begun")
        return self._now

    def _judged(self, now: OpenRound, client: int, delivery: Delivery) -> Answer:
        if client in self._accounts.left or not 0 <= client < self.system.clients:
            raise LedgerError(f"round {now.t}: client {client}: has left or is none")
        try:
            return self._accounts.judge(now, self._accounts.order(now, client), self._receipt(now, client, delivery))
        except DataError as error:
            raise LedgerError(f"round {now.t}: client {client}: {error}") from None

    def _receipt(self, now: OpenRound, client: int, delivery: Delivery) -> Receipt:
        if delivery.keys and len(delivery.keys) != delivery.admitted:
            raise DataError(f"{len(delivery.keys)} keys for {delivery.admitted} samples")
        reported = {**delivery.earlier, now.t: delivery.admitted}
        known = self._store.closed(client, reported)  # repeated reports, as after a kill right after settling
        admitted = sum(reported.values()) - sum(row.admitted or 0 for row in known.values())
        held = now.expected(client, admitted) - delivery.erased
        if held < 0:
            raise DataError(f"erased {delivery.erased} samples, more than it was to hold")
        return Receipt(
            experiment=self._store.experiment,
            round=now.t,
            client=client,
            rounds=tuple(sorted(reported)),
            admitted=tuple(reported[t] for t in sorted(reported)),
            position=now.known(client) + admitted,
            occupancy=held,
            n=held,
            trained=False,
            note="",
            withdrawn=delivery.erased,
            **dict.fromkeys(("lost", "distinct", "uses", "squares"), 0),
        )

    def amend(self, by: str | None = None, why: str = "", **changes: Any) -> None:
        """Change the terms from the next round on: money, budget, horizon, month, join, weight, leave, suspend.

        Parameters
        ----------
        by : str, optional
            Name of the person who makes the amendment; left out: the user of this process.
        why : str, optional
            Reason in one line, for the record.
        **changes
            The fields of `headgate.control.Amendment`.
        """
        self._accounts.amend(Amendment(**changes), by or getpass.getuser(), why)

    def adjust(self, round: int, client: int, amount: float, by: str | None = None, why: str = "") -> None:
        """Adjust the cost of an order to its invoice.

        Parameters
        ----------
        round, client : int
            Round and client of the order.
        amount : float
            Amount of the invoice less the amount charged; below 0: a refund, at most of all that was paid.
        by, why : str, optional
            As for `amend`.
        """
        self._accounts.amend(Amendment(adjust=amount), by or getpass.getuser(), why, (round, client))

    def rest(self, prices: PriceProcess, rounds: int | None = None) -> dict[str, tuple[float, float, float]]:
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
            `spend`, `samples` and `left`, each with the mean and the 5 % and 95 % quantiles over 100 simulated paths.
        """
        return self._accounts.rest(prices, rounds)

    def statement(self) -> Statement:
        """Return the statement: one line for each order, the amendments and the totals, in exact decimal numbers."""
        return statement(self._store)

    def audit(self) -> Statement:
        """Replay the accounts on disk, compare the results and return the statement.

        Raises
        ------
        LedgerError
            If the replay, the ledger in memory and the statement differ, or a client holds more than its buffer.
        """
        first = self._accounts
        again = Accounts(self._store, self._store.system(), first.controller.policy, first.seed)
        for name in ("spent", "admitted", "dropped"):
            if not np.array_equal(getattr(again.ledger, name), getattr(first.ledger, name)):
                raise LedgerError(f"{self._store.path}: {name} is not what the replay says")
        if np.any(first.ledger.occupancy > self.system.buffer):
            raise LedgerError(f"{self._store.path}: a client holds more than its buffer")
        found = self.statement()
        found.check(float(first.ledger.spent[0]))
        return found

    def close(self) -> None:
        """Close the files, so that another process can run rounds."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
