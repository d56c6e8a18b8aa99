"""Bars for what takes more than a few seconds, on standard error where that is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from headgate.escaping import printable


def every(advance: Callable[[int], None], rounds: int = 25) -> Callable[[int], None]:
    """Tell the bar every so many rounds; drawing it costs more than deciding a round."""

    def tick(t: int) -> None:
        if t % rounds == 0:
            advance(rounds)

    return tick


def progress_bar(quiet: bool, unit: str = "rounds") -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=quiet or not console.is_terminal,
        transient=True,
    )


@contextmanager
def ticked(text: str, total: int, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar over so many rounds, told of each one that is done."""
    with progress_bar(quiet) as bar:
        task = bar.add_task(printable(text), total=total)
        yield every(lambda done: bar.advance(task, done))


@contextmanager
def counted(text: str, quiet: bool = False, unit: str = "rounds") -> Iterator[Callable[[int, int], None]]:
    """A bar that is told what is done and what there is in all."""
    with progress_bar(quiet, unit) as bar:
        task = bar.add_task(printable(text), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
