"""What accounts cost as rounds, clients and orders grow, with commits on disk, and what
the delay of a label queue costs.

    python benchmarks/books.py [--clients 10 100 1000 10000] [--rounds 5]
    python benchmarks/books.py --past 10x100 10x10000 100x4000 [--rounds 20]
    python benchmarks/books.py --delays 0 1 3 5 10 [--seeds 20]

The first form has every client report in every round. Times are medians of the
processor, beside those of the clock. With `--past`, so many rounds of so many clients
are played first, without waiting for the disk; then come the times of the next rounds,
of a balance, of opening, of the latest page of a statement and of a whole one, with the
memory that it takes. `--out` writes both, where both are asked for, as JSON. With
`--delays`, orders are delivered whole so many rounds later: 3 clients with 30 places,
20 a round, 100 rounds, uniform prices from 1 to 10, and 95 % intervals over the seeds.
The folder decides which disk is measured.
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
from typing import Any, TypeVar

import numpy as np
from machine import rounded, target, way, write

import headgate.books.durable
from headgate import Books, Delivery, System
from headgate.books.books import journal_of
from headgate.books.statement import WRITERS, Lines, OrderLine
from headgate.control.policies import Headgate

COLUMNS = ["clock_ms", "peak_mb"]
WANTED = {
    "begin, 1,000 clients": 15,
    "settle, 1,000 clients": 15,
    "begin, 10,000 clients": 150,
    "settle, 10,000 clients": 150,
    "begin after 10,000 rounds of 10 clients": 15,
    "settle after 10,000 rounds of 10 clients": 15,
    "open after 10,000 rounds of 10 clients": 1_000,
    "balance after 4,000 rounds of 100 clients": 5,
}
"""the most milliseconds of the processor"""
Result = TypeVar("Result")
Seconds = tuple[float, float]
"""seconds by the clock, and of the processor"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--past", nargs="+", default=[], metavar="CLIENTSxROUNDS")
    parser.add_argument("--delays", type=int, nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, help="JSON with the times")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the accounts are written; default: the folder of temporary files",
    )
    given = parser.parse_args()
    if given.delays:
        delays(given.delays, given.seeds, given.folder)
        return
    cases = []
    sizes = given.clients or ([] if given.past else [10, 100, 1_000, 10_000])
    if sizes:
        ways = [way for many in sizes for way in small(many, given)]
        title = "a round in which every client reports, with commits on disk"
        cases.append({"name": "clients", "title": title, "columns": COLUMNS})
        cases[-1]["ways"] = ways
    for many in given.past:
        clients, past = map(int, many.split("x"))
        found, ways = after(clients, past, given)
        title = f"{clients} clients after {past:,} rounds, {found:,} orders"
        cases.append({"name": many, "title": title, "columns": COLUMNS, "ways": ways})
    if given.out is not None:
        settings = {"rounds": given.rounds, "time": "of the processor"}
        write(given.out, "books", settings, cases, targets(cases))


def small(clients: int, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the times of new accounts of so many clients."""
    folder = Path(mkdtemp(dir=given.folder))
    draw = np.random.default_rng(0)
    try:
        with Books(folder, system_of(clients), Headgate()) as books:
            begins, settles = played(books, given.rounds, draw)
    finally:
        rmtree(folder)
    return [
        told(f"begin, {clients:,} clients", begins),
        told(f"settle, {clients:,} clients", settles),
    ]


def told(name: str, times: list[Seconds], **more: float) -> dict[str, Any]:
    """Return a way with its times of the processor, and say it."""
    clock, processor = zip(*times, strict=True)
    found = way(name, processor, clock_ms=rounded(1e3 * median(clock)), **more)
    print(
        f"{name:36} {found['median_ms']:9.3g} ms of the processor, most"
        f" {found['max_ms']:.3g}; by the clock {found['clock_ms']:.3g}",
        *(f"{key} {value:.3g}" for key, value in more.items()),
        flush=True,
    )
    return found


def targets(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is asked for, of those that were measured."""
    named = {each["way"]: each for case in cases for each in case["ways"]}
    return [
        target(
            f"{name}: milliseconds of the processor",
            most,
            named[name]["median_ms"],
            "ms",
            True,
        )
        for name, most in WANTED.items()
        if name in named
    ]


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


def after(
    clients: int,
    past: int,
    given: argparse.Namespace,
) -> tuple[int, list[dict[str, Any]]]:
    """Return the number of orders, and what calls take after so many rounds, which are
    played without waiting for the disk.
    """
    folder, draw = Path(mkdtemp(dir=given.folder)), np.random.default_rng(0)
    end = f"after {past:,} rounds of {clients} clients"
    try:
        headgate.books.durable.SYNCHRONOUS = "OFF"
        with Books(folder, system_of(clients), Headgate()) as books:
            played(books, past, draw)
        headgate.books.durable.SYNCHRONOUS = "FULL"
        make = partial(Books, folder, system_of(clients), Headgate())
        books, opening = timed(make)
        with books:
            begins, settles = played(books, given.rounds, draw)
            balances = [timed(books.balance)[1] for _ in begins]
            pages = [timed(partial(latest, books))[1] for _ in begins]
            whole, memory = read_whole(books)
            orders, _ = journal_of(books).tables.counts()
    finally:
        rmtree(folder)
    return orders, [
        told(f"begin {end}", begins),
        told(f"settle {end}", settles),
        told(f"balance {end}", balances),
        told(f"open {end}", [opening]),
        told(f"latest 100 orders {end}", pages),
        told(f"whole statement {end}", [whole], peak_mb=rounded(memory)),
    ]


def latest(books: Books) -> list[OrderLine]:
    """Return the latest page of the orders."""
    return Lines(journal_of(books))[-100:]


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


if __name__ == "__main__":
    main()
