"""A service beside a gate that runs: it shows the accounts, and stops nobody."""

import json
import subprocess
import sys

import pytest

from headgate.labels.gate import Gate
from tests.labels.test_killed_between import GATE

from ..served import Kept

ROUTES = ("orders", "statement", "history", "events", "audit", "ledger")
RUNNING = """
import sys
from pathlib import Path
from headgate.labels.gate import Gate
with Gate(Path(sys.argv[1]), lambda line: None) as gate:
    print("open", flush=True)
    for line in sys.stdin:
        gate.step(begin=True)
        print("done", flush=True)
"""


@pytest.fixture
def file(tmp_path):
    rows = [json.dumps({"key": f"k{n}", "text": "text"}) for n in range(50)]
    (tmp_path / "samples.jsonl").write_text("\n".join(rows) + "\n")
    place = tmp_path / "all" / "gate"
    place.mkdir(parents=True)
    path = tmp_path / "gate.toml"
    path.write_text(f'accounts = "{place}"\n{GATE}')
    return path


class Running:
    """A gate in a process of its own, which takes a step when it is told to."""

    def __init__(self, file):
        command = [sys.executable, "-c", RUNNING, str(file)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.said()

    def said(self):
        line = self._process.stdout.readline()
        assert line, f"the gate ended with {self._process.wait()}"
        return line

    def step(self):
        print("step", file=self._process.stdin, flush=True)
        self.said()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._process.stdout.close()


def check_moves(kept, gate):
    """The page's values follow the gate, and a write is refused."""
    before = kept.all.get("/gate").json
    gate.step()
    after = kept.all.get("/gate").json
    assert after["settled"] == before["settled"] + 1
    assert after["entry"] > before["entry"]
    assert kept.all.get("/gate/balance").json["rounds"] == after["settled"]
    for route in ROUTES:
        assert kept.all.get(f"/gate/{route}").status == 200, route
    refused = kept.all.post("/gate/rounds", {"price": 0.1})
    assert refused.status == 423
    assert refused.headers["content-type"] == "application/problem+json"
    assert "is in use by another process; read only here" in refused.json["detail"]
    assert kept.all.get("/gate").json["hash"] == after["hash"]


def test_a_service_that_starts_after_the_gate_shows_it_live(file, tmp_path):
    with Running(file) as gate, Kept(tmp_path / "all") as kept:
        check_moves(kept, gate)
        check_moves(kept, gate)


def test_a_gate_starts_beside_a_service_that_has_the_accounts_open(file, tmp_path):
    with Gate(file, lambda line: None) as own:
        own.step(begin=True)
    with Kept(tmp_path / "all") as kept:
        assert kept.all.get("/gate/audit").status == 200
        more = {"money": 1.0, "why": "more"}
        assert kept.all.post("/gate/amendments", more).status == 200
        with Running(file) as gate:
            check_moves(kept, gate)
        assert kept.all.post("/gate/amendments", more).status == 200
