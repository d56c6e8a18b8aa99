"""What wrote ledgers of format 3: a loop around `Accounts`, on which runs on Flower
stand, for tests of that format.
"""

from typing import NamedTuple

from headgate import System
from headgate.books.accounts import Accounts, Answer
from headgate.books.border import Roll, clients_in, prices_for, signed
from headgate.books.ledger_store import LEDGER, LedgerStore
from headgate.books.messages import Receipt
from headgate.books.statement import statement
from headgate.control import Amendment, Supply
from headgate.control.policies import Headgate
from headgate.errors import DataError, LedgerError
from headgate.writing import FolderLock

SYSTEM = System([8, 9, 10], budget=20.0, horizon=100)


class Told(NamedTuple):
    """What a client says that it admitted, in this round and in earlier ones."""

    admitted: int
    keys: tuple = ()
    earlier: dict = {}  # noqa: RUF012


class OldBooks:
    """Accounts of format 3."""

    def __init__(self, folder, system=SYSTEM, policy=None, offences=2**31):
        self._lock, self._offences = FolderLock(), offences
        try:
            self._store = LedgerStore(folder / LEDGER)
            self._lock.callback(self._store.close)
            self._lock.take(folder, folder)
            self._accounts = Accounts(self._store, system, policy or Headgate(fill=8.0))
        except BaseException:
            self._lock.close()
            raise
        self._now = None

    ledger = property(lambda self: self._accounts.ledger)
    system = property(lambda self: self._accounts.system)
    name = property(lambda self: self._store.experiment)

    def begin(self, price, present=None, when=None, in_all=None, lot=1):
        if self._store.begun() is None:
            self._accounts.take_up()
        clients, named = self.system.clients, present
        if present is not None:
            named = clients_in("present", present, Roll(self.system))
        prices = prices_for("price", price, clients)
        supply = Supply(in_all=in_all, lot=lot)
        self._now = self._accounts.begin(prices, named, supply, when)
        there = self._accounts.there(named)
        return [self._accounts.order(self._now, client) for client in there]

    def judged(self, client, told):
        now = self._now
        reported = {**told.earlier, now.t: told.admitted}
        rounds = sorted(reported)
        open_ = now.outstanding.get(client, {})
        known = self._store.closed(client, [t for t in told.earlier if t not in open_])
        admitted = sum(reported.values()) - sum(row.admitted for row in known.values())
        held = now.expected(client, admitted)
        receipt = Receipt(
            experiment=self.name,
            round=now.t,
            client=client,
            rounds=tuple(rounds),
            admitted=tuple(reported[t] for t in rounds),
            position=now.known(client) + admitted,
            occupancy=held,
            n=held,
            trained=False,
            note="",
            lost=0,
            distinct=0,
            uses=0,
            squares=0,
        )
        order = self._accounts.order(now, client)
        try:
            return self._accounts.judge(now, order, receipt)
        except DataError as error:
            raise LedgerError(f"round {now.t}: client {client}: {error}") from None

    def settle(self, told=None, refused=()):
        if told is None:
            orders = self._store.orders(self._now.t)
            told = {row.client: Told(row.ordered) for row in orders}
        told = {
            client: each if isinstance(each, Told) else Told(each)
            for client, each in told.items()
        }
        answers = [self.judged(client, each) for client, each in sorted(told.items())]
        answers += [
            Answer(client, reason="refused", offence=True) for client in refused
        ]
        done = self._accounts.settled(self._now, answers, self._offences)
        keys = [
            (self._now.t, client, key)
            for client, each in told.items()
            for key in each.keys
        ]
        self._accounts.commit(done, ("", ""), {}, None, keys=keys)
        self._now = None

    def amend(self, by=None, why="", key=None, **changes):
        self._accounts.amend(Amendment(**changes), *signed("amend", by, why), key=key)

    def adjust(self, t, client, amount, by=None, why="", key=None):
        change, order = Amendment(adjust=amount), (t, client)
        self._accounts.amend(change, *signed("adjust", by, why), order, key)

    def statement(self):
        return statement(self._store)

    def audit(self):
        with self._store.snapshot():
            self._accounts.audit()
            return self.statement()

    def close(self):
        self._lock.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def old_books(folder, policy=None, **given):
    system = SYSTEM
    if given:
        system = System([8, 9, 10], **{"budget": 20.0, "horizon": 100, **given})
    return OldBooks(folder, system, policy)
