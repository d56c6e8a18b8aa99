"""Who is answered, and what browsers are told; paths, uploads and methods that are refused."""

import socket
from pathlib import Path

import pytest

from headgate.errors import SettingError
from headgate.web.security import MOST_CSV, MOST_JSON
from headgate.web.serving import link_to, listen, token_for

from .folders import MadeUp
from .served import Served

TOKEN = "abcdefghij0123456789"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("guarded")
    (root / "secret.txt").write_text("secret", "utf-8")
    MadeUp(root / "outside").finish()
    MadeUp(root / "runs" / "run").finish()
    (root / "runs" / "linked").symlink_to(root / "outside")
    return root / "runs"


@pytest.fixture(scope="module")
def page(folder):
    with Served(folder) as served:
        yield served


@pytest.fixture(scope="module")
def guarded(folder):
    with Served(folder, token=TOKEN, host="0.0.0.0") as served:
        yield served


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1", "[::1]:{port}", "LOCALHOST"])
def test_names_of_this_machine_are_answered_to(page, host):
    assert page.get("/api/health", Host=host.format(port=page.port)).status == 200


ODD = [
    "[::1]evil.com",
    "127.0.0.1:80@evil.com",
    "[::1]:80@evil.com",
    "localhost:80:90",
    "[::1",
    "localhost evil.com",
    "[]",
    ":80",
]
"""what a careless reading takes for this machine"""


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:{port}", "", "localhost.evil.example", "10.0.0.1", *ODD]
)
def test_other_names_are_not(page, host):
    for path in ("/", "/api/runs", "/static/index.html"):
        answer = page.get(path, Host=host.format(port=page.port))
        assert answer.status == 400
        assert "not a name of this server" in answer.json["error"]


def test_browsers_are_told_to_load_nothing_from_elsewhere(page):
    for path in ("/api/runs", "/api/none", "/", "/static/none.js"):
        headers = page.get(path).headers
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs/../secret.txt",
        "/api/runs/..%2fsecret.txt",
        "/api/runs/%2e%2e%2foutside",
        "/api/runs/%2e%2e/outside/curves",
        "/api/runs/..%5coutside",
        "/api/runs/%2fetc%2fpasswd",
        "/api/runs//etc/passwd",
        "/api/runs/run%00",
        "/api/runs/run%2f..%2f..%2foutside",
        "/api/runs/linked",
        "/api/runs/linked/curves",
        "/api/runs/linked/table.csv",
        "/api/runs/run~..",
        "/api/runs/%c0%ae%c0%ae",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    ],
)
def test_no_path_leads_outside(page, path):
    answer = page.get(path)
    assert answer.status in (400, 404), answer.body[:200]
    assert b"secret" not in answer.body.replace(b"secret.txt", b"")
    assert b"root:" not in answer.body
    assert b"import" not in answer.body


def test_without_the_token_nothing_is_told(guarded):
    for path in ("/", "/api/runs", "/api/health", "/static/plotly.min.js", "/api/runs/run/events", "/?token=wrong", "/?token="):
        answer = guarded.get(path)
        assert answer.status == 401
        assert "open the link that headgate serve printed" in answer.json["error"]
        assert "set-cookie" not in answer.headers
    assert guarded.get("/api/runs", Cookie="headgate_token=wrong").status == 401
    assert guarded.get("/api/runs", Cookie="headgate_token=ü").status == 401
    assert guarded.get("/api/runs", Authorization="Bearer wrong").status == 401
    assert guarded.post("/api/plan", {}).status == 401


def test_the_link_sets_a_cookie_that_opens_the_rest(guarded):
    first = guarded.get(f"/api/runs?token={TOKEN}")
    assert first.status == 200
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    answer = guarded.get("/api/runs", Cookie=f"other=1; {cookie.partition(';')[0]}")
    assert answer.status == 200
    assert "set-cookie" not in answer.headers
    assert guarded.get("/api/runs", Authorization=f"Bearer {TOKEN}").status == 200
    assert guarded.get("/api/runs", Authorization=f"Bearer {TOKEN}", Host="my-machine.lan").status == 200


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/csv"])
def test_forms_of_other_pages_are_not_taken(page, kind):
    answer = page.ask("POST", "/api/plan", b"{}", {"Content-Type": kind} if kind else {})
    assert answer.status == 415
    assert "must be application/json" in answer.json["error"]


def test_other_pages_may_not_send(page):
    headers = {"Content-Type": "application/json"}
    for origin in ("http://evil.example", f"chrome-extension://127.0.0.1:{page.port}", "null"):
        assert page.ask("POST", "/api/plan", b"{}", headers | {"Origin": origin}).status == 400
    headers["Origin"] = f"http://127.0.0.1:{page.port}"
    assert page.ask("POST", "/api/plan", b"{}", headers).status == 422


