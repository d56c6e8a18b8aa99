"""The page on a real socket, in a thread of the test."""

import http.client
import json
import threading
from contextlib import closing
from itertools import count
from typing import NamedTuple

import pytest
import uvicorn

from headgate.web.accounts.service import Service
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
    def __init__(self, folder, token=None, port=0, host="127.0.0.1", service=None):
        self.app = make_app(folder, host, token, service)
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


class Caller:
    """Who has a token and talks to a service in JSON."""

    def __init__(self, served, token):
        self.served, self.token = served, token
        self._keys = count(1)

    def ask(self, method, path, body=None, key=None, **headers):
        sent = {"Authorization": f"Bearer {self.token}", **headers}
        if method not in ("GET", "HEAD"):
            sent["Idempotency-Key"] = key or f"{id(self)}-{next(self._keys)}"
            sent["Content-Type"] = "application/json"
        text = None if body is None else json.dumps(body)
        return self.served.ask(method, f"/api/accounts{path}", text, sent)

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)

    def post(self, path, body, key=None):
        return self.ask("POST", path, body, key)

    def settle(self, path, t, body=None, key=None):
        return self.ask("PUT", f"{path}/rounds/{t}/settlement", body or {}, key)


class Kept:
    """A service for accounts, with a token of everything."""

    def __init__(self, folder, port=0, address=None, **more):
        self.folder = folder
        self.service = Service(address or str(folder), **{"rate": 0, **more})
        self.token = self.service.first_token()
        self.served = Served(folder / "no-runs", port=port, service=self.service)

    def __enter__(self):
        self.served.__enter__()
        self.all = self.caller(self.token)
        return self

    def __exit__(self, *error):
        self.served.__exit__(*error)

    def caller(self, token):
        return Caller(self.served, token)

    def with_token(self, name, account, role):
        return self.caller(self.service.tokens.make(name, account, role))

    def began(self, name, **system):
        usual = {"buffer": [8, 9, 10], "budget": 20.0, "horizon": 50}
        new = {"name": name, "system": {**usual, **system}}
        answer = self.all.post("", new)
        assert answer.status == 201, answer.body
        return f"/{name}"
