"""Nothing but the fleet's requests of registered nodes reaches the SuperLink, however a request is written."""

import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest
from flwr.supercore.date import now
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
from fronts import fronted, status
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.flower.deploy import front
from headgate.flower.deploy.certificates import Certificates, make_node_key
from headgate.flower.deploy.front import CLOCK, MOST_BYTES, PATHS, STRANGER
from headgate.flower.deploy.nginx import nginx_text
from headgate.flower.deploy.processes import free_port, listening
from headgate.flower.keys import FILE, bind_key

PULL = "/v1/fleet/pull-messages"
START = "/v1/control/start-run"
PULLS = f"POST {PULL} HTTP/1.1"


def ended(connection):
    try:
        return connection.recv(100) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def patiently(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    with fronted(tmp_path_factory.mktemp("front")) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_yet(request):
    if "door" in request.fixturenames:
        request.getfixturevalue("door").reached.clear()


def test_the_paths_are_those_of_flowers_fleet_that_a_node_with_a_key_needs():
    fleet = {key for key in PROTOBUF_REQUEST_TYPES if key[1].startswith("/v1/fleet/")}
    without_a_key = {"/v1/fleet/register-node", "/v1/fleet/unregister-node"}
    assert {("POST", path) for path in PATHS | without_a_key} == fleet
    assert len(PATHS) == len(fleet) - 2 == 10


@pytest.mark.parametrize("path", sorted(PATHS))
def test_what_a_registered_node_asks_for_is_passed_on_as_it_is(door, path):
    body = bytes(range(256)) * 100
    headers = {**door.headers(), "Content-Type": "application/x-protobuf", "Flwr-Version": "1", "X-Forwarded-For": "9.9.9.9"}
    heard = door.request(f"POST {path} HTTP/1.1", headers, body)
    assert status(heard) == 200
    assert heard.endswith(b"answer to " + body[:100])
    assert b"flwr-something: kept" in heard
    assert b"Server-Secret" not in heard
    ((reached, told, came),) = door.reached
    assert (reached, came) == (path, body)
    told = {name.lower(): value for name, value in told.items()}
    assert told["flwr-version"] == "1"
    assert "x-forwarded-for" not in told
    assert "transfer-encoding" not in told


OTHER_PATHS = [
    *sorted({path for _, path in PROTOBUF_REQUEST_TYPES} - PATHS),
    "/", "*", "/health", "/docs", "/openapi.json", "/v1/runtime/responses",
    f"/{START}", f"{PULL}/../../control/start-run", "/v1/fleet/../control/start-run", "/v1/fleet/./pull-messages",
    "/v1/fleet/%2e%2e/control/start-run", "/v1/fleet/%2E%2E/control/start-run", "/v1/fleet/..%2fcontrol%2fstart-run",
    "/v1/fleet/..;/control/start-run", "/v1/fleet\\..\\control\\start-run", "/v1/%63ontrol/start-run",
    "/v1/%66leet/pull-messages",
    f"//{PULL[1:]}", f"{PULL}/", f"{PULL}?x=1", f"{PULL}?", f"{PULL}#x", f"{PULL};x", f"{PULL}%00", f"{PULL}%20", PULL.upper(),
    f"http://localhost{START}", f"https://localhost{PULL}", f"http://127.0.0.1{START}", f"localhost:8001{START}",
    f"/v1/fleet/{START}",
]  # fmt: skip


@pytest.mark.parametrize("path", OTHER_PATHS)
def test_no_other_path_reaches_the_superlink_whoever_asks(door, path):
    heard = door.request(f"POST {path} HTTP/1.1", body=b"")
    if path == f"{PULL}?":  # the path itself, with nothing behind it
        assert [reached for reached, *_ in door.reached] == [PULL]
    else:
        assert status(heard) in (404, 400), heard
        assert door.reached == []


PIECES = ["/", "//", "v1", "fleet", "control", "start-run", "pull-messages", "..", ".", "%2e", "%2f", "\\", ";", "?", "#", "@"]
PIECES += ["%00", "http://", "localhost", "127.0.0.1", ":8001", "/v1/fleet/", PULL, START, "\t", "\x0b", "%", "*"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join))
def test_whatever_is_put_together_of_paths_only_the_fleets_reach_the_superlink(door, target):
    door.reached.clear()
    path = target.removesuffix("?")
    assert status(door.request(f"POST {target} HTTP/1.1")) in ((200,) if path in PATHS else (400, 404))
    assert [reached for reached, *_ in door.reached] == ([path] if path in PATHS else [])


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "post", "PRI", "X"])
def test_no_other_method_reaches_the_superlink(door, method):
    assert status(door.request(f"{method} {PULL} HTTP/1.1")) in (404, 400)
    assert door.reached == []


