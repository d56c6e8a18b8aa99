"""Workers that simulate chunks: this process, or several single-thread processes that
it starts.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headgate.errors as errors
from headgate.errors import HeadgateError, Interrupted, SettingError
from headgate.experiment import Experiment, build
from headgate.learning.data import Data
from headgate.records.chunks import Chunk, open_chunks
from headgate.records.owner import ChunkProgress
from headgate.records.reader import CONFIG
from headgate.simulation.cut import give_back
from headgate.simulation.rounds import Round
from headgate.writing import FolderLock

if TYPE_CHECKING:
    from headgate.simulation.engine import Simulation

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)
Rows = Sequence[Mapping[str, Any]]
POLL_SECONDS = 0.2
"""the seconds between two checks for rounds that the chunks have written"""


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


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


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
        if simulation is not None and chunk.number is None:
            return play_rounds(simulation, chunk.writer({}), tick, stop=stop)
        dataset = self.datasets.of(chunk.experiment.data)
        return play_chunk(chunk, dataset, device, tick, stop)


class InProcess(Player):
    """A worker that simulates the chunks in this process, one after the other in one
    thread.
    """

    where = ""
    """the end of the line that describes the work to users"""

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


class Processes:
    """A worker that starts several processes, each of which simulates one chunk after
    the other.
    """

    def __init__(self, processes: int) -> None:
        if sys.platform != "linux":
            raise SettingError(f"--processes {processes}: more than one needs Linux")
        self.where = f"on {processes} processes"
        # they import modules while the first one examines
        self._children = [_Child() for _ in range(processes)]

    def examine(
        self,
        folder: Path,
        experiment: Experiment,
        device: str,
        executor: str,
    ) -> dict[str, Any]:
        """Return the facts of `run.examine`."""
        child = self._children[0]
        child.ask("examine", str(folder), experiment.tables(), device, executor)
        facts, error = child.answer()
        if error is not None:
            raise error
        return dict(facts)

    def execute(
        self,
        chunks: Sequence[Chunk],
        device: str,
        progress: ChunkProgress,
        stop: Callable[[], bool],
    ) -> None:
        """Simulate all chunks, as `InProcess.execute` does."""
        waiting = list(chunks)
        playing: dict[Any, tuple[Chunk, _Child]] = {}
        failed: list[tuple[Chunk, HeadgateError]] = []
        free, stopping = list(self._children), False
        while True:
            while free and waiting and not stopping:
                chunk, child = waiting.pop(0), free.pop(0)
                child.ask("play", str(chunk.folder), device, chunk.number)
                playing[child.connection] = chunk, child
            if not playing:
                break
            for connection in wait(list(playing), POLL_SECONDS):
                chunk, child = playing.pop(connection)
                free.append(child)
                seconds, error = child.answer()
                if error is None:
                    progress.ended(chunk, seconds)
                else:
                    failed.append((chunk, error))
            progress.update()
            stopping = stopping or bool(failed) or stop()
            if stopping:
                for _, child in playing.values():
                    child.stop()
        _raise_first(failed)

    def close(self) -> None:
        """End the processes; those that simulate a chunk finish their round first."""
        for child in self._children:
            child.end()
        for child in self._children:
            child.process.wait()


def _raise_first(failed: Sequence[tuple[Chunk, HeadgateError]]) -> None:
    """Raise the error of a chunk that failed, or else of an interrupted one."""
    for chunk, error in failed:
        if not isinstance(error, Interrupted):
            raise ChunkError(chunk, error)
    for _, error in failed:
        raise error


Worker = InProcess | Processes


class _Child:
    """A child process that answers one question at a time; questions and answers are
    JSON (see `serve`).
    """

    def __init__(self) -> None:
        self.connection, given = Pipe()
        path = os.pathsep.join(each for each in sys.path if each)
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, {signal.SIGINT}
        )  # until the child is ready for it
        try:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "headgate.simulation.workers",
                    str(given.fileno()),
                ],
                pass_fds=[given.fileno()],
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
                # so that only the parent receives Ctrl-C from the terminal
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        given.close()
        self.asked: tuple[Any, ...] = ()
        self._stopped = False

    def ask(self, *question: Any) -> None:
        self.asked = question
        with suppress(OSError):  # if the process has ended, `answer` reports it
            self.connection.send_bytes(json.dumps(question, default=str).encode())

    def answer(self) -> tuple[Any, HeadgateError | None]:
        """Return the answer of the process and None, or None and its error; the end of
        the process is an error, too.
        """
        self.asked = ()
        try:
            facts, kind, message = json.loads(self.connection.recv_bytes())
            return facts, getattr(errors, kind)(message) if kind else None
        except (EOFError, OSError):
            status = self.process.wait()
        if status < 0:
            name = signal.Signals(-status).name
            return None, HeadgateError(
                f"its process was ended by {name}, perhaps for want of memory"
            )
        return None, HeadgateError(
            f"its process ended with {status} and did not say why"
        )

    def stop(self) -> None:
        """Make the process stop after its current round."""
        if not self._stopped:
            self.process.send_signal(signal.SIGINT)
        self._stopped = True

    def end(self) -> None:
        if self.asked[:1] == ("play",):
            self.stop()
        elif self.asked:
            self.process.kill()
        self.connection.close()


def serve(connection: Connection) -> None:
    """Answer the parent's questions until the parent closes the connection or ends;
    finish the current round first.
    """
    child = _Answers()
    with suppress(EOFError, OSError):  # the parent has ended
        while True:
            do, *question = json.loads(connection.recv_bytes())
            try:
                reply = getattr(child, do)(*question), "", ""
            except (Exception, KeyboardInterrupt) as error:
                reply = None, *_named(error)
            connection.send_bytes(json.dumps(reply).encode())


class _Answers:
    """The answers of a child process to the questions of its parent."""

    def __init__(self) -> None:
        self._player, self._parent = Player(), os.getppid()
        self._chunks: list[Chunk] = []

    def examine(
        self,
        folder: str,
        tables: dict[str, Any],
        device: str,
        executor: str,
    ) -> dict[str, Any]:
        """Return the facts of `run.examine`."""
        experiment = build("", tables)
        return self._player.examine(Path(folder), experiment, device, executor)

    def play(
        self,
        folder: str,
        device: str,
        number: int | None,
    ) -> float:
        """Simulate the remaining rounds of a chunk, and return the seconds that it
        took.
        """
        if not self._chunks or str(self._chunks[0].folder) != folder:
            self._chunks = open_chunks(Path(folder))
        chunk = self._chunks[number or 0]
        with stop_requested() as stop, FolderLock() as lock:
            lock.take(chunk.folder / CONFIG, chunk.folder, shared=True)
            if self._alone():  # another process may own the run already
                raise Interrupted("interrupted")
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            try:
                return self._player.play(
                    chunk, device, _unheard, lambda: stop() or self._alone()
                )
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def _alone(self) -> bool:
        """Return whether the parent has ended."""
        return os.getppid() != self._parent


def _unheard(chunk: Chunk, metrics: Rows) -> None:
    """Report nothing, because the parent reads what is written."""


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


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(
        0
        # everything is written and sent, and a normal exit of torch would make the
        # parent wait
    )
