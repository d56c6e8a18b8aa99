"""What a call on accounts costs in SQLite and in PostgreSQL, with commits on disk.

    python -m benchmarks.databases [--clients 10 1000] [--rounds 100]

One caller, one process. Every client buys and reports in every round. Prints the calls
per second and the median and 99 % quantile in ms of `begin`, `settle` and `balance`,
and the processor time of this process for a round. Starts a PostgreSQL of its own with
the settings that it comes with, on the disk of temporary files, where the folder of
SQLite is, too.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from headgate import Books, System
from headgate.control.policies import Headgate
from tests.cluster import Cluster

CALLS = ("begin", "settle", "balance")
Row = dict[str, str | int | float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 1_000])
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    print(f"{'database':>10} {'clients':>8} {'call':>8} {'calls/s':>8} {'p50 ms':>8}"
          f" {'p99 ms':>8} {'cpu ms':>8}")  # fmt: skip
    with places() as both:
        for clients in given.clients:
            for database, place in both.items():
                for row in measured(f"{place}-{clients}", clients, given.rounds):
                    print(line({"database": database, **row}), flush=True)


@contextmanager
def places() -> Iterator[dict[str, str]]:
    """A place for accounts in each database."""
    with TemporaryDirectory() as folder, closing(Cluster(settings=())) as server:
        yield {
            "SQLite": f"{folder}/accounts",
            "PostgreSQL": f"{server.address}/accounts",
        }


def measured(place: str, clients: int, rounds: int) -> list[Row]:
    """Return a row for each call on accounts of so many clients."""
    system = System([8] * clients, budget=4.0 * clients, horizon=200_000)
    draw, times = np.random.default_rng(0), {call: list[float]() for call in CALLS}
    with Books(place, system, Headgate()) as books:
        before = time.process_time()
        for _ in range(rounds):
            price = float(draw.uniform(1, 10))
            bought = timed(times["begin"], lambda price=price: books.begin(price))
            reports = {each.client: each.samples for each in bought}
            timed(times["settle"], lambda reports=reports: books.settle(reports))
            timed(times["balance"], books.balance)
        processor = time.process_time() - before
    return [
        {
            "clients": clients,
            "call": call,
            "per_second": round(len(found) / sum(found), 1),
            "p50_ms": round(1e3 * float(np.quantile(found, 0.5)), 2),
            "p99_ms": round(1e3 * float(np.quantile(found, 0.99)), 2),
            "processor_ms": round(1e3 * processor / rounds, 2),
        }
        for call, found in times.items()
    ]


def timed(times: list[float], call: Callable[[], Any]) -> Any:
    """Call a function, and note the seconds."""
    start = time.perf_counter()
    found = call()
    times.append(time.perf_counter() - start)
    return found


def line(row: Row) -> str:
    return (
        f"{row['database']:>10} {row['clients']:>8} {row['call']:>8}"
        f" {row['per_second']:>8} {row['p50_ms']:>8} {row['p99_ms']:>8}"
        f" {row['processor_ms']:>8}"
    )


if __name__ == "__main__":
    main()
