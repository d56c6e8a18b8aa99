"""Workers: what simulates chunks, in this process, in another one of this machine or on
another machine.
"""

import math
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any

import headgate.errors as errors
from headgate.errors import HeadgateError, Interrupted
from headgate.experiment import Experiment, build
from headgate.learning.data import Data
from headgate.reading import parse_toml
from headgate.records.chunks import Checkpoint, Chunk, chunks_of, open_chunks
from headgate.records.owner import ChunkProgress
from headgate.records.parcels import Files, coming_back, pack, unpack, write_files
from headgate.records.reader import CONFIG, RunFolder
from headgate.records.writer import disk_errors
from headgate.simulation.cut import give_back
from headgate.simulation.luggage import Unpacked
from headgate.simulation.rounds import Round
from headgate.writing import FolderLock

if TYPE_CHECKING:
    from headgate.simulation.engine import Simulation

Rows = Sequence[Mapping[str, Any]]


class ChunkError(HeadgateError):
    """The failure of a chunk.

    Parameters
    ----------
    chunk : Chunk
        The chunk.
    why : HeadgateError
        The cause.
    """

    def __init__(self, chunk: Chunk, why: HeadgateError) -> None:
        super().__init__(str(why))
        self.chunk, self.why = chunk, why


class Datasets(dict[str, Any]):
    """A cache of data sets by their source, each read once."""

    def of(self, data: Data) -> Any:
        """Return the data set of these settings, and read it if it is not in the
        cache.
        """
        key = repr(data.source)
        if key not in self:
            self[key] = data.load()
        return self[key]


class Player:
    """Examines experiments and simulates chunks in this process, in one thread."""

    def __init__(self) -> None:
        self.datasets = Datasets()
        self._ready: dict[Path, Simulation] = {}

    def examine(
        self,
        folder: Path,
        experiment: Experiment,
        device: str,
        executor: str,
    ) -> dict[str, Any]:
        """Return the facts of `run.examine` about the run that will be begun in a
        folder, and keep its simulation for `play`.
        """
        from headgate.simulation.run import examine

        self._ready.clear()
        dataset = self.datasets.of(experiment.data)
        facts, simulation = examine(experiment, dataset, device, executor)
        if simulation is not None:
            self._ready[folder] = simulation
        return facts

    def play(
        self,
        chunk: Chunk,
        device: str,
        played: Callable[[Chunk, Rows], None],
        stop: Callable[[], bool],
    ) -> float:
        """Simulate the remaining rounds of a chunk, and return the seconds that it
        took; `played` is called with the metrics of each round.
        """
        from headgate.simulation.run import play_chunk, play_rounds

        def tick(done: Round) -> None:
            played(chunk, done.metrics)

        simulation = self._ready.pop(chunk.folder, None)
        self._ready.clear()
        new = chunk.number is None and Checkpoint(chunk).path is None
        if simulation is not None and new:
            return play_rounds(simulation, chunk.writer({}), tick, stop=stop)
        dataset = self.datasets.of(chunk.experiment.data)
        return play_chunk(chunk, dataset, device, tick, stop)


class InProcess(Player):
    """A worker that simulates the chunks in this process, one after the other in one
    thread.
    """

    where = ""
    """the end of the line that describes the work to users"""

    def examine_all(
        self,
        runs: Sequence[tuple[Path, Experiment, str]],
        device: str,
    ) -> list[dict[str, Any]]:
        """Return the facts of `run.examine` about the runs that will be begun, each
        with its folder, experiment and executor.
        """
        return [
            self.examine(folder, experiment, device, executor)
            for folder, experiment, executor in runs
        ]

    def execute(
        self,
        chunks: Sequence[Chunk],
        device: str,
        progress: ChunkProgress,
        stop: Callable[[], bool],
    ) -> None:
        """Simulate all chunks.

        Parameters
        ----------
        chunks : sequence of Chunk
            The chunks that have rounds left.
        device : str
            auto, cpu or cuda.
        progress : ChunkProgress
            Called with what is done.
        stop : callable
            When it returns True, chunks stop after their current round.

        Raises
        ------
        ChunkError
            If a chunk fails.
        Interrupted
            If `stop` returned True.
        """
        for chunk in chunks:
            if stop():
                raise Interrupted("interrupted")
            try:
                seconds = self.play(chunk, device, progress.played, stop)
            except Interrupted:
                raise
            except HeadgateError as error:
                raise ChunkError(chunk, error) from None
            progress.ended(chunk, seconds)
            give_back(device)

    def close(self) -> None:
        """Forget the data sets."""
        self.datasets.clear()


# slices of chunks, for a worker that is another process

ALONE, PLAYER, UNPACKED = Lock(), Player(), Unpacked()
Answer = tuple[dict[str, Any], dict[str, bytes]]


