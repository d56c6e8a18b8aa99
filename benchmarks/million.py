"""Two seeds and two policies of a million clients: what the whole command holds in
memory, and when its record is on disk.

    python benchmarks/million.py [--rounds 40] [--clients 1000000] [--out FILE]

`headgate run million` as a user types it, in one process, for one run (a seed of
headgate), and for two seeds of headgate and constant. While it plays, its memory, its
processor time and the rows of its record are looked at. A run that holds its record
until the end has no rows before it; one that keeps something of every round holds more
at the end than before. What was gained is the least of the last quarter of the rounds,
less the least of the second quarter, when buffers have filled: what a round takes for a
moment depends on how many places it renews. What grows by design is the table of the
samples ever trained on, 12 bytes each, and twice that while it is made.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import RESULTS, rounded, say, target, way, write

from headgate.simulation.pools import ONE_THREAD

MOST_MIB = 1024.0
"""for four runs of a million clients"""
CASES = {
    "one run": ("headgate", 1),
    "two seeds of two policies": ("headgate,constant", 2),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "million.json")
    given = parser.parse_args()
    if given.rounds < 8:
        parser.error("--rounds: at least 8, or nothing can be said about growth")
    ways = []
    for name, (policies, seeds) in CASES.items():
        say(name)
        ways.append(played(name, policies, seeds, given.rounds, given.clients))
        print(
            {key: value for key, value in ways[-1].items() if key != "way"}, flush=True
        )
    columns = ["peak_mib_a_run", "mib_gained", "rows_before_the_end"]
    cases = [
        {
            "name": "million",
            "title": (
                f"Processor time of a round of `headgate run million`, {given.rounds}"
                f" rounds of {given.clients:,} clients"
            ),
            "columns": columns,
            "ways": ways,
        }
    ]
    both = ways[-1]
    targets = [
        target(
            f"{both['way']} of a million clients: memory",
            MOST_MIB,
            both["peak_memory_mib"],
            unit="MiB",
            at_most=True,
        ),
        target(
            "rounds that are reported before the last one ends",
            90,
            both["rows_before_the_end"],
            unit="%",
        ),
    ]
    settings = {
        "recipe": "million",
        "rounds": given.rounds,
        "clients": given.clients,
        "threads": 1,
    }
    write(given.out, "million", settings, cases, targets)


def played(
    name: str, policies: str, seeds: int, rounds: int, clients: int
) -> dict[str, Any]:
    """The command from its start to its end, looked at from outside."""
    runs = seeds * len(policies.split(","))
    with tempfile.TemporaryDirectory() as inside:
        folder, errors = Path(inside) / "run", Path(inside) / "errors.txt"
        settings = [
            f"run.rounds={rounds}",
            f"system.clients={clients}",
            f"system.budget={5.5 * clients}",
        ]
        settings += [
            f"training.cohort={min(1000, clients)}",
            f"training.evaluate_every={rounds}",
        ]
        words = [
            sys.executable,
            "-m",
            "headgate.cli",
            "run",
            "million",
            "--seeds",
            str(seeds),
            "--policies",
            policies,
        ]
        words += [word for setting in settings for word in ("--set", setting)]
        words += ["--processes", "1", "--progress", "json", "--out", str(folder)]
        seen = list[tuple[float, int, float]]()
        with (
            errors.open("w") as said,
            subprocess.Popen(
                words, env=os.environ | ONE_THREAD, stdout=said, stderr=said
            ) as process,
        ):
            while process.poll() is None:
                seen.append(
                    (used(process.pid), rows(errors) // runs, resident(process.pid))
                )
                time.sleep(0.05)
        if process.returncode:
            sys.exit(errors.read_text("utf-8"))
    took, done, held = (
        np.array(each) for each in zip(*(each for each in seen if each[2]), strict=True)
    )
    first = np.flatnonzero(
        np.diff(done, prepend=0) > 0
    )  # looks at which a round had come to its end
    times = np.diff(took[first]) / np.diff(done[first])
    peak, half = float(held.max()), rounds // 2
    gained = (
        held[done > rounds - half // 2].min()
        - held[(done > half // 2) & (done <= half)].min()
    )
    return way(
        name,
        times.tolist(),
        peak_memory_mib=rounded(peak),
        peak_mib_a_run=rounded(peak / runs),
        mib_gained=rounded(float(gained)),
        rows_before_the_end=rounded(
            100 * float(done[done < rounds].max(initial=0)) / (rounds - 1)
        ),
    )


def used(pid: int) -> float:
    """Seconds that a process has computed."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def rows(told: Path) -> int:
    """Runs and rounds that a command has reported in lines of JSON."""
    lines = [
        line
        for line in told.read_text("utf-8").splitlines(keepends=True)
        if line.startswith("{") and line.endswith("\n")
    ]
    return sum(
        len(line["policies"]) * len(line["seeds"]) for line in map(json.loads, lines)
    )


def resident(pid: int) -> float:
    """What a process holds now, in MiB."""
    try:
        told = Path(f"/proc/{pid}/status").read_text("ascii")
    except OSError:
        return 0.0
    return (
        int(told.partition("VmRSS:")[2].split()[0]) / 1024 if "VmRSS:" in told else 0.0
    )


if __name__ == "__main__":
    main()
