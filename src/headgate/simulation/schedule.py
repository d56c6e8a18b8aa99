"""Simulates all runs of an experiment, or of every point of a sweep, on several cores
or a GPU.

At its start an experiment is divided into chunks. A chunk is simulated by one thread,
in any worker, and its results do not depend on interruptions. This process owns the run
folders, supervises the workers and does not need torch.
"""

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.errors import DataError, HeadgateError, Interrupted, SettingError
from headgate.experiment import Experiment
from headgate.records.owner import (
    ChunkProgress,
    OwnedRun,
    Tick,
    Watch,
    check_config,
    check_executor,
    read_experiment,
)
from headgate.records.reader import CONFIG, ENVIRONMENT, RunFolder
from headgate.records.tables import (
    SWEEP,
    folder_name,
    points_of,
    sweep_text,
)
from headgate.records.writer import (
    disk_errors,
    make_folder,
    never_begun,
    resume_command,
)
from headgate.simulation.cut import (
    LIGHT,
    Footprint,
    choose_device,
    cut,
    most_runs,
    runs_of,
    work,
)
from headgate.simulation.pools import DaskWorkers, Pool, Processes
from headgate.simulation.slices import Slices
from headgate.simulation.workers import ChunkError, InProcess, stop_requested
from headgate.writing import FolderLock, replace_file

Points = Sequence[tuple[str, Experiment]]
Worker = InProcess | Slices
Say = Callable[[str], None]
FINISHED = (
    "is finished; nothing was bought or trained; choose another folder for another run"
)


def perform(
    points: Experiment | Points | None,
    folder: Path,
    *,
    device: str = "auto",
    executor: str = "auto",
    processes: int | None = None,
    pool: Executor | str | None = None,
    trust: Sequence[str] = (),
    tick: Tick | None = None,
    watch: Watch | None = None,
    say: Say | None = None,
    finished: str = FINISHED,
) -> list[RunFolder]:
    """Run an experiment in `folder`, or every labelled point of a sweep in a folder
    within it.

    Runs that have begun are continued, and the others are started.

    Parameters
    ----------
    points : Experiment, list of (str, Experiment) or None
        What to run. None stands for the runs in `folder`.
    folder : pathlib.Path
        The folder of the run or of the sweep.
    device : str
        The device to train on: auto, cpu or cuda.
    executor : str
        The executor of local training: auto, or a name.
    processes : int, optional
        The number of single-thread processes, by default one per core unless there is
        little work. 1 is this process, which also uses a GPU and runs objects that no
        recipe can name.
    pool : concurrent.futures.Executor or str, optional
        Workers that play the chunks in place of processes of this machine: an executor,
        or the address or the scheduler file of Dask.
    trust : sequence of str
        The code outside the package that may run if `points` is None, as `module` or
        `module:Class`, because the folder may be another person's.
    tick : callable, optional
        Called with the rounds done and the total rounds of all chunks.
    watch : callable, optional
        Called with a run folder and the rows of a round that one of its chunks has
        finished, and once before with no rows.
    say : callable, optional
        Called with lines that describe what is done next.
    finished : str
        What is said of a folder whose runs are all finished.

    Returns
    -------
    list of RunFolder
        The finished runs.

    Raises
    ------
    SettingError
        If an option or a setting is invalid.
    DataError
        If the folder holds other runs, or a file was changed or cannot be written.
    Interrupted
        After Ctrl-C.
    """
    if processes is not None and processes < 1:
        raise SettingError(f"--processes {processes}: must be at least 1")
    if processes is not None and pool is not None:
        raise SettingError(f"--processes {processes}: not with --on or a pool")
    say = say or _silent
    with FolderLock() as held:
        tasks = _tasks(points, folder, held, executor, trust)
        left = [task.left for task in tasks]
        if any(left):
            with closing(_worker(tasks, device, processes, pool, say)) as worker:
                _begin(tasks, folder, worker, device, say, held)
                begun = [task.begun for task in tasks]
                progress = ChunkProgress(begun, folder, tick, watch)
                say(_described(begun, worker))
                _play(worker, device, progress)
        else:
            say(f"{folder}: {finished}")
        with disk_errors(folder):
            runs = [task.begun.finish() for task in tasks]
    notes = [run.state.get("note") for run, new in zip(runs, left, strict=True) if new]
    for note in dict.fromkeys(notes):
        if note is not None:
            say(note)
    return runs


def new_folder(points: Experiment | Points) -> Path:
    """Return runs/NAME-TIME, the default folder of an experiment or a sweep."""
    experiment = points if isinstance(points, Experiment) else points[0][1]
    return Path("runs") / f"{experiment.name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _silent(line: str) -> None:
    """Report nothing."""


