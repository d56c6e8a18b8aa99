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

WRONG_TOKEN = "token: missing or wrong; open the link that headgate serve printed"


def hostname(host: str) -> str:
    """Return the name in a Host header without its port; empty if it is invalid.

    >>> hostname("localhost:8040"), hostname("[::1]:8040"), hostname("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    >>> hostname("[::1]evil.com"), hostname("127.0.0.1:80@evil.com")
    ('', '')
    """
    found = _HOST.fullmatch(host.lower())
    return "" if found is None else found["address"] or found["name"]


class Guard:
    """Middleware that checks host, origin, size and token of every request."""

    def __init__(
        self,
        app: ASGIApp,
        host: str = "127.0.0.1",
        token: str | None = None,
    ) -> None:
        self._app, self._token = app, token
        self._names = None if host in EVERYWHERE else LOOPBACK | {host.lower()}

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request.headers, scope["method"])
        if refusal is None and not self._is_known(request):
            refusal = (401, WRONG_TOKEN)
        # the link was opened: from now on a cookie has the token
        opened = refusal is None and self._is_token(request.query_params.get("token"))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent[name] = value
                sent.setdefault("Cache-Control", "no-cache")
                if opened:
                    cookie = (
                        f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                    )
                    sent.append("Set-Cookie", cookie)
            await send(message)

        if refusal is None:
            await self._app(scope, receive, guarded)
            return
        status, why = refusal
        # close the connection, or the server would still read the rest of the body
        answer = JSONResponse({"error": why}, status, {"Connection": "close"})
        await answer(scope, receive, guarded)

    def _is_known(self, request: Request) -> bool:
        """Return whether a request has the token, if one is needed."""
        if self._token is None:
            return True
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        given = [request.query_params.get("token"), request.cookies.get(COOKIE)]
        if kind.lower() == "bearer":
            given.append(bearer.strip())
        return any(map(self._is_token, given))

    def _is_token(self, given: str | None) -> bool:
        if self._token is None or given is None:
            return False
        return compare_digest(
            self._token.encode(), given.encode("utf-8", "surrogateescape")
        )

    def _refusal(self, headers: Headers, method: str) -> tuple[int, str] | None:
        """Return why a request is refused, whoever sends it, and the status."""
        host = headers.get("host", "")
        if self._names is not None and hostname(host) not in self._names:
            return 400, f"host = {host[:100]!r}: not a name of this server"

        own = (f"http://{host}".lower(), f"https://{host}".lower())
        origin = headers.get("origin", own[0])
        if method not in ("GET", "HEAD") and origin.lower() not in own:
            return 400, f"origin = {origin[:100]!r}: not a page of this server"

        length = headers.get("content-length", "0")
        known = re.fullmatch("[0-9]{1,9}", length) and int(length) <= MOST_BYTES
        if "transfer-encoding" in headers or not known:
            shown = length[:100]
            most = f"at most {MOST_BYTES} bytes are taken"
            return 413, f"content-length = {shown}: {most}"
        return None
