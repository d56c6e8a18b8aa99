"""Renews constraints.txt and pins/ from pyproject.toml: every version, and the hashes
of all its files. pins/labels.txt is Label Studio, which has an environment of its own.

python tools/pins.py                           # versions that still fit stay
python tools/pins.py --upgrade                 # the newest of everything
python tools/pins.py --upgrade-package polars  # the newest of one

uv resolves once for every platform and Python from 3.11 on, against the index that pip
is configured with. Nothing is downloaded but descriptions.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Container, Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
HEADS = {
    "constraints.txt": (
        "Every version that `make` installs, for `pip install -c`. The hashes are in"
        " pins/."
    ),
    "pins/run.txt": (
        "What `make run` needs: headgate without extras, and the build backend."
    ),
    "pins/rest.txt": "What the extras need beside it, except torch.",
    "pins/torch.txt": (
        "torch, as the index has it and, built for processors alone (+cpu), as it was"
        " found beside it."
    ),
    "pins/cuda.txt": "What the index's torch needs beside the others.",
}
LABELS = "pins/labels.txt"
LABELS_HEAD = "Label Studio and what it needs, in an environment of its own."


class Pin(NamedTuple):
    name: str
    version: str
    marker: str  # where it is needed; "" is everywhere
    hashes: frozenset[str]

    def __str__(self) -> str:
        first = f"{self.name}=={self.version}" + (
            f" ; {self.marker}" if self.marker else ""
        )
        return " \\\n    ".join(
            [first, *(f"--hash=sha256:{value}" for value in sorted(self.hashes))]
        )


def read(text: str) -> list[Pin]:
    """The pins of a requirements file."""
    found = []
    for entry in re.split(r"\n(?=\S)", text):
        if match := re.match(
            r"(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>[^\\\n]*[^\\\n"
            r" ]))?",
            entry,
        ):
            hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
            found.append(
                Pin(match["name"], match["version"], match["marker"] or "", hashes)
            )
    return found


def file_of(name: str, main: Container[str]) -> str:
    """Where a pin stands; `main` are the names of what the main job needs."""
    if name in main:
        return "pins/run.txt"
    if name == "torch":
        return "pins/torch.txt"
    return "pins/cuda.txt" if name.startswith(("cuda-", "nvidia-")) else "pins/rest.txt"


def written(pins: Iterable[Pin], main: Container[str]) -> dict[str, str]:
    """The files, by their paths."""
    lines: dict[str, list[str]] = {file: [] for file in HEADS}
    for pin in sorted(pins):
        lines["constraints.txt"].append(f"{pin.name}=={pin.version}")
        lines[file_of(pin.name, main)].append(str(pin))
    return {file: listing(HEADS[file], each) for file, each in lines.items()}


def listing(head: str, lines: Iterable[str]) -> str:
    """The text of a file."""
    return "\n".join([f"# {head}", "# Made by tools/pins.py.", *lines]) + "\n"


def committed(files: Iterable[str] = tuple(HEADS)[1:]) -> list[Pin]:
    return [pin for file in files for pin in read((ROOT / file).read_text("utf-8"))]


def pip(*arguments: str) -> str:
    """What pip answers; nothing where it cannot."""
    return subprocess.run(
        [sys.executable, "-m", "pip", *arguments], stdout=subprocess.PIPE, text=True
    ).stdout


def resolved(before: Iterable[Pin], *options: str) -> list[Pin]:
    """What uv makes of pyproject.toml; it keeps the versions from before that fit."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"][
        "requires"
    ]
    return compiled("\n".join(build), before, "pyproject.toml", *options)


def compiled(asked: str, before: Iterable[Pin], *options: str) -> list[Pin]:
    """What uv makes of requirements."""
    index = re.findall(
        r"^[^=]*\.index-url='(.+)'$", pip("config", "list"), re.MULTILINE
    )[:1]
    with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
        file.write("\n".join(map(str, before)))
        file.flush()
        subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "uv",
                    "pip",
                    "compile",
                    "--quiet",
                    "-",
                ),
                *(
                    "--universal",
                    "--python-version=3.11",
                    "--fork-strategy=fewest",
                    "--generate-hashes",
                ),
                *("--no-annotate", "--no-header", f"--output-file={file.name}"),
                *(f"--default-index={url}" for url in index),
                *options,
            ],
            cwd=ROOT,
            input=asked,
            text=True,
            check=True,
        )
        return read(Path(file.name).read_text("utf-8"))


def with_other_builds(pin: Pin, before: Iterable[Pin]) -> Pin:
    """torch for processors alone is on no usual index: its wheels are those that pip is
    told to find beside it (find-links), and those known before."""
    known = [old.hashes for old in before if old[:2] == pin[:2]]
    local = (
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--no-index",
        "--report",
        "-",
    )
    report = pip("install", "--quiet", *local, f"torch=={pin.version}")
    items = json.loads(report)["install"] if report else []
    found = [
        item["download_info"]["archive_info"]["hashes"]["sha256"] for item in items
    ]
    return pin._replace(hashes=pin.hashes.union(found, *known))


if __name__ == "__main__":
    before = committed()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    extras.pop("hub")  # nothing that `make` runs needs it
    found = resolved(before, *(f"--extra={name}" for name in extras), *sys.argv[1:])
    pins = [
        with_other_builds(pin, before) if pin.name == "torch" else pin for pin in found
    ]
    for file, text in written(pins, {pin.name for pin in resolved(pins)}).items():
        (ROOT / file).write_text(text, "utf-8")
    pins = compiled("label-studio", committed([LABELS]), *sys.argv[1:])
    (ROOT / LABELS).write_text(listing(LABELS_HEAD, map(str, sorted(pins))), "utf-8")
