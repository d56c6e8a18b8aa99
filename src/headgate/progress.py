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
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from headgate.escaping import printable

FIRST, NEXT = 5.0, 30.0
"""the seconds until the first line of progress without a terminal, and between two
lines
"""


def progress_bar(quiet: bool, unit: str = "rounds") -> Progress:
    console = Console(stderr=True)
    if not quiet and not console.is_terminal:
        return LinesOfProgress(unit, console)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=quiet,
        transient=True,
    )


class LinesOfProgress(Progress):
    """Progress as plain lines of text, for files and pipes.

    In a notebook each line replaces the one before.
    """

    def __init__(self, unit: str, console: Console) -> None:
        super().__init__(
            console=console,
            disable=True,
        )
        self.unit, self._next = unit, time.monotonic() + FIRST
        self._end = "\r" if console.is_jupyter else "\n"

    def update(self, task_id: TaskID, **what: Any) -> None:
        super().update(task_id, **what)
        task, now = self._tasks[task_id], time.monotonic()
        if now < self._next or task.total is None or not task.completed:
            return
        self._next = now + NEXT
        taken = task.elapsed or 0.0
        left = taken * (task.total - task.completed) / task.completed
        text = (
            f"{task.completed:,.0f} of {task.total:,.0f} {self.unit}, {_clock(taken)},"
            f" about {_clock(left)} left"
        )
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


@contextmanager
def counted(
    text: str,
    quiet: bool = False,
    unit: str = "rounds",
) -> Iterator[Callable[[int, int], None]]:
    """Show a bar; yield a function to call with the amount of work that is done and the
    total.
    """
    with progress_bar(quiet, unit) as bar:
        task = bar.add_task(printable(text), total=None)
        yield lambda done, total: bar.update(
            task,
            completed=done,
            total=total,
        )
