"""Access control: which requests are answered, and what a browser may do with the
answers.

A server that only this machine can reach needs no token, but accepts only names of this
machine as host: otherwise a foreign page could point its own name to our address and
read the answers. A server that other machines can reach requires the token.
"""

import re
from hmac import compare_digest
from math import ceil

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.web.accounts.gate import OWN, WITHOUT, Rates, lets_in, not_there
from headgate.web.accounts.tokens import EVERY, ROLES, Holder, Tokens
from headgate.web.api import refusal

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
MOST_OF_ACCOUNTS = 2**20
"""largest size of the body of a request to accounts"""
CLOSED = {"Connection": "close"}
"""or the server would still read the rest of the body"""

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


OPERATOR = Holder("", EVERY, ROLES[-1], "", "")
"""who has the one token of a page, or needs none"""


class Guard:
    """Middleware that checks host, origin, size and token of every request.

    With `tokens`, one of these is needed for everything, and lets its holder see what
    belongs to its accounts, not more often than `rates` says.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str = "127.0.0.1",
        token: str | None = None,
        tokens: Tokens | None = None,
        rates: Rates | None = None,
    ) -> None:
        self._app, self._token = app, token
        self._tokens, self._rates = tokens, rates or Rates(0)
        self._names = None
        if host not in EVERYWHERE and tokens is None:
            self._names = LOOPBACK | {host.lower()}

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
        linked = request.query_params.get("token")
        refused, opened = self._let_in(request), False
        if refused is None:
            # the link was opened: from now on a cookie has the token
            opened = self._holder_of(linked) is not None

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent[name] = value
                sent.setdefault("Cache-Control", "no-cache")
                if opened:
                    cookie = f"{COOKIE}={linked}; Path=/; HttpOnly; SameSite=Strict"
                    sent.append("Set-Cookie", cookie)
            await send(message)

        await (refused or self._app)(scope, receive, guarded)

    def _let_in(self, request: Request) -> Response | None:
        """Let a request in with its holder, or return why it is refused."""
        path = request.scope["path"]
        if self._tokens is not None and path in WITHOUT:
            return None
        refused = self._refusal(request.headers, request.method, path)
        if refused is not None:
            return refused
        holder = self._holder(request)
        if holder is None:
            return refusal(401, WRONG_TOKEN, {**CLOSED, "WWW-Authenticate": "Bearer"})
        if self._tokens is not None and not lets_in(holder, path):
            return refusal(404, not_there(path), CLOSED)
        wait = self._rates.take(holder.name)
        if wait:
            why = f"rate: at most {self._rates.most:g} requests a second"
            return refusal(429, why, {**CLOSED, "Retry-After": str(ceil(wait))})
        request.state.holder = holder
        return None

    def _holder(self, request: Request) -> Holder | None:
        """Return who makes a request; None: the token is missing or wrong."""
        if self._token is None and self._tokens is None:
            return OPERATOR
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        given = [request.query_params.get("token"), request.cookies.get(COOKIE)]
        if kind.lower() == "bearer":
            given.insert(0, bearer.strip())
        found = filter(None, map(self._holder_of, given))
        return next(found, None)

    def _holder_of(self, given: str | None) -> Holder | None:
        if given is None:
            return None
        if self._tokens is not None:
            return self._tokens.holder(given)
        own = (self._token or "").encode()
        same = compare_digest(own, given.encode("utf-8", "surrogateescape"))
        return OPERATOR if same and own else None

    def _refusal(
        self,
        headers: Headers,
        method: str,
        path: str,
    ) -> Response | None:
        """Return why a request is refused for every sender."""
        host = headers.get("host", "")
        if self._names is not None and hostname(host) not in self._names:
            why = f"host = {host[:100]!r}: not a name of this server"
            return refusal(400, why, CLOSED)

        own = (f"http://{host}".lower(), f"https://{host}".lower())
        origin = headers.get("origin", own[0])
        if method not in ("GET", "HEAD") and origin.lower() not in own:
            why = f"origin = {origin[:100]!r}: not a page of this server"
            return refusal(400, why, CLOSED)

        most = MOST_OF_ACCOUNTS if OWN.fullmatch(path) else MOST_BYTES
        length = headers.get("content-length", "0")
        known = re.fullmatch("[0-9]{1,9}", length) and int(length) <= most
        if "transfer-encoding" in headers or not known:
            why = f"content-length = {length[:100]}: at most {most} bytes are taken"
            return refusal(413, why, CLOSED)
        return None
