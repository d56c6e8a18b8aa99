"""The one door of a deployment: what SuperNodes need of the SuperLink, and nothing else of it.

Flower 1.41 serves nodes, users and running apps on one port, told apart by the path, and asks users for nothing: who reaches
that port can start apps. So the SuperLink stays on 127.0.0.1, and this stands before it. A request is passed on if its path is
one of Flower's fleet, letter by letter, and a registered key has signed it; the SuperLink is asked for a path of ours, never
for the one that came. All else is answered here, before a byte of its body is read.
"""

import argparse
import asyncio
import binascii
import json
import resource
import ssl
from asyncio.sslproto import SSLProtocol
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import h11
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

from headgate.errors import DataError
from headgate.flower.keys import ClientKeys
from headgate.patience import listen, most_connections, settings

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
"""from a connection, before TLS, to the head of a request; from there to the end of its answer; between two requests"""
BODY_SECONDS, LEAST_RATE = 30.0, 16 * 2**10
"""a body may take the first in seconds, and one second more for each LEAST_RATE bytes of it that have come"""
CONNECTIONS = 1000
"""at once; beyond them the oldest without a request ends, of the address that has most of those"""
REQUESTS = 8
"""of a key at once; Flower's SuperNodes have three. Further ones are answered with 503"""
STRANGER = 412
"""Flower's answer to a key that it does not know, which its SuperNodes understand"""
CLOCK = 409
"""our answer to a registered key whose machine has a wrong clock; its SuperNode logs the reason"""
PASSED_UP = ("content-type", "content-length", "accept")
PASSED_DOWN = ("content-type", "content-length")


class Front:
    """The application: `keys` are those who may come in, `superlink` a client of the SuperLink."""

    def __init__(self, superlink: httpx.AsyncClient, keys: ClientKeys) -> None:
        self._superlink, self._keys = superlink, keys
        self._requests: Counter[bytes] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            async with AsyncExitStack() as opened, asyncio.timeout(BODY_SECONDS) as limit:
                path = scope["raw_path"].decode("ascii", "replace")
                answer = await self._answer(Request(scope, receive), path, opened, limit)
                await answer(scope, receive, send)
        except (ClientDisconnect, TimeoutError, httpx.HTTPError):  # gone, too slow, or the SuperLink broke off
            return

    async def _answer(self, request: Request, path: str, opened: AsyncExitStack, limit: asyncio.Timeout) -> Response:
        if request.method != "POST" or path not in PATHS or request.scope["query_string"]:
            return _refused(404)
        if (signed := signer(self._keys, request.headers)) is None:
            return _refused(STRANGER)
        key, age = signed
        if not -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
            return _refused(
                CLOCK, f"clock: {abs(age):.0f} s {'behind' if age > 0 else 'ahead of'} the SuperLink's; set it by NTP"
            )
        length = request.headers.get("content-length", "")
        if "transfer-encoding" in request.headers or not length.isdecimal():
            return _refused(411)
        if int(length) > MOST_BYTES:
            return _refused(413)
        if self._requests[key] >= REQUESTS:
            return _refused(503)  # SuperNodes come again
        opened.enter_context(self._counted(key))
        headers = _some(request.headers, PASSED_UP)
        asked = self._superlink.build_request("POST", path, headers=headers, content=_body(request, limit))
        try:
            answer = await self._superlink.send(asked, stream=True)
        except httpx.TransportError:
            return _refused(503)
        opened.push_async_callback(answer.aclose)
        return StreamingResponse(answer.aiter_raw(), answer.status_code, _some(answer.headers, PASSED_DOWN))

    @contextmanager
    def _counted(self, key: bytes) -> Iterator[None]:
        self._requests[key] += 1
        try:
            yield
        finally:
            self._requests[key] -= 1


async def _body(request: Request, limit: asyncio.Timeout) -> AsyncIterator[bytes]:
    """The body as it comes. It must come at a rate of LEAST_RATE, after which the whole request has REQUEST_SECONDS."""
    began, came = asyncio.get_running_loop().time(), 0
    async for part in request.stream():
        came += len(part)
        limit.reschedule(began + min(REQUEST_SECONDS, BODY_SECONDS + came / LEAST_RATE))
        yield part
    limit.reschedule(began + REQUEST_SECONDS)


def signer(keys: ClientKeys, headers: Mapping[str, str]) -> tuple[bytes, float] | None:
    """The registered key that has signed an hour, as Flower's SuperNodes do, and how many seconds ago that was; or None.

    Flower looks at the rest.
    """
    try:
        sent, signature = (
            b64decode(headers[name], validate=True) for name in (FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER)
        )
        hour = headers[TIMESTAMP_HEADER]
        age = (now() - datetime.fromisoformat(hour)).total_seconds()
        if (key := keys.known(sent)) is None:
            return None
        key.verify(signature, hour.encode("ascii"), ec.ECDSA(SHA256()))
    except (DataError, InvalidSignature, KeyError, ValueError, TypeError, OverflowError, binascii.Error):
        return None
    return sent, age


def _refused(status: int, reason: str = "") -> Response:
    """The connection ends: its body need not be read. A reason is written as Flower's SuperNodes read it."""
    said = json.dumps({"code": status, "detail": reason}) if reason else None
    return Response(said, status, headers={"connection": "close"})


def _some(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name in names or name.startswith("flwr-")}


async def serve(host: str, port: int, certificate: Path, key: Path, superlink: int, authority: Path, keys: Path) -> None:
    """Until SIGTERM."""
    trusted = ssl.create_default_context(cafile=authority)
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=64)
    listening = listen(host, port)
    listening.most, listening.seconds = most_connections(CONNECTIONS, files=2), HEAD_SECONDS
    async with httpx.AsyncClient(
        base_url=f"https://127.0.0.1:{superlink}", verify=trusted, trust_env=False, limits=limits, timeout=60.0
    ) as client:
        config = uvicorn.Config(
            Front(client, ClientKeys(keys)),
            lifespan="off",
            proxy_headers=False,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=5,
            **settings(listening, HEAD_BYTES, coming_=(h11.IDLE,)),
        )
        with listening:
            await uvicorn.Server(config).serve(sockets=[listening])


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
    SSLProtocol.max_size = 2**15  # bytes that asyncio keeps for each connection: 2**18 otherwise
    asyncio.run(serve(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
