"""Runs a command and says how long it took, how much memory it and all it started held,
and what it printed.

Memory is the sum over all processes of what each holds by itself and its part of what
they share (Linux's PSS), looked at a few times a second, later every twentieth of the
time so far: a simulator that spreads over processes is counted as one. Whatever
happens, nothing is left running.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class Done:
    began: float
    """on the clock of time.time()"""
    seconds: float
    peak_memory_mib: float
    output: str


class Failed(RuntimeError):
    """The command ended with an error, or not in time."""


class Process(NamedTuple):
    """A number is given to another process one day; number and time of birth are
    not.
    """

    pid: int
    born: str


class Watch(threading.Thread):
    """Looks at a process and all it starts, until told to stop."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak_mib, self.family = pid, 0.0, descendants(pid)
        self.stopped = threading.Event()

    def run(self) -> None:
        began = time.perf_counter()
        while not self.stopped.wait(
            max(0.3, (time.perf_counter() - began) / 20)
        ):  # to look takes time from the watched
            self.family |= descendants(self.pid)
            self.peak_mib = max(
                self.peak_mib,
                sum(held_mib(each.pid) for each in self.family if alive(each)),
            )

    def stop(self) -> None:
        self.stopped.set()
        self.join()
        self.family |= descendants(self.pid)


def run(command: Sequence[str], env: Mapping[str, str], timeout: float) -> Done:
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        began, start = time.time(), time.perf_counter()
        child = subprocess.Popen(
            command,
            env={**os.environ, **env},
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        watch, late = Watch(child.pid), threading.Timer(timeout, child.kill)
        try:
            watch.start()
            late.start()
            code = child.wait()  # not with a timeout: that looks only every 50 ms
            seconds = time.perf_counter() - start
        finally:
            late.cancel()
            watch.stop()
            end(watch.family)
            child.wait()
        if code:
            errors.seek(0)
            raise Failed(
                f"{' '.join(command)}: {code} after {seconds:.0f} s (at most"
                f" {timeout:.0f})\n"
                f"{errors.read()[-2000:]}"
            )
        output.seek(0)
        return Done(began, seconds, watch.peak_mib, output.read())


def descendants(pid: int) -> set[Process]:
    """A process and all it has started, directly or not."""
    parents: dict[Process, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (told := stat(int(entry.name))):
            parents[Process(int(entry.name), told[19])] = int(told[1])
    found = {each for each in parents if each.pid == pid}
    while (
        more := {
            each
            for each, parent in parents.items()
            if parent in {one.pid for one in found}
        }
        - found
    ):
        found |= more
    return found


def stat(pid: int) -> list[str] | None:
    """What Linux says about a process from its state on; nothing of one that has
    ended.
    """
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if told[0] == "Z" else told


def alive(process: Process) -> bool:
    told = stat(process.pid)
    return told is not None and told[19] == process.born


def held_mib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def end(family: set[Process]) -> None:
    """What is still there gets a moment to leave, then is made to."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        left = [each for each in family if alive(each)]
        for each in left:
            try:
                os.kill(each.pid, kind)
            except ProcessLookupError:
                continue
        for _ in range(20):
            if not any(alive(each) for each in left):
                break
            time.sleep(0.1)
