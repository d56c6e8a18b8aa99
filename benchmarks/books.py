"""What accounts cost as rounds, clients and orders grow, with commits on disk, and what
the delay of a label queue costs.

    python benchmarks/books.py [--clients 10 100 1000 10000] [--rounds 5]
    python benchmarks/books.py --past 100 1000 10000 [--clients 10]
    python benchmarks/books.py --delays 0 1 3 5 10 [--seeds 20]

The first form has every client report in every round. Times are medians, and the most
by the clock in parentheses; behind the stroke stands the time of the processor. With
`--past`, so many rounds are played first, without waiting for the disk; then come the
times of the next rounds, of a balance, of opening, of the latest page of a statement
and of a whole one, with the memory that this one takes. With `--delays`, orders are
delivered whole so many rounds later: 3 clients with 30 places, 20 a round, 100 rounds,
uniform prices from 1 to 10, and 95 % intervals over the seeds. The folder decides which
disk is measured.
"""

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from typing import TypeVar

import numpy as np

import headgate.books.durable
from headgate import Books, Delivery, System
from headgate.books.statement import WRITERS, Lines, OrderLine
from headgate.control.policies import Headgate

Result = TypeVar("Result")
Seconds = tuple[float, float]
"""seconds by the clock, and of the processor"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--clients", type=int, nargs="+", default=[10, 100, 1_000, 10_000]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--past", type=int, nargs="+", default=[])
    parser.add_argument("--delays", type=int, nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the accounts are written; default: the folder of temporary files",
    )
    given = parser.parse_args()
    if given.delays:
        delays(given.delays, given.seeds, given.folder)
    elif given.past:
        growth(given.past, given.clients[0], given.rounds, given.folder)
    else:
        print(f"{'clients':>8} {'begin ms':>24} {'settle ms':>24}")
        for clients in given.clients:
            print(line(clients, given.rounds, given.folder), flush=True)


def line(clients: int, rounds: int, place: Path | None) -> str:
    """Return the line of the table for accounts of so many clients."""
    folder = Path(mkdtemp(dir=place))
    draw = np.random.default_rng(0)
    try:
        with Books(folder, system_of(clients), Headgate()) as books:
            begins, settles = played(books, rounds, draw)
    finally:
        rmtree(folder)
    return f"{clients:8} {_shown(begins):>24} {_shown(settles):>24}"


def system_of(clients: int) -> System:
    return System([8] * clients, budget=4.0 * clients, horizon=200_000)


def played(
    books: Books,
    rounds: int,
    draw: np.random.Generator,
) -> tuple[list[Seconds], list[Seconds]]:
    """Play rounds in which every client reports; return the seconds of both calls."""
    begins, settles = list[Seconds](), list[Seconds]()
    for _ in range(rounds):
        price = float(draw.uniform(1, 10))
        purchases, seconds = timed(partial(books.begin, price))
        begins.append(seconds)
        reports = {each.client: each.samples for each in purchases}
        _, seconds = timed(partial(books.settle, reports))
        settles.append(seconds)
    return begins, settles


def timed(call: Callable[[], Result]) -> tuple[Result, Seconds]:
    """Return the result of a call, and the seconds that it took."""
    clock, processor = time.perf_counter(), time.process_time()
    result = call()
    return result, (time.perf_counter() - clock, time.process_time() - processor)


def growth(
    past: list[int],
    clients: int,
    rounds: int,
    place: Path | None,
) -> None:
    """Print what the next rounds cost after so many past ones."""
    print(
        f"{'rounds':>8} {'orders':>8} {'begin ms':>24} {'settle ms':>24}"
        f" {'balance ms':>24} {'open ms':>24} {'page ms':>24} {'statement ms':>26}"
        f" {'MB':>6} {'file MB':>8}"
    )
    folder, draw = Path(mkdtemp(dir=place)), np.random.default_rng(0)
    try:
        for wanted in sorted(past):
            headgate.books.durable.SYNCHRONOUS = "OFF"
            with Books(folder, system_of(clients), Headgate()) as books:
                played(books, wanted - books.ledger.t, draw)
            headgate.books.durable.SYNCHRONOUS = "FULL"
            system = system_of(clients)
            books, opening = timed(partial(Books, folder, system, Headgate()))
            with books:
                begins, settles = played(books, rounds, draw)
                balances = [timed(books.balance)[1] for _ in range(rounds)]
                orders, _ = books.journal.tables.counts()
                pages = [timed(partial(latest, books))[1] for _ in range(rounds)]
                whole, memory = read_whole(books)
            size = (folder / "ledger.sqlite").stat().st_size / 1e6
            times = (begins, settles, balances, [opening], pages)
            texts = " ".join(f"{_shown(each):>24}" for each in times)
            print(
                f"{wanted:8} {orders:8} {texts} {_shown([whole]):>26} {memory:6.1f}"
                f" {size:8.1f}",
                flush=True,
            )
    finally:
        rmtree(folder)


def latest(books: Books) -> list[OrderLine]:
    """Return the latest page of the orders."""
    return Lines(books.journal)[-100:]


def read_whole(books: Books) -> tuple[Seconds, float]:
    """Return the seconds of a whole statement that is written as CSV, and the memory in
    MB that another one takes.
    """

    def write() -> None:
        with Path(os.devnull).open("wb") as file:
            WRITERS["csv"](books.statement(), file)

    _, seconds = timed(write)
    tracemalloc.start()
    write()
    _, memory = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds, memory / 1e6


def delays(
    rounds_late: list[int],
    seeds: int,
    place: Path | None,
) -> None:
    """Print what a delay costs, in labels and in money."""
    headgate.books.durable.SYNCHRONOUS = "OFF"
    found = {
        late: np.array([bought(late, seed, place) for seed in range(seeds)])
        for late in sorted({0, *rounds_late})
    }
    print(f"{'delay':>6} {'labels':>14} {'% of delay 0':>14} {'% dearer':>14}")
    for late in rounds_late:
        labels, paid = found[late].T
        most, least = found[0].T
        shares, dearer = 100 * labels / most, 100 * (paid / least - 1)
        print(
            f"{late:6} {_interval(labels):>14} {_interval(shares):>14}"
            f" {_interval(dearer):>14}"
        )


def bought(
    late: int,
    seed: int,
    place: Path | None,
) -> tuple[float, float]:
    """Return the labels that were delivered, and what was paid for one."""
    folder, draw = Path(mkdtemp(dir=place)), np.random.default_rng(seed)
    due: dict[int, dict[int, list[Delivery]]] = {}
    try:
        with Books(folder, System([30] * 3, 20.0, 100), Headgate()) as books:
            for t in range(1, 101):
                for each in books.begin(float(draw.uniform(1, 10))):
                    came = Delivery(each.samples, round=t)
                    if each.samples:
                        own = due.setdefault(t + late, {})
                        own.setdefault(int(each.client), []).append(came)
                books.settle(due.pop(t, {}))
            labels = float(books.ledger.ever[0])
            return labels, float(books.balance().spent) / labels
    finally:
        rmtree(folder)


def _interval(values: np.ndarray) -> str:
    half = 1.96 * values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():.1f} \u00b1 {half:.1f}"


def _shown(seconds: list[Seconds]) -> str:
    clock, processor = zip(*seconds, strict=True)
    times = (1e3 * each for each in (median(clock), max(clock), median(processor)))
    return "{:.1f} ({:.1f}) / {:.1f}".format(*times)


if __name__ == "__main__":
    main()
