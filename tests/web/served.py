"""The page on a real socket, in a thread of the test."""

import http.client
import json
import threading
from contextlib import closing
from typing import NamedTuple

import pytest
import uvicorn

from headgate.web.serving import configured, listen, make_app


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        """Refused where it holds a number that JSON lacks."""
        return json.loads(self.body, parse_constant=pytest.fail)


class Served:
    def __init__(self, folder, token=None, port=0, host="127.0.0.1"):
        self.app = make_app(folder, host, token)
        self._socket = listen("127.0.0.1", port)
        self.port = self._socket.getsockname()[1]
        self._server = uvicorn.Server(configured(self.app))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}
        )

    @property
    def library(self):
        return self.app.state.library

    def __enter__(self):
        self._thread.start()
        assert self.get("/static/mark.svg").status in (200, 401)  # it has begun
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()
        assert not self._thread.is_alive()

    def ask(self, method, path, body=None, headers=()):
        with closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        ) as connection:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return Answer(
                answer.status,
                {key.lower(): value for key, value in answer.getheaders()},
                answer.read(),
            )

    def get(self, path, **headers):
        return self.ask(
            "GET",
            path,
            headers={key.replace("_", "-"): value for key, value in headers.items()},
        )

    def post(self, path, body):
        return self.ask("POST", path, body, {"Content-Type": "application/json"})
