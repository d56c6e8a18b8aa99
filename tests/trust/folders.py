"""Run folders to be damaged: one that is finished, one that stands at a checkpoint, one
in chunks, a sweep.
"""

import atexit
import json
import os
import shutil
import signal
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from unittest import mock

import polars as pl

from headgate.errors import Interrupted
from headgate.experiment import load, sweep_points
from headgate.records.reader import RunFolder
from headgate.simulation import schedule
from headgate.simulation.schedule import perform

SMALL = [
    "run.rounds=6",
    "run.seeds=2",
    'run.policies=["constant"]',
    "training.steps=1",
    "system.clients=4",
]
KINDS = ("finished", "interrupted", "chunks", "sweep")


@cache
def made(kind: str) -> Path:
    """Made once a process; to be copied. They go with the process."""
    folder = Path(mkdtemp(prefix="headgate-folders-")) / kind
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    if kind == "sweep":
        perform(
            sweep_points("digits", [*SMALL, "sweep.system.budget=[20.0, 40.0]"]),
            folder,
            processes=1,
        )
    elif kind == "finished":
        perform(load("digits", SMALL), folder, processes=1)
    else:
        cut = (
            mock.patch.object(schedule, "most_runs", return_value=2)
            if kind == "chunks"
            else nullcontext()
        )
        with cut, suppress(Interrupted):
            perform(
                load("digits", [*SMALL, 'run.policies=["constant", "headgate"]']),
                folder,
                processes=1,
                watch=_stop,
            )
    return folder


def _stop(folder, rows):
    """Ctrl-C after the third round."""
    if rows and rows[0]["t"] == 3:
        os.kill(os.getpid(), signal.SIGINT)


def copied(kind: str, to: Path) -> Path:
    return Path(shutil.copytree(made(kind), to / kind, symlinks=True))


def resumed(folder: Path) -> list[pl.DataFrame]:
    return [
        RunFolder.open(run.path).metrics() for run in perform(None, folder, processes=1)
    ]


@cache
def truth() -> pl.DataFrame:
    """What the interrupted run comes to where nobody damages it."""
    with TemporaryDirectory() as inside:
        return resumed(copied("interrupted", Path(inside)))[0]


def unvouched(folder):
    """Without checksums."""
    for path in sorted(folder.rglob("*.json")):
        facts = json.loads(path.read_text())
        for key in ("seal", "tables"):
            facts.pop(key, None)
        if "parts" in facts:
            facts["parts"] = {}
        path.write_text(json.dumps(facts))
