"""Run folders to be damaged: one that is finished, one that stands at a checkpoint, one in shards, a sweep."""

import atexit
import os
import shutil
import signal
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from headgate.errors import Interrupted
from headgate.experiment import load, sweep_points
from headgate.simulation import schedule
from headgate.simulation.schedule import perform

SMALL = ["run.rounds=6", "run.seeds=2", 'run.policies=["constant"]', "training.steps=1", "system.clients=4"]
KINDS = ("finished", "interrupted", "shards", "sweep")


@cache
def made(kind: str) -> Path:
    """Made once a process; to be copied. They go with the process."""
    folder = Path(mkdtemp(prefix="headgate-folders-")) / kind
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    two = [*SMALL, 'run.policies=["constant", "headgate"]']
    if kind == "sweep":
        perform(sweep_points("digits", [*SMALL, "sweep.system.budget=[20.0, 40.0]"]), folder, processes=1)
    elif kind == "finished":
        perform(load("digits", SMALL), folder, processes=1)
    else:
        before = schedule.most_runs
        if kind == "shards":
            schedule.most_runs = lambda *_: 2
        try:
            perform(load("digits", two), folder, processes=1, watch=_stop)
        except Interrupted:
            pass
        finally:
            schedule.most_runs = before
    return folder


def _stop(folder, rows):
    """Ctrl-C after the third round."""
    if rows and rows[0]["t"] == 3:
        os.kill(os.getpid(), signal.SIGINT)


def copied(kind: str, to: Path) -> Path:
    return Path(shutil.copytree(made(kind), to / kind, symlinks=True))
