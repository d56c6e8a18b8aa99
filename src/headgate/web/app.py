"""The application: pages, their files, and the API behind them."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from headgate import __version__, analysis
from headgate.errors import HeadgateError, SettingError
from headgate.escaping import one_line
from headgate.web.api import Api, Json, Problem, check_query, check_room
from headgate.web.runs import Library, UnknownRun
from headgate.web.security import Guard, Refused

STATIC = Path(__file__).parent / "static"
DRAWING = Path(analysis.__file__).parent / "drawing"
"""what the report draws with too"""
PAGES = ("/", "/run/{name}", "/compare", "/plan", "/gate", "/gate/{name}")


def make_app(folder: Path, host: str = "127.0.0.1", token: str | None = None) -> FastAPI:
    """Return the page over the runs in `folder`."""
    api = Api(Library(folder))
    app = FastAPI(
        title="headgate",
        version=__version__,
        description="The page's API. It reads run folders and plans; it changes nothing.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        middleware=[Middleware(Guard, host=host, token=token)],
        exception_handlers={HeadgateError: _refuse, HTTPException: _refuse_http, RequestValidationError: _refuse_query},
        lifespan=api.lifespan,
    )
    app.state.api = api
    app.include_router(api.router())
    asked = [Depends(check_query), Depends(check_room)]
    app.add_api_route("/metrics", api.metrics, dependencies=asked, response_model=None, include_in_schema=False)
    for path in PAGES:
        app.add_route(path, _page, methods=["GET"])
    app.add_route("/static/plotly.min.js", _plotly, methods=["GET"])
    app.mount("/static/drawing", _Static(directory=DRAWING))
    app.mount("/static", _Static(directory=STATIC))
    return app


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


async def _refuse(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, Refused) else 404 if isinstance(error, UnknownRun) else 422
    hang_up = {"Connection": "close"} if status in (413, 415) else None  # or the rest of the body would still be taken in
    return Json(Problem(one_line(error)), status, hang_up)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = Problem(f"{request.url.path[:200]}: {str(error.detail).lower()}")
    return Json(problem, error.status_code, dict(error.headers or {}))


async def _refuse_query(request: Request, error: Exception) -> Response:
    """Name the first key of the query that is wrong, and its value."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    key, must = str(first["loc"][-1]) if len(first["loc"]) < 3 else str(first["loc"][1]), first["msg"]
    value = "" if first["type"] == "missing" else str(first["input"])[:100]
    return Json(Problem(f"{key} = {value!r}: must be {must.removeprefix('Input should be ')}"), 400)
