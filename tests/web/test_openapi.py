"""The document of the API is true: whatever it allows is answered as it says, and
nothing breaks the server.
"""

import json
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headgate.web.serving import make_app

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
    """Names that lead somewhere are tried beside those that do not, and small plans
    beside what has no meaning.
    """
    described = json.loads(json.dumps(app.openapi()))
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


NOTHING_TO_ASK = (("/api/health", "get"), ("/api/plan", "get"))
NUMBER = {"type": "number", "minimum": -1, "maximum": 1e9}
PRICES = {
    "uniform": ("low", "high"),
    "constant": ("value",),
    "brent": ("scale",),
}


def _price(kind, names):
    properties = {"kind": {"const": kind}, **dict.fromkeys(names, NUMBER)}
    return {"type": "object", "properties": properties, "required": list(properties)}


TRACE = {
    "kind": {"const": "trace"},
    "prices": {"type": "array", "items": NUMBER},
    "at_end": {"const": "repeat"},
}
BUFFERS = {
    "type": "array",
    "items": {"type": "integer", "minimum": -1, "maximum": 300},
    "maxItems": 12,
}
CLIENTS = {"type": ["integer", "null"], "maximum": 50}
SMALL_PLANS = {
    "system": {
        "type": "object",
        "properties": {"buffers": BUFFERS, "clients": CLIENTS, "budget": NUMBER},
    },
    "prices": {
        "anyOf": [
            *(_price(*each) for each in PRICES.items()),
            {"type": "object", "properties": TRACE},
            {"type": "object"},
        ]
    },
    "run": {
        "type": "object",
        "properties": {
            "rounds": {"type": "integer", "minimum": 0, "maximum": 40},
            "seeds": {"type": "integer", "minimum": 0, "maximum": 3},
        },
        "required": ["rounds", "seeds"],
    },
    "policies": {
        "enum": [
            {"acdpp": {}},
            {"acdpp": {"K": 3, "gamma": 0.4}},
            {"headgate": {}},
            {"constant": {"capacity": "buffer"}},
            {"dpp": {}},
            {"oracle": {}},
            {"no such": {}},
            {"headgate": {"no such": 1}},
        ]
    },
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


DOCUMENT = make_app(Path(__file__).parent).openapi()
WAYS = [
    (path, way.upper(), mode)
    for path, ways in DOCUMENT["paths"].items()
    for way in ways
    for mode in schemathesis.GenerationMode
    if not (
        mode is schemathesis.GenerationMode.NEGATIVE and (path, way) in NOTHING_TO_ASK
    )
]


@pytest.mark.parametrize(
    ("path", "way", "mode"), WAYS, ids=lambda part: getattr(part, "value", part)
)
def test_answers_are_as_described_and_nothing_breaks(api, path, way, mode):
    @settings(
        max_examples=15,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=api[path][way].as_strategy(generation_mode=mode))
    def holds(case):
        case.call_and_validate(headers={"Host": "127.0.0.1"}, checks=CHECKS)

    holds()
