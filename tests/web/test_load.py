"""The page under load: half-open and slow requests, readers that do not read, more connections than there is room for."""

import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from headgate.errors import SettingError
from headgate.patience import AT_ONCE, FILES, Patient, most_connections
from headgate.web import api, security, serving
from headgate.web.serving import said_token

from .folders import MadeUp
from .served import Served

HALF = b"GET /api/health HT"
SLOW = b"POST /api/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.4)
    monkeypatch.setattr(Patient, "reader_seconds", 0.4)


def opened(port, *sent):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    for piece in sent:
        connection.sendall(piece)
    return connection


def half_opened(port):
    """It may be ended before half of the request is there."""
    connection = opened(port)
    with suppress(ConnectionError):
        connection.sendall(HALF)
    return connection


def ended(connection) -> bool:
    try:
        return connection.recv(1 << 16) == b""
    except ConnectionResetError:
        return True


def test_many_half_open_requests_keep_nobody_out(tmp_path):
    """More sockets than the server may have descriptors."""
    command = [sys.executable, "-m", "headgate.cli", "serve", str(tmp_path), "--port", "0"]
    most = 200
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
    )  # fmt: skip
    try:
        link = next(found.group() for line in server.stdout if (found := re.search(r"http://127\.0\.0\.1:(\d+)/", line)))
        port = int(link.rstrip("/").rpartition(":")[2])
        with ExitStack() as half_open, ThreadPoolExecutor(8) as pool:  # the server takes many in one turn of its loop
            for each in pool.map(lambda _: half_opened(port), range(3 * most)):
                half_open.enter_context(each)
            for _ in range(3):
                with urllib.request.urlopen(f"{link}api/health", timeout=60) as answer:
                    assert answer.status == 200
        server.send_signal(signal.SIGINT)
        assert server.communicate(timeout=300)[1] == ""
    finally:
        server.kill()
        server.wait()


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("sent", [b"", HALF, SLOW, SLOW + b"{"], ids=["nothing", "half a head", "no body", "half a body"])
def test_a_request_that_does_not_come_is_not_waited_for(tmp_path, sent):
    with Served(tmp_path) as page, opened(page.port, sent) as slow:
        assert ended(slow)
        assert page.get("/api/health").status == 200


@pytest.mark.usefixtures("hasty")
def test_drop_by_drop_is_not_waited_for_either(tmp_path):
    def drip(connection):
        for byte in HALF * 100:  # one every twentieth of a second
            connection.sendall(bytes([byte]))
            time.sleep(0.05)

    with Served(tmp_path) as page, opened(page.port) as slow, pytest.raises(ConnectionError):
        drip(slow)


@pytest.mark.usefixtures("hasty")
def test_a_reader_that_does_not_read_is_let_go(tmp_path):
    with Served(tmp_path) as page, socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.settimeout(10)
        lazy.connect(("127.0.0.1", page.port))
        lazy.sendall(b"GET /static/plotly.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1.5)
        read = 0
        while piece := _piece(lazy):
            read += len(piece)
        assert read < 4_000_000  # it is larger


def _piece(connection) -> bytes:
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:
        return b""


@pytest.mark.usefixtures("hasty")
def test_those_who_are_answered_stay_however_long(tmp_path):
    run = MadeUp(tmp_path / "run").play(2)
    with Served(tmp_path, pause=0.02) as page, page.events("run") as events:
        next(events)
        time.sleep(1.2)
        run.play(1)
        assert next(events)[0] == "round"


def test_one_connection_serves_many_requests(tmp_path):
    ask = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Served(tmp_path) as page, opened(page.port) as connection:
        for _ in range(3):
            connection.sendall(ask)
            told = b""
            while not told.endswith(b"}"):
                told += connection.recv(1 << 16)
            assert told.startswith(b"HTTP/1.1 200")


def test_a_head_has_a_largest_size(tmp_path):
    with Served(tmp_path) as page, opened(page.port, b"GET /" + b"x" * 100_000) as large:
        assert large.recv(1 << 16).startswith(b"HTTP/1.1 400")


def test_readers_of_events_and_bodies_are_counted(tmp_path, monkeypatch):
    MadeUp(tmp_path / "run").play(2)
    monkeypatch.setattr(api, "MOST_READERS", 2)
    with Served(tmp_path) as page:
        with page.events("run") as one, page.events("run") as two:
            next(one), next(two)
            told = page.get("/api/runs/run/events")
            assert (told.status, "try again" in told.json["error"]) == (503, True)
        monkeypatch.setattr(security, "BODIES", 0)
        assert page.post("/api/plan", {}).status == 503
        monkeypatch.undo()
        monkeypatch.setattr(api, "WAITING", 0)
        assert page.get("/api/runs").status == 503
        assert page.get("/api/health").status == 200


def test_connections_leave_room_for_files(monkeypatch):
    for allowed, most in ((200, 200 - FILES), (20, AT_ONCE), (10**6, 512), (resource.RLIM_INFINITY, 512)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, allowed=allowed: (allowed, allowed))
        assert most_connections(512) == most


def test_a_token_comes_from_where_nobody_sees_it(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("from-a-file-0123456789\n", "utf-8")
    assert said_token(None, file) == "from-a-file-0123456789"
    assert said_token(None, None) is None
    monkeypatch.setenv("HEADGATE_TOKEN", "from-the-environment")
    assert said_token(None, None) == "from-the-environment"
    assert said_token("option", None) == "option"
    for option, path, says in (("a", file, "only one of them"), (None, tmp_path / "none", "cannot be read")):
        with pytest.raises(SettingError, match=says):
            said_token(option, path)


def test_a_token_on_the_command_line_is_said_to_be_seen(tmp_path):
    command = [sys.executable, "-m", "headgate.cli", "serve", str(tmp_path), "--port", "0", "--token", "abcdefghij0123456789"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert any("token=abcdefghij0123456789" in line for line in iter(server.stdout.readline, "\n"[:0]) if "http" in line)
        server.send_signal(signal.SIGINT)
        assert "list of processes; --token-file FILE or HEADGATE_TOKEN they cannot" in server.communicate(timeout=300)[1]
    finally:
        server.kill()
        server.wait()
