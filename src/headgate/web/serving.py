"""The server of the page: its application, its socket and its link."""

import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from headgate import analysis
from headgate.books.journal import OtherRequestError
from headgate.errors import DataError, HeadgateError, LedgerError, SettingError
from headgate.version import __version__
from headgate.web.accounts.gate import API, Forbidden
from headgate.web.accounts.keeper import Busy, ReadOnly, UnknownAccount
from headgate.web.accounts.routes import account_routes
from headgate.web.accounts.service import Service
from headgate.web.accounts.telling import Telling
from headgate.web.api import described, endpoints, refusal
from headgate.web.metrics import metrics_text
from headgate.web.runs import Library, UnknownRun
from headgate.web.security import EVERYWHERE, LOOPBACK, Guard

IDLE = 5
"""largest number of seconds between two requests on one connection"""
CONNECTIONS = 512
"""largest number of connections; more are answered with 503"""
THREADS = 4
"""number of threads that read or plan at the same time; other requests wait, because
each thread keeps its own memory
"""
LARGEST_HEAD = 32 * 2**10
"""largest size of a request without its body, in bytes"""
SHORTEST_TOKEN = 16
TOKEN = "HEADGATE_TOKEN"


def token_for(host: str, file: Path | None = None) -> str | None:
    """Return the token in `file` or HEADGATE_TOKEN, where other users cannot see it.

    Without one it is None on loopback, and a new token elsewhere.
    """
    given = os.environ.get(TOKEN) or None
    if file is not None:
        try:
            with file.open("rb") as opened:
                given = opened.read(1000).decode("ascii").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no text"
            raise SettingError(f"--token-file {file}: cannot be read ({why})") from None
    if given is None:
        return None if host.lower() in LOOPBACK else secrets.token_urlsafe(24)
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{{SHORTEST_TOKEN},200}}", given):
        raise SettingError(
            f"token: must be {SHORTEST_TOKEN} to 200 letters, digits, - or _"
        )
    return given


