"""Writes what headgate closes into README.md, docs/start/which-policy.md and paper/paper.md, from docs/better/*.json.

python tools/readme.py
"""

import json
import re
from pathlib import Path

from headgate.analysis.formatting import interval
from headgate.analysis.intervals import Estimate
from headgate.analysis.markdown import table
from headgate.studies.better.page import at, seeds_said
from headgate.studies.better.studies import title

ROOT = Path(__file__).parent.parent
MAIN = ("mnist", "lenet", "cifar10", "imagenette")
MARKETS = ("ercot", "brent", "ercot-lenet", "brent-lenet")
BUDGET = {"mnist": 55.0}
"""of several, the paper's"""


def rows(name: str) -> list[dict[str, object]]:
    found = json.loads((ROOT / "docs" / "better" / f"{name}.json").read_text("utf-8"))["rows"]
    return [at(found, policy, BUDGET.get(name)) for policy in ("constant", "headgate", "oracle")]


def closed(name: str) -> Estimate:
    """What the last models close of the gap, in percent."""
    return Estimate(*rows(name)[1]["closed_last"]).scaled(100)


def front_table() -> str:
    lines = [
        [
            title(name).removesuffix(", six budgets"),
            seeds_said(own[1]),
            " / ".join(f"{100 * row['last'][0]:.2f}" for row in own),
            f"{interval(closed(name), 0)} %",
        ]
        for name in (*MAIN, *MARKETS)
        for own in [rows(name)]
    ]
    return table(["", "seeds", "last models: constant / headgate / oracle (%)", "closed"], lines)


def with_closed(text: str, between: str) -> str:
    """The text with today's `45 (42 … 48)` of the four main studies, in their order; line breaks stay where they are."""
    said = iter([re.findall(r"−?\d+", interval(closed(name), 0)) for name in MAIN])

    def put(old: re.Match[str]) -> str:
        return "{0}{3}({1}{4}{6}{5}{2})".format(*next(said), *old.groups(), between)

    return re.sub(rf"−?\d+(\s)\(−?\d+(\s){between}(\s)−?\d+\)", put, text)


def renewed() -> dict[Path, str]:
    """The three pages as they have to be."""
    readme, which, draft = (ROOT / "README.md", ROOT / "docs" / "start" / "which-policy.md", ROOT / "paper" / "paper.md")
    pages = {path: path.read_text("utf-8") for path in (readme, which, draft)}
    pages[readme] = re.sub(r"\| +\| seeds \|[^\n]*\n(\|[^\n]*\n)+", lambda _: front_table() + "\n", pages[readme])
    ends = sorted(round(closed(name).mean) for name in MAIN)
    pages[which] = re.sub(r"closes \d+ to \d+ %", f"closes {ends[0]} to {ends[-1]} %", pages[which])
    pages[which], pages[draft] = with_closed(pages[which], "…"), with_closed(pages[draft], "to")
    return pages


if __name__ == "__main__":
    for path, text in renewed().items():
        path.write_text(text, "utf-8")
