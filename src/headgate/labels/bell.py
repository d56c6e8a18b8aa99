"""A receiver of webhooks on this machine that only wakes: nothing of what is sent is
read, so a lost or a false one costs nothing but time.
"""

import hmac
import secrets
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from threading import Event, Thread
from typing import Any

from headgate.errors import SettingError

HEADER = "X-Headgate"
"""the header that holds the secret"""
HOST = "127.0.0.1"
BODY = 2**20
"""the most bytes of a call"""
SECONDS = 5.0
"""the most seconds that a call may take"""
TICK = 0.2
"""seconds after which it is seen that the gate is to end"""


class _Server(TCPServer):
    allow_reuse_address = True


class Bell:
    """A bell that a webhook rings.

    Parameters
    ----------
    port : int
        Port of 127.0.0.1 on which calls are received; 0: any that is free.
    """

    def __init__(self, port: int) -> None:
        self.secret = secrets.token_urlsafe()
        """what the header of a call must hold; another one in each process"""
        self._rung = Event()
        bell = self

        class Handler(BaseHTTPRequestHandler):
            timeout = SECONDS

            def do_POST(self) -> None:
                self.send_response(bell.answer(self))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        try:
            self._server = _Server((HOST, port), Handler)
        except OSError as error:
            raise SettingError(
                f"webhook = {port}: {HOST} cannot be listened on there"
                f" ({error.strerror}); state another port"
            ) from None
        self.port = int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, call: BaseHTTPRequestHandler) -> int:
        """Ring if the call has the secret; return the state of the answer."""
        length = call.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > BODY:
            return 413
        call.rfile.read(int(length))
        stated = call.headers.get(HEADER, "").encode("utf-8", "replace")
        if not hmac.compare_digest(stated, self.secret.encode()):
            return 403
        self._rung.set()
        return 204

    def wait(self, seconds: float, stop: Event) -> None:
        """Return once the bell rings, after so many seconds, or if `stop` is set."""
        while seconds > 0 and not stop.is_set():
            if self._rung.wait(min(seconds, TICK)):
                break
            seconds -= TICK
        self._rung.clear()

    def close(self) -> None:
        """Receive no more calls."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
