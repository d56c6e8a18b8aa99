"""How the figures of the tutorials are drawn: lines labelled where they end, readable
when small, on light and on dark.
"""

import atexit
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

GREY = "#7c8794"
COLOURS = {
    "headgate": "#0d9488",
    "constant": "#d97706",
    "acdpp": "#db2777",
    "oracle": GREY,
    "mine": "#6366f1",
    "below average": "#d97706",
}
STYLE = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.titlecolor": GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "figure.dpi": 160,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.transparent": True,
    "font.size": 11,
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


def panels(*titles, width=9.0, height=3.2):
    """A figure with a panel for each title."""
    plt.rcParams.update(STYLE)
    figure, axes = plt.subplots(
        1, len(titles), figsize=(width, height), layout="constrained", squeeze=False
    )
    for own, title in zip(axes.flat, titles, strict=True):
        own.set_title(title, fontsize=11)
    return figure, list(axes.flat)


def line(axes, x, y, name, **how):
    """A line with its name at its end, in its colour."""
    colour = how.pop("color", COLOURS.get(name, "#6366f1"))
    axes.plot(
        x,
        y,
        color=colour,
        linewidth=2.2 if name in ("headgate", "mine") else 1.4,
        **how,
    )
    end = {
        "xytext": (4, 0),
        "textcoords": "offset points",
        "va": "center",
        "fontsize": 10,
        "annotation_clip": False,
    }
    axes.annotate(name, (x[-1], y[-1]), color=colour, gid="end", **end)


def spread(*panels, gap=13):
    """Names at the ends of lines that lie together are moved apart, by points."""
    for axes in panels:
        axes.figure.canvas.draw()  # only then are places known
        points = 72 / axes.figure.dpi
        names = sorted(
            (own for own in axes.texts if own.get_gid() == "end"),
            key=lambda own: own.xy[1],
        )
        places = [points * axes.transData.transform(own.xy)[1] for own in names]
        moved = list(places)
        for _ in range(100):  # neighbours push each other
            for i in range(1, len(moved)):
                short = gap - (moved[i] - moved[i - 1])
                if short > 0:
                    moved[i - 1], moved[i] = (
                        moved[i - 1] - short / 2,
                        moved[i] + short / 2,
                    )
        for own, place, new in zip(names, places, moved, strict=True):
            own.set_position((4, new - place))


def level(axes, y, text):
    """A dashed line with its name above its left end."""
    axes.axhline(y, xmax=0.79, color=GREY, linewidth=1, linestyle="--")
    axes.annotate(
        text, (0.02, y), xycoords=("axes fraction", "data"), va="bottom", fontsize=9
    )


@atexit.register
def _keep():
    """What a tutorial drew lies beside it where it was run as a program; the site takes
    figures as they come.
    """
    program = Path(sys.argv[0]).resolve()
    if program.parent != Path(__file__).resolve().parent:
        return
    for number in plt.get_fignums():
        kept = program.with_name(f"{program.stem}-{number}.png")
        plt.figure(number).savefig(kept)
        print("figure:", kept.name)
