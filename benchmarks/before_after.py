"""What users' commands cost at an earlier commit and now: processor time of the whole
command, children included.

    python benchmarks/before_after.py BASE [--repeats 5] [--out FILE]

BASE is a commit; a work tree of it is made in a temporary folder and runs in this
environment. Both sides take turns, after one turn that is not counted. The time is the
processor's, so that other work on the machine matters less; the least of the repeats is
compared.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import RESULTS, ROOT, rounded, say, way, write

FEW = ["--rounds", "10", "--seeds", "2", "--policies", "headgate,constant"]
MNIST = ["run", "mnist", "--processes", "1"]
COMMANDS = {
    "plan mnist": ["plan", "mnist"],
    "rehearse mnist": ["rehearse", "mnist", "--seeds", "20"],
    "rehearse million": [
        "rehearse",
        "million",
        "--rounds",
        "3",
        "--seeds",
        "1",
        "--policies",
        "headgate",
    ],
    "run digits": ["run", "digits", "--processes", "1"],
    "run mnist, logistic": [
        *MNIST,
        "--rounds",
        "40",
        "--seeds",
        "4",
        "--set",
        "model.kind=logistic",
    ],
    "run mnist, LeNet": [*MNIST, *FEW, "--set", "model.kind=lenet"],
    "run drifting": [
        "run",
        "drifting",
        "--set",
        "data.kind=digits",
        "--seeds",
        "3",
        "--processes",
        "1",
    ],
}
QUIET = ["--quiet", "--out", "OUT"]


def once(tree: Path, words: list[str], folder: str) -> float:
    """Seconds of processor time."""
    env = {**os.environ, "PYTHONPATH": str(tree / "src")}
    program = (
        "import sys; from headgate.cli import main; sys.argv[0] = 'headgate'; main()"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env=env,
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(base: Path, words: list[str], repeats: int) -> list[dict[str, Any]]:
    more = [*words, *QUIET] if words[0] == "run" else words
    sides: dict[str, list[float]] = {"before": [], "now": []}
    for turn in range(repeats + 1):
        for side, tree in (("before", base), ("now", ROOT)):
            with tempfile.TemporaryDirectory() as folder:
                seconds = once(tree, more, folder)
            if turn:
                sides[side].append(seconds)
    least = {side: min(times) for side, times in sides.items()}
    return [
        way(side, times, ratio_to={"before": rounded(least["before"] / least[side])})
        for side, times in sides.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        subprocess.run(
            ["git", "worktree", "add", "--detach", "-q", str(base), given.base],
            cwd=ROOT,
            check=True,
        )
        try:
            cases = []
            for name, words in COMMANDS.items():
                cases.append(
                    {"name": name, "ways": measure(base, words, given.repeats)}
                )
                for each in cases[-1]["ways"]:
                    say(f"{name}: {each}")
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(base)],
                cwd=ROOT,
                check=True,
            )
    settings = {"base": given.base, "repeats": given.repeats}
    write(given.out or RESULTS / "before_after.json", "before_after", settings, cases)


if __name__ == "__main__":
    main()
