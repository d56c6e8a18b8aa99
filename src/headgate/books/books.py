"""Durable accounts for any training loop: what may be bought, what was delivered, what it cost."""

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
from headgate.control.policies.references import held
from headgate.control.policy import AdmissionPolicy
from headgate.control.prices import PriceProcess
from headgate.control.supply import Supply
from headgate.control.types import Floats, Ledger, System
from headgate.errors import DataError, LedgerError, SettingError
from headgate.writing import FolderLock

NEVER = 2**31
"""offences: a client whose reports are refused is not quarantined here"""


class Purchase(NamedTuple):
    """What one client is to admit in a round, and which samples of its stream it is to hold then."""

    client: int
    round: int
    samples: int
    """new samples to admit, at most"""
    price: float
    """of each of them"""
    first: int
    """the client holds the samples first..last−1 of its admissions, where its rule is a window"""
    last: int
    """until it has ever admitted so many; doing this twice admits nothing twice"""
    oldest: int
    """it holds none before this one, however few it admits"""

    def held(self, position: int) -> range:
        """Return the samples that a client holds which has ever admitted `position` of them.

        Examples
        --------
        >>> Purchase(0, 4, samples=5, price=2.0, first=5, last=15, oldest=0).held(12)       # three less than was ordered
        range(2, 12)
        """
        return range(max(self.oldest, self.first - (self.last - position)), position)


class Delivery(NamedTuple):
    """What a client has done."""

    admitted: int
    """on this round's purchase"""
    keys: Sequence[str] = ()
    """of these samples, for the statement; as many as were admitted, or none"""
    earlier: Mapping[int, int] = MappingProxyType({})
    """on purchases of earlier rounds, by round; those without a report yet that are left out brought nothing. Reporting
    twice charges nothing twice"""
    erased: int = 0
    """samples that the client was to hold now and that were erased"""


