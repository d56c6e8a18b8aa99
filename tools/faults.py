"""Tries faults on headgate, in the simulator and over Flower, and makes
contributing/faults.md of what happened.

    python tools/faults.py
        tries all parts, in about a quarter of an hour
    python tools/faults.py --part random --kills 500
        tries one part; the rows of the others stay as they are
    python tools/faults.py --part simulator --kills 500
        tries every change to the disk, and the rest of 500 at random moments
    python tools/faults.py --page
        makes only the page, from contributing/faults.json

Parts: `processes` of a deployment, before all `statements` and files of server and
client, and at `random` moments; the `simulator`; the `service` for accounts; and
`postgres`, where about every fifth kill is of the server.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROWS = ROOT / "contributing" / "faults.json"
PAGE = ROOT / "contributing" / "faults.md"
HEAD = """\
# Faults tried

Which processes were killed and when, and whether money and samples stayed correct.

Made by `python tools/faults.py`, which kills with SIGKILL and then looks at the books:
the server's ledger, every client's own store, and Z by a replay through control alone.
A fault that loses a sample, charges one twice or leaves books that do not agree fails
the test behind it, and then there is no row. `make test` tries the shorter ones of the
first table, each kind of those of the second once, under one rule, and eight more at
random moments.
"""

INSIDE = (
    """\
Server and clients are killed before every SQL statement of an order and of a round,
before every file is put in place, and at random moments. The simulator is killed at
every change that it makes to the disk, before and, where that can be, half-way through
it, also while it resumes, and at random moments. Exactly once: no sample is lost or
charged twice, and all books agree. Same bytes: the run folder is that of an undisturbed
run. The service for accounts is killed at random moments while three callers play
rounds. PostgreSQL, and gates that compete for one account in it, are killed at random
moments, with commits on disk."""
    ""
)

Row = dict[str, str]


PARTS = ("processes", "statements", "random", "simulator", "service", "postgres")


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part",
        choices=PARTS,
        action="append",
        help="may be given several times; all where it is not",
    )
    parser.add_argument(
        "--kills",
        type=int,
        default=500,
        help="how many at random moments; of the simulator: in all",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument(
        "--page", action="store_true", help="try nothing, write the page"
    )
    given = parser.parse_args(words)
    rows: dict[str, list[Row]] = (
        json.loads(ROWS.read_text("utf-8")) if ROWS.exists() else {}
    )
    for part in () if given.page else given.part or PARTS:
        found = (
            processes()
            if part == "processes"
            else killed(part, given.kills, given.seed)
        )
        rows[part] = found if part == "processes" else grouped(found)
        ROWS.write_text(
            json.dumps({name: rows.get(name, []) for name in PARTS}, indent=1) + "\n",
            "utf-8",
        )
    PAGE.write_text(page(rows), "utf-8")
    return 0


def processes() -> list[Row]:
    """Rows of the deployment test."""
    with tempfile.TemporaryDirectory() as folder:
        test = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:xdist",
            str(ROOT / "tests" / "flower" / "test_deploy.py"),
        ]
        subprocess.run(
            test, cwd=ROOT, env={**os.environ, "HEADGATE_FAULTS": folder}, check=True
        )
        lines = (Path(folder) / "deployment.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def killed(part: str, kills: int, seed: int) -> list[Row]:
    """Rows of the tests that end a process at each of its SQL statements or changes to
    the disk, or at random moments.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        where, more = ("flower", ["--part", part])
        if part == "service":
            where, more = "web/accounts", []
        if part == "simulator":
            where, more = ("simulation", [str(Path(folder) / "runs"), "--every"])
        script = [str(ROOT / "tests" / where / "killed.py")]
        if part == "postgres":
            script, more = ["-m", "tests.books.killed_servers"], []
        test = [sys.executable, *script, "--out", str(out), *more]
        test += ["--kills", str(kills), "--seed", str(seed)]
        subprocess.run(test, cwd=ROOT, check=True)
        found: list[Row] = json.loads(out.read_text("utf-8"))
    return found


def page(rows: dict[str, list[Row]]) -> str:
    """Return the page: one row for each process killed, then counts."""
    counts = [row for part in PARTS[1:] for row in rows.get(part, [])]
    return "\n".join(
        [
            *(HEAD, "## Processes of a deployment", ""),
            *(
                (
                    "TLS, node authentication, four SuperNodes; each row is one SIGKILL"
                    " (or none) in the midst of a run."
                ),
                "",
            ),
            *table(
                ("component", "kill_point", "expected", "outcome"), rows["processes"]
            ),
            *("", "## Inside a process", ""),
            INSIDE,
            "",
            *table(("component", "times", "expected", "outcome"), counts),
            "",
        ]
    )


def grouped(rows: Sequence[Row]) -> list[Row]:
    """Return one row for each component and outcome, with the number of kills."""
    heads = ("component", "expected", "outcome")
    kinds = Counter(tuple(row[head] for head in heads) for row in rows)
    return [
        {**dict(zip(heads, kind, strict=True)), "times": str(times)}
        for kind, times in kinds.items()
    ]


def table(heads: Sequence[str], rows: Sequence[Row]) -> list[str]:
    names = {"kill_point": "killed", "outcome": "what happened", "times": "kills"}
    lines = [[names.get(head, head) for head in heads], ["---"] * len(heads)]
    lines += [
        [row[head].replace("|", "\\|").replace("\n", " ") for head in heads]
        for row in rows
    ]
    return [f"| {' | '.join(line)} |" for line in lines]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
