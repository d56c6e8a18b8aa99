"""Writes the numbers of README.md, docs/start/which-policy.md, paper/paper.md and two
tables of paper/note.md, and draws docs/figures/front.svg, from studies/results.

python -m tools.readme
"""

import re
from pathlib import Path
from textwrap import fill

from headgate.analysis.formatting import interval, percent
from headgate.analysis.intervals import Estimate
from headgate.analysis.savings import amount, chosen_budget, needed, savings
from studies.comparisons import at, rows_in, rows_of, title
from studies.figures import draw_comparison as draw
from studies.pages import read_numbers, table
from studies.savings import RIVALS, SAVINGS, PricedModel, places, share

ROOT = Path(__file__).parent.parent
RESULTS, PICTURE = (
    ROOT / "studies" / "results" / "better",
    ROOT / "docs" / "figures" / "front.svg",
)
MAIN = ("mnist", "lenet", "cifar10", "imagenette")
BUDGET = {"mnist": 55.0}
"""of several, the paper's"""
NOTED = {
    "better": [
        "study",
        "closed, last",
        "hindsight closes, last",
        "of what hindsight closes, last",
    ],
    "savings": [
        "prices",
        "data and model",
        "seeds",
        "of `constant`",
        "of `even`",
        "of `median`",
    ],
}
"""page of docs/studies: the columns that paper/note.md has of its first table"""
MADE_UP = ("uniform", "constant")
"""of the prices that nobody asked, those in the table of README"""


def closed(name: str) -> Estimate:
    """What the last models close of the gap to the oracle, in percent."""
    found = rows_in(read_numbers(RESULTS / f"{name}.json"))
    return Estimate(*at(found, "headgate", BUDGET.get(name))["closed_last"]).scaled(100)


def all_places() -> list[PricedModel]:
    return places(rows_of(SAVINGS, RESULTS))


def front_table(found: list[PricedModel]) -> str:
    lines = []
    for place in found:
        first = place.beside["constant"]
        reached = (
            f"{percent(first.accuracy, 1)} for {amount(first.unit, first.rival_money)}"
        )
        lines.append(
            [
                place.called,
                title(place.study),
                reached,
                *(share(place.beside[each]) for each in RIVALS),
            ]
        )
    return table(
        [
            "prices",
            "data and model",
            "constant",
            *(f"of {rival}'s money" for rival in RIVALS),
        ],
        lines,
    )


def front_sentence(found: list[PricedModel]) -> str:
    """What headgate needs where prices jump: the four models under the paper's
    prices.
    """
    paper = [place for place in found if place.prices.startswith("uniform")]
    first, *said = [
        (
            needed(place.beside["constant"])[1],
            f"with {title(place.study).replace(', ', ' and ')}",
        )
        for place in paper
    ]
    shares = [f"{first[0]} of the money {first[1]}", *(" ".join(each) for each in said)]
    text = (
        "**Under the paper's prices, which jump between 1 and 10, it reaches the"
        f" accuracy of constant admission for {', '.join(shares[:-1])} and"
        f" {shares[-1]}** (last tenth of the rounds, 95 % intervals over seeds that"
        " nobody had looked at; everybody held to the same limits)."
    )
    return fill(text, 118, break_long_words=False, break_on_hyphens=False)


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
            (ROOT / "docs" / "studies" / f"{page}.md").read_text("utf-8"),
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
    """The four pages as they have to be."""
    readme, which = ROOT / "README.md", ROOT / "docs" / "start" / "which-policy.md"
    draft, note = ROOT / "paper" / "paper.md", ROOT / "paper" / "note.md"
    pages = {path: path.read_text("utf-8") for path in (readme, which, draft, note)}
    found = [place for place in all_places() if _asked(place)]
    text = re.sub(
        r"\*\*Under the paper's prices.*?limits\)\.",
        lambda _: front_sentence(found),
        pages[readme],
        flags=re.DOTALL,
    )
    pages[readme] = re.sub(
        r"\| prices \|[^\n]*\n(\|[^\n]*\n)+", lambda _: front_table(found) + "\n", text
    )
    ends = sorted(round(closed(name).mean) for name in MAIN)
    pages[which] = re.sub(
        r"closes \d+ to \d+ %", f"closes {ends[0]} to {ends[-1]} %", pages[which]
    )
    pages[note] = with_tables(pages[note])
    pages[which], pages[draft] = (
        with_closed(pages[which], "…"),
        with_closed(pages[draft], "to"),
    )
    return pages


def _asked(place: PricedModel) -> bool:
    return place.study not in (
        "savings-logistic",
        "savings-lenet",
    ) or place.prices.startswith(MADE_UP)


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
        title=(
            "MNIST, logistic regression, 40 seeds: accuracy in the last tenth of the"
            " rounds"
        ),
    )


if __name__ == "__main__":
    for page, said in renewed().items():
        page.write_text(said, "utf-8")
    draw_front()
