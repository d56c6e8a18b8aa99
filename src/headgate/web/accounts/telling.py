"""What a service tells those who run it: one line of JSON for each request, and numbers
for Prometheus. Neither has a token or the content of a request.
"""

import asyncio
import json
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.books.books import Books
from headgate.books.moments import now
from headgate.books.nouns import Balance
from headgate.escaping import one_line
from headgate.web.accounts.keeper import Keeper
from headgate.web.metrics import escaped

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""seconds up to which requests are counted together"""
OTHER = "other"
"""the route of a request that has none"""


def to_stderr(line: str) -> None:
    """Write a line of the log."""
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


class Telling:
    """Middleware that counts requests, and writes a line for each.

    Parameters
    ----------
    app : ASGIApp
        What answers.
    counts : Counts
        Where they are counted.
    log : callable, optional
        What takes a line; left out: nothing is written.
    """

    def __init__(
        self,
        app: ASGIApp,
        counts: "Counts",
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._app, self._counts, self._log = app, counts, log

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            seconds = time.monotonic() - began
            route = getattr(scope.get("route"), "path", OTHER)
            self._counts.add(scope["method"], route, status, seconds)
            if self._log is not None:
                self._log(_line(Request(scope), status, seconds))


def _line(
    request: Request,
    status: int,
    seconds: float,
) -> str:
    holder = getattr(request.state, "holder", None)
    said = {
        "at": now(),
        "method": request.method,
        "path": one_line(request.url.path, 200),
        "status": status,
        "ms": round(1000 * seconds, 1),
        "by": "" if holder is None else holder.name,
        "key": one_line(request.headers.get("idempotency-key", ""), 200),
    }
    return json.dumps(said, ensure_ascii=False)


class Counts:
    """Requests by method, route and status, and how long they took."""

    def __init__(self) -> None:
        self._requests = defaultdict[tuple[str, str, int], int](int)
        self._seconds = defaultdict[str, list[int]](lambda: [0] * (len(BOUNDS) + 1))
        self._sums = defaultdict[str, float](float)

    def add(
        self,
        method: str,
        route: str,
        status: int,
        seconds: float,
    ) -> None:
        """Count a request."""
        self._requests[method, route, status] += 1
        self._seconds[route][bisect_left(BOUNDS, seconds)] += 1
        self._sums[route] += seconds

    def lines(self) -> list[str]:
        """Return the counts in the text format of Prometheus."""
        found = [
            "# HELP headgate_requests_total requests that were answered",
            "# TYPE headgate_requests_total counter",
        ]
        for (method, route, status), count in sorted(self._requests.items()):
            labels = f'method="{escaped(method)}",route="{route}",status="{status}"'
            found.append(f"headgate_requests_total{{{labels}}} {count}")
        found += [
            "# HELP headgate_request_seconds time from a request to its answer",
            "# TYPE headgate_request_seconds histogram",
        ]
        for route, counts in sorted(self._seconds.items()):
            name, below = f'headgate_request_seconds_bucket{{route="{route}"', 0
            for bound, count in zip((*BOUNDS, "+Inf"), counts, strict=True):
                below += count
                found.append(f'{name},le="{bound}"}} {below}')
            own = f'{{route="{route}"}}'
            found.append(f"headgate_request_seconds_sum{own} {self._sums[route]:.6f}")
            found.append(f"headgate_request_seconds_count{own} {below}")
        return found


GAUGES = {
    "rounds": "settled rounds of accounts that are open",
    "approved": "money approved",
    "spent": "money spent",
    "reserved": "price of what is under way",
    "left": "money left",
}
PATIENCE = 2.0
"""seconds to wait for accounts that are busy; then they are left out"""


async def account_lines(keeper: Keeper) -> list[str]:
    """Return the money of the accounts that are open, for Prometheus."""
    balances = await asyncio.gather(*(_balance(keeper, name) for name in keeper.names))
    found = [
        "# HELP headgate_accounts_open accounts that are open",
        "# TYPE headgate_accounts_open gauge",
        f"headgate_accounts_open {len(keeper.names)}",
        "# HELP headgate_streams streams of events",
        "# TYPE headgate_streams gauge",
        f"headgate_streams {keeper.streams}",
    ]
    for name, text in GAUGES.items():
        found.append(f"# HELP headgate_account_{name} {text}")
        found.append(f"# TYPE headgate_account_{name} gauge")
        for account, balance in balances:
            if balance is not None:
                value = float(getattr(balance, name))
                labels = f'account="{account}"'
                found.append(f"headgate_account_{name}{{{labels}}} {value:.15g}")
    return found


async def _balance(keeper: Keeper, name: str) -> tuple[str, Balance | None]:
    with suppress(Exception):
        async with asyncio.timeout(PATIENCE):
            return name, await keeper.call(name, Books.balance)
    return name, None
