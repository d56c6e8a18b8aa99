"""The page on a real socket, in a thread of the test."""

import http.client
import json
import threading
from contextlib import contextmanager
from typing import NamedTuple

from headgate.web.serving import Server, configured, listen, make_app


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Served:
    def __init__(self, folder, token=None, port=0, pause=None, host="127.0.0.1"):
        self.app = make_app(folder, host, token)
        self._socket = listen("127.0.0.1", port)
        self.port = self._socket.getsockname()[1]
        self._server = Server(configured(self.app))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._pause = pause

    @property
    def live(self):
        return self.app.state.api.live

    @property
    def library(self):
        return self.app.state.api.library

    def __enter__(self):
        self._thread.start()
        assert self.get("/static/mark.svg").status in (200, 401)  # it has begun
        if self._pause is not None:
            self.live.pause = self._pause
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()
        assert not self._thread.is_alive()

    def ask(self, method, path, body=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.putrequest(method, path, skip_host="Host" in dict(headers))
            for key, value in dict(headers).items():
                connection.putheader(key, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()})

    def post(self, path, body, kind="application/json"):
        body = json.dumps(body).encode() if kind == "application/json" and not isinstance(body, bytes) else body
        return self.ask("POST", path, body, {"Content-Type": kind})

    @contextmanager
    def events(self, name, last_id=None):
        """What a browser's EventSource would see: (event, id, data) one after the other."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
        connection.request("GET", f"/api/runs/{name}/events", headers=headers)
        answer = connection.getresponse()
        try:
            yield _events(answer) if answer.status == 200 else answer.status
        finally:
            answer.close()
            connection.close()


def _events(answer):
    fields = {}
    for line in answer:
        text = line.decode().rstrip("\n")
        if text.startswith((":", "retry")):
            continue
        if text:
            key, _, value = text.partition(": ")
            fields[key] = value
        elif fields:
            yield fields["event"], int(fields["id"]), json.loads(fields["data"])
            fields = {}