def test_whoever_has_the_certificate_alone_gets_nothing(door):
    fresh = door.headers()
    later = (now() - timedelta(hours=1)).isoformat()
    tries = {
        "none": {},
        "an unregistered key": door.headers("stranger"),
        "a registered name with another's signature": {**door.headers("stranger"), "flwr-public-key": fresh["flwr-public-key"]},
        "yesterday's signature of an unregistered key": door.headers("stranger", hour=later),
        "a signature of another hour": {**fresh, "flwr-timestamp": later},
        "no hour": {**fresh, "flwr-timestamp": "now"},
        "an hour without a zone": {**fresh, "flwr-timestamp": "2026-01-01T00:00:00"},
        "no base64": {**fresh, "flwr-signature": "!"},
        "not ASCII": {**fresh, "flwr-timestamp": "\xff"},
    }
    for name, headers in tries.items():
        for path in sorted(PATHS):
            assert status(door.request(f"POST {path} HTTP/1.1", headers, b"x")) == STRANGER, name
    assert door.reached == []


def test_a_key_may_come_in_as_soon_as_it_is_registered(door):
    assert status(door.request(PULLS, door.headers("stranger"))) == STRANGER
    public = make_node_key(door.folder / "third")
    assert status(door.request(PULLS, door.headers("third"))) == STRANGER
    bind_key(door.folder / FILE, 7, public)
    assert status(door.request(PULLS, door.headers("third"))) == 200


def test_a_body_has_a_length_that_is_said_once_and_is_not_too_large(door):
    signed = door.headers()
    chunked = b"5\r\nhello\r\n0\r\n\r\n"
    wrong = {
        "chunked": ({**signed, "Transfer-Encoding": "chunked"}, chunked, False),
        "chunked and a length": ({**signed, "Transfer-Encoding": "chunked"}, chunked, True),
        "chunked, oddly written": ({**signed, "Transfer-Encoding": " xchunked"}, chunked, True),
        "two lengths": ({**signed, "Content-length": "3"}, b"hello", True),
        "no length": (signed, b"", False),
        "a length that is none": ({**signed, "Content-Length": "+5"}, b"hello", False),
        "too large": ({**signed, "Content-Length": str(MOST_BYTES + 1)}, b"", False),
        "far too large": ({**signed, "Content-Length": "9" * 30}, b"", False),
    }
    for name, (headers, body, length) in wrong.items():
        assert status(door.request(PULLS, headers, body, length)) in (400, 411, 413), name
    assert door.reached == []


def test_a_request_within_a_body_is_a_body(door):
    hidden = f"POST {START} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
    assert status(door.request(PULLS, body=hidden)) == 200
    ((path, _, body),) = door.reached
    assert (path, body) == (PULL, hidden)


def test_a_request_behind_another_is_judged_by_itself(door):
    lines = [PULLS, "Host: localhost", "Content-Length: 0"]
    lines += [f"{name}: {value}" for name, value in door.headers().items()]
    first = "\r\n".join([*lines, "", ""])
    second = first.replace(PULL, START)
    heard = door.say((first + second).encode())
    assert [path for path, *_ in door.reached] == [PULL]
    assert b"404" in heard


@pytest.mark.parametrize("upgrade", ["websocket", "h2c", "TLS/1.3"])
def test_no_other_protocol_is_spoken(door, upgrade):
    more = {"Upgrade": upgrade, "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13", "HTTP2-Settings": "AAMAAABkAAQ"}
    heard = door.request(f"GET {START} HTTP/1.1", {**door.headers(), **more}, length=False).replace(b"Connection: close", b"")
    assert status(heard) == 404
    assert b"101" not in heard.split(b"\r\n")[0]
    with door.connect() as connection:
        assert connection.selected_alpn_protocol() is None
    assert door.reached == []


def test_a_head_that_is_too_long_is_refused(door):
    assert status(door.request(PULLS, {**door.headers(), "X": "x" * 2**17})) in (400, 431, None)
    assert status(door.request(f"POST /{'x' * 2**17} HTTP/1.1")) in (400, 404, 414, 431, None)
    assert door.reached == []


@pytest.mark.parametrize(("seconds", "said"), [(36, "ahead of"), (-720, "behind")])
def test_a_registered_key_with_a_wrong_clock_is_told_so(door, seconds, said):
    heard = door.request(PULLS, door.headers(hour=(now() + timedelta(seconds=seconds)).isoformat()))
    assert status(heard) == CLOCK
    assert re.fullmatch(rf"clock: \d+ s {said} the SuperLink's; set it by NTP", json.loads(heard.splitlines()[-1])["detail"])
    assert door.reached == []


def test_who_keeps_the_front_waiting_is_let_go_and_does_not_keep_others_out(tmp_path, monkeypatch):
    monkeypatch.setattr(front, "HEAD_SECONDS", 5.0)
    with fronted(tmp_path) as door, ExitStack() as opened:
        silent = [opened.enter_context(socket.create_connection(("127.0.0.1", door.port), 45)) for _ in range(50)]
        slow = [opened.enter_context(door.connect()) for _ in range(10)]
        for connection in slow[::2]:
            connection.sendall(f"{PULLS}\r\nHost:".encode())
        assert status(door.request(PULLS)) == 200
        assert all(ended(connection) for connection in (*silent, *slow))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one address on loopback")
