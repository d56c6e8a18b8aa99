"""Simulates all runs of an experiment, or of every point of a sweep, on several cores
or a GPU.

At its start an experiment is divided into chunks; each is a shard of its run folder. A
chunk is simulated by one thread, in any worker, and its results do not depend on
interruptions. This process supervises the workers and does not need torch.
"""

import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from headgate.errors import DataError, HeadgateError, Interrupted, SettingError
from headgate.experiment import Experiment, load, named_outside
from headgate.experiment.build import differing
from headgate.reading import read_toml
from headgate.records.reader import CONFIG, ENVIRONMENT, RunFolder
from headgate.records.tables import (
    SHARDS,
    STATE,
    SWEEP,
    TABLES,
    folder_name,
    frame_of_rows,
    part_files,
    points_of,
    read_sealed,
    shard_folders,
    sweep_text,
)
from headgate.records.writer import (
    Checkpoint,
    asked_runs,
    check_shards,
    clear_killed_start,
    create,
    disk_errors,
    finish,
    left_by_a_killed_start,
    make_folder,
    played,
    resume_command,
    rounds_after,
    write_state,
)
from headgate.registry import Search, Untrusted
from headgate.simulation.cut import (
    LIGHT,
    Footprint,
    choose_device,
    cut,
    most_runs,
    runs_of,
    work,
)
from headgate.simulation.rounds import Round
from headgate.simulation.workers import (
    ChunkError,
    InProcess,
    Processes,
    Worker,
    cores,
    stop_requested,
)
from headgate.writing import FolderLock, clear_partial, replace_file

STATE_SECONDS = 2.0
"""the seconds between two writes of the state of a run in shards"""
TICK_SECONDS = 0.1
"""the seconds between two reports of progress"""
Points = Sequence[tuple[str, Experiment]]
Tick = Callable[[int, int], None]
Watch = Callable[[Path, list[dict[str, Any]]], None]
Say = Callable[[str], None]


def perform(
    points: Experiment | Points | None,
    folder: Path,
    *,
    device: str = "auto",
    executor: str = "auto",
    processes: int | None = None,
    trust: Sequence[str] = (),
    tick: Tick | None = None,
    watch: Watch | None = None,
    say: Say | None = None,
) -> list[RunFolder]:
    """Run an experiment in `folder`, or every labelled point of a sweep in a folder
    within it; return the finished runs.

    Runs that have begun are continued, and the others are started. If `points` is None,
    the runs in `folder` are continued. They may be another person's, so `trust` lists
    the code outside the package that may run, as `module` or `module:Class`.
    `processes` is the number of single-thread processes, by default one per core unless
    there is little work; 1 is this process, which also uses a GPU and runs objects that
    no recipe can name. `tick` is called with the rounds done and the total rounds of
    all chunks; `watch` with a run folder and the rows of a round that one of its chunks
    has finished, and once before with no rows; `say` with a line that describes what is
    done next.
    """
    if processes is not None and processes < 1:
        raise SettingError(f"--processes {processes}: must be at least 1")
    with FolderLock() as held:
        tasks = _tasks(points, folder, held, trust)
        left = [task for task in tasks if not task.finished]
        for task in (task for task in left if executor != "auto" and not task.fresh):
            if (begun := Checkpoint(task.folder).fact("executor")) != executor:
                raise SettingError(
                    f"--executor {executor}: {task.folder} was begun by {begun}"
                )
        for task in (
            task for task in left if not task.fresh or task.executor is not None
        ):
            _refuse_untrusted_executor(task, {executor, *trust})
        began, states = time.monotonic(), dict[Path, dict[str, Any]]()
        if any(task.fresh or task.left() for task in left):
            with closing(_worker(left, device, processes)) as worker:
                _start(tasks, folder, worker, device, executor, say, held)
                states = _execute(tasks, folder, worker, device, tick, watch, say)
        runs = []
        for task in tasks:
            assert task.run is not None
            with disk_errors(folder):
                runs.append(
                    task.run
                    if task.finished
                    else finish(task.run, time.monotonic() - began, states)
                )
    return runs


