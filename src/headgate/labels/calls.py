"""Calls of a server that answers JSON: bounded in bytes and in time, with every failure
in one line.
"""

import os
import re
import time
from collections.abc import Mapping
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from headgate.errors import DataError, SettingError
from headgate.escaping import one_line
from headgate.labels.nouns import Later

T = TypeVar("T")
MOST = 64 * 2**20
"""the most bytes of an answer"""
PAUSES = (0.5, 2.0)
"""seconds before a call that changes nothing is repeated"""
CONNECTING = 5.0
"""the most seconds until a server takes a connection"""
CHANGING = ("POST", "PATCH")
"""methods that are not repeated at once: the first call may have been done"""
WORD = re.compile("[!-~]+")
"""characters of a token: what a header may not have would be shown in its error"""
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""states of a server that may answer later"""


class Unauthorized(SettingError):
    """The error of a token that the server does not take."""


class Calls:
    """Calls of one server.

    Parameters
    ----------
    name : str
        What the server is called in messages.
    url : str
        Its address, without user and password: these belong into the environment.
    timeout : float
        The most seconds until it answers.
    token : str
        Name of the environment variable that holds the token.
    """

    def __init__(
        self,
        name: str,
        url: str,
        timeout: float,
        token: str,
    ) -> None:
        self.token = os.environ.get(token, "").strip()
        """the token; no message has it"""
        self.authorization = ""
        """value of the header"""
        self.date: str | None = None
        """the server's clock in its last answer"""
        self.count = 0
        """number of calls"""
        self._name, self._variable, self._timeout = f"{name} at {url}", token, timeout
        if not WORD.fullmatch(self.token):
            what = (
                "must be a token" if self.token else "is not set; it must hold a token"
            )
            raise SettingError(f"{token}: {what} of {name}")
        limits = httpx.Timeout(timeout, connect=min(timeout, CONNECTING))
        try:
            self._client = httpx.Client(base_url=url, timeout=limits)
        except httpx.InvalidURL as error:
            raise SettingError(f"{self._name}: {one_line(error)}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __call__(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: Any = None,
        **query: str | int,
    ) -> T:
        """Return the answer of one call.

        Parameters
        ----------
        kind : type
            What the answer must be, as pydantic checks it.
        method, path : str
            The call.
        body : JSON, optional
            What is sent.
        **query : str or int
            Parameters of the address.

        Raises
        ------
        Later
            If the server cannot be reached, is busy or takes too long.
        DataError, SettingError
            If it refuses the call, or its answer is not what it must be.
        """
        pauses = () if method in CHANGING else PAUSES
        for pause in pauses:
            try:
                return self._once(kind, method, path, body, query)
            except Later:
                time.sleep(pause)
        return self._once(kind, method, path, body, query)

    def _once(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str | int],
    ) -> T:
        self.count += 1
        try:
            request = self._client.build_request(
                method,
                path,
                params=query or None,
                json=body,
                headers={"Authorization": self.authorization},
            )
            answer = self._client.send(request, stream=True)
            try:
                content = self._content(answer)
            finally:
                answer.close()
        except (httpx.TransportError, httpx.DecodingError) as error:
            why = self._hidden(error) or type(error).__name__
            raise Later(f"{self._name}: does not answer ({why})") from None
        self._check(answer, f"{method} {path}", content)
        try:
            return TypeAdapter(kind).validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            what = ".".join(map(str, first["loc"])) or "all of it"
            raise DataError(
                f"{self._name}: {method} {path} answers what it should not"
                f" ({one_line(what, 100)}: {one_line(first['msg'], 100)})"
            ) from None

    def _content(self, answer: httpx.Response) -> bytes:
        """Return the answer's bytes, of which there are at most `MOST`."""
        content = bytearray()
        end = time.monotonic() + 10 * self._timeout
        for part in answer.iter_bytes():
            content += part
            if len(content) > MOST:
                raise DataError(
                    f"{self._name}: answers more than {MOST / 2**20:.0f} MiB at once"
                )
            if time.monotonic() > end:
                raise httpx.ReadTimeout("the answer does not end")
        return bytes(content) or b"null"

    def _check(
        self,
        answer: httpx.Response,
        call: str,
        content: bytes,
    ) -> None:
        state = answer.status_code
        if state in PASSING:
            raise Later(f"{self._name}: {call} is answered with {state}")
        if state == 401:
            said = self._hidden(content[:1000].decode("utf-8", "replace"))
            raise Unauthorized(f"{self._variable}: {call} answers {state} ({said})")
        if not answer.is_success:
            said = self._hidden(content[:1000].decode("utf-8", "replace"))
            raise DataError(f"{self._name}: {call} is answered with {state} ({said})")
        self.date = answer.headers.get("date")

    def _hidden(self, said: object) -> str:
        """Return what a server said, on one line and without the token."""
        text = str(said)
        for secret in (self.token, self.authorization.partition(" ")[2]):
            if secret:
                text = text.replace(secret, "…")
        return one_line(text, 300)
