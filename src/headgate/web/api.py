"""The API of the page. FastAPI checks queries and makes the OpenAPI document; threads beside the event loop read and plan."""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import anyio
from anyio.to_thread import current_default_thread_limiter, run_sync
from fastapi import APIRouter, Depends, FastAPI, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headgate import __version__
from headgate.analysis.formatting import jsonable
from headgate.errors import HeadgateError
from headgate.registry import nearest
from headgate.web import answers, compare, planning
from headgate.web.metrics import metrics_text
from headgate.web.runs import Library, Progress
from headgate.web.security import MOST_CSV, MOST_JSON, Refused, body, json_object

READ_AHEAD = 3.0
"""seconds after the start, when the first page has been shown"""
READING, PLANNING = 2, 2
"""how many read or plan at the same time; the others wait, and every thread would keep memory of its own"""
WAITING = 200
"""how many wait for that; more are refused"""
MOST_READERS = 400
"""readers of events, all runs together"""


@dataclass(frozen=True)
class Problem:
    error: str
    """one line that names what was asked and its value"""


@dataclass(frozen=True)
class Health:
    name: str
    version: str
    folder: str


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning}
    for status, meaning in {
        400: "the query, the host or the body has no meaning",
        401: "the token is missing or wrong",
        404: "there is no such run",
        409: "a newer request has taken the place of this one",
        413: "the body is too large",
        415: "the body is of another kind",
        422: "what was asked cannot be met, or what was found cannot be read",
        503: "too many ask at the same time",
    }.items()
}


def _sent(media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}


PLAN = _sent("application/json", planning.PlanRequest.model_json_schema())
CSV = _sent("text/csv", {"type": "string"})

Policy = Annotated[str | None, Query(description="a policy of the run; left out: its first")]
Policies = Annotated[list[str], Query(description="these alone; may be repeated", max_length=compare.MOST_RUNS)]
Seed = Annotated[int | None, Query(ge=0, le=2**62, description="a seed of the run")]
Points = Annotated[int, Query(ge=2, le=2000, description="most points of a line")]


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        how: Any = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
        try:
            text = json.dumps(content, default=vars, **how)
        except ValueError:  # settings may hold infinity, and so may sums of what a folder holds
            text = json.dumps(jsonable(content), **how)
        return text.encode("utf-8", "replace")


async def check_query(request: Request) -> None:
    """Refuse keys that an endpoint does not know, and values that are given twice, which FastAPI passes over."""
    known = {each.alias: each.field_info.annotation == list[str] for each in request.scope["route"].dependant.query_params}
    for key in request.query_params.keys() - {"token"}:
        if key not in known:
            hint = nearest(key[:100], list(known)) if known else "; there are none"
            raise Refused(400, f"{key[:100]}: unknown key of the query{hint}")
        count = len(request.query_params.getlist(key))
        if count > 1 and not known[key]:
            raise Refused(400, f"{key}: is given {count} times")


async def check_room() -> None:
    _refuse_crowd(current_default_thread_limiter())


def _refuse_crowd(limiter: anyio.CapacityLimiter) -> None:
    if limiter.statistics().tasks_waiting >= WAITING:
        raise Refused(503, f"page: {WAITING} requests are waiting already; try again")


