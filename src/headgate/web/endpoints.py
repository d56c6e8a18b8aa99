"""An endpoint is declared once: its route, the check of its query and its place in the OpenAPI document come from that.

A handler is a method. Its docstring says what it answers, its arguments are the query: a type, limits, a sentence and a
default each. `name` is the run in the path, `body` what was sent, `request` the request itself.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError, create_model
from pydantic.json_schema import models_json_schema
from pydantic_core import CoreSchema, core_schema
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from headgate import __version__
from headgate.registry import nearest
from headgate.web.shapes import Problem
from headgate.web.uploads import Refused, body

Handler = TypeVar("Handler", bound=Callable[..., Any])
Json = dict[str, Any]
GIVEN = ("self", "body", "request")
REFUSALS = {
    400: "the query, the host or the body has no meaning",
    401: "the token is missing or wrong",
    404: "there is no such run",
    409: "a newer request has taken the place of this one",
    413: "the body is too large",
    415: "the body is of another kind",
    422: "what was asked cannot be met, or what was found cannot be read",
    503: "too many ask at the same time",
}
REFS = "#/components/schemas/{model}"
SAID = "the folder's name; for the point of a sweep, sweep~point"
RUN: Json = {"name": "name", "in": "path", "required": True, "description": SAID, "schema": {"type": "string"}}
Shape = type[BaseModel] | str
"""a model, or the media type of what is no JSON"""


@dataclass(frozen=True)
class OneOf:
    """Only these texts are allowed."""

    values: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema(list(self.values))


class Body(NamedTuple):
    """What may be sent, of a limited size."""

    media: str
    most: int
    told: Shape


def _content(told: Shape) -> Json:
    if isinstance(told, str):
        return {told: {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"$ref": REFS.format(model=told.__name__)}}}


@dataclass(frozen=True)
class Endpoint:
    method: str
    path: str
    handler: Callable[..., Any]
    answer: Shape
    refused: tuple[int, ...]
    takes: Body | None = None

    @cached_property
    def query(self) -> type[BaseModel]:
        """The arguments of the handler that are not in the path, as a model."""
        asked: Json = {
            name: (each.annotation, ... if each.default is Parameter.empty else each.default)
            for name, each in signature(self.handler).parameters.items()
            if name not in GIVEN and f"{{{name}}}" not in self.path
        }
        return create_model("Query", **asked)

    def checked(self, given: QueryParams) -> Json:
        """The query as the handler takes it, or a refusal in one line."""
        raw: Json = {}
        for key in (each for each in given if each != "token"):
            known, values = self.query.model_fields, given.getlist(key)
            if key not in known:
                hint = nearest(key[:100], list(known)) if known else "; there are none"
                raise Refused(400, f"{key[:100]}: unknown key of the query{hint}")
            many = known[key].annotation == tuple[str, ...]
            if len(values) > 1 and not many:
                raise Refused(400, f"{key}: is given {len(values)} times")
            raw[key] = values if many else values[0]
        try:
            return dict(self.query.model_validate(raw))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key, must = str(first["loc"][0]), first["msg"].removeprefix("Input should be ")
            raise Refused(400, f"{key} = {str(raw.get(key, ''))[:100]!r}: must be {must}") from None

    def responder(self, owner: Any, finish: Callable[[Callable[[], Any]], Awaitable[Response]]) -> Callable[..., Any]:
        """What a route calls. A handler that is no coroutine is handed to `finish`, which may run it elsewhere."""
        wants = signature(self.handler).parameters

        async def respond(request: Request) -> Response:
            asked = self.checked(request.query_params) | request.path_params
            if self.takes is not None:
                asked["body"] = await body(request, self.takes.media, self.takes.most)
            if "request" in wants:
                asked["request"] = request
            if iscoroutinefunction(self.handler):
                answered: Response = await self.handler(owner, **asked)
                return answered
            return await finish(lambda: self.handler(owner, **asked))

        return respond

    def described(self) -> Json:
        """Its operation in the document."""
        responses: Json = {"200": {"description": "as asked", "content": _content(self.answer)}}
        if self.answer == "text/event-stream":
            responses["204"] = {"description": "the run is finished and Last-Event-ID is its end"}
        for code in (400, 401, 503, *self.refused):
            responses[str(code)] = {"description": REFUSALS[code], "content": _content(Problem)}
        place = self.path.removeprefix("/api").replace("{name}", "run").title().replace("/", "").replace(".", "")
        sent = {"requestBody": {"required": True, "content": _content(self.takes.told)}} if self.takes is not None else {}
        return {
            "summary": (self.handler.__doc__ or "").strip().rstrip("."),
            "operationId": f"{self.method.lower()}{place}",
            "parameters": self._parameters(),
            "responses": responses,
            **sent,
        }

    def _parameters(self) -> list[Json]:
        schema = self.query.model_json_schema()
        told = [RUN] if "{name}" in self.path else []
        for name, own in schema.get("properties", {}).items():
            says = own.pop("description", "")
            own = own["anyOf"][0] if "anyOf" in own else own  # a value or left out: nobody can send null in a query
            needed = {"required": True} if name in schema.get("required", ()) else {}
            told.append({"name": name, "in": "query", "description": says, "schema": own, **needed})
        return told


class Table(list[Endpoint]):
    """All endpoints, in the order in which they are declared."""

    def get(self, path: str, answer: Shape, *refused: int) -> Callable[[Handler], Handler]:
        return self._declare("GET", path, answer, refused)

    def post(self, path: str, answer: Shape, takes: Body, *refused: int) -> Callable[[Handler], Handler]:
        return self._declare("POST", path, answer, (413, 415, 422, *refused), takes)

    def _declare(
        self, method: str, path: str, answer: Shape, refused: tuple[int, ...], takes: Body | None = None
    ) -> Callable[[Handler], Handler]:
        def declared(handler: Handler) -> Handler:
            self.append(Endpoint(method, path, handler, answer, refused, takes))
            return handler

        return declared

    def document(self) -> Json:
        """OpenAPI 3.1: what may be asked, and the shapes of what comes back."""
        shapes: list[Shape] = [Problem, *(each.answer for each in self), *(each.takes.told for each in self if each.takes)]
        models = dict.fromkeys(each for each in shapes if not isinstance(each, str))
        _, made = models_json_schema([(each, "validation") for each in models], ref_template=REFS)
        paths: dict[str, Json] = {}
        for each in self:
            paths.setdefault(each.path, {})[each.method.lower()] = each.described()
        about = "The page's API. It reads run folders and plans; it changes nothing."
        return {
            "openapi": "3.1.0",
            "info": {"title": "headgate", "version": __version__, "description": about},
            "paths": paths,
            "components": {"schemas": made["$defs"]},
        }
