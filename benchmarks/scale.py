"""What a round costs as the clients grow from a thousand to a million, of whom a
thousand train.

    python benchmarks/scale.py [--clients 1000 10000 100000 1000000] [--rounds 20]
    [--repeat 3] [--out FILE]

The recipe `million` with another number of clients and a budget in proportion; each
size in a fresh process of one thread, which is asked for its peak memory, and sizes by
turns. Times are of the rounds after buffers have filled. Beside the time by the clock
there is that of the processor, which others on the machine disturb less, and its parts:
control (decide and post, all clients, all policies; and of each policy), packing
(drawing the cohort and finding its samples), training (with averaging), and the rest
(use counts and metrics). A straight line is fitted to the processor's time and to
memory over the number of clients; the exponent says how what clients add grows from the
last size but one to the last: 1 is linear.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from machine import RESULTS, command, peak_memory_mib, rounded, say, target, way, write

from headgate.simulation.pools import ONE_THREAD

PARTS = ("cpu", "control", "packing", "training", "rest")
POLICIES = ("headgate", "acdpp", "constant")
COHORT = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--clients", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000]
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "scale.json")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(measured(given.child, given.rounds)))
        return
    if len(given.clients) < 3 or sorted(given.clients) != given.clients:
        parser.error(
            "--clients: at least three numbers, ascending, or nothing can be said about"
            " growth"
        )
    found: dict[int, list[dict[str, Any]]] = {clients: [] for clients in given.clients}
    for turn in range(given.repeat):
        for clients in given.clients:
            say(f"{clients} clients, turn {turn + 1} of {given.repeat}")
            found[clients].append(in_a_process_of_its_own(clients, given.rounds))
    ways = [summed_up(clients, results) for clients, results in found.items()]
    fits = {
        "cpu_ms": line(given.clients, [each["cpu_ms"] for each in ways]),
        "control_ms": line(given.clients, [each["control_ms"] for each in ways]),
        "peak_memory_mib": line(
            given.clients, [each["peak_memory_mib"] for each in ways]
        ),
    }
    show(ways, fits)
    cases = [
        {
            "name": "clients",
            "title": (
                f"A round of all policies of `million`, one seed, {COHORT} clients"
                " train (digits, logistic regression)"
            ),
            "columns": [f"{part}_ms" for part in (*PARTS, *POLICIES)],
            "ways": ways,
            "fit": fits,
        }
    ]
    targets = [
        target(
            f"{what}: exponent of what clients add to it",
            1.1,
            fits[key]["exponent"],
            unit="",
            at_most=True,
        )
        for what, key in (
            ("time of a round", "cpu_ms"),
            ("peak memory", "peak_memory_mib"),
        )
    ]
    targets += [
        target(
            f"control of a round of {given.clients[-1]:,} clients, {name}",
            50,
            ways[-1][f"{name}_ms"],
            unit="ms",
            at_most=True,
        )
        for name in POLICIES
    ]
    settings = {
        "recipe": "million",
        "rounds": given.rounds,
        "repeat": given.repeat,
        "cohort": COHORT,
        "threads": 1,
    }
    write(given.out, "scale", settings, cases, targets)


def in_a_process_of_its_own(clients: int, rounds: int) -> dict[str, Any]:
    words = [sys.executable, __file__, "--child", str(clients), "--rounds", str(rounds)]
    done = subprocess.run(
        words, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{command(words[1:])} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def measured(clients: int, rounds: int) -> dict[str, Any]:
    """Seconds of each of the later half of the rounds and its parts, and memory."""
    from headgate.experiment import load
    from headgate.learning.datasets import load_dataset
    from headgate.records import rows
    from headgate.simulation import engine

    engine.FEW = rows.FEW = (
        # what is written down for few clients is worked out for them too: all sizes do
        # the same
        0
    )
    budget = load("million").system.budget * clients / 1_000_000
    settings = [
        f"system.clients={clients}",
        f"system.budget={budget}",
        f"training.cohort={min(COHORT, clients)}",
    ]
    experiment = load(
        "million",
        [*settings, f"run.rounds={rounds}", f"training.evaluate_every={rounds}"],
    )
    data, before = load_dataset(experiment.data.kind), peak_memory_mib()
    start = time.perf_counter()
    simulation = engine.Simulation(experiment, data, "cpu")
    setup = time.perf_counter() - start
    clock: dict[str, float] = {}

    def timed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            start = time.process_time()
            result = function(*args)
            clock[name] = clock.get(name, 0.0) + time.process_time() - start
            return result

        return call

    for name, controller in simulation.controllers.items():
        controller.decide = timed(controller.decide, name)  # type: ignore[method-assign]
        controller.post = timed(controller.post, name)  # type: ignore[method-assign]
    simulation._prepare = timed(simulation._prepare, "prepare")  # type: ignore[method-assign]
    simulation.learner.launch = timed(simulation.learner.launch, "training")  # type: ignore[method-assign]
    times: dict[str, list[float]] = {part: [] for part in ("round", *PARTS, *POLICIES)}
    for t in range(1, rounds):  # the last round is left out: it evaluates
        clock.clear()
        start, began = time.perf_counter(), time.process_time()
        simulation.step()
        passed, whole = time.perf_counter() - start, time.process_time() - began
        if t > rounds // 2:
            times["round"].append(passed)
            times["cpu"].append(whole)
            for name in POLICIES:
                times[name].append(clock[name])
            times["control"].append(sum(clock[name] for name in POLICIES))
            times["packing"].append(clock["prepare"] - times["control"][-1])
            times["training"].append(clock["training"])
            times["rest"].append(whole - clock["prepare"] - clock["training"])
    return {
        "times": times,
        "setup_s": setup,
        "peak_memory_mib": peak_memory_mib(),
        "before_mib": before,
    }


def summed_up(clients: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    rounds = [each for result in results for each in result["times"]["round"]]
    parts = {
        f"{part}_ms": (
            1e3 * median(x for result in results for x in result["times"][part])
        )
        for part in (*PARTS, *POLICIES)
    }
    memory = max(result["peak_memory_mib"] for result in results)
    more = {
        **parts,
        "peak_memory_mib": memory,
        "setup_s": median(result["setup_s"] for result in results),
    }
    return way(
        f"{clients:,} clients",
        rounds,
        **{key: rounded(value) for key, value in more.items()},
    )


def line(clients: list[int], values: list[float]) -> dict[str, float]:
    """value = at_none + per_million·clients/10⁶ by least squares, how much of the
    spread it explains, and the exponent.
    """
    x, y = np.array(clients) / 1e6, np.array(values)
    slope, start = np.polyfit(x, y, 1)
    r2 = 1 - ((y - slope * x - start) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    added = np.maximum(y[-2:] - y[0], 1e-9)
    exponent = np.log(added[1] / added[0]) / np.log(x[-1] / x[-2])
    fit = {"at_none": start, "per_million": slope, "r2": r2, "exponent": exponent}
    return {key: rounded(float(value)) for key, value in fit.items()}


def show(ways: list[dict[str, Any]], fits: dict[str, dict[str, float]]) -> None:
    keys = [
        "median_ms",
        "min_ms",
        *(f"{part}_ms" for part in (*PARTS, *POLICIES)),
        "setup_s",
        "peak_memory_mib",
    ]
    print(f"{'':18}" + "".join(f"{key:>16}" for key in keys))
    for each in ways:
        print(f"{each['way']:18}" + "".join(f"{each[key]:16.5g}" for key in keys))
    for key, fit in fits.items():
        line_of_it = f"{fit['at_none']:g} + {fit['per_million']:g} a million clients"
        print(f"{key}: {line_of_it}, R² = {fit['r2']:g}, exponent {fit['exponent']:g}")


if __name__ == "__main__":
    main()
