"""How the figures of the tutorials are drawn: lines labelled where they end, readable when small, on light and on dark."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

GREY = "#7c8794"
COLOURS = {"headgate": "#0d9488", "constant": "#d97706", "acdpp": "#db2777", "oracle": GREY, "mine": "#6366f1"}
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
    figure, axes = plt.subplots(1, len(titles), figsize=(width, height), layout="constrained", squeeze=False)
    for own, title in zip(axes.flat, titles, strict=True):
        own.set_title(title, fontsize=11)
    return figure, list(axes.flat)


def line(axes, x, y, name, **how):
    """A line with its name at its end, in its colour."""
    colour = how.pop("color", COLOURS.get(name, "#6366f1"))
    axes.plot(x, y, color=colour, linewidth=2.2 if name in ("headgate", "mine") else 1.4, **how)
    axes.annotate(f" {name}", (x[-1], y[-1]), color=colour, va="center", fontsize=10, annotation_clip=False)


def level(axes, y, text):
    """A dashed line with its name above its left end."""
    axes.axhline(y, color=GREY, linewidth=1, linestyle="--")
    axes.annotate(text, (0.02, y), xycoords=("axes fraction", "data"), va="bottom", fontsize=9)
