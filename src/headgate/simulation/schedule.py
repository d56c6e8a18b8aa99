"""All runs of an experiment, or of every point of a sweep, over cores, a GPU or a cluster, with the same results everywhere.

An experiment is cut into chunks, each a part of its run folder, when it starts; whoever plays them, and however often
that is interrupted, a chunk is played as a whole by one thread. This process only looks after them: it needs no torch.
"""

import json
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from headgate.errors import DataError, HeadgateError, Interrupted, SettingError
from headgate.experiment import Experiment, load, named_outside
from headgate.experiment.sweep import differing
from headgate.records.lock import FolderLock
from headgate.records.reader import CONFIG, ENVIRONMENT, RunFolder, read_config
from headgate.records.shards import (
    Tail,
    check_parts,
    clear_killed_start,
    conclude,
    create,
    left_by_a_killed_start,
    played,
    read_played,
    resuming,
    saying_how_to_go_on,
    tell,
)
from headgate.records.sums import read_sealed
from headgate.records.sweeps import STATE, SWEEP, folder_name, points_of, sweep_text
from headgate.records.tables import PARTS, TABLES, part_folders
from headgate.records.writer import Checkpoint, RunWriter, make_folder
from headgate.registry import Untrusted
from headgate.simulation.cut import LIGHT, Footprint, cut, most_runs, runs_of, work
from headgate.simulation.devices import choose_device
from headgate.simulation.players import ChunkError, Here, Player, Processes, cores
from headgate.simulation.stopping import told_to_stop
from headgate.writing import clear_partial

TOLD = 2.0
"""seconds between two states of a run in parts"""
SEEN = 0.1
"""seconds between two looks at the rows"""
Points = Sequence[tuple[str, Experiment]]
Tick = Callable[[int, int], None]
Watch = Callable[[Path, list[dict[str, Any]]], None]


def perform(
    points: Experiment | Points | None,
    folder: Path,
    *,
    device: str = "auto",
    executor: str = "auto",
    processes: int | None = None,
    ray: str | None = None,
    trust: Sequence[str] = (),
    tick: Tick | None = None,
    watch: Watch | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Path]:
    """Plays an experiment in `folder`, or every labelled point of a sweep in a folder within it; the finished run folders.

    Goes on with what is there and starts what is not. `points` must be what was begun there; None stands for it, and as
    the folder may be somebody else's, `trust` names the code outside the package that may run then, as `module` or
    `module:Class`.

    `processes`: how many single-thread processes play, by default one for each core unless there is little to do or a GPU
    does it; 1 is this process. `ray`: the address of a Ray cluster that plays instead, "local" for one on this machine.

    `tick` is told the rounds done and the rounds in all, over all chunks; `watch` a run folder and the rows of a round that
    a chunk of it has finished, and before all others no rows; `say` what is about to be done. Whoever plays reads the
    experiment from the run folder; one with parts that no recipe can name is played as it is, in this process.
    """
    if processes is not None and processes < 1:
        raise SettingError(f"--processes {processes}: must be at least 1")
    with FolderLock() as held:
        runs = _found(points, folder, held, trust)
        left = [run for run in runs if not run.finished]
        for run in (run for run in left if executor != "auto" and not run.fresh):
            if (begun := Checkpoint(run.folder).fact("executor", str)) != executor:
                raise SettingError(f"--executor {executor}: {run.folder} was begun by {begun}")
        began = time.monotonic()
        if any(run.fresh or run.left() for run in left):
            say = say or (lambda text: None)
            with closing(_player(left, device, processes, ray)) as player:
                _start(runs, folder, player, device, executor, say, held)
                _play(runs, folder, player, device, tick, watch, say)
        for run in left:
            with saying_how_to_go_on(folder):
                conclude(run.folder, time.monotonic() - began)
    return [run.folder for run in runs]


# what there is to do


@dataclass(frozen=True)
class _Run:
    """An experiment and its folder; fresh: the folder is still to be made, by `executor` where that is known already."""

    experiment: Experiment
    folder: Path
    fresh: bool = False
    finished: bool = False
    executor: str | None = None

    def left(self) -> list[Path]:
        """The parts that have rounds left."""
        return [part for part in part_folders(self.folder) if played(part) < self.experiment.rounds]


