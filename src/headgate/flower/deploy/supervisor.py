"""Starts again what has ended: a SuperNode that was killed, the SuperLink, the front; and who has lost its SuperExec.

A SuperNode that comes back with its key is refused for up to a minute, until the SuperLink has noticed that the old one is
gone; so it is tried again after a pause. One whose key is not registered is refused with the same code (Flower's 305), so one
that is refused for longer is given up. One with a wrong clock or before an expired certificate is not: it is tried more rarely.

Flower starts a SuperExec once and does not look after it. Without it no app is started, and nothing else shows that.
"""

import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headgate.errors import HeadgateError
from headgate.flower.deploy.supernode import HOPELESS, REFUSED, SuperNode

PAUSE = 5.0
"""seconds between the end of a process and its next start"""
PATIENCE = 120.0
"""seconds for which a SuperNode may be refused before it is given up"""
RARELY = 12
"""pauses between two starts of one that is refused for longer and not given up"""
GRACE = 10.0
"""seconds that a process without a SuperExec has to end"""


class Startable(Protocol):
    @property
    def log(self) -> Path: ...

    def start(self) -> subprocess.Popen[bytes]: ...


@dataclass
class Kept:
    """A process that is started again when it ends."""

    name: str
    service: Startable
    process: subprocess.Popen[bytes]
    due: float | None = None
    """when it is started again, if it has ended"""
    starts: int = 1
    refused: float | None = None
    """since when every start of it has failed"""
    executed: float | None = None
    """when its SuperExec was last seen"""
    given_up: int | None = None
    """Flower's code, where another start would fail the same way"""


@dataclass
class Supervisor:
    """`look` is called now and then by the main loop; there is no thread."""

    say: Callable[[str], None] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    pause: float = PAUSE
    patience: float = PATIENCE
    executors: Callable[[], Collection[int]] = frozenset
    """the processes that have a SuperExec"""
    kept: dict[str, Kept] = field(default_factory=dict)

    def keep(self, name: str, service: Startable) -> Kept:
        self.kept[name] = Kept(name, service, service.start())
        return self.kept[name]

    def look(self) -> None:
        """Notice who has ended or has lost its SuperExec, and start those whose pause is over."""
        executing = self.executors()
        for each in self.kept.values():
            if each.given_up is not None:
                continue
            if each.process.poll() is None:
                self._watch(each, each.process.pid in executing)
            elif each.due is None:
                self._ended(each)
            elif self.clock() >= each.due:
                self._start(each)

    def _watch(self, each: Kept, executing: bool) -> None:
        if executing:
            each.executed = self.clock()
        elif each.executed is not None and self.clock() - each.executed >= self.pause:
            each.process.terminate()  # a SuperNode that signs off is let in again at once
            try:
                each.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()
            self._pause(each, "its SuperExec is gone")

    def _pause(self, each: Kept, why: str, times: int = 1) -> None:
        seconds = times * self.pause
        each.due, each.executed = self.clock() + seconds, None
        self.say(f"{each.name}: {why}; next start in {seconds:g} s ({each.service.log})")

    def _start(self, each: Kept) -> None:
        try:
            each.process, each.due, each.starts = each.service.start(), None, each.starts + 1
        except HeadgateError as error:  # a port that is not free yet, say
            each.refused = self.clock() if each.refused is None else each.refused
            if self.clock() - each.refused >= self.patience:
                raise
            self._pause(each, str(error))

    def _ended(self, each: Kept) -> None:
        killed, node = each.process.returncode < 0, each.service if isinstance(each.service, SuperNode) else None
        code = node.exit_code() if node and not killed else None
        each.refused = None if code != REFUSED else self.clock() if each.refused is None else each.refused
        tired = each.refused is not None and self.clock() - each.refused >= self.patience
        reason = node.correctable() if node and code == REFUSED else None
        if code in HOPELESS or (tired and reason is None):
            each.given_up = code
            self.say(f"{each.name}: refused for good (Flower's code {code}; {each.service.log})")
            return
        how = f"killed by signal {-each.process.returncode}" if killed else "refused" if code == REFUSED else "ended"
        self._pause(each, f"refused, {reason}" if reason else how, RARELY if tired else 1)

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        return [each.process for each in self.kept.values()]
