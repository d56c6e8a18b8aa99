"""Starts again what has ended: a SuperNode that was killed, or the SuperLink.

A SuperNode that comes back with its key is refused for up to a minute, until the SuperLink has noticed that the old one is
gone; so it is tried again after a pause. One whose key is not registered is refused with the same code (Flower's 305): only
time tells the two apart, so one that is refused for longer is given up.
"""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headgate.errors import HeadgateError
from headgate.flower.deploy.supernode import HOPELESS, REFUSED, SuperNode

PAUSE = 5.0
"""seconds between the end of a process and its next start"""
PATIENCE = 120.0
"""seconds for which a SuperNode may be refused before it is given up"""


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
    given_up: int | None = None
    """Flower's code, where another start would fail the same way"""


@dataclass
class Supervisor:
    """`look` is called now and then by the main loop; there is no thread."""

    say: Callable[[str], None] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    pause: float = PAUSE
    patience: float = PATIENCE
    kept: dict[str, Kept] = field(default_factory=dict)

    def keep(self, name: str, service: Startable) -> Kept:
        self.kept[name] = Kept(name, service, service.start())
        return self.kept[name]

    def look(self) -> None:
        """Notice who has ended, and start those whose pause is over."""
        for each in self.kept.values():
            if each.given_up is not None or each.process.poll() is None:
                continue
            if each.due is None:
                self._ended(each)
            elif self.clock() >= each.due:
                self._start(each)

    def _start(self, each: Kept) -> None:
        try:
            each.process, each.due, each.starts = each.service.start(), None, each.starts + 1
        except HeadgateError as error:  # a port that is not free yet, say
            each.refused = self.clock() if each.refused is None else each.refused
            if self.clock() - each.refused >= self.patience:
                raise
            each.due = self.clock() + self.pause
            self.say(f"{each.name}: {error}; next start in {self.pause:g} s")

    def _ended(self, each: Kept) -> None:
        killed = each.process.returncode < 0
        code = each.service.exit_code() if isinstance(each.service, SuperNode) and not killed else None
        each.refused = None if code != REFUSED else self.clock() if each.refused is None else each.refused
        if code in HOPELESS or (each.refused is not None and self.clock() - each.refused >= self.patience):
            each.given_up = code
            self.say(f"{each.name}: refused for good (Flower's code {code}; {each.service.log})")
            return
        each.due = self.clock() + self.pause
        how = f"killed by signal {-each.process.returncode}" if killed else "refused" if code == REFUSED else "ended"
        self.say(f"{each.name}: {how}; next start in {self.pause:g} s ({each.service.log})")

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        return [each.process for each in self.kept.values()]