# the tasks


@dataclass
class _Task:
    """An experiment and its folder. `fresh`: the folder must still be made; `executor`:
    its executor, if known already.
    """

    experiment: Experiment
    folder: Path
    run: RunFolder | None = None
    fresh: bool = False
    executor: str | None = None
    chunks: dict[Path, Experiment] = field(default_factory=dict)
    """the experiment of each shard, if this process started the run"""

    @property
    def finished(self) -> bool:
        return self.run is not None and self.run.state["state"] == "finished"

    def left(self) -> dict[Path, Experiment | None]:
        """Return the shards that have rounds left, each with its experiment, or None if
        this must be read from the shard.
        """
        if self.chunks:
            return dict(self.chunks)
        shards = [
            shard
            for shard in shard_folders(self.folder)
            if played(shard) < self.experiment.rounds
        ]
        return {
            shard: self.experiment if shard == self.folder else None for shard in shards
        }


def new_folder(points: Experiment | Points) -> Path:
    """Return runs/NAME-TIME, the default folder of an experiment or a sweep."""
    experiment = points if isinstance(points, Experiment) else points[0][1]
    return Path("runs") / f"{experiment.name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _tasks(
    points: Experiment | Points | None,
    folder: Path,
    held: FolderLock,
    trust: Sequence[str],
) -> list[_Task]:
    if points is None:
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such run folder")
        return [_task(None, own, held, trust) for own in points_of(folder)]
    if isinstance(points, Experiment):
        points = [("", points)]
    for _, experiment in points:
        experiment.check_prices()
    alone = len(points) == 1 and not points[0][0]
    if (folder / (SWEEP if alone else CONFIG)).exists():
        raise DataError(
            f"{folder}: holds {'a sweep' if alone else 'a run, not a sweep'}; choose"
            " another folder"
        )
    return [
        _task(experiment, folder if alone else folder / folder_name(label), held, trust)
        for label, experiment in points
    ]


def _task(
    wanted: Experiment | None, folder: Path, held: FolderLock, trust: Sequence[str]
) -> _Task:
    if folder.is_dir():
        held.take(folder, folder)
    if not folder.exists() or (
        folder.is_dir()
        and (left_by_a_killed_start(folder) or not any(folder.iterdir()))
    ):
        return (
            _Task(wanted, folder, fresh=True)
            if wanted is not None
            else _never_begun(folder, trust)
        )
    if not (folder / CONFIG).exists():
        raise DataError(f"{folder}: not a run folder, {CONFIG} is missing")
    kept = Checkpoint(folder)  # raises an error if files were changed or damaged
    run = RunFolder.open(folder)
    finished = run.state["state"] == "finished"
    if (
        not finished
        or wanted is None
        or wanted.unnamed.keys() != kept.environment.get("unnamed", {}).keys()
    ):
        for key, why in kept.environment.get(
            "unnamed", {}
        ).items():  # objects that no recipe can name
            raise SettingError(
                f"{folder}: cannot be resumed: {key} was handed over in Python ({why})"
            )
    if wanted is not None and run.config != (
        own := tomllib.loads(tomli_w.dumps(wanted.tables()))
    ):
        other = differing(run.config, own)
        raise DataError(
            f"{folder}: was begun with other settings ({other}); choose another folder,"
            " or remove it"
        )
    task = _Task(wanted or _read(folder, trust), folder, run)
    if finished:
        run.check_tables(*TABLES)
        return task
    check_shards(folder, run.config)
    _refuse_other_code(folder, run.config)
    for shard in shard_folders(folder):
        with (
            FolderLock() as own_lock
        ):  # child processes of a killed command may still be in their last round
            own_lock.take(shard / CONFIG, folder)
            with disk_errors(folder):
                Checkpoint(shard).cut_rows(folder)
    clear_partial(folder)
    return task


