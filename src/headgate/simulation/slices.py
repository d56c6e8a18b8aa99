"""Plays chunks in slices by the workers of a pool.

A slice is some seconds of a chunk. What it needs goes out as bytes, the worker plays
from the newest checkpoint, and what is new comes back into the run folder. A worker
that is lost costs the slice: another one plays it again from the same checkpoint.
Processes of this machine write into the run folder themselves, and play a chunk to its
end.
"""

import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from pathlib import Path
from typing import Any

import tomli_w

import headgate.errors as errors
from headgate.errors import HeadgateError, Interrupted
from headgate.experiment import Experiment
from headgate.records.chunks import Chunk
from headgate.records.owner import ChunkProgress
from headgate.records.parcels import Files, outgoing, pack, put_back, unpack
from headgate.records.reader import CONFIG
from headgate.records.writer import disk_errors
from headgate.registry import in_one_line
from headgate.simulation.luggage import Luggage, luggage_of
from headgate.simulation.pools import Lost, Pool
from headgate.simulation.workers import ChunkError

SLICE_SECONDS, SHARE, BANDWIDTH = 10.0, 0.05, 1e8
"""a slice takes so many seconds, or longer, until its preparation and its bytes, at so
many a second, take at most this share of it
"""
BUSY = 0.5
"""the share of the time for which this process may be busy with the slices of all
workers; with many of them, slices are longer
"""
TRIES = 3
"""how often a slice is played if its worker is lost each time"""
POLL_SECONDS = 0.2
"""the seconds between two looks at the pool and at what its workers have written"""
Say = Callable[[str], None]
Facts = dict[str, Any]
HERE = Luggage({}, {})
"""the luggage of workers of this machine, which find modules and tables themselves"""


class Job(ABC):
    """What is done by one task after the other, each perhaps by another worker.

    Attributes
    ----------
    name : str
        What it is called in messages.
    lost : int
        The workers that were lost since the last answer.
    """

    name: str
    lost = 0

    @abstractmethod
    def task(self) -> bytes:
        """Return the next task."""

    @abstractmethod
    def take(self, facts: Facts, files: Files) -> bool:
        """Take an answer, and return whether the job is done."""

    def failed(self, why: HeadgateError) -> HeadgateError:
        """Return the error of this job."""
        return why


class Examination(Job):
    """The examination of a run that will be begun, see `run.examine`."""

    def __init__(
        self,
        asked: Facts,
        experiment: Experiment,
        luggage: Luggage,
    ) -> None:
        self.name = str(asked["folder"])
        self.asked, self.experiment, self.luggage = asked, experiment, luggage
        self.facts: Facts = {}

    def task(self) -> bytes:
        config = tomli_w.dumps(self.experiment.tables()).encode()
        asked = {**self.asked, "do": "examine", "paths": self.luggage.paths}
        return pack(asked, {CONFIG: config, **self.luggage.files})

    def take(self, facts: Facts, files: Files) -> bool:
        self.facts = facts
        return True


class Playing(Job):
    """The remaining rounds of a chunk."""

    def __init__(
        self,
        chunk: Chunk,
        device: str,
        progress: ChunkProgress,
    ) -> None:
        self.name = str(chunk)
        self.chunk, self.progress = chunk, progress
        self.asked = {
            "folder": str(chunk.folder),
            "number": chunk.number,
            "device": device,
        }

    def task(self) -> bytes:
        return pack({**self.asked, "do": "play here", "parent": os.getpid()}, {})

    def take(self, facts: Facts, files: Files) -> bool:
        self.progress.ended(self.chunk, facts["seconds"])
        return bool(facts["t"] >= self.chunk.whole.rounds)

    def failed(self, why: HeadgateError) -> HeadgateError:
        return ChunkError(self.chunk, why)


class PlayingElsewhere(Playing):
    """The remaining rounds of a chunk, by workers without its folder."""

    def __init__(
        self,
        chunk: Chunk,
        device: str,
        progress: ChunkProgress,
        luggage: Luggage,
        pool: Pool,
    ) -> None:
        super().__init__(chunk, device, progress)
        self.luggage, self.pool = luggage, pool
        self.seconds, self._sent, self._own = SLICE_SECONDS, 0, 0.0

    def task(self) -> bytes:
        began = time.monotonic()
        asked = {
            **self.asked,
            "do": "play there",
            "seconds": self.seconds,
            "paths": self.luggage.paths,
        }
        task = pack(asked, {**outgoing(self.chunk), **self.luggage.files})
        self._sent = len(task)
        self._own = time.monotonic() - began
        return task

    def take(self, facts: Facts, files: Files) -> bool:
        began = time.monotonic()
        with disk_errors(self.progress.whole):
            put_back(self.chunk, files)
        own = self._own + time.monotonic() - began
        came = sum(map(len, files.values()))
        cost = facts["before"] + (self._sent + came) / BANDWIDTH
        for_all = own * self.pool.workers
        self.seconds = max(SLICE_SECONDS, cost / SHARE, for_all / BUSY)
        return super().take(facts, files)


