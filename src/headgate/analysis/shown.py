"""Tables and sentences as they are shown: in a terminal, in a notebook, and as text."""

import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from headgate.escaping import printable

WIDE = 200
"""columns where there is no terminal: tables keep theirs"""


def a_table(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    look = {"title_justify": "left", "header_style": "bold", "box": SIMPLE_HEAD, "min_width": min(len(title), 100)}
    table = Table(title=plain_text(title) if title else None, show_header=any(columns), **look)  # type: ignore[arg-type]
    for i, column in enumerate(columns):
        table.add_column(plain_text(column), justify="right" if i and column else "left", no_wrap=i == 0)
    for line in lines:
        table.add_row(*map(plain_text, line))
    return table


def plain_text(text: str) -> Text:
    """As it stands: names come from recipes and run folders, and nothing in them is markup or a command to the terminal."""
    return Text("\n".join(map(printable, text.split("\n"))))


def show(*things: RenderableType) -> None:
    """To standard output."""
    console = Console(highlight=False) if sys.stdout.isatty() else Console(width=WIDE, highlight=False)
    for thing in things:
        console.print(plain_text(thing) if isinstance(thing, str) else thing)


class Shown(ABC):
    """What shows itself in a notebook, and as text elsewhere."""

    @abstractmethod
    def shown(self) -> Sequence[RenderableType]:
        """Tables and sentences."""

    def _printed(self) -> Console:
        console = Console(file=io.StringIO(), record=True, width=WIDE, highlight=False)
        for thing in self.shown():
            console.print(plain_text(thing) if isinstance(thing, str) else thing)
        return console

    def __repr__(self) -> str:
        return "\n".join(line.rstrip() for line in self._printed().export_text().splitlines()).strip("\n")

    def _repr_html_(self) -> str:
        return self._printed().export_html(inline_styles=True, code_format="<pre style='line-height:1.25'>{code}</pre>")
