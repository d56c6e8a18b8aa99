"""Who is answered, and what browsers are told; paths, uploads and methods that are
refused.
"""

import pytest

from headgate.errors import SettingError
from headgate.web.security import MOST_BYTES
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


OURS = ["localhost:{port}", "127.0.0.1", "[::1]:{port}", "LOCALHOST"]
OTHERS = [
    "evil.example",
    "127.0.0.1.evil.example:{port}",
    "",
    "localhost.evil.example",
    "10.0.0.1",
]
OTHERS += [
    "[::1]evil.com",
    "127.0.0.1:80@evil.com",
    "[::1]:80@evil.com",
    "localhost:80:90",
    "[::1",
    "localhost evil.com",
]
OTHERS += ["[]", ":80"]


@pytest.mark.parametrize("host", [*OURS, *OTHERS])
def test_names_of_this_machine_are_answered_to_and_no_others(page, host):
    for path in ("/", "/api/runs", "/static/index.html"):
        answer = page.get(path, Host=host.format(port=page.port))
        if host in OURS:
            assert answer.status == 200
        else:
            assert answer.status == 400
            assert "not a name of this server" in answer.json["detail"]


def test_browsers_are_told_to_load_nothing_from_elsewhere(page):
    for path in ("/api/runs", "/api/none", "/", "/static/none.js"):
        headers = page.get(path).headers
        policy = dict(
            part.split(" ", 1)
            for part in headers["content-security-policy"].split("; ")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


RUNS = [
    "../secret.txt",
    "..%2fsecret.txt",
    "%2e%2e%2foutside",
    "%2e%2e/outside/curves",
    "..%5coutside",
    "%2fetc%2fpasswd",
]
RUNS += [
    "/etc/passwd",
    "run%00",
    "run%2f..%2f..%2foutside",
    "linked",
    "linked/curves",
    "run~..",
    "%c0%ae%c0%ae",
]
FILES = [
    "../app.py",
    "..%2fapp.py",
    "%2e%2e/app.py",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    f"{'..%2f' * 6}etc%2fpasswd",
]


@pytest.mark.parametrize(
    "path",
    [*(f"/api/runs/{name}" for name in RUNS), *(f"/static/{name}" for name in FILES)],
)
def test_no_path_leads_outside(page, path):
    answer = page.get(path)
    assert answer.status in (400, 404), answer.body[:200]
    assert b"secret" not in answer.body.replace(b"secret.txt", b"")
    assert b"root:" not in answer.body
    assert b"import" not in answer.body


def test_without_the_token_nothing_is_told(guarded):
    for path in (
        "/",
        "/api/runs",
        "/api/health",
        "/static/plotly.min.js",
        "/api/runs/run/curves",
        "/?token=wrong",
        "/?token=",
    ):
        answer = guarded.get(path)
        assert answer.status == 401
        assert "open the link that headgate serve printed" in answer.json["detail"]
        assert "set-cookie" not in answer.headers
    for wrong in (
        {"Cookie": "headgate_token=wrong"},
        {"Cookie": "headgate_token=ü"},
        {"Authorization": "Bearer wrong"},
    ):
        assert guarded.get("/api/runs", **wrong).status == 401
    assert guarded.post("/api/plan", b"{}").status == 401


def test_the_link_sets_a_cookie_that_opens_the_rest(guarded):
    first = guarded.get(f"/api/runs?token={TOKEN}")
    assert first.status == 200
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    answer = guarded.get("/api/runs", Cookie=f"other=1; {cookie.partition(';')[0]}")
    assert answer.status == 200
    assert "set-cookie" not in answer.headers
    for host in ({}, {"Host": "my-machine.lan"}):
        assert (
            guarded.get("/api/runs", Authorization=f"Bearer {TOKEN}", **host).status
            == 200
        )


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/csv",
    ],
)
def test_forms_of_other_pages_are_not_taken(page, kind):
    answer = page.ask(
        "POST", "/api/plan", b"{}", {"Content-Type": kind} if kind else {}
    )
    assert (answer.status, "must be a valid dictionary" in answer.json["detail"]) == (
        400,
        True,
    )


def test_other_pages_may_not_send(page):
    headers = {"Content-Type": "application/json"}
    for origin in (
        "http://evil.example",
        f"chrome-extension://127.0.0.1:{page.port}",
        "null",
    ):
        assert (
            page.ask("POST", "/api/plan", b"{}", headers | {"Origin": origin}).status
            == 400
        )
    headers["Origin"] = f"http://127.0.0.1:{page.port}"
    assert (
        "system = '': Field required"
        in page.ask("POST", "/api/plan", b"{}", headers).json["detail"]
    )


def test_bodies_are_limited_before_they_are_read(page):
    head = {"Content-Type": "application/json"}
    for more in (
        {"Content-Length": str(MOST_BYTES + 1)},
        {"Content-Length": "9" * 12},
        {"Transfer-Encoding": "chunked"},
    ):
        answer = page.ask("POST", "/api/plan", None, head | more)
        assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert page.post("/api/plan", b" " * MOST_BYTES).status == 400


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b'{"rounds": NaN}',
        b"\xff",
        b"[" * 100_000,
        b'{"a": 1e999}',
    ],
)
def test_malformed_json_is_refused(page, text):
    answer = page.post("/api/plan", text)
    assert answer.status in (400, 422)
    assert "detail" in answer.json


def test_a_token_is_made_where_one_is_needed_or_comes_from_where_nobody_sees_it(
    tmp_path, monkeypatch
):
    assert token_for("127.0.0.1") is token_for("localhost") is None
    made = token_for("0.0.0.0")
    assert len(made) >= 32
    assert made != token_for("0.0.0.0")
    assert link_to("10.1.2.3", 80, TOKEN) == f"http://10.1.2.3:80/?token={TOKEN}"
    monkeypatch.setenv("HEADGATE_TOKEN", "from-the-environment")
    (tmp_path / "token").write_text("from-a-file-0123456789\n", "utf-8")
    assert token_for("127.0.0.1") == "from-the-environment"
    assert token_for("127.0.0.1", tmp_path / "token") == "from-a-file-0123456789"
    with pytest.raises(SettingError, match="cannot be read"):
        token_for("127.0.0.1", tmp_path / "no-such-file")
    for text in ("short", "with blanks and so on", "semi;colon;semi;colon"):
        (tmp_path / "token").write_text(text, "utf-8")
        with pytest.raises(SettingError, match="token: must be 16 to 200 letters"):
            token_for("127.0.0.1", tmp_path / "token")


def test_ports_and_hosts_that_cannot_be_used():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            SettingError, match=f"--port {port}: cannot be used on 127.0.0.1 .*in use"
        ):
            listen("127.0.0.1", port)
    with pytest.raises(SettingError, match="--port 70000"):
        listen("127.0.0.1", 70000)
    with pytest.raises(
        SettingError, match=r"--host 256\.0\.0\.1: is no address of this machine"
    ):
        listen("256.0.0.1", 0)