class Api:
    """The endpoints. A handler that is no coroutine runs in one of `READING` threads."""

    def __init__(self, library: Library) -> None:
        self.library, self.planner = library, planning.Planner()
        self._planning = anyio.CapacityLimiter(PLANNING)
        self.live = Live(library)

    def router(self) -> APIRouter:
        router = APIRouter(prefix="/api", dependencies=[Depends(check_query)], responses=REFUSALS)
        router.add_api_route("/health", self.health, response_model=Health)
        read = partial(router.add_api_route, dependencies=[Depends(check_room)])
        read("/runs", self.runs, response_model=answers.RunList)
        read("/runs/{name}", self.detail, response_model=answers.RunDetail)
        read("/runs/{name}/curves", self.curves, response_model=answers.RunCurves)
        read("/runs/{name}/clients", self.clients, response_model=answers.ClientBuffers)
        read("/runs/{name}/trace", self.trace, response_model=answers.GateTrace)
        read("/compare", self.compare, response_model=compare.RunComparison)
        read("/plan", self.choices, response_model=planning.PlanChoices)
        events: dict[int | str, dict[str, Any]] = {
            200: {"content": {"text/event-stream": {}}},
            204: {"description": "the run is finished and Last-Event-ID is its end"},
        }
        router.add_api_route("/runs/{name}/events", self.events, response_model=None, responses=events)
        read("/runs/{name}/table.csv", self.table, response_model=None, responses={200: {"content": {"text/csv": {}}}})
        send = partial(router.add_api_route, methods=["POST"])
        send("/plan", self.plan, response_model=planning.PlanAnswer, openapi_extra=PLAN)
        send("/trace", self.prices, response_model=planning.PriceColumn, openapi_extra=CSV)
        return router

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = READING
        self.live = Live(self.library)
        async with anyio.create_task_group() as group:
            group.start_soon(self._read_ahead)
            yield
            self.live.closed.set()
            group.cancel_scope.cancel()

    async def _read_ahead(self) -> None:
        """Read all runs once, one after the other, so that sorting by results need not wait for it."""
        await anyio.sleep(READ_AHEAD)
        for name in await run_sync(lambda: list(self.library.heads())):
            with suppress(HeadgateError):
                await run_sync(self.library.row, name)

    # endpoints

    async def health(self) -> Response:
        """Whether the page is there."""
        return Json(Health("headgate", __version__, self.library.title))

    def metrics(self) -> Response:
        """The newest runs in the text format of Prometheus."""
        return Response(metrics_text(self.library), media_type="text/plain; version=0.0.4")

    def runs(
        self,
        search: Annotated[str, Query(description="words that must all occur in name, policies or state")] = "",
        sort: Annotated[answers.Sort, Query(description="what to sort by")] = "started",
        order: Annotated[answers.Order, Query(description="rising or falling")] = "desc",
        limit: Annotated[int, Query(ge=1, le=1000, description="most rows")] = 100,
        offset: Annotated[int, Query(ge=0, le=10**9, description="rows to pass over")] = 0,
    ) -> Response:
        """All runs, searched, sorted, a page at a time."""
        return Json(answers.run_list(self.library, search, sort, order, limit, offset))

    def detail(self, name: str) -> Response:
        """A run: settings, state, results of each policy."""
        return Json(answers.detail(self.library, name))

    def curves(
        self,
        name: str,
        since: Annotated[int, Query(ge=0, le=10**9, description="only rounds after this one")] = 0,
        points: Points = 400,
        policies: Policies = [],  # noqa: B006  # FastAPI copies it
    ) -> Response:
        """Means over seeds with intervals, round by round."""
        return Json(answers.curves(self.library, name, since, points, policies))

    def clients(self, name: str, policy: Policy = None, seed: Seed = None) -> Response:
        """How full each client's buffer is; without a seed, the mean over seeds."""
        return Json(answers.clients(self.library, name, policy, seed))

    def trace(
        self,
        name: str,
        policy: Policy = None,
        seed: Seed = None,
        first: Annotated[int, Query(ge=1, le=10**9, description="first round")] = 1,
        limit: Annotated[int, Query(ge=1, le=1000, description="most rounds")] = 1000,
    ) -> Response:
        """One run, round by round and client by client."""
        return Json(answers.trace(self.library, name, policy, seed, first, limit))

    async def events(self, name: str, request: Request) -> Response:
        """Server-sent events: rounds and states as they come."""
        if sum(self.live.watched.values()) >= MOST_READERS:
            raise Refused(503, f"events: there are {MOST_READERS} readers already; try again")
        now = await self.live.progress(name)
        known = request.headers.get("last-event-id", "")
        last = int(known) if known.isascii() and known.isdigit() and len(known) < 20 else None
        if now.state == "finished" and last is not None and last >= now.done:
            return Response(status_code=204)  # there is nothing more to come, and a browser stops asking
        stream = self.live.stream(name, now, last)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    def table(self, name: str, figure: Annotated[answers.Figure, Query(description="which")] = "metrics") -> Response:
        """The numbers of a figure."""
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.=") else "_" for c in f"{name}-{figure}")
        headers = {"Content-Disposition": f'attachment; filename="{safe}.csv"'}
        return Response(answers.table(self.library, name, figure), media_type="text/csv", headers=headers)

    def compare(
        self,
        runs: Annotated[list[str], Query(description="names of runs; repeated", min_length=1, max_length=compare.MOST_RUNS)],
        policies: Policies = [],  # noqa: B006  # FastAPI copies it
        x: Annotated[compare.Axis, Query(description="the axis")] = "round",
        metric: Annotated[answers.Metric, Query(description="what is compared")] = "best_accuracy",
        points: Points = 300,
        to_run: Annotated[str | None, Query(description="the run of the line to compare with; left out: the first")] = None,
        to_policy: Annotated[str | None, Query(description="its policy")] = None,
    ) -> Response:
        """Runs and policies on one axis, differences to one of the lines, settings that differ."""
        return Json(compare.compare(self.library, runs, policies, x, metric, points, (to_run, to_policy)))

    def choices(self) -> Response:
        """What can be planned: policies, kinds of prices, recipes, limits."""
        return Json(planning.choices())

    async def plan(self, request: Request) -> Response:
        """Plan and rehearse."""
        work = self.planner.arrive(json_object(await body(request, "application/json", MOST_JSON)))
        _refuse_crowd(self._planning)
        return await run_sync(lambda: Json(work()), limiter=self._planning)

    async def prices(
        self, request: Request, column: Annotated[str | None, Query(description="left out: price, or cost")] = None
    ) -> Response:
        """Prices from a CSV file, checked."""
        text = await body(request, "text/csv", MOST_CSV)
        return await run_sync(lambda: Json(planning.prices_of(text, column)))


