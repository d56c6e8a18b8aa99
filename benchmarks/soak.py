"""A hundred thousand rounds: whether memory stays as it is.

    python benchmarks/soak.py [--rounds 100000] [--out FILE]

Digits, logistic regression, constant admission and the oracle (which passes over its
streams every few dozen rounds). The models are evaluated and the memory of the process
is read a hundred times; the slope is that of a straight line through all but the first
tenth. What grows by design is not in memory (the rows of the record) or is there from
the beginning (the prices of all rounds).
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from machine import (
    RESULTS,
    peak_memory_mib,
    resident_mib,
    rounded,
    say,
    target,
    way,
    write,
)

from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.simulation.engine import Simulation

MOST_MIB = 1.0
"""growth in ten thousand rounds that still counts as none"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    every = max(1, given.rounds // 100)
    settings = [
        f"run.rounds={given.rounds}",
        "run.seeds=1",
        'run.policies=["constant", "oracle"]',
        "training.steps=1",
        f"training.evaluate_every={every}",
    ]
    simulation = Simulation(load("digits", settings), load_dataset("digits"), "cpu")
    at, held, blocks, accuracy = [], [], [], 0.0
    start = time.perf_counter()
    for t in range(1, given.rounds + 1):
        done = simulation.step()
        if t % every == 0:
            now = time.perf_counter()
            at.append(t)
            held.append(resident_mib())
            blocks.append((now - start) / every)
            start, accuracy = now, done.metrics[0]["test_accuracy"]
            if len(at) % 10 == 0:
                say(
                    f"round {t}: {held[-1]:.1f} MiB, {1e3 * blocks[-1]:.2f} ms a round,"
                    f" accuracy {accuracy:.3f}"
                )
    settled = slice(len(at) // 10, None)
    slope = float(np.polyfit(np.array(at[settled]) / 1e4, held[settled], 1)[0])
    print(
        f"{given.rounds} rounds: {held[settled][0]:.1f} MiB after a tenth,"
        f" {held[-1]:.1f} MiB at the end, {slope:+.4f} MiB in ten thousand rounds"
    )
    one = way(
        "a round of two runs",
        blocks,
        peak_memory_mib=rounded(peak_memory_mib()),
        mib_at_a_tenth=rounded(held[settled][0]),
        mib_at_the_end=rounded(held[-1]),
        mib_per_10000_rounds=rounded(slope),
    )
    case = {
        "name": "soak",
        "title": f"{given.rounds} rounds of constant and oracle on digits",
        "columns": ["mib_at_a_tenth", "mib_at_the_end", "mib_per_10000_rounds"],
        "ways": [one],
        "memory": {"round": at, "mib": [rounded(each) for each in held]},
    }
    asked = target(
        "memory gained in ten thousand rounds",
        MOST_MIB,
        slope,
        unit="MiB",
        at_most=True,
    )
    write(given.out, "soak", {"settings": settings, "threads": 1}, [case], [asked])


if __name__ == "__main__":
    main()