def play_slice(task: bytes) -> bytes:
    """Do a task that `headgate.simulation.slices` has made, and return the answer; an
    error is an answer, too.

    This is the only function that an engine calls. A process does one task at a time.
    """
    answer: dict[str, Any] = {"worker": f"{socket.gethostname()}, {os.getpid()}"}
    files: dict[str, bytes] = {}
    try:
        asked, given = unpack(task)
        with ALONE:
            more, files = DO[asked["do"]](asked, given)
        answer |= more
    except (Exception, KeyboardInterrupt) as error:
        answer["error"] = _named(error)
    return pack(answer, files)


def _examine(asked: dict[str, Any], files: Files) -> Answer:
    """Return the facts of `run.examine` about a run that will be begun."""
    UNPACKED.put(files)
    tables = parse_toml(files[CONFIG].decode(), CONFIG)
    experiment = build("", UNPACKED.moved(tables, asked["paths"]))
    folder, device = Path(asked["folder"]), asked["device"]
    return PLAYER.examine(folder, experiment, device, asked["executor"]), {}


def _play_here(asked: dict[str, Any], files: Files) -> Answer:
    """Simulate the remaining rounds of a chunk in its run folder, and return its round
    and the seconds that it took; stop if the parent says so or has ended.
    """
    chunk = _chunks(asked["folder"])[asked["number"] or 0]
    began = time.monotonic()
    with stop_requested() as stop, FolderLock() as lock:
        lock.take(chunk.folder / CONFIG, chunk.folder, shared=True)

        def stopped() -> bool:
            return stop() or os.getppid() != asked["parent"]

        if stopped():  # another process may own the run already
            raise Interrupted("interrupted")
        Checkpoint(chunk).remove_later()
        PLAYER.play(chunk, asked["device"], _unheard, stopped)
    return {"t": chunk.whole.rounds, "seconds": time.monotonic() - began}, {}


@lru_cache(maxsize=1)
def _chunks(folder: str) -> list[Chunk]:
    return open_chunks(Path(folder))


def _unheard(chunk: Chunk, metrics: Rows) -> None:
    """Report nothing, because the parent reads what is written."""


def _play_there(asked: dict[str, Any], files: Files) -> Answer:
    """Simulate a chunk for some seconds in a folder of this process; return its round,
    the seconds, those lost to the preparation, and the files that are new.
    """
    with TemporaryDirectory(prefix="headgate-") as name:
        try:
            with disk_errors(Path(name)):
                UNPACKED.put(files)
                write_files(Path(name), files)
            return _played(asked, Path(name))
        except HeadgateError as error:  # the user knows the run folder alone
            text = str(error).replace(name, asked["folder"])
            raise type(error)(text) from None
        finally:
            give_back(asked["device"])


def _played(asked: dict[str, Any], folder: Path) -> Answer:
    from headgate.simulation.alike import difference
    from headgate.simulation.run import play_rounds, resume

    began = time.monotonic()
    run = RunFolder.open(folder)
    if different := difference(run.environment):
        return {"refused": different}, {}
    experiment = build("", UNPACKED.moved(run.config, asked["paths"]))
    chunk = chunks_of(run, experiment)[asked["number"] or 0]
    known = Checkpoint(chunk).parts
    device = asked["device"]
    if device == "auto":
        device = "cpu" if run.fact("device") == "cpu" else "cuda"
    dataset = PLAYER.datasets.of(experiment.data)
    simulation, writer = resume(chunk, dataset, device)
    ready = time.monotonic()
    with stop_requested() as stop, suppress(Interrupted):
        play_rounds(
            simulation,
            writer,
            lambda done: None,
            math.inf,
            lambda: stop() or time.monotonic() - ready > asked["seconds"],
            math.inf,
        )
    seconds = time.monotonic() - ready
    facts = {"t": simulation.t, "seconds": seconds, "before": ready - began}
    return facts, coming_back(chunk, known)


DO = {"examine": _examine, "play here": _play_here, "play there": _play_there}
"""what a worker can be asked"""


def _named(error: BaseException) -> tuple[str, str]:
    """Return the name of the error's class in `headgate.errors` and its message; print
    the traceback of a foreign error.
    """
    if isinstance(error, KeyboardInterrupt):
        return Interrupted.__name__, "interrupted"
    if not isinstance(error, HeadgateError):
        traceback.print_exception(error)
    elif type(error).__module__ == errors.__name__:
        return type(error).__name__, str(error)
    return (
        HeadgateError.__name__,
        f"{type(error).__name__}: {' '.join(str(error).split())}",
    )


@contextmanager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after the first Ctrl-C, to stop after the
    round; the second Ctrl-C stops at once.
    """
    noted = False

    def note(signum: int, frame: object) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # this is not the main thread, which alone receives signals
        yield lambda: False
        return
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)
