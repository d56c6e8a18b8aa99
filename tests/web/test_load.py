"""Limits of the server: sizes, connections, readers and bodies."""

import socket

from headgate.web import api, security, serving

from .folders import MadeUp
from .served import Served


def opened(port, *sent):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    for piece in sent:
        connection.sendall(piece)
    return connection


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


def test_more_connections_than_there_is_room_for_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "CONNECTIONS", 3)
    with Served(tmp_path) as page:
        assert page.get("/api/health").status == 200
        with opened(page.port, b"GET /"), opened(page.port, b"GET /"), opened(page.port, b"GET /"):
            assert page.get("/api/health").status == 503
