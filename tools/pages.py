"""Makes the pages and pictures that are made from the code and from results.

python tools/pages.py
    writes them
python tools/pages.py --check
    makes them in a copy of the checkout and prints which pages differ; exits with
    1 if any does
"""

import shutil
import subprocess
import sys
import tempfile
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMANDS = (
    "-m studies pages",
    "-m studies.paper.errata.page",
    "-m tools.equations",
    "-m tools.benchmarks",
    "-m tools.reference",
    "-m tools.readme",
    "-m tools.pictures",
)


def make(folder: Path) -> None:
    for command in COMMANDS:
        subprocess.run(
            [sys.executable, *command.split()],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )


def differing() -> list[str]:
    """Return the differences of Markdown pages, as a diff; pictures hold no text to
    compare.
    """
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        for name in (name for name in listed if (ROOT / name).is_file()):
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, Path(folder) / name)
        make(Path(folder))
        found: list[str] = []
        for name in (
            name for name in listed if name.endswith(".md") and (ROOT / name).is_file()
        ):
            texts = [
                (home / name).read_text("utf-8").splitlines()
                for home in (ROOT, Path(folder))
            ]
            found += unified_diff(*texts, name, "made now", lineterm="", n=0)
    return found


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        make(ROOT)
    elif differences := differing():
        print(*differences, sep="\n")
        sys.exit("pages are out of date: make pages")
