"""`headgate serve` as it is typed: a link, a quiet end, and one line where it cannot begin."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from .folders import MadeUp

COMMAND = [sys.executable, "-m", "headgate.cli", "serve"]


def test_it_prints_its_link_and_ends_quietly_on_ctrl_c_although_somebody_watches(tmp_path):
    MadeUp(tmp_path / "run").play(2)
    process = subprocess.Popen(
        [*COMMAND, str(tmp_path), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        link = next(found.group() for line in process.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+/", line)))
        with urllib.request.urlopen(f"{link}api/runs", timeout=300) as answer:
            assert json.load(answer)["total"] == 1
        with urllib.request.urlopen(f"{link}api/runs/run/events", timeout=300) as events:
            assert events.readline() == b"retry: 1000\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=300)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
        process.wait()


def test_beyond_this_machine_the_link_holds_a_token(tmp_path):
    process = subprocess.Popen([*COMMAND, str(tmp_path), "--host", "0.0.0.0", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        found = next(found for line in process.stdout if (found := re.search(r":(\d+)/\?token=([\w-]+)", line)))
        port, token = found.groups()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs", timeout=300)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs?token={token}", timeout=300) as answer:
            assert json.load(answer)["total"] == 0
    finally:
        process.kill()
        process.communicate()
