"""The front of a deployment in a thread, before a SuperLink of paper that writes down what reaches it."""

import asyncio
import socket
import ssl
import threading
import time
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import uvicorn
from flwr.supercore.date import now

from headgate.flower.deploy import front
from headgate.flower.deploy.certificates import make_certificates, make_node_key
from headgate.flower.deploy.processes import free_port, listening
from headgate.flower.keys import FILE, ClientKeys, bind_key, read_private_key


@dataclass
class Fronted:
    folder: object
    port: int
    superlink: ThreadingHTTPServer
    reached: list = field(default_factory=list)
    """(path, headers, body) of all that came to the SuperLink"""

    def headers(self, key="key", hour=None):
        """What a SuperNode sends with every request."""
        hour = hour or now().isoformat()
        signature = self.private(key).sign(hour.encode(), front.ec.ECDSA(front.SHA256()))
        return {
            front.FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(self.public(key)).decode(),
            front.TIMESTAMP_HEADER: hour,
            front.FLEET_HTTP_SIGNATURE_HEADER: b64encode(signature).decode(),
        }

    def private(self, key):
        return read_private_key(self.folder / key)

    def public(self, key):
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes

        return public_key_to_bytes(self.private(key).public_key())

    def connect(self):
        trusting = ssl.create_default_context(cafile=self.folder / "shown" / "ca.crt")
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        return trusting.wrap_socket(plain, server_hostname="localhost")

    def say(self, request, rest=b""):
        """The bytes that come back until the front closes the connection or has answered."""
        with self.connect() as connection:
            heard = b""
            try:
                connection.sendall(request + rest)
                while part := connection.recv(65536):
                    heard += part
            except (TimeoutError, ConnectionError, ssl.SSLError):
                pass
            return heard

    def request(self, line, headers=None, body=b"", length=True):
        """A request whose line is said as it is, signed by a registered key unless other headers are given."""
        return self.say(self.head(line, headers, len(body) if length else None), body)

    def head(self, line, headers=None, length=None):
        lines = [line, "Host: localhost", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in (self.headers() if headers is None else headers).items()]
        lines += [] if length is None else [f"Content-Length: {length}"]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def status(heard):
    return int(heard.split(b" ", 2)[1]) if heard else None


@contextmanager
def fronted(folder):
    """A front with one registered key, `key`, and one that is not, `stranger`."""
    shown, inside = make_certificates(folder / "shown"), make_certificates(folder / "inside")
    bind_key(folder / FILE, 0, make_node_key(folder / "key"))
    make_node_key(folder / "stranger")
    reached = []

    class Paper(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            reached.append((self.path, dict(self.headers), body))
            answer = b"answer to " + body[:100]
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("flwr-something", "kept")
            self.send_header("Server-Secret", "not told")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_POST

        def log_message(self, *words):
            pass

    superlink = ThreadingHTTPServer(("127.0.0.1", 0), Paper)
    superlink.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(inside.server, inside.server_key)
    superlink.socket = context.wrap_socket(superlink.socket, server_side=True)
    port = free_port()
    servers = []

    class Kept(uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

    plain, uvicorn.Server = uvicorn.Server, Kept
    keys = folder / FILE
    own = (shown.server, shown.server_key, superlink.server_address[1], inside.authority, keys)
    threads = [
        threading.Thread(target=superlink.serve_forever),
        threading.Thread(target=lambda: asyncio.run(front.serve("127.0.0.1", port, *own))),
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 60
    while not listening(port):
        assert time.monotonic() < until
        time.sleep(0.05)
    try:
        assert ClientKeys(keys).current()
        yield Fronted(folder, port, superlink, reached)
    finally:
        uvicorn.Server = plain
        servers[0].should_exit = True
        threads[1].join()
        superlink.shutdown()
        threads[0].join()
        superlink.server_close()
