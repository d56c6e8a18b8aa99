"""Tables and sentences as they are shown: in a terminal, in a notebook, and as text."""

import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table

WIDE = 200
"""columns where there is no terminal: tables keep theirs"""


def a_table(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    look = {"title_justify": "left", "header_style": "bold", "box": SIMPLE_HEAD, "min_width": min(len(title), 100)}
    table = Table(title=title, show_header=any(columns), **look)  # type: ignore[arg-type]
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i and column else "left", no_wrap=i == 0)
    for line in lines:
        table.add_row(*line)
    return table


def show(*things: RenderableType) -> None:
    """To standard output."""
    console = Console(highlight=False) if sys.stdout.isatty() else Console(width=WIDE, highlight=False)
    for thing in things:
        console.print(thing)


class Shown(ABC):
    """What shows itself in a notebook, and as text elsewhere."""

    @abstractmethod
    def shown(self) -> Sequence[RenderableType]:
        """Tables and sentences."""

    def _printed(self) -> Console:
        console = Console(file=io.StringIO(), record=True, width=WIDE, highlight=False)
        for thing in self.shown():
            console.print(thing)
        return console

    def __repr__(self) -> str:
        return "\n".join(line.rstrip() for line in self._printed().export_text().splitlines()).strip("\n")

    def _repr_html_(self) -> str:
        return self._printed().export_html(inline_styles=True, code_format="<pre style='line-height:1.25'>{code}</pre>")
