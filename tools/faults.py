"""Tries faults on headgate over Flower and makes docs/faults.md of what happened.

python tools/faults.py           kills processes and statements (about ten minutes), writes docs/faults.json and docs/faults.md
python tools/faults.py --page    only the page, from docs/faults.json
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROWS = ROOT / "docs" / "faults.json"
PAGE = ROOT / "docs" / "faults.md"
HEAD = """\
# Faults tried

Made by `python tools/faults.py`, which kills with SIGKILL and then looks at the books: the server's ledger, every
client's own store, and Z by a replay through control alone. A fault that loses a sample, charges one twice or
leaves books that do not agree fails the test behind it, and then there is no row. `make test` tries all of them but
the longer ones of the first table.
"""

Row = dict[str, str]


def main(words: Sequence[str]) -> int:
    if "--page" not in words:
        ROWS.write_text(json.dumps({"processes": processes(), "statements": statements()}, indent=1) + "\n", "utf-8")
    PAGE.write_text(page(json.loads(ROWS.read_text("utf-8"))), "utf-8")
    return 0


def processes() -> list[Row]:
    """Rows of the deployment test."""
    with tempfile.TemporaryDirectory() as folder:
        test = [sys.executable, "-m", "pytest", "-p", "no:xdist", str(ROOT / "tests" / "flower" / "test_deploy.py")]
        subprocess.run(test, cwd=ROOT, env={**os.environ, "HEADGATE_FAULTS": folder}, check=True)
        lines = (Path(folder) / "deployment.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def statements() -> list[Row]:
    """Rows of the tests that end a process before each of its SQL statements."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        test = [sys.executable, str(ROOT / "tests" / "flower" / "killed.py"), "--out", str(out)]
        subprocess.run(test, cwd=ROOT, check=True)
        found: list[Row] = json.loads(out.read_text("utf-8"))
    return found


def page(rows: dict[str, list[Row]]) -> str:
    processes, statements = rows["processes"], grouped(rows["statements"])
    parts = [HEAD, "## Processes of a deployment", ""]
    parts += ["TLS, node authentication, four SuperNodes; each row is one SIGKILL (or none) in the midst of a run.", ""]
    parts += [*table(("component", "kill_point", "expected", "outcome"), processes), "", "## Between two statements", ""]
    parts += [
        f"{len(rows['statements'])} kills: before every SQL statement of an order and of a round, and before every file is",
        "put in place, under two rules of retention. What became of each kind:",
        "",
    ]
    return "\n".join([*parts, *table(("component", "kill_point", "times", "expected", "outcome"), statements), ""])


def grouped(rows: Sequence[Row]) -> list[Row]:
    """One row for each kind of kill point and outcome: "before statement 3 of 29: SELECT 1 FROM (fifo)" and its like."""
    kinds: Counter[tuple[str, str, str, str]] = Counter()
    for row in rows:
        point = re.sub(r"\b(statement|file) \d+( of \d+)?", r"a \1", row["kill_point"])
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