def _read(folder: Path, trust: Sequence[str]) -> Experiment:
    """Read the experiment that was begun in a folder, which may come from another
    person.
    """
    read_toml(
        folder / CONFIG
    )  # raises an error if this is not a settings file, before code is imported
    try:
        return load(folder / CONFIG, trusted=trust)
    except Untrusted as error:
        raise Untrusted(
            f"{folder}: {error}; if you trust it: {resume_command(folder)}"
        ) from None


def _refuse_other_code(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise DataError if a shard names code that the run's settings do not name in the
    same place, or another folder to find it, because the process that simulates a shard
    imports the code that the shard names."""

    def code(config: Mapping[str, Any]) -> dict[str, str]:
        return named_outside(config) | {".run.folder": str(config["run"].get("folder"))}

    whole = code(config)
    for shard in (shard for shard in shard_folders(folder) if shard != folder):
        for key, name in code(read_toml(shard / CONFIG)).items():
            if whole.get(key) != name:
                raise DataError(
                    f"{shard / CONFIG}: {key.lstrip('.')} = {name} is not what"
                    f" {folder / CONFIG} says"
                )


def _refuse_untrusted_executor(task: _Task, trusted: set[str]) -> None:
    """Raise an error if a folder, which may be another person's, names an outside
    executor that the user does not name.
    """
    shards = [] if task.fresh else shard_folders(task.folder)
    for name in (
        task.executor,
        *(Checkpoint(shard).fact("executor") for shard in shards),
    ):
        if name is not None and ":" in name:
            Search(trusted=trusted).check(f"{task.folder}: executor", name)


def _never_begun(folder: Path, trust: Sequence[str]) -> _Task:
    """Return a task that restarts a run that was killed while its folder was made, if
    its settings and environment exist.
    """
    if not (folder / CONFIG).exists() or not (folder / ENVIRONMENT).exists():
        raise DataError(
            f"{folder}: was stopped before its first round; remove it and start again"
        )
    executor = Checkpoint(folder).fact("executor")
    return _Task(_read(folder, trust), folder, fresh=True, executor=executor)


# starting


def _worker(tasks: Sequence[_Task], device: str, processes: int | None) -> Worker:
    unnamed = {
        f"{key}: {why}"
        for task in tasks
        for key, why in task.experiment.unnamed.items()
    }
    if unnamed:
        if (processes or 1) > 1:
            raise SettingError(
                f"--processes {processes}: this process alone can run"
                f" {'; '.join(sorted(unnamed))}"
            )
        return InProcess()
    light = sum(work(task.experiment) for task in tasks) < LIGHT
    many = min(
        processes or (1 if light else cores()),
        sum(runs_of(task.experiment) for task in tasks),
    )
    return (
        Processes(many) if many > 1 and choose_device(device) == "cpu" else InProcess()
    )  # a GPU takes one chunk at a time


def _start(
    tasks: Sequence[_Task],
    whole: Path,
    worker: Worker,
    device: str,
    executor: str,
    say: Say | None,
    held: FolderLock,
) -> None:
    """Divide the experiments of fresh tasks into chunks and make their folders, after
    all of them have been examined.

    The list of a sweep's points is written before their folders, so it is never
    incomplete.
    """
    cuts = []
    fresh = [task for task in tasks if task.fresh]
    for task in fresh:
        facts = worker.examine(task.experiment, device, task.executor or executor)
        fit = (
            Footprint(*facts["footprint"]).fit(facts["free"])
            if "free" in facts
            else None
        )
        most = most_runs(task.experiment, facts["environment"]["executor"], fit)
        cuts.append(
            (
                facts,
                (
                    [task.experiment]
                    if task.experiment.unnamed
                    else cut(task.experiment, most)
                ),
            )
        )
        if fit is not None and say is not None:
            say(_memory(cuts[-1][1], facts))
    for warning in dict.fromkeys(facts.get("at_first") for facts, _ in cuts):
        if warning is not None and say is not None:
            say(warning)
    with disk_errors(whole):
        if len(tasks) > 1 or whole != tasks[0].folder:
            make_folder(whole)
            replace_file(
                whole / SWEEP, sweep_text(whole, [task.folder for task in tasks])
            )
        for task, (facts, chunks) in zip(fresh, cuts, strict=True):
            make_folder(task.folder)
            held.take(task.folder, task.folder)
            if any(task.folder.iterdir()) and left_by_a_killed_start(task.folder):
                clear_killed_start(task.folder)
            shards = [chunk.tables() for chunk in chunks] if len(chunks) > 1 else []
            unnamed = (
                {"unnamed": task.experiment.unnamed} if task.experiment.unnamed else {}
            )
            task.run = create(
                task.folder,
                task.experiment.tables(),
                {**facts["environment"], **unnamed},
                shards,
            )
            task.chunks = dict(zip(shard_folders(task.folder), chunks, strict=True))


def _memory(chunks: Sequence[Experiment], facts: dict[str, Any]) -> str:
    """Return a line like "12 runs in 2 chunks of up to 6, about 3.1 GB of 139.8 GB free
    on NVIDIA H200".
    """
    runs = [runs_of(chunk) for chunk in chunks]
    need = Footprint(*facts["footprint"]).bytes(max(runs))
    cut_up = f" in {len(chunks)} chunks of up to {max(runs)}" if len(chunks) > 1 else ""
    where = facts["environment"]["device"]
    free = f"{facts['free'] / 1e9:.1f} GB free on {where}"
    return (
        f"{_counted(sum(runs), 'run', 'runs')}{cut_up}, about {need / 1e9:.1f} GB of"
        f" {free}"
    )


def _described(tasks: Sequence[_Task], worker: Worker) -> str:
    """Return a line like "60 runs (6 policies × 10 seeds) on 2 processes"."""
    devices = sorted(
        {str(task.run.environment["device"]) for task in tasks if task.run is not None}
    )
    where = worker.where if "cpu" in devices else f"on {', '.join(devices)}"
    number, own = sum(runs_of(task.experiment) for task in tasks), tasks[0].experiment
    each = (
        f"{_counted(len(own.policies), 'policy', 'policies')} ×"
        f" {_counted(len(own.seeds), 'seed', 'seeds')}"
    )
    inside = each if len(tasks) == 1 else f"{len(tasks)} points of a sweep"
    return f"{_counted(number, 'run', 'runs')} ({inside}) {where}".rstrip()


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


# supervision


def _execute(
    tasks: Sequence[_Task],
    whole: Path,
    worker: Worker,
    device: str,
    tick: Tick | None,
    watch: Watch | None,
    say: Say | None,
) -> dict[Path, dict[str, Any]]:
    """Simulate all shards that have rounds left; return the last states of those that
    this process has finished.
    """
    left = [task for task in tasks if not task.finished]
    chunks = {
        shard: experiment for task in left for shard, experiment in task.left().items()
    }
    if say is not None:
        say(_described(left, worker))
    progress = ChunkProgress(tasks, whole, tick, watch)
    try:
        with stop_requested() as stop:
            worker.execute(chunks, device, progress, stop)
        if any(
            played(chunk) < task.experiment.rounds
            for task in left
            for chunk in task.left()
        ):
            raise Interrupted(
                "interrupted"
            )  # Ctrl-C in the last round of some chunks, before others began
    except (
        HeadgateError,
        KeyboardInterrupt,
    ) as error:  # KeyboardInterrupt: a second Ctrl-C, which does not wait
        with suppress(
            HeadgateError, KeyboardInterrupt
        ):  # only the first error is reported
            progress.update(at_once=True)
        with suppress(HeadgateError, KeyboardInterrupt):
            progress.write_states("interrupted")
        why = error if isinstance(error, HeadgateError) else Interrupted("interrupted")
        raise _explained(why, progress, whole) from None
    progress.update(at_once=True)
    for note in dict.fromkeys(
        (progress.states.get(chunk) or read_sealed(chunk / STATE)).get("note")
        for chunk in chunks
    ):
        if note is not None and say is not None:
            say(note)
    return progress.states


class ChunkProgress:
    """Records the progress of all chunks, reports it, and writes the states of runs in
    shards.
    """

    def __init__(
        self,
        tasks: Sequence[_Task],
        whole: Path,
        tick: Tick | None,
        watch: Watch | None,
    ) -> None:
        self.whole, self.tick, self.watch, self.began = (
            whole,
            tick,
            watch,
            time.monotonic(),
        )
        self.tasks = [task for task in tasks if not task.finished]
        self.shards = {
            shard: task for task in self.tasks for shard in shard_folders(task.folder)
        }
        self.t = {shard: played(shard) for shard in self.shards}
        self.in_shards = [
            task.run
            for task in self.tasks
            if task.run is not None and (task.folder / SHARDS).is_dir()
        ]
        self.before = sum(
            len(shard_folders(task.folder)) * task.experiment.rounds
            for task in tasks
            if task.finished
        )
        self.total = self.before + sum(
            task.experiment.rounds for task in self.shards.values()
        )
        self.states: dict[Path, dict[str, Any]] = {}
        """the last state of each chunk that this process has finished"""
        self._ticked = self._written = -STATE_SECONDS
        if watch is not None:
            for (
                task
            ) in self.tasks:  # reads the rows on disk before new ones are written
                watch(task.folder, [])

    @property
    def done(self) -> int:
        return self.before + sum(self.t.values())

    def played(self, folder: Path, done: Round) -> None:
        """Record and report a round that this process has finished."""
        self.t[folder] += 1
        if self.watch is not None:
            self.watch(
                self.shards[folder].folder,
                frame_of_rows(done.metrics, "metrics").to_dicts(),
            )  # as read from disk
        self._report()

    def update(self, at_once: bool = False) -> None:
        """Record and report the rounds that other processes have written; `at_once`
        reports without a pause.
        """
        for shard, task in self.shards.items():
            if self.watch is None:
                self.t[shard] = max(self.t[shard], *part_files(shard, "metrics"), 0)
                continue
            for rows in rounds_after(shard, self.t[shard]):
                self.watch(task.folder, rows)
                self.t[shard] = rows[0]["t"]
        self._report(at_once)

    def _report(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self.tick is not None and (at_once or now - self._ticked >= TICK_SECONDS):
            self._ticked = now
            self.tick(self.done, self.total)
        if self.in_shards and now - self._written >= STATE_SECONDS:
            self._written = now
            self.write_states("running")

    def write_states(self, state: str) -> None:
        """Write the state of each run in shards, with the mean round of its shards;
        other runs write their own state.
        """
        for run in self.in_shards:
            rounds = [
                self.t[shard] for shard, task in self.shards.items() if task.run is run
            ]
            with disk_errors(self.whole):
                write_state(
                    run,
                    state,
                    sum(rounds) // len(rounds),
                    time.monotonic() - self.began,
                )


def _explained(
    error: HeadgateError, progress: ChunkProgress, folder: Path
) -> HeadgateError:
    """Return the error with the chunk in which it occurred, and the command to continue
    the run or sweep.
    """
    go_on = f"continue with: {resume_command(folder)}"
    if isinstance(error, Interrupted):
        if len(progress.shards) == 1:
            ((shard, task),) = progress.shards.items()
            return Interrupted(
                f"interrupted after round {progress.t[shard]} of"
                f" {task.experiment.rounds}",
                go_on,
            )
        chunks = f"{len(progress.shards)} chunks"
        return Interrupted(
            f"interrupted after {progress.done} of {progress.total} rounds in {chunks}",
            go_on,
        )
    why, text = error, str(error)
    if isinstance(error, ChunkError):
        run = asked_runs(error.folder)
        which = (
            f"{', '.join(run.policies)}, seeds {run.all_seeds[0]} to"
            f" {run.all_seeds[-1]}"
        )
        why, text = (
            error.why,
            f"{error.folder.name} ({which}): {error.why}".replace(
                str(error.folder), str(folder)
            ),
        )
    # Wrong files or settings stay wrong; if the user can continue nevertheless, the
    # error itself contains the command.
    return type(why)(
        text
        if go_on in text or isinstance(why, DataError | SettingError)
        else f"{text}; {go_on}"
    )
