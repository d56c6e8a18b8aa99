"""Builds wheel and sdist, and tries both in a clean environment of every Python that is
here.

    python tools/packages.py
        all Pythons from 3.11 on that are found on the path or with pyenv
    python tools/packages.py --extras
        this Python and the wheel alone: each extra that a user runs by itself

Each environment gets headgate from the index that pip is configured with and runs the
smoke test; without `--extras` it gets no extras. The newest versions there are and the
oldest that pyproject.toml allows are tried. Words such as sim or torch==2.13.0 beside
`--extras` say which extras alone, and what is held fast.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PYTHONS = [f"python3.{minor}" for minor in range(11, 15)]
MOST = 1_000_000
"""bytes of the wheel"""
SMOKE = (
    ["--version"],
    ["--help"],
    ["serve", "--help"],
    ["recipes"],
    ["plan", "digits", "--set", "run.seeds=2"],
    ["rehearse", "digits", "--rounds", "5", "--policies", "headgate,acdpp"],
    [
        "run",
        "digits",
        "--rounds",
        "3",
        "--seeds",
        "2",
        "--policies",
        "headgate,constant",
        "--out",
        "tried",
    ],
    ["report", "tried"],
)
SHORT = ["--rounds", "3", "--seeds", "2", "--policies", "headgate", "--out"]
EXTRAS = {
    "sim": tuple(
        ["run", "digits", "--executor", name, *SHORT, name]
        for name in ("compiled", "flat", "batched")
    ),
    "flower": (["flower", "new", "app", "--clients", "2"],),
    "labels": (
        ["labels", "new", "gate"],
        ["labels", "run", "gate/gate.toml", "--once"],
        ["labels", "status", "gate/gate.toml"],
    ),
    "nvflare": (),
    "http": (),
    "postgres": (),
    "web": (),
    "dask": (),
    "hub": (),
    "figures": (
        ["compare", "digits", "--figure", "x.pdf", *SHORT[:4], "--out", "compared"],
    ),
    "track": (["run", "digits", "--track", "tensorboard,mlflow", *SHORT, "tracked"],),
}
"""what else each extra has to do; gpu wants a GPU, docs and dev are for a checkout"""


def build(into: Path) -> list[Path]:
    """The wheel and the sdist that it is made from, with the build backend of this
    environment.
    """
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(into),
        str(ROOT),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sorted(
        [*into.glob("*.whl"), *into.glob("*.tar.gz")],
        key=lambda path: path.suffix,
        reverse=True,
    )


def oldest(extra: str = "", project: Path = ROOT / "pyproject.toml") -> list[str]:
    """What headgate needs, without extras or with one, each in the oldest version that
    is allowed.
    """
    said = tomllib.loads(project.read_text("utf-8"))["project"]
    bounds: dict[str, Version] = {}
    for each in map(
        Requirement,
        [
            *said["dependencies"],
            *(said["optional-dependencies"][extra] if extra else ()),
        ],
    ):
        for bound in (bound for bound in each.specifier if bound.operator == ">="):
            bounds[each.name] = max(
                bounds.get(each.name, Version("0")), Version(bound.version)
            )
    return [f"{name}=={version}" for name, version in bounds.items()]


def attempt(
    python: str, package: Path, more: Sequence[str] = (), extra: str = ""
) -> None:
    """Installs a package, and more, into a new environment and runs the smoke test
    there.
    """
    wanted = f"{package}[{extra}]" if extra else str(package)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        subprocess.run([python, "-m", "venv", str(home / "venv")], check=True)
        bin_ = home / "venv" / "bin"
        subprocess.run(
            [
                str(bin_ / "pip"),
                "install",
                "--quiet",
                "--disable-pip-version-check",
                wanted,
                *more,
            ],
            check=True,
        )
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for words in (*SMOKE, *EXTRAS.get(extra, ())):
            done = subprocess.run(
                [str(bin_ / "headgate"), *words],
                cwd=home,
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                sys.exit(
                    f"{wanted}, {python}: headgate {' '.join(words)} ended with"
                    f" {done.returncode}\n"
                    f"{done.stderr}"
                )
        if extra == "web":
            serve(bin_ / "headgate", home, env)


def serve(headgate: Path, home: Path, env: Mapping[str, str]) -> None:
    """The page over the run of the smoke test has to tell of it."""
    with subprocess.Popen(
        [headgate, "serve", ".", "--port", "0"],
        cwd=home,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    ) as page:
        try:
            address = next(
                found[0]
                for line in page.stdout or ()
                if (found := re.search(r"http://[\d.:]+", line))
            )
            with urllib.request.urlopen(f"{address}/api/runs", timeout=60) as answer:
                told = json.load(answer)
        finally:
            page.terminate()
    if [run["name"] for run in told["rows"]] != ["tried"]:
        sys.exit(f"headgate serve: told of {told} where one run lies")


def found() -> list[str]:
    """Pythons on the path and of pyenv, one for each version that is tried."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    pythons = []
    for name in PYTHONS:
        beside = sorted(root.glob(f"{name.removeprefix('python')}.*/bin/python"))
        pythons += [each for each in (name, *map(str, beside)) if works(each)][:1]
    return pythons


def works(python: str) -> bool:
    """A name on the path may be a stand-in for what is not there."""
    return (
        shutil.which(python) is not None
        and not subprocess.run(
            [python, "-V"], capture_output=True, check=False
        ).returncode
    )


def each_extra(package: Path, words: Sequence[str]) -> None:
    """Every extra, or those named, by itself."""
    named = {Requirement(word).name: word for word in words if "==" in word}
    for extra in [word for word in words if word in EXTRAS] or EXTRAS:
        lowest = {Requirement(each).name: each for each in oldest(extra)}
        held = {name: word for name, word in named.items() if name in lowest}
        for said, more in (
            ("newest", [*held.values()]),
            ("oldest", [*(lowest | held).values()]),
        ):
            print(f"{package.name}[{extra}]: {said} versions …", flush=True)
            attempt(sys.executable, package, more, extra)
            print(
                f"{package.name}[{extra}]: tried with"
                f" {', '.join(more) or 'the newest'}",
                flush=True,
            )


def main(words: Sequence[str]) -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    packages = build(DIST)
    for package in packages:
        print(f"{package.name}: {package.stat().st_size / 1e6:.2f} MB", flush=True)
    if packages[0].stat().st_size > MOST:
        sys.exit(f"{packages[0].name}: more than {MOST / 1e6:g} MB")
    if "--extras" in words:
        each_extra(packages[0], words)
        return
    for python in found():
        for package in packages:
            print(f"{package.name}: {python}, newest versions …", flush=True)
            attempt(python, package)
            print(f"{package.name}: installed and tried with {python}", flush=True)
    attempt(sys.executable, packages[0], oldest())
    print(f"{packages[0].name}: tried with {', '.join(oldest())}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