# what is to be done in which folder


@dataclass
class _Task:
    """An experiment that is to be run in a folder.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    experiment : Experiment
        The experiment.
    executor : str
        The executor of local training: auto, or a name.
    run : OwnedRun, optional
        The run; None before it has begun.
    """

    folder: Path
    experiment: Experiment
    executor: str = "auto"
    run: OwnedRun | None = None

    @property
    def begun(self) -> OwnedRun:
        """The run, which has begun."""
        assert self.run is not None
        return self.run

    @property
    def left(self) -> bool:
        """Whether rounds are left to be played."""
        return self.run is None or bool(self.run.left())


def _tasks(
    points: Experiment | Points | None,
    folder: Path,
    held: FolderLock,
    executor: str,
    trust: Sequence[str],
) -> list[_Task]:
    """Return the experiments with their folders, which this process locks."""
    if points is None:
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such run folder")
        folders = points_of(folder)
        return [_task(None, own, held, executor, trust) for own in folders]
    if isinstance(points, Experiment):
        points = [("", points)]
    for _, experiment in points:
        experiment.check_prices()
    alone = len(points) == 1 and not points[0][0]
    if alone and (folder / SWEEP).exists():
        raise DataError(f"{folder}: holds a sweep; choose another folder")
    if not alone and (folder / CONFIG).exists():
        raise DataError(f"{folder}: holds a run, not a sweep; choose another folder")
    tasks = []
    for label, experiment in points:
        own = folder if alone else folder / folder_name(label)
        tasks.append(_task(experiment, own, held, executor, trust))
    return tasks


def _task(
    wanted: Experiment | None,
    folder: Path,
    held: FolderLock,
    executor: str,
    trust: Sequence[str],
) -> _Task:
    """Take up the run in a folder, or return a task that begins it."""
    if folder.is_dir():
        held.take(folder, folder)
    if folder.exists() and not (folder.is_dir() and never_begun(folder)):
        run = OwnedRun.take_up(folder, wanted, executor, trust)
        return _Task(folder, run.experiment, executor, run)
    if wanted is not None:
        return _Task(folder, wanted, executor)
    if not (folder / CONFIG).exists() or not (folder / ENVIRONMENT).exists():
        raise DataError(
            f"{folder}: was stopped before its first round; remove it and start again"
        )
    begun = str(check_config(folder).get("executor"))
    check_executor(folder, begun, executor, trust)
    return _Task(folder, read_experiment(folder, trust), begun)


# starting


def _worker(
    tasks: Sequence[_Task],
    device: str,
    processes: int | None,
    pool: Executor | str | None,
    say: Say,
) -> Worker:
    """Return the worker that plays all chunks that have rounds left."""
    experiments = [task.experiment for task in tasks if task.left]
    unnamed = {
        f"{key}: {why}"
        for experiment in experiments
        for key, why in experiment.unnamed.items()
    }
    if unnamed and (pool is not None or (processes or 1) > 1):
        option = f"--processes {processes}" if pool is None else "--on"
        raise SettingError(
            f"{option}: this process alone can run {'; '.join(sorted(unnamed))}"
        )
    if isinstance(pool, str):
        return Slices(DaskWorkers(pool), say)
    if pool is not None:
        return Slices(Pool(pool), say)
    if unnamed:
        return InProcess()
    light = sum(map(work, experiments)) < LIGHT
    wanted = processes or (1 if light else cores())
    many = min(wanted, sum(map(runs_of, experiments)))
    if many > 1 and choose_device(device) == "cpu":
        return Slices(Processes(many), say)
    return InProcess()  # a GPU takes one chunk at a time


