"""Through the configuration that is written, the real nginx passes on what SuperNodes
need of a SuperLink and nothing else.
"""

import shutil
import socket
import ssl
import subprocess
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

from headgate.flower.deploy.certificates import ensure_certificates
from headgate.flower.deploy.deployment import free_port, write_server

pytestmark = pytest.mark.skipif(
    not shutil.which("nginx"), reason="no nginx on this machine: apt-get install nginx"
)
PATHS = {
    path
    for _, path in PROTOBUF_REQUEST_TYPES
    if path.startswith("/v1/fleet/") and "register" not in path
}
PULL, START = "/v1/fleet/pull-messages", "/v1/control/start-run"
KEY = "k" * 288
"""as long as the header of a SuperNode's public key"""


class Door:
    """nginx before a server that writes down what reaches it."""

    def __init__(self, folder, reached):
        self.folder, self.reached, self.port = folder, reached, free_port()

    def connect(self):
        trusting = ssl.create_default_context(cafile=self.folder / "ca.crt")
        return trusting.wrap_socket(
            socket.create_connection(("127.0.0.1", self.port), timeout=60),
            server_hostname="localhost",
        )

    def head(self, line, length=0, **headers):
        lines = [
            line,
            "Host: localhost",
            "Connection: close",
            f"Content-Length: {length}",
        ]
        return "\r\n".join(
            [
                *lines,
                *(
                    f"{name.replace('_', '-')}: {value}"
                    for name, value in headers.items()
                ),
                "",
                "",
            ]
        ).encode()

    def request(self, line, body=b"", **headers):
        """The status of the answer; None: there was none."""
        with self.connect() as connection:
            heard = b""
            try:
                connection.sendall(
                    self.head(line, headers.pop("length", len(body)), **headers) + body
                )
                while b"\n" not in heard and (
                    part := connection.recv(65536)
                ):  # a refused body is waited for after it
                    heard += part
            except (ConnectionError, ssl.SSLError):
                pass
        return int(heard.split(b" ", 2)[1]) if heard else None


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    folder, reached = tmp_path_factory.mktemp("nginx"), []
    ensure_certificates(folder)

    class SuperLink(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            reached.append(
                (self.path, self.rfile.read(int(self.headers["content-length"])))
            )
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_POST

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), SuperLink)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    door = Door(folder, reached)
    write_server(
        folder / "link", folder, f"127.0.0.1:{door.port}", server.server_address[1]
    )
    nginx = subprocess.Popen(
        ["/bin/bash", folder / "link" / "nginx.sh"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        while not (folder / "link" / "nginx.pid").exists():
            assert nginx.poll() is None, nginx.stderr.read()
            time.sleep(0.05)
        yield door
    finally:
        nginx.terminate()
        nginx.communicate()
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def nothing_yet(door):
    door.reached.clear()


def test_what_nodes_ask_for_is_passed_on(door):
    for path in sorted(PATHS):
        assert (
            door.request(
                f"POST {path} HTTP/1.1", path.encode() * 1000, flwr_public_key=KEY
            )
            == 200
        )
    assert door.reached == [(path, path.encode() * 1000) for path in sorted(PATHS)]
    assert len(PATHS) == 10


OTHER_PATHS = [
    *sorted({path for _, path in PROTOBUF_REQUEST_TYPES} - PATHS), "/", "*", "/health",
    "/docs", "/openapi.json", "/v1/runtime/responses", f"/{START}",
    f"{PULL}/../../control/start-run", "/v1/fleet/../control/start-run",
    "/v1/fleet/%2e%2e/control/start-run", "/v1/fleet/%2E%2E/control/start-run",
    "/v1/fleet/..%2fcontrol%2fstart-run", "/v1/fleet/..;/control/start-run",
    "/v1/fleet\\..\\control\\start-run", "/v1/%63ontrol/start-run", f"{PULL}/",
    f"{PULL}?x=1", f"{PULL};x", f"{PULL}%00", f"{PULL}%0a", f"{PULL}%20", PULL.upper(),
    f"http://localhost{START}", f"http://127.0.0.1{START}", f"localhost:8001{START}",
    f"/v1/fleet/{START}",
]  # fmt: skip


@pytest.mark.parametrize("path", OTHER_PATHS)
def test_no_other_path_reaches_the_superlink(door, path):
    assert door.request(f"POST {path} HTTP/1.1", flwr_public_key=KEY) in (400, 404)
    assert door.reached == []


def test_another_spelling_of_a_path_reaches_that_path(door):
    """nginx tidies paths up before it compares them, and then sends one of ours."""
    for path in (
        "/v1/%66leet/pull-messages",
        "/v1/fleet/./pull-messages",
        f"//{PULL[1:]}",
        f"https://localhost{PULL}",
    ):
        assert door.request(f"POST {path} HTTP/1.1") == 200
    assert {path for path, _ in door.reached} == {PULL}


@pytest.mark.parametrize(
    "method",
    ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "post"],
)
def test_no_other_method_reaches_the_superlink(door, method):
    assert door.request(f"{method} {PULL} HTTP/1.1") in (400, 403, 405)
    assert door.reached == []


def test_a_body_that_is_too_large_or_does_not_come_is_not_passed_on(door):
    assert door.request(f"POST {PULL} HTTP/1.1", length=32 * 2**20 + 1) == 413
    with door.connect() as connection:
        connection.sendall(door.head(f"POST {PULL} HTTP/1.1", 10) + b"half")
    assert door.request(f"POST {PULL} HTTP/1.1", b"whole") == 200
    assert door.reached == [(PULL, b"whole")]


def test_one_key_has_eight_requests_at_a_time_and_does_not_keep_others_out(door):
    with ExitStack() as opened:
        for _ in range(8):
            half = door.head(f"POST {PULL} HTTP/1.1", 10, flwr_public_key=KEY) + b"half"
            opened.enter_context(door.connect()).sendall(half)
        until = time.monotonic() + 60
        while (
            door.request(f"POST {PULL} HTTP/1.1", flwr_public_key=KEY) != 503
        ):  # until nginx has read all of them
            assert time.monotonic() < until
        assert (
            door.request(f"POST {PULL} HTTP/1.1", flwr_public_key=KEY[:-1] + "l") == 200
        )
    while door.request(f"POST {PULL} HTTP/1.1", flwr_public_key=KEY) != 200:
        assert time.monotonic() < until


def test_a_head_that_is_too_long_is_refused(door):
    assert door.request(f"POST {PULL} HTTP/1.1", x="x" * 2**17) in (400, 431, None)
    assert door.request(f"POST /{'x' * 2**17} HTTP/1.1") in (400, 414, None)
    assert door.reached == []


def test_a_certificate_that_the_daily_script_renews_is_the_one_that_nginx_shows(door):
    def shown():
        with door.connect() as connection:
            return connection.getpeercert()["serialNumber"]

    before = shown()
    (door.folder / "server.pem").unlink()
    subprocess.run(
        ["/bin/bash", door.folder / "link" / "certificates.sh"],
        check=True,
        capture_output=True,
    )
    until = time.monotonic() + 60
    while shown() == before:
        assert time.monotonic() < until
    assert door.request(f"POST {PULL} HTTP/1.1") == 200