def link_to(
    host: str,
    port: int,
    token: str | None,
) -> str:
    """Return the link to the page, with the token if there is one.

    >>> link_to("127.0.0.1", 8040, None), link_to("::1", 80, "abc")
    ('http://127.0.0.1:8040/', 'http://[::1]:80/?token=abc')
    """
    name = host
    if host in EVERYWHERE:
        name = socket.gethostname()
    elif ":" in host:
        name = f"[{host}]"
    query = f"?token={token}" if token else ""
    return f"http://{name}:{port}/{query}"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this host and port."""
    if not 0 <= port <= 65535:
        raise SettingError(f"--port {port}: must be 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host,
            port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )[0]
    except (OSError, UnicodeError):
        raise SettingError(f"--host {host}: is no address of this machine") from None
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        if isinstance(error, PermissionError):
            raise SettingError(
                f"--port {port}: may not be used ({error.strerror}); choose one above"
                " 1023"
            ) from None
        raise SettingError(
            f"--port {port}: cannot be used on {host} ({error.strerror}); --port 0"
            " takes a free one"
        ) from None
    return listening


def configured(app: ASGIApp) -> uvicorn.Config:
    """Return the settings of uvicorn: limits, and no log, which could fill the disk."""
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        log_level="error",
        access_log=False,
        server_header=False,
    )


def serve(
    folder: Path,
    host: str,
    port: int,
    token: str | None,
    started: Callable[[str], None],
    service: Service | None = None,
) -> None:
    """Serve until Ctrl-C; `started` is called with the link."""
    app = make_app(folder, host, token, service)
    listening = listen(host, port)
    link = link_to(host, listening.getsockname()[1], token)
    started(link)  # until uvicorn is ready, connections wait at the socket
    with listening, suppress(KeyboardInterrupt):
        uvicorn.Server(configured(app)).run(sockets=[listening])


STATUS = {
    UnknownRun: 404,
    UnknownAccount: 404,
    Forbidden: 403,
    Busy: 503,
    ReadOnly: 423,
    OtherRequestError: 422,
    LedgerError: 409,
}
"""the status of an answer to an error; of all others 422"""
STATIC = Path(__file__).parent / "static"
DRAWING = Path(analysis.__file__).parent / "drawing"
"""scripts for figures, which the report uses as well"""
TAG = re.compile(r"\d+|constrained-.*|.*\[.*|int|float|str|bool|timedelta")
"""parts of the place of an error that are no keys: numbers, and types"""
DESCRIPTION = """The API of headgate. That of runs reads run folders and plans, and
changes nothing. That of accounts decides what is bought and keeps the money: every
write has a key, and done again with it, it is done once and has the same answer."""
PAGES = ("/", "/run/{name}", "/compare", "/plan", "/accounts", "/accounts/{name}")


def make_app(
    folder: Path,
    host: str = "127.0.0.1",
    token: str | None = None,
    service: Service | None = None,
) -> FastAPI:
    """Return the application of the page for the runs in `folder`, and of a service for
    accounts, if there is one.
    """
    library = Library(folder)
    outer = [Middleware(Guard, host=host, token=token)]
    if service is not None:
        tokens, rates = service.tokens, service.rates
        outer = [
            Middleware(Telling, counts=service.counts, log=service.log),
            Middleware(Guard, host=host, tokens=tokens, rates=rates),
        ]
    app = FastAPI(
        title="headgate",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        middleware=outer,
        exception_handlers={
            HeadgateError: _refuse,
            HTTPException: _refuse_http,
            RequestValidationError: _refuse_query,
        },
        lifespan=_lifespan,
    )
    app.state.library, app.state.service = library, service
    app.openapi = partial(described, app)  # type: ignore[method-assign]
    app.include_router(endpoints(library))
    if service is not None:
        app.include_router(account_routes(service.keeper))
        app.add_route("/healthz", service.health, methods=["GET"])
        app.add_route("/readyz", service.ready, methods=["GET"])
    app.add_api_route(
        "/metrics",
        partial(_metrics, library, service),
        response_model=None,
        include_in_schema=False,
    )
    for path in PAGES:
        app.add_route(path, _page, methods=["GET"])
    app.add_route("/static/plotly.min.js", _plotly, methods=["GET"])
    app.mount("/static/drawing", _Static(directory=DRAWING))
    app.mount("/static", _Static(directory=STATIC))
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    current_default_thread_limiter().total_tokens = THREADS
    yield
    if app.state.service is not None:
        await app.state.service.keeper.close()


async def _metrics(library: Library, service: Service | None) -> Response:
    text = await run_in_threadpool(metrics_text, library)
    if service is not None:
        text += await service.metrics()
    return Response(text, media_type="text/plain; version=0.0.4")


async def _page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html", media_type="text/html")


async def _plotly(request: Request) -> Response:
    # this finds the file without an import of plotly, which takes a second
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        raise SettingError("page: needs plotly, as in pip install 'headgate[web]'")
    folder = Path(found.submodule_search_locations[0])
    script = folder / "package_data" / "plotly.min.js"
    kept = {"Cache-Control": "private, max-age=86400"}
    return FileResponse(
        script,
        media_type="text/javascript",
        headers=kept,
    )


class _Static(StaticFiles):
    def file_response(
        self,
        full_path: Any,
        stat_result: Any,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        # the browser asks again, and gets 304 if nothing has changed
        response.headers["Cache-Control"] = "no-cache"
        return response


async def _refuse(request: Request, error: Exception) -> Response:
    fits = (status for kind, status in STATUS.items() if isinstance(error, kind))
    status = next(fits, 422)
    if isinstance(error, DataError) and request.url.path.startswith(API):
        status = 503  # the disk is full, or another process has the accounts
    return refusal(status, error, {"Retry-After": "1"} if status == 503 else {})


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    page = "text/html" in request.headers.get("accept", "")
    if error.status_code == 404 and page:
        return FileResponse(STATIC / "index.html", 404, media_type="text/html")
    why = f"{request.url.path[:200]}: {str(error.detail).lower()}"
    return refusal(error.status_code, why, error.headers or {})


async def _refuse_query(request: Request, error: Exception) -> Response:
    """Return an answer that names the first wrong key of a request, and its value."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place, *inside = first["loc"]
    names = takewhile(lambda each: not TAG.fullmatch(each), map(str, inside))
    key = ".".join(names) or place
    value = ""
    if first["type"] not in ("missing", "json_invalid"):
        value = str(first["input"])[:100]
    must = first["msg"].replace("Input should be", "must be")
    return refusal(400, f"{key} = {value!r}: {must}")
