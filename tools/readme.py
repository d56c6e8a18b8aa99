"""Writes the numbers of README.md and what `make run` prints there, the numbers of
docs/start/ten-minutes.md, paper/paper.md and two tables of paper/note.md, and draws
docs/figures/front.svg, from studies/results.

python -m tools.readme
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from headgate.analysis.formatting import interval
from headgate.analysis.intervals import Estimate
from headgate.analysis.savings import chosen_budget, savings
from studies.comparisons import at, rows_in, rows_of, title
from studies.figures import draw_comparison as draw
from studies.pages import read_numbers, table
from studies.savings import SAVINGS, PricedModel, places

ROOT = Path(__file__).parent.parent
RESULTS, PICTURE = (
    ROOT / "studies" / "results" / "better",
    ROOT / "docs" / "figures" / "front.svg",
)
MAIN = ("mnist", "lenet", "cifar10", "imagenette")
BUDGET = {"mnist": 55.0}
"""of several, the paper's"""
NOTED = {
    ROOT / "studies" / "findings" / "better.md": [
        "study",
        "closed, last",
        "hindsight closes, last",
        "of what hindsight closes, last",
    ],
    ROOT / "docs" / "studies" / "savings.md": [
        "prices",
        "data and model",
        "seeds",
        "of `constant`",
        "of `even`",
        "of `median`",
    ],
}
"""page of a study: the columns that paper/note.md has of its first table"""
MODELS = ("logistic", "lenet", "cifar10", "imagenette")
PRICES = {
    "uniform from 1 to 10": "jump between 1 and 10",
    "labelling tariff of 2025": "labelling tariff, a quarter at night",
    "electricity": "electricity by the hour",
    "crude oil": "crude oil by the day",
    "never move": "never change",
}
"""how prices are called in the studies, and in README"""


def closed(name: str) -> Estimate:
    """What the last models close of the gap to the oracle, in percent."""
    found = rows_in(read_numbers(RESULTS / f"{name}.json"))
    return Estimate(*at(found, "headgate", BUDGET.get(name))["closed_last"]).scaled(100)


def all_places() -> list[PricedModel]:
    return places(rows_of(SAVINGS, RESULTS))


def front_table(found: list[PricedModel]) -> str:
    """What headgate needs of constant's money: a row for each kind of price."""
    models = [title(f"savings-{name}") for name in MODELS]
    lines = []
    for begins, called in PRICES.items():
        shares = {
            title(place.study): share_of_constant(place)
            for place in found
            if place.called.startswith(begins)
        }
        lines.append([called, *(shares.get(model, "not run") for model in models)])
    return table(["prices", *models], lines)


def share_of_constant(place: PricedModel) -> str:
    """The share, if its whole interval is a saving."""
    share = place.beside["constant"].share
    if share is None or share.high is None or share.high >= 1:
        return "no saving shown"
    return interval(share.scaled(100), 0)


def front_line(found: list[PricedModel]) -> str:
    """What headgate needs where prices jump, for the four models."""
    paper = [place for place in found if place.prices.startswith("uniform")]
    shares = [place.beside["constant"].share for place in paper]
    percents = sorted(round(100 * share.mean) for share in shares if share is not None)
    return f"for {percents[0]} to {percents[-1]} % of the money"


def printed() -> str:
    """What `make run` prints before the path of the report."""
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run(
            [sys.executable, "-m", "headgate", "compare", "digits", "--quiet"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    lines = told.partition("\nlast: ")[0].splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip())


def with_closed(text: str, between: str) -> str:
    """The text with today's `45 (42 … 48)` of the four main studies, in their order;
    line breaks stay where they are.
    """
    said = iter([re.findall(r"−?\d+", interval(closed(name), 0)) for name in MAIN])

    def put(old: re.Match[str]) -> str:
        return "{0}{3}({1}{4}{6}{5}{2})".format(*next(said), *old.groups(), between)

    return re.sub(rf"−?\d+(\s)\(−?\d+(\s){between}(\s)−?\d+\)", put, text)


def with_tables(note: str) -> str:
    """The note with the columns of today's pages."""
    for page, names in NOTED.items():
        rows = re.findall(
            r"^\|(.*)\|$",
            page.read_text("utf-8"),
            flags=re.MULTILINE,
        )
        head, _, *cells = [[cell.strip() for cell in row.split("|")] for row in rows]
        renewed = (
            table(names, [[row[head.index(name)] for name in names] for row in cells])
            + "\n"
        )
        note = re.sub(
            re.escape(renewed.split("\n")[0]) + r"\n(\|[^\n]*\n)+",
            lambda _, new=renewed: new,
            note,
        )
    return note


def renewed() -> dict[Path, str]:
    """The pages as they have to be."""
    readme = ROOT / "README.md"
    draft, note = ROOT / "paper" / "paper.md", ROOT / "paper" / "note.md"
    pages = {path: path.read_text("utf-8") for path in (readme, draft, note)}
    found = all_places()
    text = re.sub(r"for \d+ to \d+ % of the money", front_line(found), pages[readme])
    text = re.sub(
        r"```text\n.*?```",
        lambda _: f"```text\n{printed()}\n```",
        text,
        flags=re.DOTALL,
    )
    pages[readme] = re.sub(
        r"\| prices \|[^\n]*\n(\|[^\n]*\n)+", lambda _: front_table(found) + "\n", text
    )
    which = ROOT / "docs" / "start" / "ten-minutes.md"
    savings_page = (ROOT / "docs" / "studies" / "savings.md").read_text("utf-8")
    (ends,) = re.findall(r"It needs (\d+) % to (\d+) %", " ".join(savings_page.split()))
    said = f"needs {ends[0]} to {ends[1]} % of the money"
    pages[which] = re.sub(
        r"needs \d+ to \d+ % of the money", said, which.read_text("utf-8")
    )
    pages[note] = with_tables(pages[note])
    pages[draft] = with_closed(pages[draft], "to")
    return pages


def draw_front(path: Path = PICTURE) -> None:
    """MNIST, logistic regression, under the paper's prices: what is saved against
    constant admission.
    """
    rows = next(
        place.rows for place in all_places() if place.prices.startswith("uniform")
    )
    saved = chosen_budget(savings(rows), 55.0)
    draw(
        rows,
        saved,
        path,
        title=("MNIST, logistic regression, 40 seeds: last tenth of the rounds"),
    )


if __name__ == "__main__":
    for page, said in renewed().items():
        page.write_text(said, "utf-8")
    draw_front()
