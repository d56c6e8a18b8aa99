"""How long anybody is waited for, and how many are let in at once.

uvicorn ends connections that are idle between two requests. What it does not know is a request that never ends and a reader
that does not read; both would hold a connection for as long as they like.
"""

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST = 15.0
"""seconds in which a request must be there, its body included, from the connection or its first byte on"""
READER = 60.0
"""seconds in which a reader must take something of what waits for it"""
IDLE = 5
"""seconds between two requests of a connection"""
MOST_CONNECTIONS = 512
FILES = 64
"""descriptors that are left to files and threads"""
AT_ONCE = 16
"""connections that are taken in one go"""
COMING = 4 * AT_ONCE
"""connections that may be taken before the first that has to go is closed: asyncio takes some, makes their transports, tells us
of them and closes what we end in four turns of its loop, and takes more in each"""
LARGEST_HEAD = 32 * 2**10
"""bytes of a request without its body"""


def most_connections() -> int:
    """As many as the process may have files open, less what reading takes."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_CONNECTIONS if allowed == resource.RLIM_INFINITY else max(COMING, min(MOST_CONNECTIONS, allowed - FILES))


class Patient(H11Protocol):
    """A connection that is ended when its request or its reader takes too long."""

    request_seconds, reader_seconds = REQUEST, READER

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        self._request: asyncio.TimerHandle | None = None
        self._reader: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._request = self._after(self.request_seconds)
        if len(self.connections) > (self.limit_concurrency or MOST_CONNECTIONS) - COMING:
            self._make_room()

    def _make_room(self) -> None:
        """Whoever has been asking for longest, and has not asked yet, goes; those who are answered stay."""
        open_ = [each for each in self.connections if isinstance(each, Patient) and not each.transport.is_closing()]
        asking = [(each._request.when(), id(each), each) for each in open_ if each._request is not None and each is not self]
        if asking:
            min(asking)[-1].transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._request = stopped(self._request)
        elif self._request is None:
            self._request = self._after(self.request_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader = self._reader or self._after(self.reader_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reader = stopped(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        self._request, self._reader = stopped(self._request), stopped(self._reader)
        super().connection_lost(exc)

    def _after(self, seconds: float) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, self.transport.abort)


def stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """In place of a timer: none."""
    if timer is not None:
        timer.cancel()
    return None


def settings() -> dict[str, Any]:
    """For uvicorn's Config."""
    return {
        "http": Patient,
        "ws": "none",
        "timeout_keep_alive": IDLE,
        "limit_concurrency": most_connections(),
        "backlog": AT_ONCE,
        "h11_max_incomplete_event_size": LARGEST_HEAD,
    }