# rounds as they come


PAUSE = 0.5
"""seconds between two looks"""
HEARTBEAT = 10.0
"""seconds after which a reader hears that the line is open"""


class Live:
    """Events of runs. Readers look one after the other, and a look at a run serves all who ask within half a pause.

    What is sent is the newest state, never a queue, so a slow reader costs nothing. The id of an event is the number of rounds
    of all the folder's runs, which is the same after a restart: a reader that comes back with it learns whether there is more.
    """

    def __init__(self, library: Library) -> None:
        self._library, self.pause = library, PAUSE
        self._seen: dict[str, tuple[float, Progress]] = {}
        self.watched: Counter[str] = Counter()
        """readers of each run"""
        self.closed = asyncio.Event()
        """ends all streams: the server is stopping"""

    async def progress(self, name: str) -> Progress:
        """How far the run has come."""
        when, found = self._seen.get(name, (-math.inf, None))
        if found is None or time.monotonic() > when + self.pause / 2:
            found = await run_sync(self._library.progress, name)
            self._seen = {
                **{own: seen for own, seen in self._seen.items() if own in self.watched},
                name: (time.monotonic(), found),
            }
        return found

    async def stream(self, name: str, told: Progress, last_id: int | None) -> AsyncIterator[str]:
        """Events of a run from `told` on; `last_id` is what the reader knows already."""
        self.watched[name] += 1
        try:
            yield "retry: 1000\n\n"
            yield _event("state", name, told)
            if last_id is not None and told.done > last_id:
                yield _event("round", name, told)
            heard = time.monotonic()
            while told.state != "finished" and not self.closed.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.closed.wait(), self.pause)
                now = await self.progress(name)
                if now.done != told.done:
                    yield _event("round", name, now)
                if (now.state, now.diverged) != (told.state, told.diverged):
                    yield _event("state", name, now)
                if time.monotonic() > heard + HEARTBEAT:
                    yield ": open\n\n"
                    heard = time.monotonic()
                told = now
        except HeadgateError:  # removed, or damaged: the reader asks again and gets the error
            return
        finally:
            self.watched -= Counter([name])  # which forgets runs without a reader


def _event(kind: str, name: str, now: Progress) -> str:
    data = {"name": name, "round": now.round, "rounds": now.rounds, "state": now.state, "diverged": now.diverged}
    return f"id: {now.done}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
