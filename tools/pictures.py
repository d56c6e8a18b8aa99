"""Draws the pictures of pages that no study draws, into docs/figures.

python -m tools.pictures
"""

import tempfile
from pathlib import Path

import numpy as np

import headgate
from headgate.analysis.curves import COLOURS
from headgate.control.policies import Headgate
from studies.figures import STYLE, plt, save_figure

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
ROUNDS = 30
SIZE = (7.5, 3.2)


def draw_replay(path: Path) -> None:
    """What was paid so far, by those who bought and by headgate, above the price."""
    found = headgate.replay(ROOT / "examples" / "purchases.csv").frame
    rounds = range(1, found.height + 1)
    figure, (paid, price) = plt.subplots(
        2, 1, figsize=SIZE, height_ratios=(2, 1), sharex=True, layout="constrained"
    )
    for column, name, colour in (
        ("paid", "you", COLOURS[1]),
        ("as_many_paid", "headgate, as many samples", COLOURS[0]),
    ):
        paid.plot(rounds, found[column].cum_sum(), color=colour, label=name)
    paid.set_ylabel("paid so far")
    paid.legend()
    price.step(rounds, found["price"], where="mid", color="#555555")
    price.set(ylabel="price", xlabel="day with an offer")
    save_figure(figure, path)


def draw_books(path: Path) -> None:
    """The samples that headgate orders round by round, with the price."""
    prices = np.random.default_rng(1).uniform(1.0, 10.0, ROUNDS)
    system = headgate.System([8, 9, 10], budget=20.0, horizon=ROUNDS)
    bought = []
    with (
        tempfile.TemporaryDirectory() as folder,
        headgate.Books(Path(folder) / "accounts", system, Headgate()) as books,
    ):
        for price in prices:
            purchases = books.begin(price)
            bought.append(sum(each.samples for each in purchases))
            books.settle()
    rounds = range(1, ROUNDS + 1)
    figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
    axes.bar(rounds, bought, color=COLOURS[0], alpha=0.5, label="samples ordered")
    axes.step(rounds, prices, where="mid", color=COLOURS[1], label="price of a sample")
    axes.set_xlabel("round")
    axes.legend()
    save_figure(figure, path)


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        draw_replay(FIGURES / "replay.svg")
        draw_books(FIGURES / "books.svg")
