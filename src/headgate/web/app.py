"""The application: pages, their files, and the JSON behind them."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from headgate import __version__
from headgate.errors import HeadgateError, SettingError
from headgate.web import answers, gate
from headgate.web.asking import choices
from headgate.web.compare import compare
from headgate.web.listing import listing
from headgate.web.live import Live
from headgate.web.openapi import document
from headgate.web.planning import Planner
from headgate.web.query import Query
from headgate.web.runs import Library, Progress, UnknownRun
from headgate.web.security import Guard
from headgate.web.uploads import MOST_CSV, MOST_JSON, Refused, body, json_object, prices_of

Read = TypeVar("Read")
STATIC = Path(__file__).parent / "static"
PAGES = ("/", "/run/{name}", "/compare", "/plan", "/gate", "/gate/{name}")
READ_AHEAD = 3.0
"""seconds after the start, when the first page has been shown"""
READING, PLANNING = 2, 2
"""how many read or plan at the same time; the others wait, and every thread would keep memory of its own"""


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def make_app(folder: Path, host: str = "127.0.0.1", token: str | None = None) -> Starlette:
    """The page over the runs in `folder`."""
    api = Api(Library(folder))
    routes = [
        *(Route(path, _page, methods=["GET"]) for path in PAGES),
        Route("/api/health", api.health),
        Route("/api/openapi.json", api.openapi),
        Route("/api/runs", api.runs),
        Route("/api/runs/{name}", api.detail),
        Route("/api/runs/{name}/curves", api.curves),
        Route("/api/runs/{name}/clients", api.clients),
        Route("/api/runs/{name}/trace", api.trace),
        Route("/api/runs/{name}/events", api.events),
        Route("/api/runs/{name}/table.csv", api.table),
        Route("/api/compare", api.compare),
        Route("/api/plan", api.choices, methods=["GET"]),
        Route("/api/plan", api.plan, methods=["POST"]),
        Route("/api/trace", api.prices, methods=["POST"]),
        Route("/static/plotly.min.js", _plotly, methods=["GET"]),
        Mount("/static", _Static(directory=STATIC)),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, host=host, token=token)],
        exception_handlers={HeadgateError: _refuse, HTTPException: _refuse_http},
        lifespan=api.lifespan,
    )
    app.state.api = api
    return app


class Api:
    """The answers; reading and reckoning are done beside the event loop."""

    def __init__(self, library: Library) -> None:
        self.library, self.planner = library, Planner()
        self._reading, self._planning = anyio.CapacityLimiter(READING), anyio.CapacityLimiter(PLANNING)
        self.live = Live(self._progress)

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

    async def health(self, request: Request) -> Response:
        Query(request)
        return Json({"name": "headgate", "version": __version__, "folder": self.library.title})

    async def openapi(self, request: Request) -> Response:
        Query(request)
        return Json(document())

    async def runs(self, request: Request) -> Response:
        asked = Query(request, "search", "sort", "order", "limit", "offset")
        ask = partial(
            listing,
            self.library,
            search=asked.text("search", ""),
            sort=asked.text("sort", "started"),
            order=asked.text("order", "desc"),
            limit=asked.whole("limit", 100, 1, 1000),
            offset=asked.whole("offset", 0, 0, 10**9),
        )
        return await self._json(ask)

    async def detail(self, request: Request) -> Response:
        Query(request)
        return await self._json(partial(answers.detail, self.library, request.path_params["name"]))

    async def curves(self, request: Request) -> Response:
        asked = Query(request, "since", "points", "policies")
        since, points = asked.whole("since", 0, 0, 10**9), asked.whole("points", 400, 2, 2000)
        return await self._json(
            partial(answers.curves, self.library, request.path_params["name"], since, points, asked.texts("policies"))
        )

    async def clients(self, request: Request) -> Response:
        asked = Query(request, "policy", "seed")
        policy, seed = asked.maybe_text("policy"), asked.maybe_whole("seed", 0, 2**62)
        return await self._json(partial(answers.clients, self.library, request.path_params["name"], policy, seed))

    async def trace(self, request: Request) -> Response:
        asked = Query(request, "policy", "seed", "first", "limit")
        policy, seed = asked.maybe_text("policy"), asked.maybe_whole("seed", 0, 2**62)
        first, limit = asked.whole("first", 1, 1, 10**9), asked.whole("limit", 1000, 1, 1000)
        return await self._json(partial(gate.trace, self.library, request.path_params["name"], policy, seed, first, limit))

    async def table(self, request: Request) -> Response:
        figure = Query(request, "figure").text("figure", "metrics")
        name = request.path_params["name"]
        lines = await self._read(partial(answers.table, self.library, name, figure))
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.=") else "_" for c in f"{name}-{figure}")
        return StreamingResponse(
            lines, media_type="text/csv; charset=utf-8", headers={"Content-Disposition": f'attachment; filename="{safe}.csv"'}
        )

    async def events(self, request: Request) -> Response:
        Query(request)
        name = request.path_params["name"]
        now = await self._progress(name)
        said = request.headers.get("last-event-id", "")
        last = int(said) if said.isascii() and said.isdigit() and len(said) < 20 else None
        if now.state == "finished" and last is not None and last >= now.done:
            return Response(status_code=204)  # there is nothing more to come, and a browser stops asking
        return StreamingResponse(
            self.live.stream(name, now, last), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def compare(self, request: Request) -> Response:
        asked = Query(request, "runs", "policies", "x", "metric", "points", "to_run", "to_policy")
        return await self._json(
            partial(
                compare,
                self.library,
                asked.texts("runs"),
                asked.texts("policies"),
                asked.text("x", "round"),
                asked.text("metric", "best_accuracy"),
                asked.whole("points", 300, 2, 2000),
                (asked.maybe_text("to_run"), asked.maybe_text("to_policy")),
            )
        )

    async def choices(self, request: Request) -> Response:
        Query(request)
        return await self._json(choices)

    async def plan(self, request: Request) -> Response:
        Query(request)
        asked = json_object(await body(request, "application/json", MOST_JSON))
        work = self.planner.arrive(asked)
        return await anyio.to_thread.run_sync(lambda: Json(work()), limiter=self._planning)

    async def prices(self, request: Request) -> Response:
        column = Query(request, "column").text("column", "cost")
        text = await body(request, "text/csv", MOST_CSV)
        return await self._json(partial(prices_of, text, column))

    async def _json(self, ask: Callable[[], Mapping[str, Any]]) -> Response:
        return await self._read(lambda: Json(ask()))

    async def _read(self, ask: Callable[[], Read]) -> Read:
        return await anyio.to_thread.run_sync(ask, limiter=self._reading)

    async def _progress(self, name: str) -> Progress:
        return await self._read(partial(self.library.progress, name))


async def _page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html", media_type="text/html")


async def _plotly(request: Request) -> Response:
    found = find_spec("plotly")  # its file is wanted, not its modules, which take a second to import
    if found is None or not found.submodule_search_locations:
        raise SettingError("page: needs plotly, as in pip install 'headgate[web]'")
    script = Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    return FileResponse(script, media_type="text/javascript", headers={"Cache-Control": "private, max-age=86400"})


class _Static(StaticFiles):
    def file_response(self, full_path: Any, stat_result: Any, scope: Scope, status_code: int = 200) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"  # asked again, and answered with 304
        return response


def _refuse(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, Refused) else 404 if isinstance(error, UnknownRun) else 422
    said = " ".join(str(error).split())
    hang_up = {"Connection": "close"} if status in (413, 415) else None  # or the rest of the body would still be taken in
    return Json({"error": said if len(said) <= 500 else f"{said[:497]}..."}, status, hang_up)


def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Json(
        {"error": f"{request.url.path[:200]}: {str(error.detail).lower()}"}, error.status_code, dict(error.headers or {})
    )
