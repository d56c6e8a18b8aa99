"""What control costs: forty runs over ten thousand rounds, and one round of a million clients.

    python benchmarks/control.py [--rounds 10000] [--clients 1000 10000 100000 1000000]

Times are split into decide (without apportioning), apportion and post. Sizes grow by tens, so that the last table shows
whether a round stays linear in the number of clients.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from headgate.config import load
from headgate.control import AdmissionPolicy, Controller, System, controller
from headgate.control.costs import Uniform
from headgate.control.policies import Acdpp, Constant, Dpp, Oracle, Released

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


def timed(system: System, policy: AdmissionPolicy, runs: int, rounds: int) -> dict[str, list[float]]:
    """Seconds per round, split into parts."""
    server = Controller(system, policy, runs)
    prices = Uniform(1.0, 10.0).path(np.arange(runs), 1, rounds + 1)
    parts: dict[str, list[float]] = {part: [] for part in PARTS}
    whole, watch = controller.apportion, Stopwatch(controller.apportion)
    controller.apportion = watch
    try:
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
    finally:
        controller.apportion = whole
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--clients", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    given = parser.parse_args()

    mnist = load("mnist").system
    system = System(mnist.buffer, mnist.budget, given.rounds)
    print(f"40 runs x 10 clients x {given.rounds} rounds: total seconds")
    print(f"{'policy':24}{'decide':>10}{'apportion':>10}{'post':>10}{'total':>10}")
    members: dict[str, AdmissionPolicy] = {
        "constant": Constant(rate=10, K=10),
        "oracle": Oracle(),
        "acdpp": Acdpp(rate=10, K=10),
        "acdpp, capacity": Acdpp(rate=10, K=10, capacity=mnist.buffer),
        "dpp": Dpp(K=10),
        "released": Released(),
    }
    for name, policy in members.items():
        totals = {part: sum(values) for part, values in timed(system, policy, 40, given.rounds).items()}
        print(f"{name:24}" + "".join(f"{totals[part]:10.2f}" for part in PARTS) + f"{sum(totals.values()):10.2f}", flush=True)

    print("\none round, one run, after the buffers have filled: milliseconds (median of 10)")
    print(f"{'policy':24}{'clients':>10}{'decide':>10}{'apportion':>10}{'post':>10}{'total':>10}{'ns/client':>11}")
    for clients in given.clients:
        big = System(np.resize(mnist.buffer, clients), mnist.budget * clients / 10, 100)
        for name, policy in {
            "acdpp, burst buffer": Acdpp(rate=float(clients), K=10, burst="buffer"),
            "acdpp, capacity": Acdpp(rate=float(clients), K=10, capacity=big.buffer),
            "constant": Constant(rate=clients * 0.93, K=10),
        }.items():
            middle = {part: 1e3 * median(values[-10:]) for part, values in timed(big, policy, 1, 25).items()}
            total = sum(middle.values())
            row = "".join(f"{middle[part]:10.2f}" for part in PARTS)
            print(f"{name:24}{clients:10}{row}{total:10.2f}{1e6 * total / clients:11.1f}", flush=True)


if __name__ == "__main__":
    main()
