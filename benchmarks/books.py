"""What accounts cost as rounds, clients and orders grow, with commits on disk, and what
the delay of a label queue costs.

    python benchmarks/books.py [--clients 10 100 1000 10000] [--rounds 5]
    python benchmarks/books.py --past 100 1000 10000 [--clients 10]
    python benchmarks/books.py --delays 0 1 3 5 10 [--seeds 20]

The first form has every client report in every round. Times are the median and the most
of `begin` and of `settle` by the clock; the last column is the time of the processor
that both took for a client. With `--past`, so many rounds are played first, without
waiting for the disk; then come the times of the next rounds, of a balance, and of
opening. With `--delays`, orders are delivered whole so many rounds later: 3 clients
with 30 places, 20 a round, 100 rounds, uniform prices from 1 to 10, and 95 % intervals
over the seeds. The folder decides which disk is measured.
"""

import argparse
import time
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp

import numpy as np

import headgate.books.durable
from headgate import Books, Delivery, System
from headgate.control.policies import Headgate


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
        print(f"{'clients':>8} {'begin ms':>16} {'settle ms':>16} {'us a client':>12}")
        for clients in given.clients:
            print(line(clients, given.rounds, given.folder), flush=True)


def line(clients: int, rounds: int, place: Path | None) -> str:
    """Return the line of the table for accounts of so many clients."""
    folder = Path(mkdtemp(dir=place))
    draw = np.random.default_rng(0)
    try:
        with Books(folder, system_of(clients), Headgate()) as books:
            processor = time.process_time()
            begins, settles = played(books, rounds, draw)
            processor = time.process_time() - processor
    finally:
        rmtree(folder)
    share = 1e6 * processor / rounds / clients
    return f"{clients:8} {_shown(begins):>16} {_shown(settles):>16} {share:12.0f}"


def system_of(clients: int) -> System:
    return System([8] * clients, budget=4.0 * clients, horizon=200_000)


def played(
    books: Books,
    rounds: int,
    draw: np.random.Generator,
) -> tuple[list[float], list[float]]:
    """Play rounds in which every client reports; return the seconds of both calls."""
    begins, settles = list[float](), list[float]()
    for _ in range(rounds):
        start = time.perf_counter()
        purchases = books.begin(float(draw.uniform(1, 10)))
        begun = time.perf_counter()
        books.settle({each.client: each.samples for each in purchases})
        begins.append(begun - start)
        settles.append(time.perf_counter() - begun)
    return begins, settles


def growth(
    past: list[int],
    clients: int,
    rounds: int,
    place: Path | None,
) -> None:
    """Print what the next rounds cost after so many past ones."""
    print(
        f"{'rounds':>8} {'orders':>8} {'begin ms':>16} {'settle ms':>16}"
        f" {'balance ms':>16} {'open s':>7} {'MB':>6}"
    )
    folder, draw = Path(mkdtemp(dir=place)), np.random.default_rng(0)
    try:
        for wanted in sorted(past):
            headgate.books.durable.SYNCHRONOUS = "OFF"
            with Books(folder, system_of(clients), Headgate()) as books:
                played(books, wanted - books.ledger.t, draw)
            headgate.books.durable.SYNCHRONOUS = "FULL"
            start = time.perf_counter()
            with Books(folder, system_of(clients), Headgate()) as books:
                opening = time.perf_counter() - start
                begins, settles = played(books, rounds, draw)
                balances = list[float]()
                for _ in range(rounds):
                    start = time.perf_counter()
                    books.balance()
                    balances.append(time.perf_counter() - start)
                orders, _ = books._journal.tables.counts()
            size = (folder / "ledger.sqlite").stat().st_size / 1e6
            print(
                f"{wanted:8} {orders:8} {_shown(begins):>16} {_shown(settles):>16}"
                f" {_shown(balances):>16} {opening:7.2f} {size:6.1f}",
                flush=True,
            )
    finally:
        rmtree(folder)


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


def _shown(seconds: list[float]) -> str:
    return f"{1e3 * median(seconds):.1f} ({1e3 * max(seconds):.1f})"


if __name__ == "__main__":
    main()
