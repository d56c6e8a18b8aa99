"""pip install, saying how far it is: which package of how many, on one line of a terminal. Elsewhere it is quiet.

python tools/installing.py OPTIONS...       the same options as `pip install`; needs nothing but Python and pip
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

WIDE = 79


def pinned(options: list[str]) -> int:
    """How many packages the files of -r name."""
    files = [Path(after) for before, after in pairwise(options) if before == "-r"]
    return sum(len(re.findall(r"^[\w.-]+==", file.read_text("utf-8"), re.MULTILINE)) for file in files)


def steps(lines: Iterable[str], total: int) -> Iterator[str]:
    """What pip's lines come to.

    >>> list(steps(["Collecting numpy==2.4.1", "  Downloading numpy-2.4.1.whl (16.5 MB)"], 3))
    ['1 of 3: numpy', '1 of 3: numpy, 16.5 MB']
    """
    names: list[str] = []
    for line in lines:
        if found := re.match(r"(?:Collecting|Processing|Requirement already satisfied:) ([^\s=<>!~\[;(]+)", line):
            names.append(re.sub(r"-\d.*", "", found[1].rpartition("/")[2]))  # a wheel on disk is named by its file
            yield f"{len(names)} of {max(total, len(names))}: {names[-1]}"
        elif names and (size := re.match(r"\s+Downloading .*\(([\d.]+ [kMG]B)\)", line)):
            yield f"{len(names)} of {max(total, len(names))}: {names[-1]}, {size[1]}"
        elif line.startswith("Installing collected packages"):
            yield "unpacking"


def main(options: list[str]) -> int:
    command = [sys.executable, "-m", "pip", "install", *options]
    if not sys.stderr.isatty():
        return subprocess.run([*command, "--quiet"], check=False).returncode
    with subprocess.Popen([*command, "--progress-bar", "off"], stdout=subprocess.PIPE, text=True) as pip:
        for step in steps(pip.stdout or (), pinned(options)):
            print(f"\r{step[:WIDE]:{WIDE}}", end="", file=sys.stderr, flush=True)
    print(f"\r{'':{WIDE}}\r", end="", file=sys.stderr, flush=True)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