def new_folder(points: Experiment | Points) -> Path:
    """runs/NAME-TIME: where an experiment is played if nobody says where."""
    experiment = points if isinstance(points, Experiment) else points[0][1]
    return Path("runs") / f"{experiment.name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _found(points: Experiment | Points | None, folder: Path, held: FolderLock, trust: Sequence[str]) -> list[_Run]:
    if points is None:
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such run folder")
        return [_begun(None, own, held, trust) for own in points_of(folder)]
    if isinstance(points, Experiment):
        points = [("", points)]
    for _, experiment in points:
        experiment.check_prices()
    alone = len(points) == 1 and not points[0][0]
    if (folder / (SWEEP if alone else CONFIG)).exists():
        raise DataError(f"{folder}: holds {'a sweep' if alone else 'a run, not a sweep'}; choose another folder")
    return [_begun(experiment, folder if alone else folder / folder_name(label), held, trust) for label, experiment in points]


def _begun(wanted: Experiment | None, folder: Path, held: FolderLock, trust: Sequence[str]) -> _Run:
    if folder.is_dir():
        held.take(folder, folder)
    empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if empty or (folder.is_dir() and left_by_a_killed_start(folder)):
        return _Run(wanted, folder, fresh=True) if wanted is not None else _never_begun(folder, trust)
    if not (folder / CONFIG).exists():
        raise DataError(f"{folder}: not a run folder, {CONFIG} is missing")
    kept = Checkpoint(folder)  # refuses what was changed or damaged
    finished = (folder / STATE).exists() and read_sealed(folder / STATE).get("state") == "finished"
    if not finished or wanted is None or wanted.unnamed.keys() != kept.environment.get("unnamed", {}).keys():
        for key, why in kept.environment.get("unnamed", {}).items():  # an object that no recipe can name
            raise SettingError(f"{folder}: cannot be resumed: {key} was handed over in Python ({why})")
    if wanted is not None and read_config(folder) != _tables(wanted):
        other = differing(read_config(folder), _tables(wanted))
        raise DataError(f"{folder}: was begun with other settings ({other}); choose another folder, or remove it")
    experiment = wanted or _read(folder, trust)
    if finished:
        RunFolder.open(folder).check_tables(*TABLES)
        return _Run(experiment, folder, finished=True)
    check_parts(folder)
    _refuse_other_code(folder)
    for part in part_folders(folder):
        with FolderLock() as own:  # children of a command that was killed may still be finishing their round
            own.take(part / CONFIG, folder)
            with saying_how_to_go_on(folder):
                Checkpoint(part).cut_rows(folder)
    clear_partial(folder)
    return _Run(experiment, folder)


def _tables(wanted: Experiment) -> dict[str, Any]:
    """An experiment as a folder of it would say."""
    return tomllib.loads(tomli_w.dumps(wanted.tables()))


def _read(folder: Path, trust: Sequence[str]) -> Experiment:
    """The experiment that was begun in a folder, which may be somebody else's."""
    read_config(folder)  # refuses what is no settings of ours before more is made of it
    try:
        return load(folder / CONFIG, trusted=trust)
    except Untrusted as error:
        raise Untrusted(f"{folder}: {error}; if you trust it: {resuming(folder)}") from None


def _refuse_other_code(folder: Path) -> None:
    """Parts are read by the process that plays them: they may name no code that the whole does not name at the same place, nor
    another folder to look for it."""

    def code(config: dict[str, Any]) -> dict[str, str]:
        return named_outside(config) | {".run.folder": str(config["run"].get("folder"))}

    whole = code(read_config(folder))
    for part in part_folders(folder):
        for key, name in code(read_config(part)).items():
            if whole.get(key) != name:
                raise DataError(f"{part / CONFIG}: {key.lstrip('.')} = {name} is not what {folder / CONFIG} says")


def _never_begun(folder: Path, trust: Sequence[str]) -> _Run:
    """A run that was killed while it was made starts anew where its settings and its executor are there."""
    if not (folder / CONFIG).exists() or not (folder / ENVIRONMENT).exists():
        raise DataError(f"{folder}: was stopped before anything was played; remove it and start again")
    executor = Checkpoint(folder).fact("executor", str)
    return _Run(_read(folder, trust), folder, fresh=True, executor=executor)


