"""A webhook only wakes, and only with the secret."""

import socket
import time
from threading import Event

import httpx
import pytest

from headgate.errors import SettingError
from headgate.labels.bell import BODY, HEADER, Bell


@pytest.fixture
def bell():
    made = Bell(0)
    yield made
    made.close()


def call(bell, secret, content=b"{}", **headers):
    url = f"http://127.0.0.1:{bell.port}/"
    headers = {HEADER: secret, **headers}
    return httpx.post(url, content=content, headers=headers).status_code


def waited(bell, seconds):
    """Whether a wait ends by a ring, and not by the time."""
    stop, began = Event(), time.monotonic()
    bell.wait(seconds, stop)
    return time.monotonic() - began < seconds


def test_the_secret_rings_once(bell):
    assert call(bell, bell.secret) == 204
    assert waited(bell, 60.0)
    assert not waited(bell, 0.3)


@pytest.mark.parametrize("secret", ["", "wrong", "é"])
def test_nobody_else_does(bell, secret):
    assert call(bell, secret.encode()) == 403
    assert not waited(bell, 0.3)


def test_much_is_not_read(bell):
    head = f"POST / HTTP/1.1\r\n{HEADER}: {bell.secret}\r\nContent-Length: {BODY + 1}"
    with socket.create_connection(("127.0.0.1", bell.port)) as line:
        line.sendall(f"{head}\r\n\r\n".encode())
        assert b" 413 " in line.recv(100)
    assert call(bell, bell.secret, b"x" * 1000) == 204


def test_every_process_has_another_secret(bell):
    other = Bell(0)
    other.close()
    assert other.secret != bell.secret
    assert len(bell.secret) >= 32


def test_the_end_of_the_gate_ends_the_wait(bell):
    stop = Event()
    stop.set()
    bell.wait(60.0, stop)
    assert not waited(bell, 0.3)


def test_a_port_that_is_taken_is_named(bell):
    with pytest.raises(SettingError, match=f"webhook = {bell.port}: .*state another"):
        Bell(bell.port)