class Slices:
    """Examines experiments and plays chunks by the workers of a pool.

    Parameters
    ----------
    pool : Pool
        The pool, which `close` closes.
    say : callable
        Called with a line for each worker that is lost.
    """

    def __init__(self, pool: Pool, say: Say) -> None:
        self.pool, self.say = pool, say
        self._stopping, self._said = False, set[str]()

    @property
    def where(self) -> str:
        """The end of the line that describes the work to users."""
        return self.pool.where

    def examine_all(
        self,
        runs: Sequence[tuple[Path, Experiment, str]],
        device: str,
    ) -> list[Facts]:
        """Return the facts of `run.examine` about the runs that will be begun, each
        with its folder, experiment and executor.
        """
        jobs = []
        for folder, experiment, executor in runs:
            asked = {"folder": str(folder), "device": device, "executor": executor}
            luggage = self._luggage(experiment, executor)
            jobs.append(Examination(asked, experiment, luggage))
        self._work(jobs, lambda: False, lambda: None)
        return [job.facts for job in jobs]

    def execute(
        self,
        chunks: Sequence[Chunk],
        device: str,
        progress: ChunkProgress,
        stop: Callable[[], bool],
    ) -> None:
        """Simulate all chunks, as `InProcess.execute` does."""
        jobs = [self._playing(chunk, device, progress) for chunk in chunks]
        self._work(jobs, stop, progress.update)

    def _playing(
        self,
        chunk: Chunk,
        device: str,
        progress: ChunkProgress,
    ) -> Playing:
        if self.pool.shared:
            return Playing(chunk, device, progress)
        luggage = self._luggage(chunk.whole, chunk.run.fact("executor"))
        return PlayingElsewhere(chunk, device, progress, luggage, self.pool)

    def _luggage(self, experiment: Experiment, executor: str) -> Luggage:
        return HERE if self.pool.shared else luggage_of(experiment, executor)

    def close(self) -> None:
        """Close the pool."""
        self.pool.close()

    def _work(
        self,
        jobs: Sequence[Job],
        stop: Callable[[], bool],
        update: Callable[[], None],
    ) -> None:
        """Do all jobs; after an error, or if `stop` returns True, only wait for the
        tasks that are under way.
        """
        waiting, failed = deque(jobs), list[HeadgateError]()
        running: dict[Future[bytes], Job] = {}
        updated = 0.0
        try:
            while running or (waiting and not self._stopping):
                self.pool.watch()
                while waiting and not self._stopping and self.pool.has_room(running):
                    job = waiting.popleft()
                    running[self._submitted(job)] = job
                if not running:
                    self._say_once(f"no worker is free {self.where}; waiting for one")
                for future in _done(running):
                    job = running.pop(future)
                    try:
                        done = self._taken(job, future)
                    except HeadgateError as error:
                        failed.append(job.failed(error))
                        continue
                    if not done:
                        waiting.appendleft(job)
                began = time.monotonic()
                if began >= updated:
                    update()
                    updated = time.monotonic() + 10 * (time.monotonic() - began)
                if failed or stop():
                    self._stopping = True
                    self.pool.stop(running)
        except BaseException:
            self.pool.stop(running)
            raise
        if failed:
            raise failed[0]
        if self._stopping:
            raise Interrupted("interrupted")

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self.say(line)

    def _submitted(self, job: Job) -> Future[bytes]:
        try:
            return self.pool.submit(job.task())
        except RuntimeError as error:  # it is broken or shut down
            raise HeadgateError(
                f"{self.where}: no more work is taken ({in_one_line(error)})"
            ) from None

    def _taken(self, job: Job, future: Future[bytes]) -> bool:
        """Let a job take its answer, and return whether it is done; raise the error of
        the worker, or that too many workers were lost.
        """
        try:
            facts, files = unpack(future.result())
        except (Exception, CancelledError) as error:
            why = str(error)
            if not isinstance(error, Lost):
                why = f"its {self.pool.name(future)} was lost ({in_one_line(error)})"
            return self._lost(job, why)
        worker = f"worker {facts['worker']}"
        if "refused" in facts:
            why = f"{worker} does not fit the run: {facts['refused']}"
            if self.pool.refused(future, why):
                self.say(f"{why}; it gets no work")
                return False
            return self._lost(job, why)
        if "error" in facts:
            kind, text = facts["error"]
            if kind == Interrupted.__name__:
                return self._lost(job, "its worker was interrupted")
            text = text if self.pool.shared else f"{worker}: {text}"
            raise getattr(errors, kind)(text)
        job.lost = 0
        return job.take(facts, files)

    def _lost(self, job: Job, why: str) -> bool:
        if self._stopping:
            return False
        job.lost += 1
        if job.lost >= TRIES:
            raise HeadgateError(f"{why} ({TRIES} times)")
        self.say(f"{job.name}: {why}; it is played again")
        return False


def _done(running: Iterable[Future[bytes]]) -> set[Future[bytes]]:
    """Wait for a short time, and return the futures that are done."""
    if not running:
        time.sleep(POLL_SECONDS)
    done = wait(running, POLL_SECONDS, FIRST_COMPLETED).done
    # `wait` does not count a task that was cancelled before a worker took it
    return done | {each for each in running if each.cancelled()}
