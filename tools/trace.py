"""Counts what one `headgate run` enters of our own code: functions, files, objects
built, tables opened.

python tools/trace.py [--list] [headgate arguments; default: a short run of digits]
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1] / "src"
RUN = [
    "run",
    "digits",
    "--rounds",
    "4",
    "--seeds",
    "1",
    "--policies",
    "headgate",
    "--progress",
    "none",
]
BUILT = {"Simulation": "Simulation.__init__", "Experiment": "Experiment.__post_init__"}
OPENED = "read_table"
"""the one function that opens a file of a table"""
CO_NEWLOCALS = 2


def trace(arguments: Sequence[str]) -> Counter[tuple[str, str]]:
    """Run the command line in this process and count the calls of each of our
    functions, by file and name.

    Lambdas, comprehensions and the bodies of modules and classes are left out.
    """
    calls: Counter[CodeType] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    from headgate.cli import main
    from headgate.simulation import run

    run.PART_SECONDS = 3600.0  # one part a table, however slow the machine is
    argv, sys.argv = sys.argv, ["headgate", *arguments]
    sys.setprofile(note)
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
    finally:
        sys.setprofile(None)
        sys.argv = argv
    ours: Counter[tuple[str, str]] = Counter()
    for code, count in calls.items():
        path = Path(code.co_filename)
        if (
            path.is_relative_to(ROOT)
            and not code.co_name.startswith("<")
            and code.co_flags & CO_NEWLOCALS
        ):
            ours[str(path.relative_to(ROOT)), code.co_qualname] += count
    return ours


def figures(calls: Counter[tuple[str, str]]) -> dict[str, int]:
    """The numbers that are promised of a run."""
    named = Counter[str]()
    for (_, name), count in calls.items():
        named[name] += count
    return {
        "functions": len(calls),
        "files": len({file for file, _ in calls}),
        **{f"{kind} built": named[name] for kind, name in BUILT.items()},
        "tables opened": named[OPENED],
    }


def main() -> None:
    listed = "--list" in sys.argv
    given = [word for word in sys.argv[1:] if word != "--list"]
    with tempfile.TemporaryDirectory() as folder:
        calls = trace(given or [*RUN, "--out", f"{folder}/run"])
    for (file, name), count in sorted(calls.items()) if listed else ():
        print(f"{count:6} {file} {name}")
    for what, number in figures(calls).items():
        print(f"{what}: {number}")


if __name__ == "__main__":
    main()
