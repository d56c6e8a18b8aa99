"""Who plays chunks: this process, single-thread processes beside it, or (in `cluster`) a Ray cluster."""

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from headgate import errors
from headgate.errors import HeadgateError, Interrupted, SettingError
from headgate.experiment import Experiment, load
from headgate.learning.data import Data
from headgate.records.reader import CONFIG
from headgate.simulation.devices import give_back

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
LOOK = 0.2
"""seconds between looks at what the chunks have written"""
LONGEST = 2000
"""bytes of a message: with its chunk's name it must fit into the 4,096 that a pipe takes in one piece"""


class Player(Protocol):
    """Closed when it is no longer needed; until then it may be asked for several things, one after the other."""

    where: str
    """as it is said to people"""

    def examine(self, experiment: Experiment, device: str, executor: str) -> dict[str, Any]:
        """See `run.examine`."""

    def play(self, folders: Sequence[Path], device: str, look: Callable[[], None], told: Callable[[], bool]) -> None:
        """All chunks, or an error that names the one which could not be; `Interrupted` when `told` so.

        `look` is called every now and then.
        """

    def close(self) -> None: ...


class ChunkError(HeadgateError):
    """A chunk that could not be played, and why."""

    def __init__(self, folder: Path, why: HeadgateError) -> None:
        super().__init__(str(why))
        self.folder, self.why = folder, why


def cores() -> int:
    """Those this process may use. Forking a process that has imported torch is safe on Linux only."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


class Datasets(dict[str, Any]):
    """Data sets by their key, each read once."""

    def of(self, data: Data) -> Any:
        if data.key not in self:
            self[data.key] = data.load()
        return self[data.key]

    def examine(self, experiment: Experiment, device: str, executor: str) -> dict[str, Any]:
        """See `run.examine`."""
        from headgate.simulation.run import examine

        return examine(experiment, self.of(experiment.data), device, executor)


class Here:
    """This process, one chunk after the other, by one thread: the same numbers as anywhere else."""

    where = ""

    def __init__(self, experiments: Mapping[Path, Experiment] | None = None) -> None:
        """`experiments`: what is played in these folders as it is; in others, what their config says."""
        self._datasets = Datasets()
        self._experiments = dict(experiments or {})

    def examine(self, experiment: Experiment, device: str, executor: str) -> dict[str, Any]:
        return self._datasets.examine(experiment, device, executor)

    def play(self, folders: Sequence[Path], device: str, look: Callable[[], None], told: Callable[[], bool]) -> None:
        from headgate.simulation.run import play_folder

        for folder in folders:
            if told():
                raise Interrupted("interrupted")
            experiment = self._experiments.get(folder) or load(folder / CONFIG)
            try:
                data = self._datasets.of(experiment.data)
                play_folder(folder, experiment, data, device, tick=lambda done: look(), stop=told)
            except Interrupted:
                raise
            except HeadgateError as error:
                raise ChunkError(folder, error) from None
            give_back(device)

    def close(self) -> None:
        self._datasets.clear()


class Processes:
    """Workers of a worker pool, as many at a time as asked for."""

    def __init__(self, processes: int) -> None:
        if sys.platform != "linux":
            raise SettingError(f"--processes {processes}: more than one needs Linux")
        self.processes, self.where = processes, f"on {processes} processes"
        self._answers, given = os.pipe()
        path = os.pathsep.join(each for each in sys.path if each)
        with _deaf():  # it hears when it is ready to answer
            self._pool = subprocess.Popen(
                [sys.executable, "-m", "headgate.simulation.worker_pool", str(given)],
                stdin=subprocess.PIPE,
                pass_fds=[given],
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C at the terminal is the parent's business
            )
        os.close(given)
        self._half, self._at_work = b"", False

    def examine(self, experiment: Experiment, device: str, executor: str) -> dict[str, Any]:
        self._ask(do="examine", settings=experiment.tables(), device=device, executor=executor)
        answer = next(self._hear(lambda: None, lambda: False))
        self._at_work = False
        if "error" in answer:
            raise error_from(answer["error"])
        return dict(answer["facts"])

    def play(self, folders: Sequence[Path], device: str, look: Callable[[], None], told: Callable[[], bool]) -> None:
        self._ask(do="play", folders=[str(folder) for folder in folders], device=device, processes=self.processes)
        why: dict[str, HeadgateError] = {}
        for answer in self._hear(look, told):
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
        """Without one who asks, a pool ends. One still at work, because something went wrong here, is ended: its
        workers finish their rounds and are gone."""
        assert self._pool.stdin is not None
        if self._at_work:
            self._pool.kill()
        with suppress(BrokenPipeError):  # it is gone already
            self._pool.stdin.close()
        os.close(self._answers)
        self._pool.wait()

    def _ask(self, **question: Any) -> None:
        assert self._pool.stdin is not None
        try:
            self._pool.stdin.write(json.dumps(question).encode() + b"\n")
            self._pool.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        self._at_work = True

    def _hear(self, look: Callable[[], None], told: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        passed_on = False
        while True:
            look()
            if told() and not passed_on:
                self._pool.send_signal(signal.SIGINT)
                passed_on = True
            if select.select([self._answers], [], [], LOOK)[0]:
                new = os.read(self._answers, 1 << 16)
                if not new:
                    raise self._gone(passed_on)
                *lines, self._half = (self._half + new).split(b"\n")
                yield from (json.loads(line) for line in lines)
            elif self._pool.poll() is not None:
                raise self._gone(passed_on)

    def _gone(self, told_to_stop: bool = False) -> HeadgateError:
        if told_to_stop:
            return Interrupted("interrupted")
        return HeadgateError(f"the process that starts the others ended with {self._pool.wait()}")


@contextmanager
def _deaf() -> Iterator[None]:
    """SIGINT waits meanwhile; a process that is started now is born with it waiting."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def told(error: BaseException) -> list[str]:
    """An error as it goes over a pipe, short enough for one piece. One that is not headgate's own keeps its trace on stderr."""
    if isinstance(error, KeyboardInterrupt):
        error = Interrupted("interrupted")
    if not isinstance(error, HeadgateError):
        traceback.print_exception(error)
    said = " ".join(str(error).split())
    while len(json.dumps(said)) > LONGEST:
        said = said[: 3 * len(said) // 4]
    return [type(error).__name__, said]


def error_from(told: Sequence[str]) -> HeadgateError:
    """The error that a process told of."""
    kind, message = told
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, HeadgateError):
        return found(message)
    return HeadgateError(f"{kind}: {message}")


def raise_first(why: Mapping[str, HeadgateError]) -> None:
    """The first error that is one; else that somebody was interrupted."""
    for folder, error in why.items():
        if not isinstance(error, Interrupted):
            raise ChunkError(Path(folder), error) if folder else error
    for error in why.values():
        raise error
