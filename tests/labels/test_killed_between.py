"""A gate that is killed before any of its writes goes on as if it had not been."""

import json
import os
import shutil
import signal
from pathlib import Path
from unittest.mock import patch

import pytest

from headgate.books.durable import Durable
from headgate.labels.gate import Gate
from tests.labels.scenario import audit, step

PLACES = (
    (Durable, "_run"),
    (Durable, "_run_each"),
    (os, "fsync"),
    (Path, "replace"),
)
"""what a step calls to write anything"""
GATE = """
price = 0.1
[money]
budget = 0.5
rounds = 3
[orders]
expires = 1
[clients.team]
samples = "samples.jsonl"
places = 50
[queue]
kind = "folder"
tasks = "tasks"
labels = "in"
settled = 0
"""


def new_gate(folder):
    """A gate after its first round, whose first labels wait to be taken."""
    rows = [json.dumps({"key": f"k{n}", "text": f"text {n}"}) for n in range(50)]
    (folder / "samples.jsonl").write_text("\n".join(rows) + "\n")
    gate = folder / "gate.toml"
    gate.write_text(GATE)
    step(gate, 1)
    answers = [
        {"key": "k0", "label": "cat"},
        {"key": "k1", "state": "skipped"},
        {"key": "k2", "label": "dog"},
    ]
    put(folder, "a", answers)
    step(gate, 1)
    put(folder, "b", [{"key": "k2", "state": "rejected"}, {"key": "k3", "label": "x"}])
    return gate


def put(folder, name, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "in" / "team" / f"{name}.jsonl").write_text(text)


def killed_before(call, gate, t):
    """Make a step in a process that kills itself before its n-th write; return whether
    it came so far.
    """
    child = os.fork()
    if not child:
        try:
            with counting(call):
                step(gate, t)
        finally:
            os._exit(0)
    _, code = os.waitpid(child, 0)
    return os.WIFSIGNALED(code)


class counting:
    """Count the calls that write, and die before one of them."""

    def __init__(self, last):
        self.left, self.patches = last, []

    def __enter__(self):
        for owner, name in PLACES:
            made = patch.object(owner, name, self.counted(getattr(owner, name)))
            made.start()

    def counted(self, real):
        def call(*given, **named):
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
            return real(*given, **named)

        return call

    def __exit__(self, *error):
        patch.stopall()


def outcome(folder, gate):
    """All that the gate did, without its clock."""
    audit(gate)
    with Gate(gate, lambda line: None) as own:
        lines = [line._replace(time="") for line in own.books.statement().lines]
        status = own.status(None)["clients"]
    for own in status.values():
        own.pop("oldest")
    tasks = sorted((folder / "tasks").rglob("*.csv"))
    labelled = (folder / "labelled" / "team.jsonl").read_text()
    return lines, status, labelled, [(each.name, each.read_text()) for each in tasks]


def copied(folder, to):
    shutil.copytree(folder, to)
    return to / "gate.toml"


PARTS = 4


@pytest.mark.parametrize("t", [2, 3])
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, PARTS))]
)
def test_a_step_that_is_killed_before_any_write_ends_as_without_the_kill(
    t, part, tmp_path
):
    """Round 2 has labels, a skip and a rejection; in round 3 an order has expired."""
    before = tmp_path / "before"
    before.mkdir()
    gate = new_gate(before)
    for earlier in range(2, t):
        step(gate, earlier)
    gate = copied(before, tmp_path / "whole")
    step(gate, t)
    wanted = outcome(tmp_path / "whole", gate)
    assert '"rejected"' in wanted[2]
    call = part
    while True:
        folder = tmp_path / f"killed-{call}"
        gate = copied(before, folder)
        if not killed_before(call, gate, t):
            break
        step(gate, t)
        assert outcome(folder, gate) == wanted, f"killed before write {call}"
        call += PARTS
    assert call > 30, "a step writes more often"
