"""Pools of workers, each behind the same few methods: processes of this machine, the
workers of any `concurrent.futures.Executor`, and those of Dask.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from headgate.errors import HeadgateError, SettingError
from headgate.limits import memory
from headgate.registry import in_one_line
from headgate.simulation.workers import play_slice

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)
PATIENCE = 30.0
"""the seconds after which a scheduler that does not answer is lost"""
LOOK_SECONDS = 2.0
"""the seconds between two looks at the workers of a scheduler"""


class Lost(HeadgateError):
    """The loss of a worker."""


class Pool:
    """The workers of an executor that the user has made.

    Parameters
    ----------
    executor : concurrent.futures.Executor
        The executor, which the user shuts down.
    """

    shared = False
    """whether the workers write into the run folders themselves"""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._sizes: dict[Future[bytes], int] = {}

    @property
    def where(self) -> str:
        """The end of the line that describes the work to users."""
        return f"on {type(self.executor).__name__}"

    @property
    def workers(self) -> int:
        """The number of workers, 1 if it is not known."""
        known = getattr(self.executor, "_max_workers", 1)
        return known if isinstance(known, int) else 1

    def watch(self) -> None:
        """Look for workers that are gone, and cancel their tasks."""

    def has_room(self, running: Iterable[Future[bytes]]) -> bool:
        """Return whether one more task can be submitted: how many tasks wait is
        limited by their bytes.
        """
        self._sizes = {each: self._sizes[each] for each in running}
        return sum(self._sizes.values()) < memory()

    def submit(self, task: bytes) -> Future[bytes]:
        """Give a task to a worker."""
        future = self.executor.submit(play_slice, task)
        self._sizes[future] = len(task)
        return future

    def name(self, future: Future[bytes]) -> str:
        """Return what the worker of a task is called."""
        return "worker"

    def refused(self, future: Future[bytes], why: str) -> bool:
        """Return whether the worker that has refused a task gets no more of them."""
        return False

    def stop(self, running: Iterable[Future[bytes]]) -> None:
        """Cancel the tasks that no worker has begun."""
        for future in running:
            future.cancel()

    def close(self) -> None:
        """End what this object has started."""


# processes of this machine


class Processes(Pool):
    """Single-thread processes that this process starts, and starts again if they are
    lost. They write into the run folders themselves.

    Unlike those of `ProcessPoolExecutor` they do not import the user's script, each is
    lost alone, and the signal that ended it is known.
    """

    shared = True

    def __init__(self, processes: int) -> None:
        if sys.platform != "linux":
            raise SettingError(f"--processes {processes}: more than one needs Linux")
        super().__init__(ThreadPoolExecutor(processes))
        self._stopping = False
        # they import modules while the first one examines
        self._children = [_Child() for _ in range(processes)]
        self._free: SimpleQueue[_Child] = SimpleQueue()
        for child in self._children:
            self._free.put(child)

    @property
    def where(self) -> str:
        return f"on {len(self._children)} processes"

    def submit(self, task: bytes) -> Future[bytes]:
        return self.executor.submit(self._answer, task)

    def has_room(self, running: Iterable[Future[bytes]]) -> bool:
        return len(list(running)) < len(self._children)

    def _answer(self, task: bytes) -> bytes:
        child = self._free.get()
        child.busy = True
        try:
            if self._stopping:  # said before the process could hear it
                raise Lost("its process was stopped")
            return child.answer(task)
        finally:
            child.busy = False
            self._free.put(child)

    def stop(self, running: Iterable[Future[bytes]]) -> None:
        """Make all processes stop after their current round, for good."""
        self._stopping = True
        for child in self._children:
            child.stop()

    def close(self) -> None:
        """End the processes; those that simulate a chunk finish their round first."""
        self.stop(())
        self.executor.shutdown()
        for child in self._children:
            child.connection.close()
        for child in self._children:
            child.process.wait()


class _Child:
    """A process that does one task at a time (see `serve`), and its successors."""

    def __init__(self) -> None:
        self.busy = self._stopped = False
        self._start()

    def _start(self) -> None:
        self.connection, given = Pipe()
        path = os.pathsep.join(each for each in sys.path if each)
        # blocked until the child is ready for it
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from headgate.simulation.pools import serve;"
                    f" serve({given.fileno()})",
                ],
                pass_fds=[given.fileno()],
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
                # so that only the parent receives Ctrl-C from the terminal
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        given.close()

    def answer(self, task: bytes) -> bytes:
        """Return the answer of the process; raise Lost if it has ended."""
        if self.process.poll() is not None:
            self._start()
        try:
            self.connection.send_bytes(task)
            return self.connection.recv_bytes()
        except (EOFError, OSError):
            status = self.process.wait()
            self.connection.close()
        if status < 0:
            name = signal.Signals(-status).name
            why = f"was ended by {name}, perhaps for want of memory"
        else:
            why = f"ended with {status} and did not say why"
        raise Lost(f"its process {why}")

    def stop(self) -> None:
        if self.busy and not self._stopped:
            self._stopped = True
            self.process.send_signal(signal.SIGINT)


def serve(descriptor: int) -> None:
    """Do the parent's tasks until the parent closes the connection or ends. The parent
    interrupts a task by SIGINT.
    """
    connection, interrupt = Connection(descriptor), {signal.SIGINT}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(EOFError, OSError, KeyboardInterrupt):  # the parent has ended
        while True:
            task = connection.recv_bytes()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupt)
            answer = play_slice(task)
            signal.pthread_sigmask(signal.SIG_BLOCK, interrupt)
            connection.send_bytes(answer)
    sys.stdout.flush()
    sys.stderr.flush()
    # everything is written and sent, and a normal exit of torch would make the parent
    # wait
    os._exit(0)


# Dask


class DaskWorkers(Pool):
    """The workers of a Dask scheduler, also those that join later. Each gets one task
    at a time.

    Parameters
    ----------
    address : str
        The address of the scheduler, as in tcp://host:8786, or its scheduler file.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = _client(address)
        super().__init__(self._client.get_executor(pure=False))
        self._banned: dict[str, str] = {}
        self._playing: dict[str, Future[bytes]] = {}
        self._known: set[str] = set()
        self._looked = 0.0
        self._look()

    @property
    def where(self) -> str:
        return f"on the workers of {self.address}, {len(self._known)} now"

    @property
    def workers(self) -> int:
        return max(1, len(self._known))

    def watch(self) -> None:
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._look()

    def has_room(self, running: Iterable[Future[bytes]]) -> bool:
        """Return whether a worker is free; raise HeadgateError if the scheduler is
        lost, or if all workers have refused their tasks.
        """
        mine = set(running)
        self._playing = {
            name: own for name, own in self._playing.items() if own in mine
        }
        if not mine and self._known and self._known <= self._banned.keys():
            why = "; ".join(f"{name}: {self._banned[name]}" for name in self._known)
            raise HeadgateError(f"--on {self.address}: no worker fits the run: {why}")
        return bool(self._free())

    def _free(self) -> set[str]:
        return self._known - self._banned.keys() - self._playing.keys()

    def _look(self) -> None:
        """Look which workers there are, and give up those that are gone."""
        self._looked = time.monotonic()
        if self._client.status in ("closing", "closed"):
            raise HeadgateError(f"--on {self.address}: the scheduler was lost")
        ask = self._client.scheduler.identity
        try:
            told = self._client.sync(ask, n_workers=-1, callback_timeout=LOOK_SECONDS)
        except OSError:
            return  # Dask is connecting again
        self._known = set(told["workers"])
        for name in self._playing.keys() - self._known:
            self._playing[name].cancel()

    def submit(self, task: bytes) -> Future[bytes]:
        worker = min(self._free())
        alone = self._client.get_executor(pure=False, workers=[worker])
        future: Future[bytes] = alone.submit(play_slice, task)
        self._playing[worker] = future
        return future

    def name(self, future: Future[bytes]) -> str:
        return f"worker {self._worker_of(future)}"

    def _worker_of(self, future: Future[bytes]) -> str:
        playing = self._playing.items()
        return next(name for name, own in playing if own is future)

    def refused(self, future: Future[bytes], why: str) -> bool:
        self._banned[self._worker_of(future)] = why
        return True

    def stop(self, running: Iterable[Future[bytes]]) -> None:
        """Wait for the tasks, which end by themselves after some seconds."""

    def close(self) -> None:
        for future in self._playing.values():
            future.cancel()
        self._client.close()


def _client(address: str) -> Any:
    """Return a client of a Dask scheduler."""
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise SettingError(
            f"--on {address}: needs {error.name}, as in pip install 'headgate[dask]'"
        ) from None
    where = {"address": address}
    if "://" not in address:
        where = {"scheduler_file": address}
        if not Path(address).is_file():
            raise SettingError(
                f"--on {address}: must be an address, as in tcp://host:8786, or the"
                " scheduler file of Dask"
            )
    # what it would log is raised as an error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        return Client(  # type: ignore[no-untyped-call]
            **where, timeout=PATIENCE, set_as_default=False
        )
    except (OSError, ValueError, ImportError) as error:
        raise SettingError(
            f"--on {address}: cannot be reached ({in_one_line(error)})"
        ) from None
