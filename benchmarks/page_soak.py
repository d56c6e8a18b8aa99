"""An hour in front of the page, in minutes: whether the server's memory stays as it is.

    python benchmarks/page_soak.py [--rounds 1800] [--out FILE]

Ten runs of ten runs each are played at once, a round every two seconds for an hour:
1,800 rounds, without the two seconds. Meanwhile four browsers watch one run each (its
curves, occupancies and results), one has the list open, one drags a slider of the
planner. All of it is done as often as in that hour, as fast as the server can. Its
memory is read a hundred times. The rows themselves are part of it, and what they take
is said beside it; the rest is the allocator's.
"""

import argparse
import http.client
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import RESULTS, rounded, say, target, way, write

from headgate.experiment import build
from headgate.records.writer import RunWriter, create

MOST_MIB = 32.0
"""growth over the hour, the rows included"""
RUNS, SEEDS, WATCHED = 10, 2, 4
POLICIES = ("acdpp", "constant", "headgate", "oracle", "released")
SYSTEM = {"buffers": [8, 9, 10, 11, 12, 8, 9, 10, 11, 12], "budget": 55.0}
PRICES = {"kind": "uniform", "low": 1.0, "high": 10.0}


class Playing:
    """A run folder that grows by a round at a time; its numbers mean nothing, their
    number and size do.
    """

    def __init__(self, folder: Path, rounds: int) -> None:
        run = {"rounds": rounds, "seeds": SEEDS, "policies": list(POLICIES)}
        made = build("soak", {"system": SYSTEM, "prices": PRICES, "run": run}, Path())
        create(
            folder,
            made.tables(),
            {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "executor": "none"},
            [],
        )
        self.writer, self.rounds, self.t = RunWriter(folder), rounds, 0
        self.draws = np.random.default_rng(0)

    def play(self) -> None:
        self.t += 1
        runs = [(policy, seed) for policy in POLICIES for seed in range(SEEDS)]
        drawn = self.draws.random((len(runs), 11))
        names = (
            "test_accuracy",
            "test_loss",
            "train_loss",
            "n",
            "N",
            "n_eff",
            "admitted",
            "price",
            "spend",
            "debt",
            "bound",
        )
        rows = [
            {
                "policy": policy,
                "seed": seed,
                "t": self.t,
                **dict(zip(names, own, strict=True)),
                "N": 10 * self.t,
            }
            for (policy, seed), own in zip(runs, drawn.tolist(), strict=True)
        ]
        both = dict.fromkeys(("admitted", "held"), SYSTEM["buffers"])
        held = [
            {"policy": policy, "seed": seed, "t": self.t, **both}
            for policy, seed in runs
        ]
        self.writer.append("metrics", rows)
        self.writer.append("clients", held)
        if self.t % 15 == 0 or self.t == self.rounds:  # as often as checkpoints
            told = {
                "policies": list(POLICIES),
                "seeds": list(range(SEEDS)),
                "diverged": [],
                "elapsed_s": 2.0 * self.t,
            }
            self.writer.state("running", self.t, self.rounds, **told)


class Browser:
    """Asks over one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, path: str, body: Any = None) -> Any:
        headers = {} if body is None else {"Content-Type": "application/json"}
        self._connection.request(
            "GET" if body is None else "POST",
            path,
            None if body is None else json.dumps(body),
            headers,
        )
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
        return json.loads(content)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1800)
    parser.add_argument("--out", type=Path, default=RESULTS / "page_soak.json")
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp())
    process = None
    try:
        runs = [
            Playing(place / f"run-{number:02d}", given.rounds) for number in range(RUNS)
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "headgate.cli", "serve", str(place), "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        port = next(
            int(found.group(1))
            for line in process.stdout
            if (found := re.search(r"127\.0\.0\.1:(\d+)/", line))
        )
        at, held, blocks = soak(process.pid, port, runs, given.rounds)
    finally:
        if process is not None:
            process.terminate()
            process.communicate(timeout=30)
        shutil.rmtree(place)
    conclude(given, at, held, blocks)


def soak(
    pid: int, port: int, runs: list[Playing], rounds: int
) -> tuple[list[int], list[float], list[float]]:
    browsers = [Browser(port) for _ in range(WATCHED + 1)]
    every, at, held, blocks = (
        max(1, rounds // 100),
        list[int](),
        list[float](),
        list[float](),
    )
    began = time.perf_counter()
    for t in range(1, rounds + 1):
        for run in runs:
            run.play()
        for number, browser in enumerate(browsers[:WATCHED]):
            name = f"run-{number:02d}"
            browser.ask(f"/api/runs/{name}/curves?since={max(0, t - 1)}")
            if t % 5 == 0:  # ten seconds
                browser.ask(f"/api/runs/{name}/clients?policy=acdpp")
                browser.ask(f"/api/runs/{name}")
        browsers[-1].ask("/api/runs")
        if t % 30 == 0:  # a minute
            browsers[-1].ask(
                "/api/plan",
                {
                    "system": {**SYSTEM, "budget": 40.0 + t % 50},
                    "prices": PRICES,
                    "rounds": 100,
                },
            )
        if t % every == 0:
            at.append(t)
            held.append(resident_mib(pid))
            now = time.perf_counter()
            blocks.append((now - began) / every)
            began = now
            if len(at) % 10 == 0:
                say(
                    f"round {t}: {held[-1]:.1f} MiB, {1e3 * blocks[-1]:.0f} ms for a"
                    " round of the hour"
                )
    return at, held, blocks


def conclude(
    given: argparse.Namespace, at: list[int], held: list[float], blocks: list[float]
) -> None:
    settled = slice(len(at) // 10, None)
    slope = float(np.polyfit(np.array(at[settled]) / given.rounds, held[settled], 1)[0])
    rows = given.rounds * len(POLICIES) * SEEDS
    # a row: all columns and occupancies of what is watched, two columns in any case,
    # and each time a byte to know it is there
    bytes_held = rows * (WATCHED * (11 * 8 + 1 + 10 * 4 + 1) + RUNS * (2 * 8 + 1))
    took = bytes_held / 2**20
    print(
        f"{given.rounds} rounds of {RUNS} runs: {held[settled][0]:.1f} MiB after a"
        f" tenth, {held[-1]:.1f} MiB at the end, {slope:+.1f} MiB over the hour, of"
        f" which the rows themselves take {took:.1f}"
    )
    one = way(
        "a round of the hour",
        blocks,
        peak_memory_mib=rounded(max(held)),
        mib_at_a_tenth=rounded(held[settled][0]),
        mib_at_the_end=rounded(held[-1]),
        mib_over_the_hour=rounded(slope),
        mib_of_rows=rounded(took),
    )
    case = {
        "name": "page-soak",
        "title": (
            f"{given.rounds} rounds of {RUNS} runs with {WATCHED} watched, the list"
            " open and a slider dragged"
        ),
        "columns": [
            "mib_at_a_tenth",
            "mib_at_the_end",
            "mib_over_the_hour",
            "mib_of_rows",
        ],
        "ways": [one],
        "memory": {"round": at, "mib": [rounded(each) for each in held]},
    }
    asked = target(
        "memory gained in an hour of live updates",
        MOST_MIB,
        slope,
        unit="MiB",
        at_most=True,
    )
    write(
        given.out,
        "page_soak",
        {"rounds": given.rounds, "runs": RUNS, "rows_a_round": len(POLICIES) * SEEDS},
        [case],
        [asked],
    )


def resident_mib(pid: int) -> float:
    for row in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if row.startswith("VmRSS:"):
            return int(row.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmRSS")


if __name__ == "__main__":
    main()
