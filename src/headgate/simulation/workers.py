"""Workers that simulate chunks: this process, or several single-thread processes that
it starts.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headgate.errors as errors
from headgate.errors import HeadgateError, Interrupted, SettingError
from headgate.experiment import Experiment, build, load
from headgate.learning.data import Data
from headgate.records.reader import CONFIG
from headgate.simulation.cut import give_back

if TYPE_CHECKING:
    from headgate.simulation.engine import Simulation
    from headgate.simulation.schedule import ChunkProgress

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)
POLL_SECONDS = 0.2
"""the seconds between two checks for rounds that the chunks have written"""


class ChunkError(HeadgateError):
    """The failure of the chunk in `folder`, with its cause `why`."""

    def __init__(self, folder: Path, why: HeadgateError) -> None:
        super().__init__(str(why))
        self.folder, self.why = folder, why


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


class InProcess:
    """A worker that simulates the chunks in this process, one after the other in one
    thread.
    """

    where = ""
    """the end of the line that describes the work to users"""

    def __init__(self) -> None:
        self._datasets = Datasets()
        self._ready: Simulation | None = None

    def examine(
        self, experiment: Experiment, device: str, executor: str
    ) -> dict[str, Any]:
        """Return the facts of `run.examine`, and keep its simulation for `execute`."""
        from headgate.simulation.run import examine

        self._ready = None
        facts, self._ready = examine(
            experiment, self._datasets.of(experiment.data), device, executor
        )
        return facts

    def execute(
        self,
        chunks: Mapping[Path, Experiment | None],
        device: str,
        progress: "ChunkProgress",
        stop: Callable[[], bool],
    ) -> None:
        """Simulate all chunks; raise ChunkError for a chunk that fails, and
        `Interrupted` after `stop` returns True.

        `chunks` maps the folder of each chunk to its experiment, or to None if the
        experiment must be read from the folder.
        """
        from headgate.simulation.run import RunWriter, play_folder, play_rounds

        for folder, experiment in chunks.items():
            if stop():
                raise Interrupted("interrupted")
            tick = partial(progress.played, folder)
            try:
                if self._ready is not None and self._ready.experiment is experiment:
                    simulation, self._ready = self._ready, None
                    progress.states[folder] = play_rounds(
                        simulation, RunWriter(folder), tick, stop=stop
                    )
                else:
                    own = experiment or load(folder / CONFIG)
                    progress.states[folder] = play_folder(
                        folder, own, self._datasets.of(own.data), device, tick, stop
                    )
            except Interrupted:
                raise
            except HeadgateError as error:
                raise ChunkError(folder, error) from None
            give_back(device)

    def close(self) -> None:
        self._datasets.clear()


class Processes:
    """A worker that starts several processes, each of which simulates one chunk after
    the other.
    """

    def __init__(self, processes: int) -> None:
        if sys.platform != "linux":
            raise SettingError(f"--processes {processes}: more than one needs Linux")
        self.where = f"on {processes} processes"
        self._children = [
            _Child() for _ in range(processes)
        ]  # they import modules while the first one examines

    def examine(
        self, experiment: Experiment, device: str, executor: str
    ) -> dict[str, Any]:
        self._children[0].ask("examine", experiment.tables(), device, executor)
        facts, error = self._children[0].answer()
        if error is not None:
            raise error
        return dict(facts)

    def execute(
        self,
        chunks: Mapping[Path, Experiment | None],
        device: str,
        progress: "ChunkProgress",
        stop: Callable[[], bool],
    ) -> None:
        waiting, why, stopping = list(chunks), dict[Path, HeadgateError](), False
        while True:
            for child in self._children:
                if waiting and not stopping and not child.asked:
                    child.ask("play", waiting.pop(0), device)
            at_work: dict[Any, _Child] = {
                child.connection: child for child in self._children if child.asked
            }
            if not at_work:
                break
            for child in at_work.values() if stopping else ():
                child.stop()
            for connection in wait(list(at_work), POLL_SECONDS):
                folder = at_work[connection].asked[1]
                if (error := at_work[connection].answer()[1]) is not None:
                    why[folder] = error
            progress.update()
            stopping = stopping or bool(why) or stop()
        for folder, error in sorted(
            why.items(), key=lambda one: isinstance(one[1], Interrupted)
        ):
            raise error if isinstance(error, Interrupted) else ChunkError(folder, error)

    def close(self) -> None:
        """End the processes; those that simulate a chunk finish their round first."""
        for child in self._children:
            child.end()
        for child in self._children:
            child.process.wait()


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
    from headgate.simulation.run import examine, play_folder

    datasets, parent = Datasets(), os.getppid()

    def answer(do: str, what: Any, device: str, *more: str) -> Any:
        if do == "examine":
            experiment = build("", what)
            return examine(experiment, datasets.of(experiment.data), device, *more)[0]
        folder = Path(what)
        experiment = load(folder / CONFIG)
        dataset = datasets.of(experiment.data)
        with stop_requested() as stop:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            try:
                play_folder(
                    folder,
                    experiment,
                    dataset,
                    device,
                    lambda done: None,
                    lambda: stop() or os.getppid() != parent,
                )
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    with suppress(EOFError, OSError):  # the parent has ended
        while True:
            question = json.loads(connection.recv_bytes())
            try:
                reply = answer(*question), "", ""
            except (Exception, KeyboardInterrupt) as error:
                reply = None, *_named(error)
            connection.send_bytes(json.dumps(reply).encode())


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
