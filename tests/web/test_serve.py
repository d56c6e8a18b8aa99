"""`headgate serve` as it is typed: a link, a quiet end, and who may look."""

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

from .folders import MadeUp


@pytest.fixture
def serve(tmp_path):
    """serve(words, …) starts it over a folder with one run, and returns the process and its link."""
    started = []
    MadeUp(tmp_path / "run").play(2)

    def start(*words):
        command = [sys.executable, "-m", "headgate.cli", "serve", str(tmp_path), "--port", "0", *words]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[0], next(found.group() for line in started[0].stdout if (found := re.search(r"http://\S+", line)))

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_it_prints_its_link_and_ends_quietly_on_ctrl_c_although_somebody_is_connected(serve):
    process, link = serve()
    with urllib.request.urlopen(f"{link}api/runs", timeout=300) as answer:
        assert json.load(answer)["total"] == 1
    with socket.create_connection(("127.0.0.1", urlsplit(link).port)):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")


def test_beyond_this_machine_the_link_holds_a_token(serve, monkeypatch):
    monkeypatch.setenv("HEADGATE_TOKEN", "abcdefghij0123456789")
    _, link = serve("--host", "0.0.0.0")
    port, token = re.search(r":(\d+)/\?token=([\w-]+)", link).groups()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs", timeout=300)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs?token={token}", timeout=300) as answer:
        assert json.load(answer)["total"] == 1
