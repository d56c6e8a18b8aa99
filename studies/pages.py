"""The one way a study becomes a page: its sentences, one figure, one table, the command.

What a page says stands in pages.toml; a query fills in the numbers, the table and the figure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from headgate.analysis.pages import figure, page, words, write

WIDTH = 118


class StudyContent(NamedTuple):
    """What a query finds in the results."""

    table: str
    numbers: Mapping[str, Any]
    """inside the sentences"""
    draw: Callable[[Path], object] | None = None
    made: Sequence[str] = ()
    """how the runs were made, a line each"""
    more: str = ""
    """Markdown at the end, for a page that was asked for in full"""


def write_page(name: str, found: StudyContent, folder: Path, quick: bool = False) -> list[Path]:
    """Write NAME.md, and NAME.svg where the study has a figure; return the files."""
    said = words(__file__, "pages.toml")[name]
    drawn = folder / f"{name}.svg"
    parts = [
        _wrapped(said["purpose"], found),
        _wrapped(" ".join(said["conclusions"]), found),
        figure(said["figure"], drawn.name) if found.draw else "",
        f"## {said['heading']}\n\n{found.table}",
        *(_wrapped(each, found) for each in said["notes"]),
        f"## How it was made\n\n{_wrapped(said['made'], found)}",
        wrapped_bullets(found.made),
        found.more,
    ]
    made = write(folder, {f"{name}.md": page(said["title"], *parts, quick=quick)})
    if found.draw is None:
        return made
    found.draw(drawn)
    return [*made, drawn]


def _wrapped(text: str, found: StudyContent) -> str:
    return fill(text.format(**found.numbers), WIDTH, break_long_words=False, break_on_hyphens=False)


def wrapped_bullets(said: Iterable[str]) -> str:
    """Return a list of Markdown whose lines are short."""
    lines = (fill(f"- {each}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) for each in said)
    return "\n".join(lines)


class Series(NamedTuple):
    """Marks of one colour, one for each line of a figure."""

    label: str
    values: Sequence[tuple[float | None, float | None, float | None] | None]
    """mean and both ends of its interval; no mark where the mean is None"""


def draw_intervals(path: Path, names: Sequence[str], series: Sequence[Series], shows: str, line: float, most: float) -> None:
    """Draw a line for each name with a mark and its interval for each series; `line` is where nothing is gained."""
    import matplotlib.pyplot as plt

    from headgate.analysis.curves import COLOURS
    from headgate.analysis.figures import STYLE, save_figure

    with plt.rc_context(STYLE):
        drawn, axes = plt.subplots(figsize=(10.5, 0.34 * len(names) + 1.6), layout="constrained")
        for i, one in enumerate(series):
            for place, value in enumerate(one.values):
                y = place + 0.22 * (i - (len(series) - 1) / 2)
                if value is not None and value[1] is not None and value[2] is not None:
                    width = 0.8 if value[0] is None else 1.5
                    axes.plot([min(value[1], most), min(value[2], most)], [y, y], color=COLOURS[i], linewidth=width)
                if value is not None and value[0] is not None:
                    axes.plot(value[0], y, "o", color=COLOURS[i], markersize=5)
            axes.plot([], [], "o", color=COLOURS[i], label=one.label)
        axes.axvline(line, color="black", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(names)), names, fontsize=9)
        axes.invert_yaxis()
        axes.set_xlabel(shows)
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(series))
        save_figure(drawn, path)
