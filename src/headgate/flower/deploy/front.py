"""The one door of a deployment: what SuperNodes need of the SuperLink, and nothing else of it.

Flower 1.41 serves nodes, users and running apps on one port, told apart by the path, and asks users for nothing: who reaches
that port can start apps. So the SuperLink stays on 127.0.0.1, and this stands before it. A request is passed on if its path is
one of Flower's fleet, letter by letter, and a registered key has signed it; the SuperLink is asked for a path of ours, never
for the one that came. All else is answered here, before a byte of its body is read.
"""

import argparse
import asyncio
import binascii
import resource
import ssl
from base64 import b64decode
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import httpx
import uvicorn
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.errors import DataError
from headgate.flower.keys import ClientKeys

PATHS = frozenset(
    f"/v1/fleet/{asked}"
    for asked in (
        *("activate-node", "deactivate-node", "send-node-heartbeat", "get-run", "get-fab"),
        *("pull-messages", "push-messages", "confirm-message-received", "pull-object", "push-object"),
    )
)
"""what may be asked for, always with POST: all that Flower has for nodes with a key; to read its own table takes a second"""
MOST_BYTES = 32 * 2**20
"""of a body: Flower sends arrays in pieces of 20 MiB"""
HEAD_BYTES = 16 * 2**10
HEAD_SECONDS, REQUEST_SECONDS, KEEP_SECONDS = 10.0, 300.0, 30
"""for the head of a request; from there to the end of its answer; of a connection between two requests"""
CONNECTIONS = 1000
"""at once; those beyond are told to come again"""
STRANGER = 412
"""Flower's answer to a key that it does not know, which its SuperNodes understand"""
PASSED_UP = ("content-type", "content-length", "accept")
PASSED_DOWN = ("content-type", "content-length")


class Front:
    """The application: `keys` are those who may come in, `superlink` a client of the SuperLink."""

    def __init__(self, superlink: httpx.AsyncClient, keys: ClientKeys) -> None:
        self._superlink, self._keys = superlink, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            async with AsyncExitStack() as opened, asyncio.timeout(REQUEST_SECONDS):
                answer = await self._answer(Request(scope, receive), scope["raw_path"].decode("ascii", "replace"), opened)
                await answer(scope, receive, send)
        except (ClientDisconnect, TimeoutError, httpx.HTTPError):  # gone, too slow, or the SuperLink broke off
            return

    async def _answer(self, request: Request, path: str, opened: AsyncExitStack) -> Response:
        if request.method != "POST" or path not in PATHS or request.scope["query_string"]:
            return _refused(404)
        if not signed_by_one_of(self._keys, request.headers):
            return _refused(STRANGER)
        length = request.headers.get("content-length", "")
        if "transfer-encoding" in request.headers or not length.isdecimal():
            return _refused(411)
        if int(length) > MOST_BYTES:
            return _refused(413)
        headers = _some(request.headers, PASSED_UP)
        asked = self._superlink.build_request("POST", path, headers=headers, content=request.stream())
        try:
            answer = await self._superlink.send(asked, stream=True)
        except httpx.TransportError:
            return _refused(503)  # SuperNodes come again
        opened.push_async_callback(answer.aclose)
        return StreamingResponse(answer.aiter_raw(), answer.status_code, _some(answer.headers, PASSED_DOWN))


def signed_by_one_of(keys: ClientKeys, headers: Mapping[str, str]) -> bool:
    """Whether a registered key has just signed the hour, as Flower's SuperNodes do; Flower looks at the rest."""
    try:
        key = keys.known(b64decode(headers[FLEET_HTTP_PUBLIC_KEY_HEADER], validate=True))
        signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER], validate=True)
        hour = headers[TIMESTAMP_HEADER]
        age = (now() - datetime.fromisoformat(hour)).total_seconds()
        if key is None or not -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
            return False
        key.verify(signature, hour.encode("ascii"), ec.ECDSA(SHA256()))
    except (DataError, InvalidSignature, KeyError, ValueError, TypeError, OverflowError, binascii.Error):
        return False
    return True


def _refused(status: int) -> Response:
    """Nothing is told, and the connection ends: its body need not be read."""
    return Response(status_code=status, headers={"connection": "close"})


def _some(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name in names or name.startswith("flwr-")}


class Impatient(H11Protocol):
    """Uvicorn's connection, which ends if the head of a request takes longer than HEAD_SECONDS to come."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._limit is None:
            self._limit = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


async def serve(host: str, port: int, certificate: Path, key: Path, superlink: int, authority: Path, keys: Path) -> None:
    """Until SIGTERM."""
    trusted = ssl.create_default_context(cafile=authority)
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=64)
    async with httpx.AsyncClient(
        base_url=f"https://127.0.0.1:{superlink}", verify=trusted, trust_env=False, limits=limits, timeout=60.0
    ) as client:
        config = uvicorn.Config(
            Front(client, ClientKeys(keys)),
            host=host,
            port=port,
            http=Impatient,
            ws="none",
            loop="asyncio",
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_level="error",  # a stranger's requests must not fill the disk
            ssl_certfile=certificate,
            ssl_keyfile=key,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        await uvicorn.Server(config).serve()


def main() -> None:
    """`python -m headgate.flower.deploy.front`: the process that `headgate flower superlink` keeps beside the SuperLink."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--host", required=True)
    for name in ("--port", "--superlink"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--certificate", "--key", "--authority", "--keys"):
        parser.add_argument(name, type=Path, required=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 4 * CONNECTIONS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    asyncio.run(serve(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
