"""What a round of accounts costs as the clients grow from ten to ten thousand, with
commits on disk.

    python benchmarks/books.py [--clients 10 100 1000 10000] [--rounds 5] [--folder
    FOLDER]

Every client reports in every round. Times are the median and the most of `begin` and of
`settle` by the clock; the last column is the time of the processor that both took for a
client, which shows whether the cost grows faster than the clients. The folder decides
which disk is measured.
"""

import argparse
import time
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp

import numpy as np

from headgate import Books, System
from headgate.control.policies import Headgate


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--clients", type=int, nargs="+", default=[10, 100, 1_000, 10_000]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the accounts are written; default: the folder of temporary files",
    )
    given = parser.parse_args()
    print(f"{'clients':>8} {'begin ms':>16} {'settle ms':>16} {'us a client':>12}")
    for clients in given.clients:
        print(line(clients, given.rounds, given.folder), flush=True)


def line(clients: int, rounds: int, place: Path | None) -> str:
    """Return the line of the table for accounts of so many clients."""
    folder = Path(mkdtemp(dir=place))
    draw = np.random.default_rng(0)
    begins, settles = [], []
    system = System([8] * clients, budget=4.0 * clients, horizon=1_000)
    try:
        with Books(folder, system, Headgate()) as books:
            processor = time.process_time()
            for _ in range(rounds):
                start = time.perf_counter()
                purchases = books.begin(float(draw.uniform(1, 10)))
                begun = time.perf_counter()
                books.settle({each.client: each.samples for each in purchases})
                begins.append(begun - start)
                settles.append(time.perf_counter() - begun)
            processor = time.process_time() - processor
    finally:
        rmtree(folder)
    share = 1e6 * processor / rounds / clients
    return f"{clients:8} {_shown(begins):>16} {_shown(settles):>16} {share:12.0f}"


def _shown(seconds: list[float]) -> str:
    return f"{1e3 * median(seconds):.1f} ({1e3 * max(seconds):.1f})"


if __name__ == "__main__":
    main()
