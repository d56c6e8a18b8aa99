"""`headgate serve` as it is typed: a link, a quiet end, and one line where it cannot begin."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from typer.testing import CliRunner

from headgate.cli.commands import app

from .folders import MadeUp

COMMAND = [sys.executable, "-m", "headgate.cli", "serve"]


def refused(*words):
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False, timeout=3000)
    assert done.stdout == ""
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize("watching", [False, True])
def test_it_prints_its_link_and_ends_quietly_on_ctrl_c(tmp_path, watching):
    MadeUp(tmp_path / "run").play(2)
    process = subprocess.Popen(
        [*COMMAND, str(tmp_path), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        link = next(found.group() for line in process.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+/", line)))
        with urllib.request.urlopen(f"{link}api/runs", timeout=300) as answer:
            assert json.load(answer)["total"] == 1
        events = urllib.request.urlopen(f"{link}api/runs/run/events", timeout=300) if watching else None
        if events is not None:
            assert events.readline() == b"retry: 1000\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
        if events is not None:
            events.close()
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


def test_a_missing_folder_and_a_taken_port_are_said_in_one_line(tmp_path):
    code, said = refused(str(tmp_path / "none"))
    assert code == 4
    assert said == f"error: RUNS_DIR {tmp_path / 'none'}: there is no such folder; headgate run makes runs, mkdir an empty one"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = refused(str(tmp_path), "--port", str(port))
    assert code == 2
    assert said == f"error: --port {port}: cannot be used on 127.0.0.1 (Address already in use); --port 0 takes a free one"


def test_help_is_enough_to_get_going():
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert shown.exit_code == 0
    for word in ("RUNS_DIR", "--host", "--port", "--token", "--open", "Ctrl-C", "headgate run", "8040"):
        assert word in shown.output
