"""Tries faults on headgate, in the simulator and over Flower, and makes docs/understand/faults.md of what happened.

    python tools/faults.py                               all parts (about a quarter of an hour)
    python tools/faults.py --part random --kills 500     one part; the rows of the others stay as they are
    python tools/faults.py --part simulator --kills 500  at every change to the disk, the rest of 500 at random moments
    python tools/faults.py --page                        only the page, from docs/understand/faults.json

Parts: `processes` of a deployment, before all `statements` and files of server and client, and at `random` moments; the
`simulator`.
"""

import argparse
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROWS = ROOT / "docs" / "understand" / "faults.json"
PAGE = ROOT / "docs" / "understand" / "faults.md"
FUZZ = runpy.run_path(str(Path(__file__).with_name("fuzz.py")))
"""by its path: `fuzz` is a folder of the tests as well"""
HEAD = """\
# Faults tried

Which processes were killed when, and what became of money and samples.

Made by `python tools/faults.py`, which kills with SIGKILL and then looks at the books: the server's ledger, every
client's own store, and Z by a replay through control alone. A fault that loses a sample, charges one twice or
leaves books that do not agree fails the test behind it, and then there is no row. `make test` tries the shorter ones of
the first table, those of the second under one rule, and eight more at random moments; in the simulator each kind once.
"""

Row = dict[str, str]


PARTS = ("processes", "statements", "random", "simulator")
ALIKE = ("random", "simulator")
"""parts of which the rows are many, and few kinds"""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="may be given several times; all where it is not")
    parser.add_argument("--kills", type=int, default=500, help="how many at random moments; of the simulator: in all")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--page", action="store_true", help="try nothing, write the page anew")
    given = parser.parse_args(words)
    rows: dict[str, list[Row]] = json.loads(ROWS.read_text("utf-8")) if ROWS.exists() else {}
    for part in () if given.page else given.part or PARTS:
        found = processes() if part == "processes" else killed(part, given.kills, given.seed)
        rows[part] = grouped(found) if part in ALIKE else found
        ROWS.write_text(json.dumps({name: rows.get(name, []) for name in PARTS}, indent=1) + "\n", "utf-8")
    PAGE.write_text(page(rows), "utf-8")
    return 0


def processes() -> list[Row]:
    """Rows of the deployment test."""
    with tempfile.TemporaryDirectory() as folder:
        test = [sys.executable, "-m", "pytest", "-p", "no:xdist", str(ROOT / "tests" / "flower" / "test_deploy.py")]
        subprocess.run(test, cwd=ROOT, env={**os.environ, "HEADGATE_FAULTS": folder}, check=True)
        lines = (Path(folder) / "deployment.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def killed(part: str, kills: int, seed: int) -> list[Row]:
    """Rows of the tests that end a process at each of its SQL statements or changes to the disk, or at random moments."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        where, more = ("flower", ["--part", part])
        if part == "simulator":
            where, more = ("simulation", [str(Path(folder) / "runs"), "--every"])
        test = [sys.executable, str(ROOT / "tests" / where / "killed.py"), "--out", str(out), *more]
        test += ["--kills", str(kills), "--seed", str(seed)]
        subprocess.run(test, cwd=ROOT, check=True)
        found: list[Row] = json.loads(out.read_text("utf-8"))
    return found


def page(rows: dict[str, list[Row]]) -> str:
    processes, statements, random = rows["processes"], grouped(rows["statements"]), rows.get("random", [])
    parts = [HEAD, "## Processes of a deployment", ""]
    parts += ["TLS, node authentication, four SuperNodes; each row is one SIGKILL (or none) in the midst of a run.", ""]
    parts += [*table(("component", "kill_point", "expected", "outcome"), processes), "", "## Between two statements", ""]
    parts += [
        f"{len(rows['statements'])} kills: before every SQL statement of an order and of a round, and before every file is",
        "put in place, under two rules of retention. What became of each kind:",
        "",
    ]
    heads = ("component", "kill_point", "times", "expected", "outcome")
    parts += [*table(heads, statements), ""]
    if random:
        times = sum(int(row["times"]) for row in random)
        parts += ["## At random moments", ""]
        parts += [f"{times} kills of a process that is server and clients, which then goes on; after each run the ledger,"]
        parts += ["the rounds and the tables are, byte for byte, those of one that nobody disturbed.", ""]
        parts += [*table(heads, random), ""]
    if simulator := rows.get("simulator"):
        times = sum(int(row["times"]) for row in simulator)
        parts += ["## The simulator", ""]
        parts += [f"{times} kills of a run in two parts: at every change that it makes to the disk, before it and, where that"]
        parts += [
            "can be, half-way through it; the same when it is taken up after a kill; and at random moments. Each run then"
        ]
        parts += ["ends with the files of one that nobody disturbed, no more and no less: tables, last checkpoints, checksums,"]
        parts += ["byte for byte.", ""]
        parts += [*table(heads, simulator), ""]
    if (results := FUZZ["RESULTS"]).exists():
        parts += ["## Input of every kind", ""]
        parts += ["Made by `make fuzz`: each case has a seed; of recipes, plans and files it may take 20 seconds of"]
        parts += ["processor time and 2 GiB. A failure is a traceback, a hang, too much memory or a promise broken.", ""]
        parts += [*FUZZ["table"](json.loads(results.read_text("utf-8"))), ""]
    return "\n".join(parts)


def grouped(rows: Sequence[Row]) -> list[Row]:
    """One row for each kind of kill point and outcome: "before statement 3 of 29: SELECT 1 FROM (fifo)" and its like."""
    kinds: Counter[tuple[str, str, str, str]] = Counter()
    for row in rows:
        point = re.sub(r"\b(statement|file) \d+( of \d+)?", r"a \1", row["kill_point"].partition(": after ")[0])
        point = re.sub(r"\d{8}(?=\.safetensors)", "NNNNNNNN", re.sub(r" \(\w+\)$", "", point))
        kinds[row["component"], point, row["expected"], row["outcome"]] += 1
    heads = ("component", "kill_point", "expected", "outcome")
    return [{**dict(zip(heads, kind, strict=True)), "times": str(times)} for kind, times in kinds.items()]


def table(heads: Sequence[str], rows: Sequence[Row]) -> list[str]:
    names = {"kill_point": "killed", "outcome": "what happened"}
    lines = [[names.get(head, head) for head in heads], ["---"] * len(heads)]
    lines += [[row[head].replace("|", "\\|").replace("\n", " ") for head in heads] for row in rows]
    return [f"| {' | '.join(line)} |" for line in lines]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
