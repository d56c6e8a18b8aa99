"""Builds wheel and sdist, and tries both in a clean environment of every Python that is here.

python tools/packages.py            all Pythons from 3.11 on that are found on the path
python tools/packages.py --quick    this Python alone, and the wheel alone

Each environment gets headgate without extras, from the index that pip is configured with, and runs the smoke test.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PYTHONS = [f"python3.{minor}" for minor in range(11, 15)]
MOST = 1_500_000
"""bytes of the wheel"""
SMOKE = (
    ["--version"],
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


def attempt(python: str, package: Path) -> None:
    """Installs a package into a new environment and runs the smoke test there."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        subprocess.run([python, "-m", "venv", str(home / "venv")], check=True)
        bin_ = home / "venv" / "bin"
        subprocess.run([str(bin_ / "pip"), "install", "--quiet", "--disable-pip-version-check", str(package)], check=True)
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for words in SMOKE:
            done = subprocess.run(
                [str(bin_ / "headgate"), *words], cwd=home, env=env, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"{package.name}, {python}: headgate {' '.join(words)} ended with {done.returncode}\n{done.stderr}")


def works(python: str) -> bool:
    """A name on the path may be a stand-in for what is not there."""
    return shutil.which(python) is not None and not subprocess.run([python, "-V"], capture_output=True, check=False).returncode


def main(quick: bool) -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    packages = build(DIST)
    for package in packages:
        print(f"{package.name}: {package.stat().st_size / 1e6:.2f} MB")
    if packages[0].stat().st_size > MOST:
        sys.exit(f"{packages[0].name}: more than {MOST / 1e6:g} MB")
    pythons = [sys.executable] if quick else list(filter(works, PYTHONS))
    for python in pythons:
        for package in packages[:1] if quick else packages:
            attempt(python, package)
            print(f"{package.name}: installed and tried with {Path(python).name}")


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
