"""Rounds as they land, for everybody who watches: one look at a run serves all, and nobody who has left is remembered.

What is sent is the newest state, never a queue, so a slow reader costs nothing. The id of an event is the number of rounds
of all the folder's runs, which is the same after a restart: a reader that comes back with it learns whether there is more.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

from headgate.errors import HeadgateError
from headgate.web.runs import Progress

ReadProgress = Callable[[str], Awaitable[Progress]]
"""how far the run of that name has come"""
PAUSE = 0.5
"""seconds between two looks"""
HEARTBEAT = 10.0
"""seconds after which a reader hears that the line is open"""


class Live:
    """Who watches which run."""

    def __init__(self, read: ReadProgress, pause: float = PAUSE, heartbeat: float = HEARTBEAT) -> None:
        self._progress, self._pause, self._heartbeat = read, pause, heartbeat
        self._watches: dict[str, _Watch] = {}
        self._closed = asyncio.Event()

    @property
    def watched(self) -> dict[str, int]:
        """How many readers each run has."""
        return {name: watch.readers for name, watch in self._watches.items()}

    def close(self) -> None:
        """Ends all streams: the server is stopping."""
        self._closed.set()
        for watch in self._watches.values():
            watch.tell()

    async def stream(self, name: str, first: Progress, last_id: int | None) -> AsyncIterator[str]:
        """Events of a run from `first` on; `last_id` is what the reader knows already."""
        watch = self._watches.get(name)
        if watch is None:
            watch = self._watches[name] = _Watch(first)
            watch.task = asyncio.create_task(self._look(name, watch))
        watch.readers += 1
        try:
            told = watch.now  # while it is being sent there may be news, which is told next
            yield "retry: 1000\n\n"
            yield _event("state", name, told)
            if last_id is not None and told.done > last_id:
                yield _event("round", name, told)
            while told.state != "finished" and not watch.gone and not self._closed.is_set():
                changed = watch.changed
                if watch.now == told:
                    try:
                        await asyncio.wait_for(changed.wait(), self._heartbeat)
                    except TimeoutError:
                        yield ": open\n\n"
                        continue
                now = watch.now
                if now.done != told.done:
                    yield _event("round", name, now)
                if (now.state, now.diverged) != (told.state, told.diverged):
                    yield _event("state", name, now)
                told = now
        finally:
            watch.readers -= 1
            if not watch.readers and self._watches.get(name) is watch:
                del self._watches[name]
                if watch.task is not None:
                    watch.task.cancel()

    async def _look(self, name: str, watch: "_Watch") -> None:
        while watch.now.state != "finished" and not self._closed.is_set():
            await asyncio.sleep(self._pause)
            try:
                now = await self._progress(name)
            except HeadgateError:  # removed, or damaged: readers ask again and get the error
                watch.gone = True
                watch.tell()
                return
            if now != watch.now:
                watch.now = now
                watch.tell()


class _Watch:
    """A run that somebody watches."""

    def __init__(self, now: Progress) -> None:
        self.now, self.readers, self.gone = now, 0, False
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Wakes all readers; those who come later wait for the next change."""
        self.changed.set()
        self.changed = asyncio.Event()


def _event(kind: str, name: str, now: Progress) -> str:
    data = {"name": name, "round": now.round, "rounds": now.rounds, "state": now.state, "diverged": now.diverged}
    return f"id: {now.done}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
