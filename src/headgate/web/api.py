"""The API of the page. FastAPI validates requests and creates the OpenAPI document;
threads beside the event loop answer.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query
from starlette.requests import Request
from starlette.responses import Response

from headgate.analysis.curves import Heat
from headgate.analysis.formatting import jsonable
from headgate.escaping import one_line
from headgate.version import __version__
from headgate.web import answers, compare, planning
from headgate.web.accounts.tokens import EVERY
from headgate.web.runs import Library


@dataclass(frozen=True)
class Problem:
    """Why a request is refused (RFC 9457)."""

    title: str
    status: int
    detail: str
    """one line that names the setting and its value"""
    setting: str | None = None
    value: str | None = None
    type: str = "about:blank"


@dataclass(frozen=True)
class Health:
    name: str
    version: str
    folder: str
    runs: bool
    """whether who asks may see runs"""
    accounts: bool
    """whether accounts are served, too"""


def refusals(meanings: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Return the refusals of a route for its description, by their status."""
    return {
        status: {"model": Problem, "description": meaning}
        for status, meaning in meanings.items()
    }


REFUSALS = refusals(
    {
        400: "the query, the host or the body has no meaning",
        401: "the token is missing or wrong",
        404: "there is no such run",
        413: "the body is too large, or does not say how long it is",
        422: "what was asked cannot be met, or what was found cannot be read",
    }
)
PROBLEM = "application/problem+json"
_SETTING = re.compile(r"(?P<setting>[^=:]{1,80}(: [^=:]{1,80})?) = (?P<value>.*?): ")


def refusal(
    status: int,
    error: object,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Response:
    """Return the answer to a request that is refused."""
    detail = one_line(error)
    named = _SETTING.match(detail)
    setting, value = (None, None) if named is None else named.group("setting", "value")
    problem = Problem(HTTPStatus(status).phrase, status, detail, setting, value)
    return Json(problem, status, dict(headers), PROBLEM)


def described(app: FastAPI) -> dict[str, Any]:
    """Return the document of the API, in which refusals have their own media type."""
    if app.openapi_schema is None:
        found = FastAPI.openapi(app)
        for ways in found["paths"].values():
            for way in ways.values():
                for status, each in way["responses"].items():
                    content = each.get("content", {})
                    if int(status) >= 400 and "application/json" in content:
                        content[PROBLEM] = content.pop("application/json")
    assert app.openapi_schema is not None
    return app.openapi_schema


Policy = Annotated[
    str | None, Query(description="a policy of the run; left out: its first")
]
Policies = Annotated[
    list[str],
    Query(
        description="these alone; may be repeated",
        max_length=compare.MOST_RUNS,
    ),
]
Seed = Annotated[
    int | None,
    Query(
        ge=0,
        le=2**62,
        description="a seed of the run",
    ),
]
Points = Annotated[
    int,
    Query(
        ge=2,
        le=2000,
        description="most points of a line",
    ),
]


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        text = json.dumps(
            jsonable(content),
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )
        return text.encode("utf-8", "replace")


def endpoints(library: Library) -> APIRouter:
    """Return the endpoints for these runs. Each request is answered in a thread."""
    router = APIRouter(
        prefix="/api",
        responses=REFUSALS,
    )

    @router.get("/health", response_model=Health)
    def health(request: Request) -> Response:
        """Return the version and the folder of the page, and what it shows."""
        everything = request.state.holder.account == EVERY
        served = request.app.state.service is not None
        shown = (library.title, everything, served)
        return Json(Health("headgate", __version__, *shown))

    @router.get("/runs", response_model=answers.RunList)
    def runs(
        search: Annotated[
            str,
            Query(description="words that must all occur in name, policies or state"),
        ] = "",
        sort: Annotated[answers.Sort, Query(description="what to sort by")] = "started",
        order: Annotated[
            answers.Order, Query(description="rising or falling")
        ] = "desc",
        limit: Annotated[
            int,
            Query(
                ge=1,
                le=1000,
                description="most rows",
            ),
        ] = 100,
        offset: Annotated[
            int,
            Query(
                ge=0,
                le=10**9,
                description="rows to pass over",
            ),
        ] = 0,
    ) -> Response:
        """Return the runs that match a search, sorted, one page at a time."""
        return Json(answers.run_list(library, search, sort, order, limit, offset))

    @router.get("/runs/{name}", response_model=answers.RunDetail)
    def detail(name: str) -> Response:
        """Return the settings and the state of a run, and the results of each
        policy.
        """
        return Json(answers.detail(library, name))

    @router.get("/runs/{name}/curves", response_model=answers.RunCurves)
    def curves(
        name: str,
        since: Annotated[
            int,
            Query(
                ge=0,
                le=10**9,
                description="only rounds after this one",
            ),
        ] = 0,
        points: Points = 400,
        policies: Policies = [],  # noqa: B006  # FastAPI copies it
    ) -> Response:
        """Return means over seeds with intervals, round by round."""
        return Json(answers.curves(library, name, since, points, policies))

    @router.get("/runs/{name}/clients", response_model=Heat)
    def clients(
        name: str,
        policy: Policy = None,
        seed: Seed = None,
    ) -> Response:
        """Return how full each client's buffer is; without a seed, the mean over
        seeds.
        """
        return Json(answers.clients(library, name, policy, seed))

    @router.get("/compare", response_model=compare.RunComparison)
    def compared(
        runs: Annotated[
            list[str],
            Query(
                description="names of runs; repeated",
                min_length=1,
                max_length=compare.MOST_RUNS,
            ),
        ],
        policies: Policies = [],  # noqa: B006  # FastAPI copies it
        metric: Annotated[
            answers.Metric, Query(description="what is compared")
        ] = "best_accuracy",
        points: Points = 300,
        to_run: Annotated[
            str | None,
            Query(
                description="the run of the line to compare with; left out: the first"
            ),
        ] = None,
        to_policy: Annotated[str | None, Query(description="its policy")] = None,
    ) -> Response:
        """Return runs and policies round by round, their differences from one of the
        lines, and the settings that differ.
        """
        return Json(
            compare.compare(
                library, runs, policies, metric, points, (to_run, to_policy)
            )
        )

    @router.get("/plan", response_model=planning.PlanChoices)
    def choices() -> Response:
        """Return what can be planned: policies, recipes, finished runs and limits."""
        return Json(planning.choices(library))

    @router.post("/plan", response_model=planning.PlanAnswer)
    def plan(asked: planning.PlanRequest) -> Response:
        """Return a plan and its rehearsal, beside buying evenly."""
        return Json(planning.answer(asked, library))

    return router
