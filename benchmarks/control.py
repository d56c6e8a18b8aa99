"""What control costs: forty runs over ten thousand rounds, and one round of a million
clients.

    python benchmarks/control.py [--rounds 10000] [--clients 1000 10000 100000 1000000]
    [--out FILE]

Times are split into decide (without apportioning), apportion and post. Sizes grow by
tens, so that the last table shows whether a round stays linear in the number of
clients. There headgate has money for some of the places in every round.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from machine import RESULTS, peak_memory_mib, rounded, say, way, write

from headgate.control import AdmissionPolicy, Controller, System, controller
from headgate.control.apportion import apportion
from headgate.control.policies import Acdpp, Constant, Dpp, Headgate, Oracle
from headgate.control.prices import Uniform
from headgate.experiment import load

PARTS = ("decide", "apportion", "post")


class Stopwatch:
    """Adds up the time spent in a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any) -> Any:
        start = time.perf_counter()
        try:
            return self.function(*args)
        finally:
            self.seconds += time.perf_counter() - start


def timed(
    system: System, policy: AdmissionPolicy, runs: int, rounds: int
) -> dict[str, list[float]]:
    """Seconds per round, split into parts."""
    watch = Stopwatch(apportion)
    setattr(controller, "apportion", watch)  # noqa: B010
    server = Controller(system, policy, runs)
    prices = Uniform(1.0, 10.0).path(np.arange(runs), 1, rounds + 1)
    parts: dict[str, list[float]] = {part: [] for part in PARTS}
    ledger = server.open()
    for t in range(rounds):
        price, watch.seconds = prices[:, t].copy(), 0.0
        start = time.perf_counter()
        orders = server.decide(ledger, price)
        decided = time.perf_counter()
        ledger = server.post(ledger, orders)
        posted = time.perf_counter()
        parts["decide"].append(decided - start - watch.seconds)
        parts["apportion"].append(watch.seconds)
        parts["post"].append(posted - decided)
    return parts


def entry(name: str, parts: dict[str, list[float]]) -> dict[str, Any]:
    """A policy, and what a round and its parts take."""
    whole = [sum(values) for values in zip(*parts.values(), strict=True)]
    return way(
        name,
        whole,
        **{
            f"{part}_ms": rounded(1e3 * median(values))
            for part, values in parts.items()
        },
    )


def show(title: str, entries: list[dict[str, Any]], more: str | None = None) -> None:
    keys = [
        key
        for key in (
            "median_ms",
            "min_ms",
            "max_ms",
            *(f"{part}_ms" for part in PARTS),
            more,
        )
        if key
    ]
    print(f"\n{title}")
    print(" " * 32 + "".join(f"{key:>16}" for key in keys))
    for each in entries:
        print(
            f"{each['way']:32}" + "".join(f"{each[key]:16.4g}" for key in keys),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument(
        "--clients", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000]
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=RESULTS / "control.json",
        help="where to leave the results as JSON",
    )
    given = parser.parse_args()

    mnist = load("mnist").system
    system = System(mnist.buffer, mnist.budget, given.rounds)
    members: dict[str, AdmissionPolicy] = {
        "constant": Constant(rate=10, K=10),
        "oracle": Oracle(),
        "acdpp": Acdpp(rate=10, K=10),
        "acdpp, capacity": Acdpp(rate=10, K=10, capacity="buffer"),
        "dpp": Dpp(K=10),
    }
    small = []
    for name, policy in members.items():
        say(f"40 runs: {name}")
        small.append(entry(name, timed(system, policy, 40, given.rounds)))
    title = f"control of a round, 40 runs of 10 clients, over {given.rounds} rounds"
    show(title, small)

    large = []
    for clients in given.clients:
        big = System(np.resize(mnist.buffer, clients), mnist.budget * clients / 10, 100)
        rich = System(big.buffer, 10.0 * big.all_places, 100)
        for name, (own, policy) in {
            "acdpp, burst buffer": (
                big,
                Acdpp(rate=float(clients), K=10, burst="buffer"),
            ),
            "acdpp, capacity": (
                big,
                Acdpp(rate=float(clients), K=10, capacity="buffer"),
            ),
            "constant": (big, Constant(rate=clients * 0.93, K=10)),
            "headgate, two fifths of the places renewed": (
                rich,
                Headgate(turnover=0.4),
            ),
        }.items():
            say(f"{clients} clients: {name}")
            last = {
                part: values[-10:] for part, values in timed(own, policy, 1, 25).items()
            }
            row = entry(f"{name}, {clients:,} clients", last)
            large.append(
                {**row, "ns_a_client": rounded(1e6 * row["median_ms"] / clients)}
            )
    title_large = "control of a round, one run, after the buffers have filled"
    show(title_large, large, "ns_a_client")
    columns = [f"{part}_ms" for part in PARTS]
    cases = [
        {"name": "control/40", "title": title, "columns": columns, "ways": small},
        {
            "name": "control/clients",
            "title": title_large,
            "columns": [*columns, "ns_a_client"],
            "ways": large,
        },
    ]
    write(
        given.out,
        "control",
        {"rounds": given.rounds, "peak_memory_mib": rounded(peak_memory_mib())},
        cases,
    )


if __name__ == "__main__":
    main()
