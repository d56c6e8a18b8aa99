"""The accounts of a service. One thread owns each of them, so requests to the same
accounts come one after the other, and none of them stops the event loop.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from headgate.books.books import Books
from headgate.books.ledger_store import LEDGER
from headgate.errors import DataError, HeadgateError
from headgate.web.accounts.gate import no_account
from headgate.web.accounts.tokens import NAME

T = TypeVar("T")
MOST_OPEN = 200
"""the most accounts that are open at a time; the one that was not asked for the longest
is closed
"""
MOST_WAITING = 100
"""the most requests that wait for the same accounts"""


class UnknownAccount(HeadgateError):
    """There are no such accounts."""


class Busy(HeadgateError):
    """Too many requests wait; it may be tried again soon."""


class Place:
    """Where accounts are: a folder with a folder for each.

    Parameters
    ----------
    folder : Path
        The folder, which is made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"--accounts {folder}: cannot be used ({error.strerror})"
            ) from None

    def names(self) -> list[str]:
        """Return the names of all accounts, sorted."""
        found = self.folder.glob(f"*/{LEDGER}")
        return sorted(path.parent.name for path in found if self.has(path.parent.name))

    def has(self, name: str) -> bool:
        """Return whether there are accounts with this name."""
        if not NAME.fullmatch(name):
            return False
        folder = self.folder / name
        return (folder / LEDGER).is_file() and not folder.is_symlink()

    def address(self, name: str) -> Path:
        """Return what `Books` opens."""
        return self.folder / name


class Lane:
    """Accounts that are open, and the thread that owns them."""

    def __init__(
        self,
        address: Path,
        after: "Future[None] | None" = None,
    ) -> None:
        self._thread = ThreadPoolExecutor(1, f"accounts {address.name}")
        self._address, self._after = address, after
        self._books: Books | None = None
        self.waiting, self.asked = 0, time.monotonic()
        self.moved = asyncio.Event()
        """set when something was written, and then replaced"""

    def submit(self, do: Callable[[Books], T]) -> "Future[T]":
        """Do something with the accounts, in their thread."""
        return self._thread.submit(self._done, do)

    def _done(self, do: Callable[[Books], T]) -> T:
        if self._after is not None:
            with suppress(Exception):
                self._after.result()
            self._after = None
        if self._books is None:
            self._books = Books(self._address)
        return do(self._books)

    def close(self) -> "Future[None]":
        """Close the accounts after what waits is done."""
        closed = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        return closed

    def _close(self) -> None:
        if self._books is not None:
            self._books.close()


class Keeper:
    """The open accounts of a place.

    Parameters
    ----------
    place : Place
        Where the accounts are.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
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
            if not self.place.has(name):
                raise UnknownAccount(no_account(name))
            self._make_room()
            after = self._closing.pop(name, None)
            found = self._lanes[name] = Lane(self.place.address(name), after)
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
        """Return what `do` returns for the accounts, in their own thread."""
        if self.stopping:
            raise Busy("the service stops; try again")
        lane = self.lane(name)
        if lane.waiting >= MOST_WAITING:
            raise Busy(f"account = {name}: {MOST_WAITING} requests wait; try again")
        lane.waiting += 1
        future = lane.submit(do)
        try:
            # who is gone does not end what has begun
            return await asyncio.shield(asyncio.wrap_future(future))
        finally:
            lane.waiting -= 1
            if writes:
                before, lane.moved = lane.moved, asyncio.Event()
                before.set()

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
