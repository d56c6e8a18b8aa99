"""How long a server waits for anybody, and how many it lets in at once.

uvicorn ends connections that are idle between two requests. It knows no limit for a connection before TLS is up, for a request
that never ends and for a reader that does not read; each of them would hold a connection for as long as it likes.
"""

import asyncio
import resource
import socket
from collections import Counter
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.errors import SettingError

READER = 60.0
"""seconds in which a reader must take something of what waits for it"""
AT_ONCE, QUEUE = 16, 512
"""connections that are taken in one go; that the system keeps until then"""
FILES = 64 + 4 * AT_ONCE
"""descriptors that are left to files and threads, and to connections that have to go: asyncio closes one four turns of its loop
later, and takes more in each"""

Caller = tuple[str, int]
"""address and port of the other end of a connection"""


class Listener(socket.socket):
    """A socket that listens, with room for `most` connections, which are counted from the moment they are taken.

    A connection waits until its request is there. It ends when that takes more than `seconds`, TLS included. Where there are
    too many, one that waits ends: the oldest of the address that has most of them. Those that are being answered stay.
    """

    most, seconds = 512, 15.0

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self._waiting: dict[Caller, tuple[socket.socket, asyncio.TimerHandle]] = {}
        self._answered: dict[Caller, socket.socket] = {}

    def listen(self, backlog: int = 0, /) -> None:
        """asyncio takes as many in one go as it says here; the system may keep more."""
        super().listen(QUEUE)

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        caller = address[:2]
        self.forget(caller)  # an earlier connection from there that ended before TLS was up
        self._answered[caller] = connection
        self.expect(caller, self.seconds)
        if len(self._waiting) + len(self._answered) > self.most:
            self._make_room()
        return connection, address

    def expect(self, caller: Caller, seconds: float) -> None:
        """The caller's next request has to come within so many seconds."""
        if (connection := self._answered.pop(caller, None)) is not None:
            timer = asyncio.get_running_loop().call_later(seconds, self._end, caller)
            self._waiting[caller] = connection, timer

    def answer(self, caller: Caller) -> None:
        """The caller's request is there."""
        if (waiting := self._waiting.pop(caller, None)) is not None:
            self._answered[caller], timer = waiting
            timer.cancel()

    def forget(self, caller: Caller) -> None:
        """The connection is closed."""
        self.answer(caller)
        self._answered.pop(caller, None)

    def _make_room(self) -> None:
        for caller in [each for each, (connection, _) in self._waiting.items() if connection.fileno() == -1]:
            self.forget(caller)
        if len(self._waiting) + len(self._answered) > self.most:
            crowd = Counter(host for host, _ in self._waiting).most_common(1)[0][0]
            self._end(next(caller for caller in self._waiting if caller[0] == crowd))

    def _end(self, caller: Caller) -> None:
        connection = self._waiting[caller][0]
        self.forget(caller)
        with suppress(OSError):  # closed already
            connection.shutdown(socket.SHUT_RDWR)


def listen(host: str, port: int) -> Listener:
    """A socket on that address, or why there is none."""
    if not 0 <= port <= 65535:
        raise SettingError(f"--port {port}: must be 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise SettingError(f"--host {host}: is no address of this machine") from None
    listening = Listener(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        if isinstance(error, PermissionError):
            raise SettingError(f"--port {port}: may not be used ({error.strerror}); choose one above 1023") from None
        raise SettingError(f"--port {port}: cannot be used on {host} ({error.strerror}); --port 0 takes a free one") from None
    return listening


def most_connections(wanted: int, files: int = 1) -> int:
    """As many as wanted, if the process may have so many files open: `files` for each connection."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if allowed == resource.RLIM_INFINITY else max(AT_ONCE, min(wanted, (allowed - FILES) // files))


class Patient(H11Protocol):
    """A connection that ends when its request or its reader takes too long."""

    listener: Listener
    reader_seconds = READER
    coming: tuple[Any, ...] = (h11.IDLE, h11.SEND_BODY)
    """what the caller does while its request is waited for"""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        self._reader: asyncio.TimerHandle | None = None
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        if self.client is None:  # gone before it was seen
            return
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and self.conn.their_state not in self.coming:
            self.listener.answer(self.client)
        else:  # the end of an answer may still be on its way
            self.listener.expect(self.client, self.reader_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader = self._reader or self.loop.call_later(self.reader_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_reader()
        if self.client is not None:
            self.listener.forget(self.client)
        super().connection_lost(exc)

    def _stop_reader(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None


def settings(listener_: Listener, largest_head: int, coming_: tuple[Any, ...] = Patient.coming) -> dict[str, Any]:
    """For uvicorn's Config, of a server that listens there."""

    class Own(Patient):
        listener, coming = listener_, coming_

    return {
        "http": Own,
        "ws": "none",
        "loop": "asyncio",
        "backlog": AT_ONCE,
        "h11_max_incomplete_event_size": largest_head,
        "log_level": "error",  # a stranger's requests must not fill the disk
        "access_log": False,
        "server_header": False,
    }
