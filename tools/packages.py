"""Builds wheel and sdist, and tries both in a clean environment of every Python that is here.

python tools/packages.py            all Pythons from 3.11 on that are found on the path or with pyenv
python tools/packages.py --quick    this Python alone, and the wheel alone
python tools/packages.py --oldest   this Python alone, the wheel alone, and the oldest versions that pyproject.toml allows

Each environment gets headgate without extras, from the index that pip is configured with, and runs the smoke test. Without
`--oldest` pip takes the newest versions there are.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PYTHONS = [f"python3.{minor}" for minor in range(11, 15)]
MOST = 1_500_000
"""bytes of the wheel"""
SMOKE = (
    ["--version"],
    ["--help"],
    ["serve", "--help"],
    ["recipes"],
    ["plan", "digits", "--set", "run.seeds=2"],
    ["rehearse", "digits", "--rounds", "5", "--policies", "headgate,acdpp"],
    ["run", "digits", "--rounds", "3", "--seeds", "2", "--policies", "headgate,constant", "--out", "tried"],
    ["report", "tried"],
)


def build(into: Path) -> list[Path]:
    """The wheel and the sdist that it is made from, with the build backend of this environment."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sorted([*into.glob("*.whl"), *into.glob("*.tar.gz")], key=lambda path: path.suffix, reverse=True)


def oldest(project: Path = ROOT / "pyproject.toml") -> list[str]:
    """What headgate needs without extras, each in the oldest version that is allowed."""
    needed = map(Requirement, tomllib.loads(project.read_text("utf-8"))["project"]["dependencies"])
    return [f"{each.name}=={bound.version}" for each in needed for bound in each.specifier if bound.operator == ">="]


def attempt(python: str, package: Path, more: Sequence[str] = ()) -> None:
    """Installs a package, and more, into a new environment and runs the smoke test there."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        subprocess.run([python, "-m", "venv", str(home / "venv")], check=True)
        bin_ = home / "venv" / "bin"
        subprocess.run(
            [str(bin_ / "pip"), "install", "--quiet", "--disable-pip-version-check", str(package), *more], check=True
        )
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for words in SMOKE:
            done = subprocess.run(
                [str(bin_ / "headgate"), *words], cwd=home, env=env, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"{package.name}, {python}: headgate {' '.join(words)} ended with {done.returncode}\n{done.stderr}")


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
    return shutil.which(python) is not None and not subprocess.run([python, "-V"], capture_output=True, check=False).returncode


def main(quick: bool, old: bool) -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    packages = build(DIST)
    for package in packages:
        print(f"{package.name}: {package.stat().st_size / 1e6:.2f} MB", flush=True)
    if packages[0].stat().st_size > MOST:
        sys.exit(f"{packages[0].name}: more than {MOST / 1e6:g} MB")
    alone = quick or old
    for python in [sys.executable] if alone else found():
        for package in packages[:1] if alone else packages:
            print(f"{package.name}: {python}, {'oldest' if old else 'newest'} versions …", flush=True)
            attempt(python, package, oldest() if old else ())
            print(f"{package.name}: installed and tried with {python}", flush=True)
    if not alone:
        attempt(sys.executable, packages[0], oldest())
        print(f"{packages[0].name}: tried with {', '.join(oldest())}", flush=True)


if __name__ == "__main__":
    main("--quick" in sys.argv[1:], "--oldest" in sys.argv[1:])
