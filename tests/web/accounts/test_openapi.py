"""The document of the accounts' API is true: whatever it allows is answered as it says,
and nothing breaks the service.
"""

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

from headgate.web.accounts.service import Service
from headgate.web.serving import make_app

from ..served import Kept

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
NAMES = {"enum": ["one", "two", "none", "..", "a%2fb", "ONE"]}
SMALL = {"type": "integer", "minimum": 1, "maximum": 5}
CLIENTS = {"enum": [0, 1, 2, -1, 3, "0", "x"]}
FEW = [
    {"kind": "uniform", "low": 1, "high": 4},
    {"kind": "uniform", "low": 4, "high": 1},
    {"kind": "trace", "file": "x"},
    {"kind": "none"},
    {},
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with Kept(tmp_path_factory.mktemp("described") / "accounts") as one:
        for name in ("one", "two"):
            a = one.began(name)
            for _ in range(3):
                one.all.post(f"{a}/rounds", {"price": 3.0})
                one.all.settle(a, one.all.get(a).json["open"], {"reports": {"0": 1}})
        one.all.post("/one/rounds", {"price": 2.0})
        yield one


@pytest.fixture(scope="module")
def api(kept):
    """Names, rounds and clients that lead somewhere are tried beside those that do
    not.
    """
    described = json.loads(json.dumps(kept.served.app.openapi()))
    schemas = described["components"]["schemas"]
    for ways in described["paths"].values():
        for way in ways.values():
            for parameter in way.get("parameters", ()):
                if parameter["name"] == "name":
                    parameter["schema"] = {"type": "string", **NAMES}
                if parameter["name"] == "round":
                    parameter["schema"] = SMALL
    for name in ("NewDelivery", "Adjustment", "Check"):
        own = schemas[name]["properties"]
        own |= dict.fromkeys(own.keys() & {"round"}, SMALL)
        own |= dict.fromkeys(own.keys() & {"client"}, CLIENTS)
    schemas["Outlook"]["properties"] |= {
        "prices": {"enum": FEW},
        "rounds": {"type": "integer", "minimum": 0, "maximum": 20},
    }
    for own in schemas.values():
        own.pop("examples", None)
    return schemathesis.openapi.from_dict(described)


def ways(tmp):
    """Yield every way of every path of accounts, but the stream, which has no end."""
    document = make_app(tmp, service=Service(str(tmp))).openapi()
    for path, own in document["paths"].items():
        if path.startswith("/api/accounts") and not path.endswith("/stream"):
            for way in own:
                yield path, way.upper()


def pytest_generate_tests(metafunc):
    import tempfile
    from pathlib import Path

    if "path" in metafunc.fixturenames:
        with tempfile.TemporaryDirectory() as folder:
            metafunc.parametrize(("path", "way"), list(ways(Path(folder))))


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=str)
def test_answers_are_as_described_and_nothing_breaks(kept, api, path, way, mode):
    token = {"Authorization": f"Bearer {kept.token}"}

    @settings(
        max_examples=8,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=api[path][way].as_strategy(generation_mode=mode))
    def holds(case):
        answer = case.call(
            base_url=f"http://127.0.0.1:{kept.served.port}", headers=token
        )
        case.validate_response(answer, checks=CHECKS)

    holds()


def test_the_accounts_are_sound_after_all_that(kept):
    for name in kept.all.get("").json["accounts"]:
        assert kept.all.get(f"/{name}/audit").status == 200