# starting


def _player(runs: Sequence[_Run], device: str, processes: int | None, ray: str | None) -> Player:
    unnamed = {f"{key}: {why}" for run in runs for key, why in run.experiment.unnamed.items()}
    if unnamed:
        if ray is not None or (processes or 1) > 1:
            asked = f"--ray {ray}" if ray is not None else f"--processes {processes}"
            raise SettingError(f"{asked}: this process alone can play {'; '.join(sorted(unnamed))}")
        return Here({run.folder: run.experiment for run in runs})
    if ray is not None:
        from headgate.simulation.cluster import Cluster

        return Cluster(ray)
    light = sum(work(run.experiment) for run in runs) < LIGHT
    many = processes or (1 if light or choose_device(device) == "cuda" else cores())  # a GPU takes one chunk after the other
    return Processes(many) if many > 1 else Here()


def _start(
    runs: Sequence[_Run], whole: Path, player: Player, device: str, executor: str, say: Callable[[str], None], held: FolderLock
) -> None:
    """Cuts the experiments that are fresh and makes their folders, after all of them have been looked at.

    A sweep says first which points it has: what it says is never less than what there is to play.
    """
    cuts = []
    fresh = [run for run in runs if run.fresh]
    for run in fresh:
        facts = player.examine(run.experiment, device, run.executor or executor)
        fit = Footprint(**facts["footprint"]).fit(facts["free"]) if "free" in facts else None
        most = most_runs(run.experiment, facts["environment"]["executor"], fit)
        cuts.append((facts, [run.experiment] if run.experiment.unnamed else cut(run.experiment, most)))
        if fit is not None:
            say(_room(cuts[-1][1], facts))
    for told in dict.fromkeys(facts.get("at_first") for facts, _ in cuts):
        if told is not None:
            say(told)
    with saying_how_to_go_on(whole):
        if len(runs) > 1 or whole != runs[0].folder:
            make_folder(whole)
            RunWriter(whole).replace(SWEEP, sweep_text(whole, [run.folder for run in runs]))
        for run, (facts, chunks) in zip(fresh, cuts, strict=True):
            make_folder(run.folder)
            held.take(run.folder, run.folder)
            if left_by_a_killed_start(run.folder):
                clear_killed_start(run.folder)
            parts = [chunk.tables() for chunk in chunks] if len(chunks) > 1 else []
            unnamed = {"unnamed": run.experiment.unnamed} if run.experiment.unnamed else {}
            create(run.folder, run.experiment.tables(), {**facts["environment"], **unnamed}, parts)


def _room(chunks: Sequence[Experiment], facts: dict[str, Any]) -> str:
    """12 runs in 2 chunks of 6, about 3.1 GB of 139.8 GB free on NVIDIA H200"""
    runs = [runs_of(chunk) for chunk in chunks]
    need = Footprint(**facts["footprint"]).bytes(max(runs))
    cut_up = f" in {len(chunks)} chunks of up to {max(runs)}" if len(chunks) > 1 else ""
    where = facts["environment"]["device"]
    return f"{sum(runs)} runs{cut_up}, about {need / 1e9:.1f} GB of {facts['free'] / 1e9:.1f} GB free on {where}"


def _described(runs: Sequence[_Run], player: Player) -> str:
    """60 runs (6 policies × 10 seeds) on 2 processes"""
    devices = sorted({str(read_sealed(run.folder / ENVIRONMENT)["device"]) for run in runs})
    where = player.where if "cpu" in devices else f"on {', '.join(devices)}"  # a GPU takes one chunk after the other
    number, own = sum(runs_of(run.experiment) for run in runs), runs[0].experiment
    each = f"{_counted(len(own.policies), 'policy', 'policies')} × {_counted(len(own.seeds), 'seed', 'seeds')}"
    inside = each if len(runs) == 1 else f"{len(runs)} points of a sweep"
    return f"{_counted(number, 'run', 'runs')} ({inside}) {where}".rstrip()


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


# looking after them


