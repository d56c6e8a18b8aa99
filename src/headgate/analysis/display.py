"""Display of tables and sentences in a terminal, in a notebook and as text."""

import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import TextWrapper

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from headgate.escaping import printable

WIDE = 200
"""characters of a line if the output is no terminal, so that tables keep their columns
"""
LINE = 80
"""the most characters of a line of text"""
BROAD = 10_000
"""characters of a line that is wider than any table"""


@dataclass(frozen=True)
class StackedTable:
    """A table that is split into several, one below the other, if it is too wide.

    Each of them has the first column.
    """

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        left = list(range(1, len(self.columns)))
        title = self.title
        while True:
            taken = self._fitting(left, console, options)
            yield self._of(left[:taken], title)
            left, title = left[taken:], ""
            if not left:
                return

    def _fitting(
        self,
        left: Sequence[int],
        console: Console,
        options: ConsoleOptions,
    ) -> int:
        """Return how many of the columns fit beside the first one, at least one."""
        # chosen columns are measured without shortening them
        broad = options.update_width(BROAD)
        for taken in range(len(left), 1, -1):
            table = self._of(left[:taken], "")
            if console.measure(table, options=broad).maximum <= options.max_width:
                return taken
        return 1

    def _of(self, chosen: Sequence[int], title: str) -> Table:
        """Return a table of the first column and the chosen ones."""
        table = Table(
            title=plain_text(title) if title else None,
            title_justify="left",
            show_header=any(self.columns),
            header_style="bold",
            box=SIMPLE_HEAD,
            min_width=min(len(title), 100),
        )
        table.add_column(plain_text(self.columns[0]), no_wrap=True)
        for i in chosen:
            name = self.columns[i]
            table.add_column(plain_text(name), justify="right" if name else "left")
        for line in self.lines:
            table.add_row(*(plain_text(line[i]) for i in (0, *chosen)))
        return table


def plain_text(text: str) -> Text:
    """Return a text in which markup and control characters have no effect.

    Names from recipes and run folders may hold them.
    """
    return Text("\n".join(map(printable, text.split("\n"))))


def wrapped(text: str, width: int = LINE) -> str:
    """Return a text with lines of at most `width` characters; no word is broken.

    >>> print(wrapped("budgets that bind: --budgets 0.75,1.5,3", 20))
    budgets that bind:
    --budgets 0.75,1.5,3
    """
    wrapper = TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(wrapper.fill, text.split("\n")))


def show(*things: RenderableType, console: Console | None = None) -> None:
    """Print tables and sentences to a console, by default standard output."""
    if console is None:
        console = Console(
            width=None if sys.stdout.isatty() else WIDE,
            highlight=False,
        )
    for thing in things:
        if isinstance(thing, str):
            thing = plain_text(wrapped(thing, min(console.width, LINE)))
        console.print(thing)


class Displayed(ABC):
    """A result that displays itself in a notebook, and prints as text elsewhere."""

    @abstractmethod
    def render(self) -> Sequence[RenderableType]:
        """Return the tables and sentences to display."""

    def _printed(self) -> Console:
        console = Console(
            file=io.StringIO(),
            record=True,
            width=WIDE,
            highlight=False,
            force_jupyter=False,  # the notebook displays what is returned
        )
        show(*self.render(), console=console)
        return console

    def __repr__(self) -> str:
        lines = self._printed().export_text().splitlines()
        return "\n".join(map(str.rstrip, lines)).strip("\n")

    def _repr_html_(self) -> str:
        form = "<pre style='line-height:1.25'>{code}</pre>"
        return self._printed().export_html(
            inline_styles=True,
            code_format=form,
        )