class Books:
    """Accounts of one policy on disk, safe to be killed anywhere.

    A round is two transactions: `begin` writes what may be bought before any client is told, `settle` writes what was bought.
    Killed in between, the same round begins again with the same purchases. The policy is held to the money approved and to the
    buffers, whichever it is.

    Parameters
    ----------
    folder : str or pathlib.Path
        Where the accounts are; made where there is none. One process at a time runs rounds; others may amend.
    system : System
        Buffers, budget and horizon as they were at the beginning; later changes are amendments.
    policy : AdmissionPolicy
        Decides how much to admit.
    seed : int, optional
        For policies and rules that choose at random.

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

    def __init__(self, folder: Path | str, system: System, policy: AdmissionPolicy, seed: int = 0) -> None:
        path = Path(folder)
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
        """A random name, by which clients know these accounts from others."""
        return self._store.experiment

    @property
    def system(self) -> System:
        """What is given, by the latest amendment."""
        return self._accounts.system

    def begin(
        self,
        price: ArrayLike,
        present: Collection[int] | None = None,
        most: ArrayLike | None = None,
        in_all: int | None = None,
        lot: int = 1,
        when: str | None = None,
    ) -> list[Purchase]:
        """Begin the next round, or the one that was begun and not settled, with its recorded price and purchases.

        Parameters
        ----------
        price : array_like
            Of a sample in this round: one number, or one for each client.
        present : collection of int, optional
            The clients that are there; left out: all.
        most : array_like, optional
            The most samples that each client can deliver, or one number for every one of them.
        in_all : int, optional
            The most samples that all clients together can deliver.
        lot : int, optional
            Samples are bought in multiples of this number.
        when : str, optional
            When the round takes place, as 2026-11-18 or with a time; left out: now. Monthly budgets go by it.

        Returns
        -------
        list of Purchase
            One for each client that is there.
        """
        if self._store.begun() is None:
            self._accounts.take_up()
        clients = self.system.clients
        there = sorted(set(range(clients) if present is None else present) - self._accounts.left)
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
        """Write what came of the round. A purchase without a report stays open, and its money reserved.

        Parameters
        ----------
        reports : mapping of int to int or Delivery, optional
            By client, how many samples it admitted. Left out: everybody did as ordered.
        refused : mapping of int to str, optional
            By client, why its report does not count: an event in the accounts. Its purchases stay open.
        """
        now = self._begun()
        if reports is None:
            reports = {row.client: row.ordered for row in self._store.orders(now.t)}
        told = {client: each if isinstance(each, Delivery) else Delivery(each) for client, each in sorted(reports.items())}
        try:
            answers = [self._judged(now, client, each) for client, each in told.items()]
        except LedgerError as error:
            raise LedgerError(f"{error}; nothing was settled") from None
        answers += [Answer(client, reason=why, offence=True) for client, why in refused.items()]
        done = self._accounts.settled(now, answers, offences=NEVER)
        keys = [(now.t, client, key) for client, each in told.items() for key in each.keys]
        self._accounts.commit(done, ("", ""), {}, None, keys=keys)
        self._now = None

    def check(self, client: int, report: Delivery) -> int:
        """Return how many samples a client holds after its report. Writes nothing.

        Parameters
        ----------
        client : int
            Whose report it is.
        report : Delivery
            What it says.

        Raises
        ------
        LedgerError
            Where `settle` would refuse the report.
        """
        receipt = self._judged(self._begun(), client, report).receipt
        return 0 if receipt is None else receipt.occupancy

    def _begun(self) -> OpenRound:
        if self._now is None:
            raise SettingError("settle: no round was begun")
        return self._now

    def _judged(self, now: OpenRound, client: int, told: Delivery) -> Answer:
        if client in self._accounts.left or not 0 <= client < self.system.clients:
            raise LedgerError(f"round {now.t}: client {client}: has left or is none")
        try:
            return self._accounts.judge(now, self._accounts.order(now, client), self._receipt(now, client, told))
        except DataError as error:
            raise LedgerError(f"round {now.t}: client {client}: {error}") from None

    def _receipt(self, now: OpenRound, client: int, told: Delivery) -> Receipt:
        if told.keys and len(told.keys) != told.admitted:
            raise DataError(f"{len(told.keys)} keys for {told.admitted} samples")
        said = {**told.earlier, now.t: told.admitted}
        known = self._store.closed(client, said)  # reported before: as where the process was killed just after it had settled
        admitted = sum(said.values()) - sum(row.admitted or 0 for row in known.values())
        held = now.expected(client, admitted) - told.erased
        if held < 0:
            raise DataError(f"erased {told.erased} samples, more than it was to hold")
        return Receipt(
            experiment=self._store.experiment,
            round=now.t,
            client=client,
            rounds=tuple(sorted(said)),
            admitted=tuple(said[t] for t in sorted(said)),
            position=now.known(client) + admitted,
            occupancy=held,
            n=held,
            trained=False,
            note="",
            withdrawn=told.erased,
            **dict.fromkeys(("lost", "distinct", "uses", "squares"), 0),
        )

    def amend(self, by: str | None = None, why: str = "", **changes: Any) -> None:
        """Change the terms from the next round on: money, budget, horizon, month, join, weight, leave, suspend.

        Parameters
        ----------
        by : str, optional
            Who makes the amendment; left out: the user of this process.
        why : str, optional
            A line for the record.
        **changes
            The fields of `headgate.control.Amendment`.
        """
        self._accounts.amend(Amendment(**changes), by or getpass.getuser(), why)

    def adjust(self, round: int, client: int, amount: float, by: str | None = None, why: str = "") -> None:
        """Correct what an order cost by its invoice.

        Parameters
        ----------
        round, client : int
            The order.
        amount : float
            What the invoice says beyond what was charged; below 0: a refund, down to nothing paid.
        by, why : str, optional
            As for `amend`.
        """
        self._accounts.amend(Amendment(adjust=amount), by or getpass.getuser(), why, (round, client))

    def rest(self, prices: PriceProcess, rounds: int | None = None) -> dict[str, tuple[float, float, float]]:
        """Return what to expect of the rounds left.

        Parameters
        ----------
        prices : PriceProcess
            What prices are expected, as `headgate.control.prices.Uniform(1.0, 10.0)`.
        rounds : int, optional
            How many rounds, where the end is open.

        Returns
        -------
        dict
            `spend`, `samples` and `left`: the mean of 100 paths, and what 5 and 95 % of them stay below.
        """
        return self._accounts.rest(prices, rounds)

    def statement(self) -> Statement:
        """Return one line for each order, amendments and totals, to the cent."""
        return statement(self._store)

    def audit(self) -> Statement:
        """Replay all that is on disk and return the statement; refused where anything does not agree.

        Raises
        ------
        LedgerError
            Where the replay, the ledger in memory and the lines of the statement differ, or a buffer is over its size.
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
        """Close the files, and let another process write."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
