"""Access control: which requests are answered, and what a browser may do with the
answers.

A server that only this machine can reach needs no token, but accepts only names of this
machine as host: otherwise a foreign page could point its own name to our address and
read the answers. A server that other machines can reach requires the token.
"""

import re
from hmac import compare_digest

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "headgate_token"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
EVERYWHERE = frozenset({"0.0.0.0", "::", ""})
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # plotly inserts its styles into the page
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

_HOST = re.compile(
    r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?"
)
MOST_BYTES = 256 * 2**10
"""largest size of the body of a request, in bytes"""


def hostname(host: str) -> str:
    """Return the name in a Host header without its port, or an empty text if the header
    is invalid.

    >>> hostname("localhost:8040"), hostname("[::1]:8040"), hostname("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    >>> hostname("[::1]evil.com"), hostname("127.0.0.1:80@evil.com")
    ('', '')
    """
    found = _HOST.fullmatch(host.lower())
    return "" if found is None else found["address"] or found["name"]


class Guard:
    """Middleware that checks the host, the origin, the size and the token of every
    request.
    """

    def __init__(
        self, app: ASGIApp, host: str = "127.0.0.1", token: str | None = None
    ) -> None:
        self._app, self._token = app, token
        self._names = None if host in EVERYWHERE else LOOPBACK | {host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, known = Request(scope), False
        asked, refusal = (
            request.query_params.get("token"),
            self._refusal(request.headers, scope["method"]),
        )
        if refusal is None and self._token is not None:
            kind, _, bearer = request.headers.get("authorization", "").partition(" ")
            given = (
                asked,
                request.cookies.get(COOKIE),
                bearer.strip() if kind.lower() == "bearer" else None,
            )
            known = any(_same(self._token, each) for each in given)
            if not known:
                refusal = (
                    401,
                    (
                        "token: missing or wrong; open the link that headgate serve"
                        " printed"
                    ),
                )

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent[name] = value
                sent.setdefault("Cache-Control", "no-cache")
                if known and asked is not None and _same(self._token or "", asked):
                    sent.append(
                        "Set-Cookie",
                        f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict",
                    )
            await send(message)

        if refusal is None:
            await self._app(scope, receive, guarded)
        else:
            # close the connection, or the server would still read the rest of the body
            await JSONResponse(
                {"error": refusal[1]}, refusal[0], {"Connection": "close"}
            )(scope, receive, guarded)

    def _refusal(self, headers: Headers, method: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if self._names is not None and hostname(host) not in self._names:
            return 400, f"host = {host[:100]!r}: not a name of this server"
        origin = headers.get("origin")
        own = {f"http://{host}".lower(), f"https://{host}".lower()}
        if (
            method not in ("GET", "HEAD")
            and origin is not None
            and origin.lower() not in own
        ):
            return 400, f"origin = {origin[:100]!r}: not a page of this server"
        length = headers.get("content-length", "0")
        if (
            "transfer-encoding" in headers
            or not re.fullmatch("[0-9]{1,9}", length)
            or int(length) > MOST_BYTES
        ):
            return (
                413,
                (
                    f"content-length = {length[:100]}: at most {MOST_BYTES} bytes are"
                    " taken"
                ),
            )
        return None


def _same(token: str, given: str | None) -> bool:
    return given is not None and compare_digest(
        token.encode(), given.encode("utf-8", "surrogateescape")
    )
