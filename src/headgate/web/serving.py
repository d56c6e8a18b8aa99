"""The server: one socket, one link, and a quiet end."""

import os
import re
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from headgate.errors import SettingError
from headgate.web.app import make_app
from headgate.web.security import EVERYWHERE, LOOPBACK

IDLE = 5
"""seconds between two requests of a connection"""
CONNECTIONS = 512
"""more are answered with 503"""
LARGEST_HEAD = 32 * 2**10
"""bytes of a request without its body"""
SHORTEST_TOKEN = 16
TOKEN = "HEADGATE_TOKEN"
SEEN = f"--token: others on this machine can see it in the list of processes; --token-file FILE or {TOKEN} they cannot"


def token_for(host: str, given: str | None) -> str | None:
    """On this machine none is needed; elsewhere one is made where none is given."""
    if given is None:
        return None if host.lower() in LOOPBACK else secrets.token_urlsafe(24)
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{{SHORTEST_TOKEN},200}}", given):
        raise SettingError(f"--token: must be {SHORTEST_TOKEN} to 200 letters, digits, - or _")
    return given


def given_token(option: str | None, file: Path | None) -> str | None:
    """The token from where other users of this machine cannot see it: a file or HEADGATE_TOKEN; or from the option."""
    if option is not None and file is not None:
        raise SettingError("--token, --token-file: only one of them can be meant")
    if file is None:
        return option if option is not None else os.environ.get(TOKEN) or None
    try:
        with file.open("rb") as opened:
            return opened.read(1000).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise SettingError(f"--token-file {file}: cannot be read ({getattr(error, 'strerror', None) or 'no text'})") from None


def link_to(host: str, port: int, token: str | None) -> str:
    """
    >>> link_to("127.0.0.1", 8040, None), link_to("::1", 80, "abc")
    ('http://127.0.0.1:8040/', 'http://[::1]:80/?token=abc')
    """
    name = socket.gethostname() if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


class Server(uvicorn.Server):
    """Calls `started` when it listens, and `ending` before it ends, so that readers of events are let go."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started, self._on_ending = started, ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_ending()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, or say why there is none."""
    if not 0 <= port <= 65535:
        raise SettingError(f"--port {port}: must be 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise SettingError(f"--host {host}: is no address of this machine") from None
    listening = socket.socket(family, kind, protocol)
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


def configured(app: ASGIApp) -> uvicorn.Config:
    """Return uvicorn's settings: quiet, so that requests do not fill the disk, and limited."""
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        log_level="error",
        access_log=False,
        server_header=False,
    )


def serve(folder: Path, host: str, port: int, token: str | None, started: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `started` is called with the link."""
    app = make_app(folder, host, token)
    listening = listen(host, port)
    link = link_to(host, listening.getsockname()[1], token)
    server = Server(configured(app), lambda: started(link), lambda: app.state.api.live.close())
    with listening, suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
