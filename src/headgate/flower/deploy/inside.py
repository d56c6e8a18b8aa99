"""Flower's SuperLink and SuperNode, with one addition: on loopback they listen to processes of their own user.

Flower 1.41 asks whoever reaches them there for nothing, and its accounts need a service on the network. The kernel knows whose
socket the other end of a connection is: `/proc/net/tcp` says it. Where there is no such file, on another system than Linux, all
users of the machine are trusted.
"""

import os
import socket
import sys
from pathlib import Path

import uvicorn
from flwr.superlink.cli.flower_superlink import flower_superlink
from flwr.supernode.cli.flower_supernode import flower_supernode
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

SOCKETS = Path("/proc/net/tcp")
ESTABLISHED = "01"
"""how the kernel lists the state of a connection that neither end has closed"""
FLEET = "/v1/fleet/"
"""what SuperNodes ask a SuperLink for, which knows them by their keys"""


class OwnUser:
    """The application, for processes of this user and of root."""

    def __init__(self, app: ASGIApp, users: frozenset[int] | None = None, sockets: Path = SOCKETS) -> None:
        self._app, self._sockets = app, sockets
        self._users = frozenset({os.geteuid(), 0}) if users is None else users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asks = scope["type"] != "lifespan" and not scope["path"].startswith(FLEET)
        if asks and user_of(scope["client"], scope["server"], self._sockets) not in self._users:
            if scope["type"] == "http":
                await Response(status_code=404)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def user_of(client: tuple[str, int], server: tuple[str, int], sockets: Path = SOCKETS) -> int | None:
    """The user whose process has the client's end of a connection; None: nobody on this machine, or the end is closed.

    Linux lists a closed end as root's: user 0 with inode 0, until the connection is forgotten. So a line counts only while
    the connection is established and a process has it open.
    """
    ends = [_as_listed(*client), _as_listed(*server)]
    for line in sockets.read_text("ascii").splitlines()[1:]:
        _, here, there, state, _, _, _, user, _, inode, *_ = line.split()
        if [here, there] == ends and state == ESTABLISHED and inode != "0":
            return int(user)
    return None


def _as_listed(host: str, port: int) -> str:
    """
    >>> _as_listed("127.0.0.1", 8000) if sys.byteorder == "little" else "0100007F:1F40"
    '0100007F:1F40'
    """
    address = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{address:08X}:{port:04X}"


def main() -> None:
    """`python -m headgate.flower.deploy.inside superlink …` takes what `flower-superlink` takes; `supernode …` likewise."""
    name = sys.argv.pop(1)
    plain = uvicorn.Config.load

    def load(config: uvicorn.Config) -> None:
        plain(config)
        config.loaded_app = OwnUser(config.loaded_app)  # outermost: before it nothing changes who is said to call

    if SOCKETS.exists():
        uvicorn.Config.load = load  # type: ignore[assignment]
    {"superlink": flower_superlink, "supernode": flower_supernode}[name]()


if __name__ == "__main__":
    main()
