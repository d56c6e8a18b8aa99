"""Progress of long work on standard error: a bar in a terminal, and otherwise a line
from time to time.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from headgate.escaping import printable

FIRST, NEXT = 5.0, 30.0
"""the seconds until the first line of progress without a terminal, and between two
lines
"""
LEAST_SHARE, LEAST_SECONDS = 0.05, 10.0
"""the share of the work and the time from which on the time left is estimated"""


def progress_bar(quiet: bool, unit: str = "rounds") -> Progress:
    in_notebook = Console().is_jupyter
    console = Console(
        stderr=True,
        force_jupyter=False,  # it would display each line as a result
        force_terminal=False if in_notebook else None,
    )
    if not quiet and not console.is_terminal:
        return LinesOfProgress(unit, console, in_notebook)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeLeftColumn(),
        console=console,
        disable=quiet,
        transient=True,
    )


def seconds_left(task: Task) -> float | None:
    """Return an estimate of the seconds that are left, from the speed of the last half
    minute, without the time before the first progress.

    None: too little is done to tell; the first rounds may compile.
    """
    if not task.total or task.completed < LEAST_SHARE * task.total:
        return None
    return task.time_remaining if (task.elapsed or 0.0) >= LEAST_SECONDS else None


class TimeLeftColumn(TimeRemainingColumn):
    """The time that is left, as soon as it can be told."""

    def render(self, task: Task) -> Text:
        known = task.finished or seconds_left(task) is not None
        return super().render(task) if known else Text("-:--:--")


class LinesOfProgress(Progress):
    """Progress as plain lines of text, for files and pipes.

    In a notebook each line replaces the one before.
    """

    def __init__(
        self,
        unit: str,
        console: Console,
        in_notebook: bool = False,
    ) -> None:
        super().__init__(
            console=console,
            disable=True,
        )
        self.unit, self._next = unit, time.monotonic() + FIRST
        self._end = "\r" if in_notebook else "\n"

    def update(self, task_id: TaskID, **what: Any) -> None:
        super().update(task_id, **what)
        task, now = self._tasks[task_id], time.monotonic()
        if now < self._next or task.total is None or not task.completed:
            return
        self._next = now + NEXT
        taken = task.elapsed or 0.0
        text = (
            f"{task.completed:,.0f} of {task.total:,.0f} {self.unit}, {_clock(taken)}"
        )
        left = seconds_left(task)
        if left is not None:
            text += f", about {_clock(left)} left"
        print(
            f"{task.description}: {text}",
            file=sys.stderr,
            end=self._end,
            flush=True,
        )


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


@contextmanager
def ticked(
    text: str,
    total: int,
    quiet: bool = False,
) -> Iterator[Callable[[int], None]]:
    """Show a bar over `total` rounds; yield a function to call with each finished
    round. To save time, it draws every 25th.
    """
    with progress_bar(quiet) as bar:
        task = bar.add_task(printable(text), total=total)

        def tick(t: int) -> None:
            if t % 25 == 0:
                bar.update(task, advance=25)

        yield tick


class Counted:
    """A bar that counts work.

    Parameters
    ----------
    bar : Progress
        What is drawn.
    task : TaskID
        The bar in it.
    """

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task = bar, task

    def __call__(self, done: int, total: int) -> None:
        """Show how much work is done."""
        self._bar.update(
            self._task,
            completed=done,
            total=total,
        )

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        if not self._bar.disable or isinstance(self._bar, LinesOfProgress):
            self._bar.console.print(printable(line), markup=False, soft_wrap=True)


@contextmanager
def counted(
    text: str,
    quiet: bool = False,
    unit: str = "rounds",
) -> Iterator[Counted]:
    """Show a bar that counts work."""
    with progress_bar(quiet, unit) as bar:
        yield Counted(bar, bar.add_task(printable(text), total=None))
