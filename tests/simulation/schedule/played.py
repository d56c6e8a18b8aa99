"""A small experiment to be played in chunks, what it leaves, and ways to disturb it."""

import os
import signal
import sys

import pytest

from headgate.experiment import load

SETTINGS = [
    "run.seeds=4",
    "run.rounds=6",
    'run.policies=["hybrid", "acdpp"]',
    "training.steps=2",
]
TABLES = ("metrics.parquet", "clients.parquet")
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="several processes need Linux"
)


def tables(folder):
    return [(folder / name).read_bytes() for name in TABLES]


def models(folder):
    return [
        path.read_bytes()
        for path in sorted((folder / "checkpoints").rglob("*.safetensors"))
    ]


class Stopping:
    """Watches a run, and presses Ctrl-C when it sees the first row."""

    def __call__(self, folder, rows):
        if rows:
            os.kill(os.getpid(), signal.SIGINT)


POLICY = """
import os, signal, time
from dataclasses import dataclass
from pathlib import Path
from headgate.control.policies import Constant

@dataclass(frozen=True, eq=False)
class Odd(Constant):
    def admit(self, view, memory):
        if {when} and Path("armed").exists():
            {do}
        return super().admit(view, memory)
"""


OWN = [
    f"policies.{name}.{one}"
    for name in ("hybrid", "acdpp")
    for one in ("kind=odd:Odd", "rate=4.0", "K=4")
]
"""settings with which both policies are odd ones"""


def odd(folder, monkeypatch, t, do):
    """An experiment whose policies do something odd in round `t`, or in every round,
    while there is a file named armed.
    """
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "odd", raising=False)
    (folder / "odd.py").write_text(
        POLICY.format(when="True" if t is None else f"view.t == {t}", do=do)
    )
    (folder / "armed").touch()
    return load("digits", [*SETTINGS, *OWN])
