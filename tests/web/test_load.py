"""Limits of the server: sizes, connections, and what is kept."""

import socket

from headgate.web import serving

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


def test_more_connections_than_there_is_room_for_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "CONNECTIONS", 3)
    with Served(tmp_path) as page:
        assert page.get("/api/health").status == 200
        with opened(page.port, b"GET /"), opened(page.port, b"GET /"), opened(page.port, b"GET /"):
            assert page.get("/api/health").status == 503


def test_nothing_grows_over_many_rounds(tmp_path):
    """An hour of looks and questions in small: what is kept is as much after a hundred rounds as after ten."""
    run = MadeUp(tmp_path / "run", rounds=120, policies=("constant",))
    with Served(tmp_path) as page:
        sizes = []
        for _ in range(10):
            run.play(10)
            for path in ("/api/runs", "/api/runs/run", "/api/runs/run/curves", "/api/runs/run/clients", "/api/runs/run/trace"):
                assert page.get(path).status == 200
            library = page.library
            sizes.append((len(library._found), len(library._rows), len(library._opened), len(library._followers)))
            assert sum(each.rows.nbytes for each in library._followers.values()) < 10**6
        assert set(sizes) == {(1, 1, 1, 4)}  # metrics, held, admitted, and the two columns of the list