def _play(
    runs: Sequence[_Run],
    whole: Path,
    player: Player,
    device: str,
    tick: Tick | None,
    watch: Watch | None,
    say: Callable[[str], None],
) -> None:
    """Has all parts played that have rounds left."""
    left = [run for run in runs if not run.finished]
    chunks = [part for run in left for part in run.left()]
    say(_described(left, player))
    looking = _Looking(runs, whole, tick, watch)
    try:
        with told_to_stop() as stop:
            player.play(chunks, device, looking.look, stop)
        if any(run.left() for run in left):  # Ctrl-C in the last round of some, before others began
            raise Interrupted("interrupted")
    except (HeadgateError, KeyboardInterrupt) as error:  # the latter: a second Ctrl-C, which does not wait for the round
        with suppress(HeadgateError, KeyboardInterrupt):  # what went wrong first is said
            looking.look(at_once=True)
        with suppress(HeadgateError, KeyboardInterrupt):
            looking.tell("interrupted")
        why = error if isinstance(error, HeadgateError) else Interrupted("interrupted")
        raise _explained(why, looking, whole) from None
    looking.look(at_once=True)
    for note in dict.fromkeys(read_sealed(chunk / STATE).get("note") for chunk in chunks):
        if note is not None:
            say(note)


class _Looking:
    """Follows the rows that chunks write, and tells of the runs that are in parts."""

    def __init__(self, runs: Sequence[_Run], whole: Path, tick: Tick | None, watch: Watch | None) -> None:
        self.whole, self.tick, self.watch, self.began = whole, tick, watch, time.monotonic()
        left = [run for run in runs if not run.finished]
        self.tails = {run.folder: [Tail(part) for part in part_folders(run.folder)] for run in left}
        self.rounds = {run.folder: run.experiment.rounds for run in left}
        done = [len(part_folders(run.folder)) * run.experiment.rounds for run in runs if run.finished]
        self.total = sum(done) + sum(len(tails) * self.rounds[folder] for folder, tails in self.tails.items())
        self.before, self.chunks = sum(done), sum(map(len, self.tails.values()))
        self._seen = self._told = -TOLD
        if watch is not None:
            for folder in self.tails:  # sees what is on disk before the first new row joins it
                watch(folder, [])

    @property
    def done(self) -> int:
        return self.before + sum(tail.t for tails in self.tails.values() for tail in tails)

    def look(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if now - self._seen < SEEN and not at_once:
            return
        self._seen = now
        for folder, tails in self.tails.items():
            for tail in tails:
                for lines in tail.rounds():
                    if self.watch is not None:
                        self.watch(folder, [json.loads(line) for line in lines])
        if self.tick is not None:
            self.tick(self.done, self.total)
        if now - self._told >= TOLD:
            self._told = now
            self.tell("running")

    def tell(self, state: str) -> None:
        """The state of the runs in parts: their round is the mean of their parts'. Others tell theirs themselves."""
        for folder, tails in self.tails.items():
            if (folder / PARTS).is_dir():
                with saying_how_to_go_on(self.whole):
                    tell(folder, state, sum(tail.t for tail in tails) // len(tails), time.monotonic() - self.began)


def _explained(error: HeadgateError, looking: _Looking, folder: Path) -> HeadgateError:
    """The error with the chunk it happened in, and how to go on with the whole."""
    go_on = f"go on with: {resuming(folder)}"
    if isinstance(error, Interrupted):
        if looking.chunks == 1:
            ((rounds, t),) = [(looking.rounds[own], tail.t) for own, tails in looking.tails.items() for tail in tails]
            return Interrupted(f"interrupted after round {t} of {rounds}", go_on)
        return Interrupted(f"interrupted after {looking.done} of {looking.total} rounds in {looking.chunks} chunks", go_on)
    why, said = error, str(error)
    if isinstance(error, ChunkError):
        run = read_played(error.folder)
        which = f"{', '.join(run.policies)}, seeds {run.seeds[0]} to {run.seeds[-1]}"
        why, said = error.why, f"{error.folder.name} ({which}): {error.why}".replace(str(error.folder), str(folder))
    # What is wrong with files or settings stays wrong; where one can go on nevertheless, the error says so itself.
    return type(why)(said if go_on in said or isinstance(why, DataError | SettingError) else f"{said}; {go_on}")