@pytest.mark.parametrize(
    ("path", "kind", "most"), [("/api/plan", "application/json", MOST_JSON), ("/api/trace", "text/csv", MOST_CSV)]
)
def test_bodies_are_limited_before_they_are_read(page, path, kind, most):
    announced = page.ask("POST", path, None, {"Content-Type": kind, "Content-Length": str(most + 1)})
    assert announced.status == 413
    # one that does not say how long it is, and never ends: the server hangs up
    with socket.create_connection(("127.0.0.1", page.port), timeout=20) as line:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        line.sendall(head.encode())
        piece = f"{60_000:x}\r\n".encode() + b"x" * 60_000 + b"\r\n"
        with pytest.raises(OSError, match=r"[Bb]roken pipe|reset"):
            line.sendall(piece * (100 * most // len(piece)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", 'no column "price"; it has none'),
        (b"eur\n1\n", 'no column "price"; it has eur'),
        (b"cost\n", "holds no prices"),
        (b"cost\n1\ntwo\n", "column \"cost\" is not a number (could not convert string to float: 'two')"),
        (b"time,cost\n1,2\n3\n", 'column "cost" is not a number'),
        (b"cost\n-1\n", "prices must be finite and zero or more"),
        (b"cost\nnan\n", "prices must be finite and zero or more"),
        (b"cost\ninf\n", "prices must be finite and zero or more"),
        (b"cost\n0\n0\n", "every price is zero"),
        (b"\xff\xfe\x00", "cannot be read as CSV"),
        (b'cost\n"1\n', "cannot be read as CSV"),
        (b"cost\n" + b"1\n" * 100_001, "more than 100000 prices"),
    ],
)
def test_malformed_traces_are_refused(page, text, says):
    answer = page.post("/api/trace", text, "text/csv")
    assert answer.status == 422
    assert says in answer.json["error"]


def test_a_trace_comes_back_checked(page):
    answer = page.post("/api/trace?column=eur", "\ufefftime,eur\n1,2.5\n\n2,0\n3,5e0\n".encode(), "text/csv; charset=utf-8")
    assert answer.status == 200
    assert answer.json["prices"] == [2.5, 0.0, 5.0]
    for text in (b"price,cost\n2,3\n", b"cost\n2\n"):
        assert page.post("/api/trace", text, "text/csv").json["prices"] == [2.0]
    assert (answer.json["count"], answer.json["mean"], answer.json["most"]) == (3, 2.5, 5.0)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"1", b'{"rounds": NaN}', b"\xff", b"[" * 100_000, b'{"a": 1e999}'])
def test_malformed_json_is_refused(page, text):
    answer = page.post("/api/plan", text)
    assert answer.status in (400, 422)
    assert "error" in answer.json


def test_a_token_is_made_where_one_is_needed_or_comes_from_where_nobody_sees_it(tmp_path, monkeypatch):
    assert token_for("127.0.0.1") is token_for("localhost") is None
    made = token_for("0.0.0.0")
    assert len(made) >= 32
    assert made != token_for("0.0.0.0")
    assert link_to("10.1.2.3", 80, TOKEN) == f"http://10.1.2.3:80/?token={TOKEN}"
    monkeypatch.setenv("HEADGATE_TOKEN", "from-the-environment")
    (tmp_path / "token").write_text("from-a-file-0123456789\n", "utf-8")
    assert token_for("127.0.0.1") == "from-the-environment"
    assert token_for("127.0.0.1", tmp_path / "token") == "from-a-file-0123456789"


@pytest.mark.parametrize("token", ["short", "with blanks and so on", "semi;colon;semi;colon"])
def test_tokens_that_are_none_are_refused(monkeypatch, token):
    monkeypatch.setenv("HEADGATE_TOKEN", token)
    with pytest.raises(SettingError, match="token: must be 16 to 200 letters"):
        token_for("127.0.0.1")
    with pytest.raises(SettingError, match="--token-file no-such-file: cannot be read"):
        token_for("127.0.0.1", Path("no-such-file"))


def test_ports_and_hosts_that_cannot_be_used():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingError, match=f"--port {port}: cannot be used on 127.0.0.1 .*in use"):
            listen("127.0.0.1", port)
    with pytest.raises(SettingError, match="--port 70000"):
        listen("127.0.0.1", 70000)
    with pytest.raises(SettingError, match=r"--host 256\.0\.0\.1: is no address of this machine"):
        listen("256.0.0.1", 0)
