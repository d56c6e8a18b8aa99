"""The accounts of a service. One thread owns each of them, so requests to the same
accounts come one after the other, and none of them stops the event loop.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from headgate.books.addresses import SCHEMES, Address, Place
from headgate.books.books import Books, journal_of
from headgate.books.database import LEDGER, Tables
from headgate.control.checks import path as checked_path
from headgate.errors import DataError, HeadgateError
from headgate.web.accounts.gate import no_account
from headgate.web.accounts.tokens import NAME
from headgate.writing import InUseError

T = TypeVar("T")
MOST_OPEN = 200
"""the most accounts that are open at a time; the one that was not asked for the longest
is closed
"""
MOST_WAITING = 100
"""the most requests that wait for the same accounts"""
PATIENCE = 0.5
"""seconds to wait for another process that leads, as for another service's write"""


class UnknownAccount(HeadgateError):
    """There are no such accounts."""


class Busy(HeadgateError):
    """Too many requests wait; it may be tried again soon."""


class ReadOnly(HeadgateError):
    """Another process runs rounds of the accounts."""


class SharedBooks(Books):
    """Accounts in which another process may run rounds: this one only looks, and leads
    while it writes.
    """

    def _lead(self, tables: Tables, patience: float) -> None:
        """Take no lead: one who only reads needs none."""

    @contextmanager
    def leading(self, name: str) -> Iterator[None]:
        """Lead while the body writes; raise ReadOnly if another process leads."""
        tables = journal_of(self).tables
        try:
            tables.lead(PATIENCE)
        except InUseError:
            raise ReadOnly(
                f"account = {name}: is in use by another process; read only here"
            ) from None
        try:
            yield
        finally:
            tables.follow()


class Shelf:
    """Where accounts are: a folder with a folder for each, or a database.

    Parameters
    ----------
    address : str
        The folder, which is made if it is not there, or the address of a database.
    """

    def __init__(self, address: str) -> None:
        name = "--accounts"
        self.base, self._query = address, ""
        if address.startswith(SCHEMES):
            base, mark, query = address.partition("?")
            self.base, self._query = base.rstrip("/"), mark + query
            self.database = Address.of(name, f"{self.base}/any{self._query}")
            return
        self.folder = checked_path(name, address)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror
            raise DataError(f"{name} {address}: cannot be used ({why})") from None

    @property
    def is_folder(self) -> bool:
        """Whether it is no database."""
        return not self.base.startswith(SCHEMES)

    def names(self) -> list[str]:
        """Return the names of all accounts, sorted."""
        if not self.is_folder:
            from headgate.books.in_postgres import accounts_in

            return [name for name in accounts_in(self.database) if NAME.fullmatch(name)]
        found = (path.parent.name for path in self.folder.glob(f"*/{LEDGER}"))
        return sorted(name for name in found if self._has(name))

    def _has(self, name: str) -> bool:
        folder = self.folder / name
        plain = NAME.fullmatch(name) and not folder.is_symlink()
        return bool(plain) and (folder / LEDGER).is_file()

    def of(self, name: str) -> Place:
        """Return where accounts are, or could be."""
        if not NAME.fullmatch(name):
            raise UnknownAccount(no_account(name))
        if self.is_folder:
            return self.folder / name
        return Address.of("--accounts", f"{self.base}/{name}{self._query}")

    def open(self, name: str) -> SharedBooks:
        """Open accounts; raise UnknownAccount if there are none."""
        place = self.of(name)
        there = self._has(name) if self.is_folder else name in self.names()
        if not there:
            raise UnknownAccount(no_account(name))
        return SharedBooks(place)


class Lane:
    """Accounts that are open, and the thread that owns them."""

    def __init__(
        self,
        shelf: Shelf,
        name: str,
        after: "Future[None] | None" = None,
    ) -> None:
        self._thread = ThreadPoolExecutor(1, f"accounts {name}")
        self._shelf, self._name, self._after = shelf, name, after
        self.books: SharedBooks | None = None
        self.waiting, self.asked = 0, time.monotonic()
        self.moved = asyncio.Event()
        """set when something was written, and then replaced"""

    def submit(self, do: Callable[[Books], T], writes: bool) -> "Future[T]":
        """Do something with the accounts, in their thread."""
        return self._thread.submit(self._done, do, writes)

    def _done(self, do: Callable[[Books], T], writes: bool) -> T:
        if self._after is not None:
            with suppress(Exception):
                self._after.result()
            self._after = None
        if self.books is None:
            self.books = self._shelf.open(self._name)
        books = self.books
        if writes:
            with books.leading(self._name):
                return do(books)
        with journal_of(books).newest():  # what other processes wrote is shown
            return do(books)

    def close(self) -> "Future[None]":
        """Close the accounts after what waits is done."""
        closed = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        return closed

    def _close(self) -> None:
        if self.books is not None:
            self.books.close()


class Keeper:
    """The open accounts of a shelf.

    Parameters
    ----------
    shelf : Shelf
        Where the accounts are.
    """

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.beginning = asyncio.Lock()
        """held while accounts begin"""
        self.stopping, self.streams = False, 0
        self._lanes: dict[str, Lane] = {}
        self._closing: dict[str, Future[None]] = {}

    @property
    def names(self) -> list[str]:
        """The accounts that are open."""
        return sorted(self._lanes)

    def lane(self, name: str) -> Lane:
        """Return the thread of these accounts, which is started if there is none."""
        found = self._lanes.get(name)
        if found is None:
            self._make_room()
            after = self._closing.pop(name, None)
            found = self._lanes[name] = Lane(self.shelf, name, after)
        found.asked = time.monotonic()
        return found

    def _make_room(self) -> None:
        for name, closed in list(self._closing.items()):
            if closed.done():
                del self._closing[name]
        if len(self._lanes) < MOST_OPEN:
            return
        idle = [name for name, lane in self._lanes.items() if not lane.waiting]
        if not idle:
            raise Busy(f"accounts: {MOST_OPEN} are in use; try again")
        oldest = min(idle, key=lambda name: self._lanes[name].asked)
        self._closing[oldest] = self._lanes.pop(oldest).close()

    async def call(
        self,
        name: str,
        do: Callable[[Books], T],
        writes: bool = False,
    ) -> T:
        """Return what `do` returns for the accounts, in their own thread. If it writes,
        no other process may lead them.
        """
        if self.stopping:
            raise Busy("the service stops; try again")
        lane = self.lane(name)
        if lane.waiting >= MOST_WAITING:
            raise Busy(f"account = {name}: {MOST_WAITING} requests wait; try again")
        lane.waiting += 1
        future = lane.submit(do, writes)
        try:
            # who is gone does not end what has begun
            return await asyncio.shield(asyncio.wrap_future(future))
        except UnknownAccount:
            self._forget(name, lane)
            raise
        finally:
            lane.waiting -= 1
            if writes:
                before, lane.moved = lane.moved, asyncio.Event()
                before.set()

    def _forget(self, name: str, lane: Lane) -> None:
        """End the thread of accounts that are not there."""
        if not lane.books and self._lanes.get(name) is lane:
            self._closing[name] = self._lanes.pop(name).close()

    async def close(self) -> None:
        """Do what waits, and close all accounts."""
        self.stopping = True
        for lane in self._lanes.values():
            lane.moved.set()
        closed = [lane.close() for lane in self._lanes.values()]
        self._lanes.clear()
        for each in (*closed, *self._closing.values()):
            with suppress(Exception):
                await asyncio.wrap_future(each)
