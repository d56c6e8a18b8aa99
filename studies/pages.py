"""The one way a study becomes a page: its sentences, one figure, one table, the
command.

What a page says stands in pages.toml; a query fills in the numbers, the table and the
figure.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

from headgate.analysis.curves import COLOURS
from headgate.analysis.intervals import Estimate
from headgate.analysis.pages import words, write
from headgate.errors import DataError
from studies.figures import STYLE, save_figure

SAID = words(__file__, "pages.toml")
"""what each page says, by its name"""
WIDTH = 118


class StudyContent(NamedTuple):
    """What a query finds in the results."""

    lines: Sequence[Sequence[str]]
    """of the table"""
    numbers: Mapping[str, Any]
    """inside the sentences"""
    draw: Callable[[Path], object] | None = None
    made: Sequence[str] = ()
    """how the runs were made, a line each"""
    more: str = ""
    """Markdown at the end, for a page that was asked for in full"""


def write_page(
    name: str, found: StudyContent, folder: Path, quick: bool = False
) -> list[Path]:
    """Write NAME.md, and NAME.svg where the study has a figure; return the files."""
    said, drawn = SAID[name], folder / f"{name}.svg"
    parts = [
        f"# {said['title']}",
        SAID["trial"] if quick else "",
        _wrapped(said["purpose"], found),
        _wrapped(" ".join(said["conclusions"]), found),
        f"![{said['figure']}]({drawn.name})" if found.draw else "",
        f"## {said['heading']}\n\n{table(said['columns'], found.lines)}",
        *(_wrapped(each, found) for each in said["notes"]),
        f"## How it was made\n\n{_wrapped(said['made'], found)}",
        wrapped_bullets(found.made),
        found.more,
    ]
    made = write(folder, {f"{name}.md": "\n\n".join(filter(None, parts)) + "\n"})
    if found.draw is None:
        return made
    found.draw(drawn)
    return [*made, drawn]


def write_findings(pages: Path, folder: Path) -> list[Path]:
    """Write index.md: the conclusions and the figure of each of the pages."""
    said = SAID["findings"]
    parts = [f"# {said['title']}", said["purpose"]]
    for name in said["parts"]:
        title, _, conclusions, figure, *_ = (
            (pages / f"{name}.md").read_text("utf-8").split("\n\n")
        )
        there = os.path.relpath(pages, folder)
        parts += [
            f"#{title}",
            conclusions,
            figure.replace("](", f"]({there}/"),
            f"{said['more']} [{name}]({there}/{name}.md).",
        ]
    parts += ["## How to make them", *map(wrapped, said["end"])]
    return write(folder, {"index.md": "\n\n".join(parts) + "\n"})


def _wrapped(text: str, found: StudyContent) -> str:
    said = text.format(**found.numbers)
    return said if said.startswith(("|", "#")) else wrapped(said)


def wrapped(text: str, bullet: str = "") -> str:
    """Return a paragraph of Markdown, or an entry of a list, whose lines are short."""
    how: Any = {"break_long_words": False, "break_on_hyphens": False}
    return fill(bullet + text, WIDTH, subsequent_indent=" " * len(bullet), **how)


def wrapped_bullets(said: Iterable[str]) -> str:
    return "\n".join(wrapped(each, "- ") for each in said)


def runs_of(facts: Mapping[str, Any]) -> str:
    """Return the commits and the days of the runs that `facts_of` tells of."""
    commits, dates = facts["commits"], facts["dates"]
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}, {days}"


Series = Mapping[str, Sequence[Estimate | None]]
"""marks of one colour by what they are, one for each line of a figure; no mark where
the mean is NaN
"""


def intervals(
    names: Sequence[str],
    series: Series,
    shows: str,
    line: float = 0.0,
    most: float = 100.0,
) -> Callable[[Path], None]:
    """Return what draws a line for each name with a mark and its interval for each
    series; nothing is gained at `line`.
    """

    def draw(path: Path) -> None:
        with plt.rc_context(STYLE):
            drawn, axes = plt.subplots(
                figsize=(10.5, 0.34 * len(names) + 1.6), layout="constrained"
            )
            for i, (label, values) in enumerate(series.items()):
                for place, one in (
                    (place, one) for place, one in enumerate(values) if one is not None
                ):
                    y = place + 0.22 * (i - (len(series) - 1) / 2)
                    if one.low is not None and one.high is not None:
                        width = 0.8 if isnan(one.mean) else 1.5
                        axes.plot(
                            [min(one.low, most), min(one.high, most)],
                            [y, y],
                            color=COLOURS[i],
                            linewidth=width,
                        )
                    if not isnan(one.mean):
                        axes.plot(one.mean, y, "o", color=COLOURS[i], markersize=5)
                axes.plot([], [], "o", color=COLOURS[i], label=label)
            axes.axvline(line, color="black", linewidth=1, linestyle="--")
            axes.set_yticks(range(len(names)), names, fontsize=9)
            axes.invert_yaxis()
            axes.set_xlabel(shows)
            drawn.legend(
                *axes.get_legend_handles_labels(),
                loc="outside upper center",
                ncols=len(series),
            )
            save_figure(drawn, path)

    return draw


def compact(value: Any) -> str:
    """Return JSON without spaces, in which every number is finite."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def read_numbers(path: Path) -> dict[str, Any]:
    """Return what a study has written; nothing where there is no such file."""
    return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else {}


def of_one_sort(path: Path, quick: bool) -> dict[str, Any]:
    """`read_numbers`, refused where a trial run would be mixed with real results."""
    known = read_numbers(path)
    if known and bool(known.get("quick")) != quick:
        kinds = "real results, a trial run" if quick else "a trial run, real results"
        raise DataError(
            f"{path.parent}: holds {kinds} would be mixed with them; choose another"
            " --out or --pages"
        )
    return known


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown, whose cells may hold Markdown."""
    text = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
        for row in (header, *lines)
    ]
    return "\n".join([text[0], "|" + "---|" * len(header), *text[1:]])
