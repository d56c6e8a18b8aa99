"""A token lets its holder see its own accounts and nothing of others, and do what its
role says: on every route that the document of the API has.
"""

import json

import pytest

from headgate.web.accounts.gate import ROLE
from headgate.web.accounts.service import Service
from headgate.web.accounts.tokens import ROLES
from headgate.web.serving import make_app

from ..served import Kept


def document(tmp):
    return make_app(tmp, service=Service(str(tmp))).openapi()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with Kept(tmp_path_factory.mktemp("tenants") / "accounts") as one:
        for name in ("ours", "theirs"):
            a = one.began(name)
            one.all.post(f"{a}/rounds", {"price": 3.0})
        yield one


@pytest.fixture(scope="module")
def described(kept):
    return kept.served.app.openapi()


def example_of(schema, described):
    """Return an example of what a schema describes, from the document."""
    name = schema["$ref"].rpartition("/")[2]
    (example,) = described["components"]["schemas"][name]["examples"]
    return example


def requests_of(described, name):
    """Yield every way of every path with its role, its body and its address, for
    accounts with this name.
    """
    for path, ways in described["paths"].items():
        for way, operation in ways.items():
            values = {"name": name}
            for each in operation.get("parameters", ()):
                if each["in"] == "path" and each["name"] != "name":
                    schema = each["schema"]
                    values[each["name"]] = schema.get("examples", ["csv"])[0]
            body = None
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]["application/json"]
                body = content["schema"]
            role = operation.get(ROLE)
            yield way.upper(), path.format(**values), role, body


def own(described, name):
    return [
        each for each in requests_of(described, name) if f"/accounts/{name}" in each[1]
    ]


def asked(caller, way, path, body, described):
    example = None if body is None else example_of(body, described)
    return caller.ask(way, path.removeprefix("/api/accounts"), example)


def snapshot(kept, name):
    return kept.all.get(f"/{name}/events").body, kept.all.get(f"/{name}/balance").body


def test_the_document_has_the_routes_of_accounts(described):
    paths = [each[1] for each in own(described, "ours")]
    assert len(paths) >= 18
    assert "/api/accounts/ours/rounds/1/settlement" in paths


def test_every_route_of_accounts_says_its_role_and_has_an_example(described):
    for way, path, role, body in requests_of(described, "ours"):
        if path.startswith("/api/accounts"):
            assert role in ROLES, (way, path)
            if body is not None:
                json.dumps(example_of(body, described))


@pytest.mark.parametrize("role", ROLES)
def test_a_token_of_other_accounts_gets_what_it_would_get_of_none(
    kept, described, role
):
    stranger = kept.with_token(f"stranger-{role}", "ours", role)
    before = snapshot(kept, "theirs")
    for way, path, _, body in own(described, "theirs"):
        theirs = asked(stranger, way, path, body, described)
        nobodys = path.replace("/theirs", "/nobodys")
        nobody = asked(stranger, way, nobodys, body, described)
        assert theirs.status == nobody.status == 404, (way, path)
        assert theirs.body.replace(b"theirs", b"nobodys") == nobody.body, path
    assert snapshot(kept, "theirs") == before
    assert stranger.get("").json["accounts"] == ["ours"]
    assert b"theirs" not in stranger.get("").body


@pytest.mark.parametrize("role", ROLES)
def test_a_role_does_what_it_may_and_nothing_else(kept, described, role):
    caller = kept.with_token(f"a-{role}", "ours", role)
    for way, path, needed, body in own(described, "ours"):
        if path.endswith("/stream"):
            continue
        answer = asked(caller, way, path, body, described)
        allowed = ROLES.index(role) >= ROLES.index(needed)
        assert (answer.status != 403) == allowed, (way, path, answer.body)
        assert answer.status not in (401, 404) or not allowed, (way, path)


@pytest.mark.parametrize("token", ["", "hg_wrong", "first", "*"])
def test_without_a_token_nothing_is_answered(kept, described, token):
    nobody = kept.caller(token)
    for way, path, _, body in requests_of(described, "ours"):
        sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        text = None if body is None else "{}"
        answer = kept.served.ask(way, path, text, sent)
        assert answer.status == 401, (way, path)
        assert b"ours" not in answer.body
    assert nobody.get("").status == 401
    for path in ("/", "/accounts/ours", "/metrics", "/static/js/app.js"):
        assert kept.served.get(path).status == 401
    for path in ("/healthz", "/readyz"):
        assert kept.served.get(path).status == 200


def test_what_is_not_of_accounts_is_for_holders_of_all(kept, described):
    reader = kept.with_token("reader", "ours", "amend")
    sent = {"Authorization": f"Bearer {reader.token}"}
    allowed = {"/api/health", "/api/openapi.json", "/", "/accounts", "/accounts/ours"}
    others = [path for path in described["paths"] if "accounts" not in path]
    for path in {*others, "/metrics", "/plan", "/compare", *allowed}:
        answer = kept.served.ask("GET", path, headers=sent)
        assert (answer.status == 200) == (path in allowed), path
    all_of_it = {"Authorization": f"Bearer {kept.token}"}
    assert kept.served.ask("GET", "/metrics", headers=all_of_it).status == 200
    assert (
        reader.post("", {"name": "new", "system": {"buffer": [1], "budget": 1}}).status
        == 403
    )


@pytest.mark.parametrize(
    "path",
    [
        "/ours/../theirs/balance",
        "/ours%2F..%2Ftheirs/balance",
        "/ours/%2e%2e/theirs/balance",
        "/%74heirs/balance",
        "//theirs/balance",
        "/theirs/balance/",
        "/theirs%00/balance",
        "/ours;/../theirs/balance",
    ],
)
def test_no_spelling_of_an_address_leads_to_other_accounts(kept, path):
    stranger = kept.caller(
        kept.service.tokens.make(f"s{abs(hash(path))}", "ours", "amend")
    )
    answer = stranger.get(path)
    assert answer.status in (307, 400, 404)
    assert b"approved" not in answer.body


def test_a_token_that_is_revoked_opens_nothing_any_more(kept):
    caller = kept.with_token("leaver", "ours", "run")
    assert caller.get("/ours").status == 200
    kept.service.tokens.revoke("leaver")
    assert caller.get("/ours").status == 401


def test_who_asks_too_often_waits(tmp_path):
    with Kept(tmp_path / "accounts", rate=2.0) as kept:
        answers = [kept.all.get("") for _ in range(8)]
        statuses = [each.status for each in answers]
        assert statuses.count(200) >= 4
        assert 429 in statuses
        refused = next(each for each in answers if each.status == 429)
        assert int(refused.headers["retry-after"]) >= 1


def test_a_body_has_a_limit(kept):
    sent = {"Authorization": f"Bearer {kept.token}", "Content-Length": str(2**20 + 1)}
    answer = kept.served.ask("POST", "/api/accounts/ours/deliveries", headers=sent)
    assert answer.status == 413


def test_a_page_of_another_origin_writes_nothing(kept):
    answer = kept.all.ask(
        "POST", "/ours/amendments", {"money": 1.0}, Origin="https://evil.example"
    )
    assert answer.status == 400
    assert "not a page of this server" in answer.json["detail"]
