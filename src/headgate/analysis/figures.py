"""The figure of a comparison as a plotly object, for notebooks and files."""

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headgate.analysis.curves import COLOURS

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

DASHES = ("solid", "dash", "dot", "dashdot")
"""the dashes of lines that have the same colour"""


def money_figure(panel: dict[str, Any], names: Sequence[str]) -> "Figure":
    """Return accuracy against the money really spent, with 80 % intervals.

    Parameters
    ----------
    panel : dict
        The numbers, from `curves.money_panel`.
    names : sequence of str
        The policies that the numbers of the curves stand for.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, which displays itself in a notebook.
    """
    from plotly.graph_objects import Figure, Scatter  # the import takes a second

    figure = Figure()
    for curve in panel["curves"]:
        turn, place = divmod(curve["policy"], len(COLOURS))
        trace = Scatter(
            name=html.escape(names[curve["policy"]]),
            x=curve["x"],
            y=curve["mean"],
            error_y={"array": curve["half"]},
            line={"color": COLOURS[place], "dash": DASHES[turn % len(DASHES)]},
        )
        figure.add_trace(trace)
    for level in panel["levels"]:
        text = html.escape(level["text"])
        figure.add_hline(
            level["value"],
            line_dash="dash",
            annotation_text=text,
        )
    if panel["gap"] is not None:
        figure.add_annotation(_gap_arrow(panel["gap"]))

    figure.update_layout(
        title=panel["title"],
        template="plotly_white",
    )
    figure.update_xaxes(
        title=html.escape(panel["x"]),
        type="log",
    )
    figure.update_yaxes(title=panel["y"])
    return figure


def _gap_arrow(gap: dict[str, Any]) -> dict[str, Any]:
    """Return the arrow from the rival's money to ours at the same accuracy.

    Positions on a logarithmic axis are the logarithms of its values.
    """
    return {
        "x": math.log10(gap["money"]),
        "ax": math.log10(gap["beside"]),
        "axref": "x",
        "y": gap["accuracy"],
        "ay": gap["accuracy"],
        "ayref": "y",
        "text": gap["text"],
        "arrowside": "end+start",
        "yshift": -12,
    }
