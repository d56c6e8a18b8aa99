"""`headgate serve` as it is typed: a link, a quiet end, who may look; and its limits:
sizes, connections, what is kept.
"""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from headgate.web import serving

from .folders import MadeUp
from .served import Served


@pytest.fixture
def serve(tmp_path):
    """serve(words, …) starts it over a folder with one run, and returns the process and
    its link.
    """
    started = []
    MadeUp(tmp_path / "run").play(2)

    def start(*words, folder=(str(tmp_path),), cwd=None):
        command = [sys.executable, "-m", "headgate.cli", "serve", *folder]
        started.append(
            subprocess.Popen(
                [*command, "--port", "0", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=cwd,
            )
        )
        return started[0], next(
            found.group()
            for line in started[0].stdout
            if (found := re.search(r"http://\S+", line))
        )

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_it_prints_its_link_and_ends_quietly_on_ctrl_c(
    serve,
):
    process, link = serve()
    with urllib.request.urlopen(f"{link}api/runs", timeout=300) as answer:
        assert json.load(answer)["total"] == 1
    with socket.create_connection(("127.0.0.1", urlsplit(link).port)):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")


def test_without_a_runs_folder_there_is_a_page_and_the_first_run_appears(
    serve, tmp_path
):
    (tmp_path / "elsewhere").mkdir()
    _, link = serve(folder=(), cwd=tmp_path / "elsewhere")
    with urllib.request.urlopen(f"{link}api/runs", timeout=300) as answer:
        assert json.load(answer)["total"] == 0
    with urllib.request.urlopen(f"{link}api/plan", timeout=300) as answer:
        assert json.load(answer)["finished"] == []
    MadeUp(tmp_path / "elsewhere" / "runs" / "first").play(1)
    with urllib.request.urlopen(f"{link}api/runs", timeout=300) as answer:
        assert json.load(answer)["total"] == 1


def test_a_browser_that_asks_for_no_page_gets_one_and_a_script_gets_json(tmp_path):
    with Served(tmp_path) as page:
        shown = page.get("/nopage", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
        told = page.get("/nopage")
        of_api = page.get("/api/nothing", Accept="application/json")
    assert (shown.status, shown.headers["content-type"]) == (
        404,
        "text/html; charset=utf-8",
    )
    assert b"<main" in shown.body
    assert "content-security-policy" in shown.headers
    assert (told.status, told.json["detail"]) == (404, "/nopage: not found")
    assert (of_api.status, of_api.json["detail"]) == (404, "/api/nothing: not found")


def test_beyond_this_machine_the_link_holds_a_token(serve, monkeypatch):
    monkeypatch.setenv("HEADGATE_TOKEN", "abcdefghij0123456789")
    _, link = serve("--host", "0.0.0.0")
    port, token = re.search(r":(\d+)/\?token=([\w-]+)", link).groups()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs", timeout=300)
    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}/api/runs?token={token}", timeout=300
    ) as answer:
        assert json.load(answer)["total"] == 1


def opened(port, sent):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(sent)
    return connection


def test_a_head_has_a_largest_size(tmp_path):
    with (
        Served(tmp_path) as page,
        opened(page.port, b"GET /" + b"x" * 100_000) as large,
    ):
        assert large.recv(1 << 16).startswith(b"HTTP/1.1 400")


def test_more_connections_than_there_is_room_for_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "CONNECTIONS", 3)
    with Served(tmp_path) as page:
        assert page.get("/api/health").status == 200
        with (
            opened(page.port, b"GET /"),
            opened(page.port, b"GET /"),
            opened(page.port, b"GET /"),
        ):
            assert page.get("/api/health").status == 503


def test_nothing_grows_over_many_rounds(tmp_path):
    """An hour of looks and questions in small: what is kept is as much after a hundred
    rounds as after ten.
    """
    run = MadeUp(tmp_path / "run", rounds=120, policies=("constant",))
    with Served(tmp_path) as page:
        sizes = []
        for _ in range(10):
            run.play(10)
            for path in (
                "/api/runs",
                "/api/runs/run",
                "/api/runs/run/curves",
                "/api/runs/run/clients",
            ):
                assert page.get(path).status == 200
            library = page.library
            sizes.append(
                (
                    len(library._found),
                    len(library._rows),
                    len(library._opened),
                    len(library._followers),
                )
            )
            assert sum(each.rows.nbytes for each in library._followers.values()) < 10**6
        assert set(sizes) == {
            (1, 1, 1, 3)
        }  # metrics, held, and the columns of the list
