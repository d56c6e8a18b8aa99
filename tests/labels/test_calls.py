"""Calls of a server: bounded, repeated only where that is safe, and silent about the
token.
"""

from typing import Any

import pytest

from headgate.errors import DataError, SettingError
from headgate.labels import calls as module
from headgate.labels.calls import Calls
from headgate.labels.nouns import Later
from tests.labels.tape import Tape

WORD = "s3cret-token"


class Says(Tape):
    """A server that gives answers one after the other, the last one for ever."""

    def __init__(self, *answers):
        super().__init__()
        self.given = list(answers)
        self.asked = []

    def answer(self, method, path, headers, body):
        self.asked.append((method, path, headers.get("Authorization")))
        status, content = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        return status, {}, content


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", WORD)
    monkeypatch.setattr(module, "PAUSES", (0.0, 0.0))


def asked(tape, method="GET", kind=Any, path="/there"):
    """What comes of one call, and how often it was made."""
    with tape.played() as url:
        calls = Calls("Server", url, 5.0, "SOME_TOKEN")
        calls.authorization = f"Token {WORD}"
        try:
            return calls(kind, method, path)
        finally:
            calls.close()


def test_what_changes_nothing_is_repeated():
    tape = Says((503, b""), (502, b"{}"), (200, b'{"a": 1}'))
    assert asked(tape) == {"a": 1}
    assert len(tape.asked) == 3
    assert tape.asked[0] == ("GET", "/there", f"Token {WORD}")


def test_what_changes_something_is_made_once():
    tape = Says((503, b""), (200, b"{}"))
    with pytest.raises(Later, match="POST /there is answered with 503"):
        asked(tape, "POST")
    assert len(tape.asked) == 1


def test_a_server_that_stays_away_is_asked_three_times():
    tape = Says((429, b""))
    with pytest.raises(Later, match="is answered with 429"):
        asked(tape)
    assert len(tape.asked) == 3


def test_an_answer_is_no_larger_than_stated(monkeypatch):
    monkeypatch.setattr(module, "MOST", 2**20)
    with pytest.raises(DataError, match="answers more than 1 MiB at once"):
        asked(Says((200, b'"' + b"x" * 2**21 + b'"')))


@pytest.mark.parametrize(
    "content",
    [b"<html>", b"[" * 100_000, b'{"a": "b"}', b'{"count": "many"}', b""],
)
def test_an_answer_that_is_something_else_is_refused(content):
    with pytest.raises(DataError, match="GET /there answers what it should not") as it:
        asked(Says((200, content)), kind=dict[str, int])
    assert "\n" not in str(it.value)


def test_a_refusal_says_what_the_server_says_on_one_line_without_the_token():
    said = f'{{"detail": "bad\n token {WORD}"}}'.encode()
    with pytest.raises(SettingError, match="SOME_TOKEN: GET /there answers 401") as it:
        asked(Says((401, said)))
    with pytest.raises(DataError, match=r"is answered with 403 .*token …") as other:
        asked(Says((403, said)))
    for message in (str(it.value), str(other.value)):
        assert WORD not in message
        assert "\n" not in message
        assert len(message) < 500


@pytest.mark.parametrize(
    "token", ["", " \n", "s3cret\ntoken", "s3crét", "s3cret token"]
)
def test_a_token_that_is_none_is_refused_without_showing_it(monkeypatch, token):
    monkeypatch.setenv("SOME_TOKEN", token)
    with pytest.raises(SettingError, match=r"^SOME_TOKEN: .* token of Server$") as it:
        Calls("Server", "http://127.0.0.1:9/", 5.0, "SOME_TOKEN")
    assert "s3" not in str(it.value)


def test_the_end_of_a_line_is_no_part_of_a_token(monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", f"{WORD}\n")
    calls = Calls("Server", "http://127.0.0.1:9/", 5.0, "SOME_TOKEN")
    assert calls.token == WORD
    calls.close()


def test_a_redirect_is_not_followed():
    tape = Says((302, b""))
    with pytest.raises(DataError, match="is answered with 302"):
        asked(tape)
    assert len(tape.asked) == 1


def test_an_address_that_cannot_be_is_named():
    with pytest.raises(SettingError, match="Server at http://a b"):
        Calls("Server", "http://a b:x/", 5.0, "SOME_TOKEN")
