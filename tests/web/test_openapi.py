"""The document of the API is true: whatever it allows is answered as it says, and nothing breaks the server."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headgate.web import shapes
from headgate.web.api import ENDPOINTS, document
from headgate.web.app import PAGES, make_app

from .folders import MadeUp, sweep


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("described") / "runs"
    MadeUp(folder / "run", rounds=6).finish()
    MadeUp(folder / "live", rounds=6, parts=True).play(3)
    for each in sweep(folder / "study", rounds=3):
        each.finish()
    return make_app(folder)


@pytest.fixture
def api(app):
    """Names that lead somewhere are tried beside those that do not, and small plans beside what has no meaning."""
    described = json.loads(json.dumps(document()))
    names = {"enum": ["run", "live", "study~lr=0.1", "none", "..", "a/b", "%2e%2e"]}
    for ways in described["paths"].values():
        for way in ways.values():
            for parameter in way.get("parameters", ()):
                if parameter["name"] == "name":
                    parameter["schema"] = {"type": "string", **names}
                if parameter["name"] == "runs":
                    parameter["schema"]["items"] |= names
    described["components"]["schemas"]["PlanRequest"]["properties"] |= SMALL_PLANS
    loaded = schemathesis.openapi.from_dict(described)
    loaded.app = app
    return loaded


ENDLESS = ("/api/runs/{name}/events",)  # while a run lives; tests/web/test_live.py asks
NOTHING_TO_ASK = ("/api/health", "/api/openapi.json", "/api/plan")
NUMBER = {"type": "number", "minimum": -1, "maximum": 1e9}
PRICES = {"uniform": ("low", "high"), "constant": ("value",), "seasonal": ("average", "amplitude", "period")}


def _price(kind, names):
    properties = {"kind": {"const": kind}, **dict.fromkeys(names, NUMBER)}
    return {"type": "object", "properties": properties, "required": list(properties)}


TRACE = {"kind": {"const": "trace"}, "prices": {"type": "array", "items": NUMBER}, "at_end": {"const": "repeat"}}
BUFFERS = {"type": "array", "items": {"type": "integer", "minimum": -1, "maximum": 300}, "maxItems": 12}
CLIENTS = {"type": ["integer", "null"], "maximum": 50}
SMALL_PLANS = {
    "system": {"type": "object", "properties": {"buffers": BUFFERS, "clients": CLIENTS, "budget": NUMBER}},
    "prices": {
        "anyOf": [*(_price(*each) for each in PRICES.items()), {"type": "object", "properties": TRACE}, {"type": "object"}]
    },
    "rounds": {"type": "integer", "minimum": 0, "maximum": 40},
    "seeds": {"type": "integer", "minimum": 0, "maximum": 3},
    "policy": {"enum": ["acdpp", "headgate", "constant", "dpp", "oracle", "released", "no such"]},
}
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


WAYS = [
    (each.path, each.method, mode)
    for each in ENDPOINTS
    for mode in schemathesis.GenerationMode
    if each.path not in ENDLESS
    and not (mode is schemathesis.GenerationMode.NEGATIVE and each.path in NOTHING_TO_ASK and each.method == "GET")
]


@pytest.mark.parametrize(("path", "way", "mode"), WAYS, ids=lambda part: getattr(part, "value", part))
def test_answers_are_as_described_and_nothing_breaks(api, path, way, mode):
    @settings(max_examples=30, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
    @given(case=api[path][way].as_strategy(generation_mode=mode))
    def holds(case):
        case.call_and_validate(headers={"Host": "127.0.0.1"}, checks=CHECKS)

    holds()


def test_every_route_is_described_and_every_description_has_a_route(app):
    routes = {(route.path, way) for route in app.routes if route.path.startswith("/api/") for way in route.methods - {"HEAD"}}
    assert routes == {(each.path, each.method) for each in ENDPOINTS}
    described = {(path, way.upper()) for path, ways in document()["paths"].items() for way in ways}
    assert described == routes
    assert {route.path for route in app.routes} >= set(PAGES)


def test_an_endpoint_is_described_by_its_handler():
    told = document()["paths"]["/api/runs/{name}/curves"]["get"]
    assert told["summary"] == "Means over seeds with intervals, round by round"
    name, since, points, policies = told["parameters"]
    assert (name["in"], name["required"]) == ("path", True)
    assert (since["schema"]["minimum"], since["schema"]["default"]) == (0, 0)
    assert (points["schema"]["maximum"], points["description"]) == (2000, "most points of a line")
    assert policies["schema"]["items"] == {"type": "string"}
    runs = document()["paths"]["/api/compare"]["get"]["parameters"][0]
    assert (runs["name"], runs["required"]) == ("runs", True)
    sort = next(each for each in document()["paths"]["/api/runs"]["get"]["parameters"] if each["name"] == "sort")
    assert "accuracy" in sort["schema"]["enum"]


def test_the_document_is_served_and_stands_by_itself(app):
    told = json.dumps(document())
    assert document()["openapi"] == "3.1.0"
    used = {part.partition('"')[0] for part in told.split("#/components/schemas/")[1:]}
    assert used <= set(document()["components"]["schemas"])
    for name in document()["components"]["schemas"]:
        assert hasattr(shapes, name) or name == "PlanRequest"
