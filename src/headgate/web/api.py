"""The API of the page: every endpoint, declared where it is answered. Reading and reckoning are done beside the event loop."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from typing import Annotated, Any, TypeVar

import anyio
from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headgate import __version__
from headgate.analysis.formatting import plain
from headgate.errors import HeadgateError
from headgate.web import answers, gate, shapes
from headgate.web.asking import PlanRequest, choices
from headgate.web.compare import AXES, MOST_RUNS, compare
from headgate.web.endpoints import Body, OneOf, Table
from headgate.web.listing import ORDERS, SORTS, listing
from headgate.web.live import Live
from headgate.web.planning import Planner
from headgate.web.runs import Library, Progress
from headgate.web.uploads import MOST_CSV, MOST_JSON, Refused, json_object, prices_of

READ_AHEAD = 3.0
"""seconds after the start, when the first page has been shown"""
READING, PLANNING = 2, 2
"""how many read or plan at the same time; the others wait, and every thread would keep memory of its own"""
WAITING = 200
"""how many wait for that; the others are told to come again"""
MOST_READERS = 400
"""of events, all runs together"""
Read = TypeVar("Read")
ENDPOINTS = Table()

Policy = Annotated[str | None, Field(description="a policy of the run; left out: its first")]
Policies = Annotated[tuple[str, ...], Field(description="these alone; may be repeated", max_length=MOST_RUNS)]
Seed = Annotated[int | None, Field(ge=0, le=2**62, description="a seed of the run")]
Points = Annotated[int, Field(ge=2, le=2000, description="most points of a line")]


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        try:
            text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError:  # settings may hold infinity, and sums of what a folder tells may become it
            text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


class Api:
    """The answers."""

    def __init__(self, library: Library) -> None:
        self.library, self.planner = library, Planner()
        self._reading, self._planning = anyio.CapacityLimiter(READING), anyio.CapacityLimiter(PLANNING)
        self.live = Live(self._progress)

    def routes(self) -> list[Route]:
        return [Route(each.path, each.responder(self, self._json), methods=[each.method]) for each in ENDPOINTS]

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.live = Live(self._progress)
        async with anyio.create_task_group() as group:
            group.start_soon(self._read_ahead)
            yield
            self.live.close()
            group.cancel_scope.cancel()

    async def _read_ahead(self) -> None:
        """Reads all runs once, one after the other, so that sorting by results need not wait for it."""
        await anyio.sleep(READ_AHEAD)
        for name in await self._read(lambda: list(self.library.heads())):
            with suppress(HeadgateError):
                await self._read(partial(self.library.row, name))

    async def _json(self, ask: Callable[[], Mapping[str, Any]]) -> Response:
        _not_too_many(self._reading)
        return await self._read(lambda: Json(ask()))

    async def _read(self, ask: Callable[[], Read]) -> Read:
        return await anyio.to_thread.run_sync(ask, limiter=self._reading)

    async def _progress(self, name: str) -> Progress:
        return await self._read(partial(self.library.progress, name))

    # endpoints

    @ENDPOINTS.get("/api/health", shapes.Health)
    async def health(self) -> Response:
        """Whether the page is there."""
        return Json({"name": "headgate", "version": __version__, "folder": self.library.title})

    @ENDPOINTS.get("/api/openapi.json", shapes.Document)
    async def openapi(self) -> Response:
        """This document."""
        return Json(document())

    @ENDPOINTS.get("/api/runs", shapes.RunList)
    def runs(
        self,
        search: Annotated[str, Field(description="words that must all occur in name, policies or state")] = "",
        sort: Annotated[str, OneOf(SORTS), Field(description="what to sort by")] = "started",
        order: Annotated[str, OneOf(ORDERS), Field(description="rising or falling")] = "desc",
        limit: Annotated[int, Field(ge=1, le=1000, description="most rows")] = 100,
        offset: Annotated[int, Field(ge=0, le=10**9, description="rows to pass over")] = 0,
    ) -> Mapping[str, Any]:
        """All runs, searched, sorted, a page at a time."""
        return listing(self.library, search, sort, order, limit, offset)

    @ENDPOINTS.get("/api/runs/{name}", shapes.Detail, 404, 422)
    def detail(self, name: str) -> Mapping[str, Any]:
        """A run: settings, state, results of each policy."""
        return answers.detail(self.library, name)

    @ENDPOINTS.get("/api/runs/{name}/curves", shapes.Curves, 404, 422)
    def curves(
        self,
        name: str,
        since: Annotated[int, Field(ge=0, le=10**9, description="only rounds after this one")] = 0,
        points: Points = 400,
        policies: Policies = (),
    ) -> Mapping[str, Any]:
        """Means over seeds with intervals, round by round."""
        return answers.curves(self.library, name, since, points, policies)

    @ENDPOINTS.get("/api/runs/{name}/clients", shapes.Clients, 404, 422)
    def clients(self, name: str, policy: Policy = None, seed: Seed = None) -> Mapping[str, Any]:
        """How full each client's buffer is; without a seed in the mean over seeds."""
        return answers.clients(self.library, name, policy, seed)

    @ENDPOINTS.get("/api/runs/{name}/trace", shapes.TraceShape, 404, 422)
    def trace(
        self,
        name: str,
        policy: Policy = None,
        seed: Seed = None,
        first: Annotated[int, Field(ge=1, le=10**9, description="first round")] = 1,
        limit: Annotated[int, Field(ge=1, le=1000, description="most rounds")] = 1000,
    ) -> Mapping[str, Any]:
        """One run, round by round and client by client."""
        return gate.trace(self.library, name, policy, seed, first, limit)

    @ENDPOINTS.get("/api/runs/{name}/events", "text/event-stream", 404, 422)
    async def events(self, name: str, request: Request) -> Response:
        """Server-sent events: rounds and states as they come."""
        if sum(self.live.watched.values()) >= MOST_READERS:
            raise Refused(503, f"events: {MOST_READERS} readers are being told already; try again")
        now = await self._progress(name)
        said = request.headers.get("last-event-id", "")
        last = int(said) if said.isascii() and said.isdigit() and len(said) < 20 else None
        if now.state == "finished" and last is not None and last >= now.done:
            return Response(status_code=204)  # there is nothing more to come, and a browser stops asking
        return StreamingResponse(
            self.live.stream(name, now, last), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    @ENDPOINTS.get("/api/runs/{name}/table.csv", "text/csv", 404, 422)
    async def table(
        self, name: str, figure: Annotated[str, OneOf(answers.TABLES), Field(description="which")] = "metrics"
    ) -> Response:
        """The numbers of a figure."""
        lines = await self._read(partial(answers.table, self.library, name, figure))
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.=") else "_" for c in f"{name}-{figure}")
        headers = {"Content-Disposition": f'attachment; filename="{safe}.csv"'}
        return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)

    @ENDPOINTS.get("/api/compare", shapes.ComparisonShape, 404, 422)
    def compare(
        self,
        runs: Annotated[tuple[str, ...], Field(description="names of runs; repeated", min_length=1, max_length=MOST_RUNS)],
        policies: Policies = (),
        x: Annotated[str, OneOf(AXES), Field(description="the axis")] = "round",
        metric: Annotated[str, OneOf(answers.LINES), Field(description="what is compared")] = "best_accuracy",
        points: Points = 300,
        to_run: Annotated[str | None, Field(description="the run of the line to compare with; left out: the first")] = None,
        to_policy: Annotated[str | None, Field(description="its policy")] = None,
    ) -> Mapping[str, Any]:
        """Runs and policies on one axis, differences to one of the lines, settings that differ."""
        return compare(self.library, runs, policies, x, metric, points, (to_run, to_policy))

    @ENDPOINTS.get("/api/plan", shapes.Choices)
    def choices(self) -> Mapping[str, Any]:
        """What can be planned: policies, kinds of prices, recipes, limits."""
        return choices()

    @ENDPOINTS.post("/api/plan", shapes.PlanShape, Body("application/json", MOST_JSON, PlanRequest), 409)
    async def plan(self, body: bytes) -> Response:
        """Plan and rehearse."""
        work = self.planner.arrive(json_object(body))
        _not_too_many(self._planning)
        return await anyio.to_thread.run_sync(lambda: Json(work()), limiter=self._planning)

    @ENDPOINTS.post("/api/trace", shapes.Prices, Body("text/csv", MOST_CSV, "text/csv"))
    def prices(
        self, body: bytes, column: Annotated[str | None, Field(description="left out: price, or cost")] = None
    ) -> Mapping[str, Any]:
        """Prices from a CSV file, checked."""
        return prices_of(body, column)


def _not_too_many(limiter: anyio.CapacityLimiter) -> None:
    if limiter.statistics().tasks_waiting >= WAITING:
        raise Refused(503, f"page: {WAITING} requests are waiting already; try again")


@cache
def document() -> dict[str, Any]:
    return ENDPOINTS.document()