def test_beyond_its_room_the_front_lets_the_oldest_of_the_largest_crowd_go(tmp_path, monkeypatch):
    monkeypatch.setattr(front, "HEAD_SECONDS", 600.0)
    monkeypatch.setattr(front, "CONNECTIONS", 40)
    with fronted(tmp_path) as door, door.connect() as early, ExitStack() as opened:
        crowd = [
            opened.enter_context(socket.create_connection(("127.0.0.1", door.port), 120, ("127.0.0.2", 0))) for _ in range(100)
        ]
        assert all(ended(connection) for connection in crowd[:60])
        assert status(door.request(PULLS)) == 200
        early.sendall(door.head(PULLS, length=0))
        assert status(early.recv(65536)) == 200
        crowd[-1].settimeout(0)
        with pytest.raises(BlockingIOError):
            crowd[-1].recv(1)


def test_one_key_does_not_keep_the_others_out(tmp_path):
    with fronted(tmp_path) as door, ExitStack() as opened:
        bind_key(door.folder / FILE, 1, make_node_key(door.folder / "other"))
        for _ in range(front.REQUESTS):
            opened.enter_context(door.connect()).sendall(door.head(PULLS, length=10) + b"half")
        patiently(lambda: status(door.request(PULLS)) == 503)
        assert status(door.request(PULLS, door.headers("other"))) == 200
        opened.close()
        patiently(lambda: status(door.request(PULLS)) == 200)


def test_a_body_that_does_not_come_is_not_waited_for(door, monkeypatch):
    monkeypatch.setattr(front, "BODY_SECONDS", 0.5)
    for body in (b"", b"half"):
        with door.connect() as connection:
            connection.sendall(door.head(PULLS, length=100) + body)
            patiently(lambda connection=connection: ended(connection))
    monkeypatch.undo()
    assert status(door.request(PULLS, body=b"whole")) == 200
    assert [body for *_, body in door.reached if body not in (b"", b"half")] == [b"whole"]


def test_a_body_that_comes_slowly_is_waited_for(door, monkeypatch):
    monkeypatch.setattr(front, "BODY_SECONDS", 2.0)
    monkeypatch.setattr(front, "LEAST_RATE", 1)
    with door.connect() as connection:
        connection.sendall(door.head(PULLS, length=200) + b"x" * 100)
        time.sleep(2.5)
        connection.sendall(b"x" * 100)
        assert status(connection.recv(65536)) == 200


def test_while_the_superlink_is_away_nodes_are_told_to_come_again(tmp_path):
    with fronted(tmp_path) as made:
        made.superlink.shutdown()
        made.superlink.server_close()
        assert status(made.request(PULLS)) == 503


def test_nginx_passes_on_the_same_paths_and_writes_them_itself(door):
    text = nginx_text(Certificates(door.folder / "shown"), 8000, "fl.example.org", 8001, door.folder / "inside" / "ca.crt")
    passed = [line.split() for line in text.splitlines() if line.strip().startswith("location =")]
    assert {words[2] for words in passed} == PATHS
    assert all(f"https://127.0.0.1:8001{words[2]};" in words for words in passed)
    assert text.count("proxy_pass") == len(PATHS)
    assert "location / { return 404; }" in text
    assert text.count("{") == text.count("}")
    for limit in ("client_header_timeout 10s;", "client_body_timeout 30s;", "limit_conn headgate 100;"):
        assert limit in text


@pytest.mark.skipif(not shutil.which("nginx"), reason="no nginx on this machine")
def test_nginx_lets_the_same_requests_through(door):
    """It tidies paths up before it compares them, so some others of the same meaning come through; none of another one."""
    port, folder = free_port(), door.folder
    inside = door.superlink.server_address[1]
    text = nginx_text(Certificates(folder / "shown"), port, "localhost", inside, folder / "inside" / "ca.crt")
    temporary = "".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    main = f"error_log {folder}/errors; pid {folder}/pid; daemon off; master_process off; events {{}}"
    (folder / "whole.conf").write_text(f"{main}\nhttp {{ access_log off; {temporary}\n{text}}}\n")
    nginx = subprocess.Popen(["nginx", "-p", folder, "-c", folder / "whole.conf"], stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 30
        while not listening(port):
            assert nginx.poll() is None, nginx.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.05)
        there = replace(door, port=port)
        assert status(there.request(PULLS, body=b"hello")) == 200
        for path in OTHER_PATHS:
            there.request(f"POST {path} HTTP/1.1")
        assert status(there.request(f"GET {PULL} HTTP/1.1")) == 403
        assert {path.partition("?")[0] for path, *_ in door.reached} == {PULL}
    finally:
        nginx.terminate()
        nginx.communicate()
