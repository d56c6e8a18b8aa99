"""Executors: this process, and a Dask scheduler with workers on the loopback interface,
processes in folders of their own, which share no files with the test. A proxy between a
worker and the scheduler can be stopped and go on.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

from headgate.simulation import cut, slices

ROOT = Path(__file__).parents[3]
QUIET = {
    "DASK_LOGGING__DISTRIBUTED": "critical",
    "DASK_DISTRIBUTED__VERSION": "2",
    "OMP_NUM_THREADS": "1",
}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def connected(port):
    """A connection to a port, once somebody listens there."""
    while True:
        with suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port))
        time.sleep(0.05)


@contextmanager
def process(folder, *words, **environment):
    """A process in a new folder, which ends with the block."""
    folder.mkdir(parents=True)
    with (folder / "said.txt").open("w") as said:
        own = subprocess.Popen(
            list(map(str, words)),
            cwd=folder,
            env={**os.environ, **QUIET, "TMPDIR": str(folder), **environment},
            stdout=said,
            stderr=said,
        )
        try:
            yield own
        finally:
            own.kill()
            own.wait()


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, folder, stack, environment):
        self.folder, self._stack, self._environment = folder, stack, environment
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        words = ("scheduler", "--host", "127.0.0.1", "--port", self.port)
        self.scheduler = self._start("scheduler", *words)
        connected(self.port).close()
        self.workers, self._started = [], count()

    def _start(self, name, *words, **environment):
        quiet = ("--no-dashboard",)
        command = (sys.executable, "-m", "dask", *words, *quiet)
        environment = {**self._environment, **environment}
        own = process(self.folder / name, *command, **environment)
        return self._stack.enter_context(own)

    def worker(self, address=None, **environment):
        """Start a worker, and return its process."""
        name = f"worker-{next(self._started)}"
        words = ("--nthreads", 1, "--no-nanny", "--host", "127.0.0.1")
        address = address or self.address
        own = self._start(name, "worker", address, *words, **environment)
        self.workers.append(own)
        return own

    def end(self, worker):
        """End a worker."""
        self.workers.remove(worker)
        worker.kill()
        worker.wait()


@contextmanager
def cluster(folder, workers=2, **environment):
    with ExitStack() as stack:
        own = Cluster(folder, stack, environment)
        for _ in range(workers):
            own.worker()
        yield own


class Proxy:
    """Passes bytes on to a port of this machine, unless it is stopped."""

    def __init__(self, port):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"
        self.going, self._port, self._open = threading.Event(), port, []
        self.going.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                ends = self._server.accept()[0], connected(self._port)
                self._open += ends
                for way in (ends, ends[::-1]):
                    threading.Thread(target=self._pass, args=way, daemon=True).start()

    def _pass(self, source, sink):
        with suppress(OSError):
            while content := source.recv(2**16):
                self.going.wait()
                sink.sendall(content)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.going.set()
        for each in (self._server, *self._open):
            each.close()


class Here(Executor):
    """Does a task at once; `change` changes its answer."""

    def __init__(self, change=lambda answer: answer):
        self.change, self.tasks = change, 0

    def submit(self, function, task):
        self.tasks += 1
        future = Future()
        try:
            future.set_result(self.change(function(task)))
        except RuntimeError as error:
            future.set_exception(error)
        return future


def small(patch, seconds=1.0):
    """Chunks of two runs, slices of so many seconds."""
    patch.setattr(cut, "LIGHT", 0.0)
    patch.setitem(cut.TOGETHER, "gram", 2)
    patch.setattr(slices, "SLICE_SECONDS", seconds)
