"""Workers that play chunks: this process, or single-thread processes beside it."""

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate import errors
from headgate.errors import HeadgateError, Interrupted, SettingError
from headgate.experiment import Experiment, load
from headgate.learning.data import Data
from headgate.records.reader import CONFIG
from headgate.simulation.cut import give_back

if TYPE_CHECKING:
    from headgate.simulation.engine import Simulation
    from headgate.simulation.run import Tick
    from headgate.simulation.schedule import ChunkProgress

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
LOOK = 0.2
"""seconds between looks at what the chunks have written"""
LONGEST = 2000
"""bytes of a message: with its chunk's name it must fit into the 4,096 that a pipe takes in one piece"""


class ChunkError(HeadgateError):
    """A chunk that could not be played, and why."""

    def __init__(self, folder: Path, why: HeadgateError) -> None:
        super().__init__(str(why))
        self.folder, self.why = folder, why


def cores() -> int:
    """Return how many this process may use. Forking a process that has imported torch is safe on Linux only."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


class Datasets(dict[str, Any]):
    """Data sets by their key, each read once."""

    def of(self, data: Data) -> Any:
        """Return a data set."""
        if data.key not in self:
            self[data.key] = data.load()
        return self[data.key]


class InProcess:
    """This process, one chunk after the other, by one thread: the same numbers as anywhere else."""

    where = ""
    """as it is shown to people"""

    def __init__(self) -> None:
        self._datasets = Datasets()
        self._ready: Simulation | None = None

    def examine(self, experiment: Experiment, device: str, executor: str) -> dict[str, Any]:
        """See `run.examine`."""
        from headgate.simulation.run import examine

        self._ready = None
        facts, self._ready = examine(experiment, self._datasets.of(experiment.data), device, executor)
        return facts

    def execute(
        self, chunks: Mapping[Path, Experiment | None], device: str, progress: "ChunkProgress", stop: Callable[[], bool]
    ) -> None:
        """Play all chunks, or raise an error that names the one which could not be; `Interrupted` when `stop` returns True.

        Chunks are folders, with their experiments where these need not be read from there.
        """
        for folder, experiment in chunks.items():
            if stop():
                raise Interrupted("interrupted")
            try:
                tick = partial(progress.played, folder)
                progress.states[folder] = self._play(folder, experiment, device, tick, stop)
            except Interrupted:
                raise
            except HeadgateError as error:
                raise ChunkError(folder, error) from None
            give_back(device)

    def _play(
        self, folder: Path, experiment: Experiment | None, device: str, tick: "Tick", stop: Callable[[], bool]
    ) -> dict[str, Any]:
        from headgate.simulation.run import play_folder, play_new

        if self._ready is not None and self._ready.experiment is experiment:
            simulation, self._ready = self._ready, None
            return play_new(folder, simulation, tick, stop)
        experiment = experiment or load(folder / CONFIG)
        return play_folder(folder, experiment, self._datasets.of(experiment.data), device, tick, stop)

    def close(self) -> None:
        self._datasets.clear()


class Processes:
    """Children of a fork server, as many at a time as asked for."""

    def __init__(self, processes: int) -> None:
        if sys.platform != "linux":
            raise SettingError(f"--processes {processes}: more than one needs Linux")
        self.processes, self.where = processes, f"on {processes} processes"
        self._answers, given = os.pipe()
        path = os.pathsep.join(each for each in sys.path if each)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # in the new process until it is ready to answer
        try:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "headgate.simulation.forkserver", str(given)],
                stdin=subprocess.PIPE,
                pass_fds=[given],
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C at the terminal is the parent's business
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(given)
        self._half, self._at_work = b"", False

    def examine(self, experiment: Experiment, device: str, executor: str) -> dict[str, Any]:
        self._ask(do="examine", settings=experiment.tables(), device=device, executor=executor)
        answer = next(self._hear(lambda: None, lambda: False))
        self._at_work = False
        if "error" in answer:
            raise error_from(answer["error"])
        return dict(answer["facts"])

    def execute(
        self, chunks: Mapping[Path, Experiment | None], device: str, progress: "ChunkProgress", stop: Callable[[], bool]
    ) -> None:
        self._ask(do="play", folders=[str(folder) for folder in chunks], device=device, processes=self.processes)
        why: dict[str, HeadgateError] = {}
        for answer in self._hear(progress.look, stop):
            folder = answer.get("folder", "")
            if "error" in answer:
                why[folder] = error_from(answer["error"])
            elif (status := answer.get("status", 0)) < 0:
                name = signal.Signals(-status).name
                why[folder] = HeadgateError(f"its process was ended by {name}, perhaps for want of memory")
            elif status > 0 and folder not in why:
                why[folder] = HeadgateError(f"its process ended with {status} and did not say why")
            if not folder:  # the last answer
                break
        self._at_work = False
        raise_first(why)

    def close(self) -> None:
        """End the server, which ends without a parent. One still at work, because something went wrong here, is killed; its
        children finish their rounds and end."""
        assert self._server.stdin is not None
        if self._at_work:
            self._server.kill()
        with suppress(BrokenPipeError):  # it is gone already
            self._server.stdin.close()
        os.close(self._answers)
        self._server.wait()

    def _ask(self, **question: Any) -> None:
        assert self._server.stdin is not None
        try:
            self._server.stdin.write(json.dumps(question).encode() + b"\n")
            self._server.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        self._at_work = True

    def _hear(self, look: Callable[[], None], stop: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        passed_on = False
        while True:
            look()
            if stop() and not passed_on:
                self._server.send_signal(signal.SIGINT)
                passed_on = True
            if select.select([self._answers], [], [], LOOK)[0]:
                new = os.read(self._answers, 1 << 16)
                if not new:
                    raise self._gone(passed_on)
                *lines, self._half = (self._half + new).split(b"\n")
                yield from (json.loads(line) for line in lines)
            elif self._server.poll() is not None:
                raise self._gone(passed_on)

    def _gone(self, stopped: bool = False) -> HeadgateError:
        if stopped:
            return Interrupted("interrupted")
        return HeadgateError(f"the process that starts the others ended with {self._server.wait()}")


Worker = InProcess | Processes


def error_message(error: BaseException) -> list[str]:
    """Return an error as it goes over a pipe, short enough for one piece.

    One that is not headgate's own leaves its trace on stderr.
    """
    if isinstance(error, KeyboardInterrupt):
        error = Interrupted("interrupted")
    if not isinstance(error, HeadgateError):
        traceback.print_exception(error)
    text = " ".join(str(error).split())
    while len(json.dumps(text)) > LONGEST:
        text = text[: 3 * len(text) // 4]
    return [type(error).__name__, text]


def error_from(message: Sequence[str]) -> HeadgateError:
    """Return the error that a process sent."""
    kind, text = message
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, HeadgateError):
        return found(text)
    return HeadgateError(f"{kind}: {text}")


def raise_first(why: Mapping[str, HeadgateError]) -> None:
    """Raise the first error that is one; else that a chunk was interrupted."""
    for folder, error in why.items():
        if not isinstance(error, Interrupted):
            raise ChunkError(Path(folder), error) if folder else error
    for error in why.values():
        raise error


@contextmanager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """Take Ctrl-C as a wish to stop after the round, so that no round is torn; the second one stops at once."""
    noted = False

    def note(signum: int, frame: object) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread, which alone is sent signals
        yield lambda: False
        return
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)