def _begin(
    tasks: Sequence[_Task],
    whole: Path,
    worker: Worker,
    device: str,
    say: Say,
    held: FolderLock,
) -> None:
    """Divide new experiments into chunks and make their folders, after all of them have
    been examined.

    The list of a sweep's points is written before their folders, so it is never
    incomplete.
    """
    new = [task for task in tasks if task.run is None]
    divided = []
    asked = [(task.folder, task.experiment, task.executor) for task in new]
    found = worker.examine_all(asked, device)
    for task, facts in zip(new, found, strict=True):
        chunks = _divided(task.experiment, facts, worker)
        divided.append((task, facts, chunks))
        if "free" in facts:
            say(_memory(chunks, facts))
    for warning in dict.fromkeys(facts.get("at_first") for _, facts, _ in divided):
        if warning is not None:
            say(warning)
    with disk_errors(whole):
        if len(tasks) > 1 or whole != tasks[0].folder:
            make_folder(whole)
            text = sweep_text(whole, [task.folder for task in tasks])
            replace_file(whole / SWEEP, text)
        for task, facts, chunks in divided:
            make_folder(task.folder)
            held.take(task.folder, task.folder)
            task.run = OwnedRun.begin(
                task.folder, task.experiment, facts["environment"], chunks
            )


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def _divided(
    experiment: Experiment,
    facts: dict[str, Any],
    worker: Worker,
) -> list[Experiment]:
    """Return the chunks of an experiment, given what its examination has found.

    On GPUs each worker of a pool gets one, and several workers may share a GPU.
    """
    fit = None
    if "free" in facts:
        many = worker.pool.workers if isinstance(worker, Slices) else 1
        fit = Footprint(*facts["footprint"]).fit(facts["free"] // many)
        fit = min(fit, math.ceil(runs_of(experiment) / many))
    most = most_runs(experiment, facts["environment"]["executor"], fit)
    return [experiment] if experiment.unnamed else cut(experiment, most)


def _memory(chunks: Sequence[Experiment], facts: dict[str, Any]) -> str:
    """Return a line like "12 runs in 2 chunks of up to 6, about 3.1 GB of 139.8 GB free
    on NVIDIA H200".
    """
    runs = list(map(runs_of, chunks))
    largest = max(runs)
    need = Footprint(*facts["footprint"]).bytes(largest) / 1e9
    cut_up = f" in {len(chunks)} chunks of up to {largest}" if len(chunks) > 1 else ""
    free = f"{facts['free'] / 1e9:.1f} GB free on {facts['environment']['device']}"
    return f"{_counted(sum(runs), 'run')}{cut_up}, about {need:.1f} GB of {free}"


def _described(runs: Sequence[OwnedRun], worker: Worker) -> str:
    """Return a line like "60 runs (6 policies × 10 seeds) on 2 processes"."""
    left = [run for run in runs if not run.run.finished]
    devices = sorted({run.run.fact("device") for run in left})
    where = worker.where if "cpu" in devices else f"on {', '.join(devices)}"
    own = left[0].experiment
    inside = f"{len(left)} points of a sweep"
    if len(left) == 1:
        policies = _counted(len(own.policies), "policy", "policies")
        inside = f"{policies} × {_counted(len(own.seeds), 'seed')}"
    number = sum(runs_of(run.experiment) for run in left)
    return f"{_counted(number, 'run')} ({inside}) {where}".rstrip()


def _counted(
    number: int,
    one: str,
    many: str = "",
) -> str:
    """Return a number with its noun.

    >>> _counted(1, "seed"), _counted(2, "seed")
    ('1 seed', '2 seeds')
    """
    return f"{number} {one if number == 1 else many or f'{one}s'}"


# supervision


def _play(
    worker: Worker,
    device: str,
    progress: ChunkProgress,
) -> None:
    """Simulate all chunks that have rounds left."""
    try:
        with stop_requested() as stop:
            worker.execute(progress.chunks, device, progress, stop)
        if any(run.left() for run in progress.runs.values()):
            # Ctrl-C in the last round of some chunks, before others began
            raise Interrupted("interrupted")
    except (HeadgateError, KeyboardInterrupt) as error:
        # KeyboardInterrupt: a second Ctrl-C, which does not wait
        with suppress(HeadgateError, KeyboardInterrupt):  # the first error is reported
            progress.update(at_once=True)
        with suppress(HeadgateError, KeyboardInterrupt):
            progress.write_states("interrupted")
        why = error if isinstance(error, HeadgateError) else Interrupted("interrupted")
        raise _explained(why, progress) from None
    progress.update(at_once=True)


def _explained(error: HeadgateError, progress: ChunkProgress) -> HeadgateError:
    """Return the error with the chunk in which it occurred, and the command to continue
    the run or sweep.
    """
    go_on = f"continue with: {resume_command(progress.whole)}"
    if isinstance(error, Interrupted):
        chunks = [chunk for run in progress.runs.values() for chunk in run.chunks]
        after = f"{progress.done} of {progress.total} rounds in {len(chunks)} chunks"
        if len(chunks) == 1:
            after = f"round {progress.t[chunks[0]]} of {chunks[0].whole.rounds}"
        return Interrupted(f"interrupted after {after}", go_on)
    text = str(error)
    if isinstance(error, ChunkError):
        chunk, error = error.chunk, error.why
        text = f"{chunk}: {error}".replace(str(chunk.folder), str(progress.whole))
    # Wrong files or settings stay wrong; if the user can continue nevertheless, the
    # error itself contains the command.
    if go_on not in text and not isinstance(error, DataError | SettingError):
        text = f"{text}; {go_on}"
    return type(error)(text)
