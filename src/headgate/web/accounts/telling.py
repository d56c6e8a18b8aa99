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
from headgate.escaping import exposition, one_line
from headgate.web.accounts.keeper import Keeper

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

    def text(self) -> str:
        """Return the counts in the text format of Prometheus."""
        samples: dict[str, list[Sample]] = {name: [] for name in COUNTERS}
        for (method, route, status), count in sorted(self._requests.items()):
            labels = {"method": method, "route": route, "status": str(status)}
            samples["requests_total"].append((labels, count))
        for route, counts in sorted(self._seconds.items()):
            own, below = {"route": route}, 0
            for bound, count in zip((*BOUNDS, "+Inf"), counts, strict=True):
                below += count
                labels = {**own, "le": str(bound)}
                samples["request_seconds_bucket"].append((labels, below))
            samples["request_seconds_sum"].append((own, self._sums[route]))
            samples["request_seconds_count"].append((own, below))
        return exposition(COUNTERS, samples, "counter")


Sample = tuple[dict[str, str], float]
COUNTERS = {
    "requests_total": "requests that were answered",
    "request_seconds_bucket": "requests that took at most so long",
    "request_seconds_sum": "time from requests to their answers",
    "request_seconds_count": "requests whose time was taken",
}
GAUGES = {
    "account_rounds": "settled rounds of accounts that are open",
    "account_approved": "money approved",
    "account_spent": "money spent",
    "account_reserved": "price of what is under way",
    "account_left": "money left",
    "accounts_open": "accounts that are open",
    "streams": "streams of events",
}
PATIENCE = 2.0
"""seconds to wait for accounts that are busy; then they are left out"""


async def account_text(keeper: Keeper) -> str:
    """Return the money of the accounts that are open, for Prometheus."""
    balances = await asyncio.gather(*(_balance(keeper, name) for name in keeper.names))
    samples: dict[str, list[Sample]] = {name: [] for name in GAUGES}
    samples["accounts_open"] = [({}, len(balances))]
    samples["streams"] = [({}, keeper.streams)]
    for account, balance in balances:
        for name in ("rounds", "approved", "spent", "reserved", "left"):
            if balance is not None:
                value = float(getattr(balance, name))
                samples[f"account_{name}"].append(({"account": account}, value))
    return exposition(GAUGES, samples)


async def _balance(keeper: Keeper, name: str) -> tuple[str, Balance | None]:
    with suppress(Exception):
        async with asyncio.timeout(PATIENCE):
            return name, await keeper.call(name, Books.balance)
    return name, None
