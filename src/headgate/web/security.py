"""Who may ask, and what a browser may do with the answer.

On this machine alone nobody needs a token, but only names of this machine are answered to: else a page elsewhere could give
its own name our address and read along. Reached from outside, everybody needs the token.
"""

import json
import re
from hmac import compare_digest
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.errors import HeadgateError

COOKIE = "headgate_token"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
EVERYWHERE = frozenset({"0.0.0.0", "::", ""})
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # plotly writes its styles into the page
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?")
MOST_CSV, MOST_JSON = 256 * 2**10, 2 * 2**20
"""bytes of a body"""
BODIES = 64
"""requests with a body that are answered at the same time: each may be as large as one may be"""


def hostname(host: str) -> str:
    """The name in a Host header, without its port; empty where it is none.

    >>> hostname("localhost:8040"), hostname("[::1]:8040"), hostname("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    >>> hostname("[::1]evil.com"), hostname("127.0.0.1:80@evil.com")
    ('', '')
    """
    found = _HOST.fullmatch(host.lower())
    return "" if found is None else found["address"] or found["name"]


class Guard:
    """Around the whole application."""

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", token: str | None = None) -> None:
        self._app, self._token, self._bodies = app, token, 0
        self._names = None if host in EVERYWHERE else LOOPBACK | {host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, known = Request(scope), False
        asked, refusal = request.query_params.get("token"), self._refusal(request.headers, scope["method"])
        if refusal is None and self._token is not None:
            kind, _, bearer = request.headers.get("authorization", "").partition(" ")
            given = asked, request.cookies.get(COOKIE), bearer.strip() if kind.lower() == "bearer" else None
            known = any(_same(self._token, each) for each in given)
            if not known:
                refusal = 401, "token: missing or wrong; open the link that headgate serve printed"

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent[name] = value
                sent.setdefault("Cache-Control", "no-cache")
                if known and asked is not None and _same(self._token or "", asked):
                    sent.append("Set-Cookie", f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        sends = scope["method"] not in ("GET", "HEAD")
        if refusal is None and sends and self._bodies >= BODIES:
            refusal = 503, f"page: {BODIES} requests like this one are being answered; try again"
        answer: ASGIApp = self._app if refusal is None else JSONResponse({"error": refusal[1]}, refusal[0])
        self._bodies += sends
        try:
            await answer(scope, receive, guarded)
        finally:
            self._bodies -= sends

    def _refusal(self, headers: Headers, method: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if self._names is not None and hostname(host) not in self._names:
            return 400, f"host = {host[:100]!r}: not a name of this server"
        origin = headers.get("origin")
        own = {f"http://{host}".lower(), f"https://{host}".lower()}
        if method not in ("GET", "HEAD") and origin is not None and origin.lower() not in own:
            return 400, f"origin = {origin[:100]!r}: not a page of this server"
        return None


def _same(token: str, given: str | None) -> bool:
    return given is not None and compare_digest(token.encode(), given.encode("utf-8", "surrogateescape"))


# what may be sent


class Refused(HeadgateError):
    """A request that is answered with `status` and nothing else."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def body(request: Request, kind: str, most: int) -> bytes:
    """All of it, or a refusal as soon as it is known to be too large.

    Pages elsewhere can send forms and plain text unasked, but neither of the kinds that are taken here.
    """
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said != kind:
        raise Refused(415, f"content-type = {said[:100]!r}: must be {kind}")
    length = request.headers.get("content-length", "")
    if length.isdigit() and len(length) < 20 and int(length) > most:
        raise Refused(413, f"content-length = {length}: at most {most} bytes are taken")
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > most:
            raise Refused(413, f"body: more than {most} bytes")
    return bytes(read)


def json_object(text: bytes) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise ValueError(f"{name} is no JSON")

    try:
        value = json.loads(text.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"body: not valid JSON ({str(error)[:200]})") from None
    if not isinstance(value, dict):
        raise Refused(400, "body: must be a JSON object")
    return value
