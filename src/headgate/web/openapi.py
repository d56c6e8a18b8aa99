"""The document of the API, OpenAPI 3.1: what may be asked, and the shapes of what comes back."""

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from headgate import __version__
from headgate.web import shapes
from headgate.web.answers import LINES, TABLES
from headgate.web.asking import PlanRequest
from headgate.web.compare import AXES, MOST_RUNS
from headgate.web.listing import ORDERS, SORTS
from headgate.web.uploads import MOST_CSV, MOST_JSON

REFUSALS = {
    400: "the query, the host or the body has no meaning",
    401: "the token is missing or wrong",
    404: "there is no such run",
    409: "a newer request has taken the place of this one",
    413: "the body is too large",
    415: "the body is of another kind",
    422: "what was asked cannot be met, or what was found cannot be read",
}
Json = dict[str, Any]


def _text(name: str, says: str, values: tuple[str, ...] = (), default: str | None = None, many: bool = False) -> Json:
    schema: Json = (
        {"type": "string"} | ({"enum": list(values)} if values else {}) | ({} if default is None else {"default": default})
    )
    if many:
        schema = {"type": "array", "items": schema, "maxItems": MOST_RUNS}
    return {"name": name, "in": "query", "description": says, "schema": schema}


def _whole(name: str, says: str, least: int, most: int, default: int | None = None) -> Json:
    schema: Json = {"type": "integer", "minimum": least, "maximum": most} | ({} if default is None else {"default": default})
    return {"name": name, "in": "query", "description": says, "schema": schema}


NAME: Json = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "the folder's name; for the point of a sweep, sweep~point",
    "schema": {"type": "string"},
}
POLICY = _text("policy", "a policy of the run; left out: its first")
SEED = _whole("seed", "a seed of the run", 0, 2**62)
PATHS: dict[str, dict[str, tuple[str, list[Json], Any, tuple[int, ...]]]] = {
    "/api/health": {"get": ("Whether the page is there", [], shapes.Health, ())},
    "/api/openapi.json": {"get": ("This document", [], {"type": "object"}, ())},
    "/api/runs": {
        "get": (
            "All runs, searched, sorted, a page at a time",
            [
                _text("search", "words that must all occur in name, policies or state"),
                _text("sort", "what to sort by", SORTS, "started"),
                _text("order", "rising or falling", ORDERS, "desc"),
                _whole("limit", "most rows", 1, 1000, 100),
                _whole("offset", "rows to pass over", 0, 10**9, 0),
            ],
            shapes.RunList,
            (),
        )
    },
    "/api/runs/{name}": {"get": ("A run: settings, state, results of each policy", [NAME], shapes.Detail, (404, 422))},
    "/api/runs/{name}/curves": {
        "get": (
            "Means over seeds with intervals, round by round",
            [
                NAME,
                _whole("since", "only rounds after this one", 0, 10**9, 0),
                _whole("points", "most points of a line", 2, 2000, 400),
                _text("policies", "these alone; may be repeated", many=True),
            ],
            shapes.Curves,
            (404, 422),
        )
    },
    "/api/runs/{name}/clients": {
        "get": (
            "How full each client's buffer is; without a seed in the mean over seeds",
            [NAME, POLICY, SEED],
            shapes.Clients,
            (404, 422),
        )
    },
    "/api/runs/{name}/trace": {
        "get": (
            "One run, round by round and client by client",
            [
                NAME,
                POLICY,
                SEED,
                _whole("first", "first round", 1, 10**9, 1),
                _whole("limit", "most rounds", 1, 1000, 1000),
            ],
            shapes.Trace,
            (404, 422),
        )
    },
    "/api/runs/{name}/events": {
        "get": ("Server-sent events: rounds and states as they come", [NAME], "text/event-stream", (404, 422))
    },
    "/api/runs/{name}/table.csv": {
        "get": ("The numbers of a figure", [NAME, _text("figure", "which", TABLES, "metrics")], "text/csv", (404, 422))
    },
    "/api/compare": {
        "get": (
            "Runs and policies on one axis, differences to one of the lines, settings that differ",
            [
                {**_text("runs", "names of runs; repeated", many=True), "required": True},
                _text("policies", "these alone; may be repeated", many=True),
                _text("x", "the axis", AXES, "round"),
                _text("metric", "what is compared", LINES, "best_accuracy"),
                _whole("points", "most points of a line", 2, 2000, 300),
                _text("to_run", "the run of the line that the others are compared with; the first, unless said"),
                _text("to_policy", "its policy"),
            ],
            shapes.Comparison,
            (404, 422),
        )
    },
    "/api/plan": {
        "get": ("What can be planned: policies, kinds of prices, recipes, limits", [], shapes.Choices, ()),
        "post": (f"Plan and rehearse; at most {MOST_JSON} bytes", [], shapes.Plan, (409, 413, 415, 422)),
    },
    "/api/trace": {
        "post": (
            f"Prices from a CSV file, checked; at most {MOST_CSV} bytes",
            [_text("column", "the column that holds them", default="cost")],
            shapes.Prices,
            (413, 415, 422),
        )
    },
}
BODIES: dict[tuple[str, str], Json] = {
    ("/api/plan", "post"): {"application/json": {"schema": {"$ref": "#/components/schemas/PlanRequest"}}},
    ("/api/trace", "post"): {"text/csv": {"schema": {"type": "string"}, "example": "cost\n1.5\n2\n"}},
}


@cache
def document() -> Json:
    answers = [told for ways in PATHS.values() for _, _, told, _ in ways.values() if _is_shape(told)]
    _, made = models_json_schema(
        [(shape, "validation") for shape in dict.fromkeys([shapes.Problem, PlanRequest, *answers])],
        ref_template="#/components/schemas/{model}",
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "headgate",
            "version": __version__,
            "description": "The page's API. It reads run folders and plans; it changes nothing.",
        },
        "paths": {path: {way: _operation(path, way, *told) for way, told in ways.items()} for path, ways in PATHS.items()},
        "components": {"schemas": made["$defs"]},
    }


def _is_shape(told: Any) -> bool:
    return isinstance(told, type) and issubclass(told, BaseModel)


def _operation(path: str, way: str, says: str, parameters: list[Json], told: Any, refused: tuple[int, ...]) -> Json:
    if isinstance(told, str):
        content: Json = {told: {"schema": {"type": "string"}}}
    else:
        schema = {"$ref": f"#/components/schemas/{told.__name__}"} if _is_shape(told) else told
        content = {"application/json": {"schema": schema}}
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answers: Json = {"200": {"description": "as asked", "content": content}}
    if told == "text/event-stream":
        answers["204"] = {"description": "the run is finished and Last-Event-ID is its end"}
    answers |= {str(code): {"description": REFUSALS[code], "content": problem} for code in (400, 401, *refused)}
    body = BODIES.get((path, way))
    return {
        "summary": says,
        "operationId": f"{way}{path.removeprefix('/api').replace('{name}', 'run').title().replace('/', '').replace('.', '')}",
        **({"parameters": parameters} if parameters else {}),
        **({"requestBody": {"required": True, "content": body}} if body else {}),
        "responses": answers,
    }
