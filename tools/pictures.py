"""Draws docs/figures/front.svg, the picture of README and site, from docs/better/mnist.json.

python tools/pictures.py
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "tutorials"))

from pictures import COLOURS, GREY, STYLE, plt  # noqa: E402  # as the tutorials draw

ROWS, PICTURE = ROOT / "docs" / "better" / "mnist.json", ROOT / "docs" / "figures" / "front.svg"
SAID = {
    "headgate": "headgate:\nkeeps money and memory",
    "constant": "constant admission:\nhalf of its runs overspend",
    "acdpp": "acdpp (the paper):\noverspends, overfills",
}
"""the lines, and what stands at their ends"""


def draw(rows: list[dict[str, Any]]) -> Any:
    """Accuracy against the money really spent. Full marks kept both limits in every run, hollow ones did not."""
    plt.rcParams.update({**STYLE, "svg.hashsalt": "headgate", "font.size": 14})  # read on telephones, too
    figure, axes = plt.subplots(figsize=(7.6, 4.6), layout="constrained")
    for name, said in SAID.items():
        own = sorted((row for row in rows if row["policy"] == name), key=lambda row: row["spend"])
        spend, last = [row["spend"] for row in own], [[100 * each for each in row["last"]] for row in own]
        middle = [each[0] for each in last]
        axes.fill_between(
            spend, [each[1] for each in last], [each[2] for each in last], color=COLOURS[name], alpha=0.2, linewidth=0
        )
        axes.plot(spend, middle, color=COLOURS[name], linewidth=3 if name == "headgate" else 1.6)
        for x, y, row in zip(spend, middle, own, strict=True):
            fill = COLOURS[name] if row["kept_limits"] else "white"
            axes.plot(x, y, "o", markersize=7, markeredgecolor=COLOURS[name], markerfacecolor=fill, markeredgewidth=1.6)
        above = {"headgate": 10, "acdpp": -10, "constant": -54}[name]
        axes.annotate(said, (spend[-1], middle[-1]), (10, above), textcoords="offset points", color=COLOURS[name], va="center")
    top = next(row for row in rows if row["policy"] == "oracle")
    axes.axhline(100 * top["last"][0], color=GREY, linestyle="--", linewidth=1)
    text = f"everything new in every round, at any price: {top['spend']:.0f} a round"
    at = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "bottom", "fontsize": 13}
    axes.annotate(text, (0, 100 * top["last"][0]), (6, 4), **at)
    axes.set(xlim=(15, 182), xticks=[20, 40, 60, 80, 100], ylim=(77.5, 89))
    axes.set_xlabel("money really spent a round", loc="left")
    axes.set_title("Test accuracy of the last models (%), MNIST, 40 seeds", fontsize=14)
    return figure


if __name__ == "__main__":
    draw(json.loads(ROWS.read_text("utf-8"))["rows"]).savefig(PICTURE, metadata={"Date": None}, transparent=True)
