"""What `make` says while it installs."""

import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PATH = ROOT / "tools" / "installing.py"
TOOL = runpy.run_path(str(PATH))
SAID = """\
Looking in links: /somewhere
Processing ./wheels/torch-2.13.0+cpu-cp311.whl (from -r pins/run.txt (line 1))
Requirement already satisfied: pip==26.0 in ./lib (26.0)
Collecting numpy==2.4.1 (from -r pins/run.txt (line 3))
  Downloading numpy-2.4.1-cp311.whl (16.5 MB)
Collecting polars[x]>=1.30
  Using cached polars-1.36.whl (805 kB)
Installing collected packages: numpy, polars
Successfully installed numpy-2.4.1
"""


def test_each_package_is_counted_once():
    assert list(TOOL["steps"](SAID.splitlines(), 4)) == [
        "1 of 4: torch",
        "2 of 4: pip",
        "3 of 4: numpy",
        "3 of 4: numpy, 16.5 MB",
        "4 of 4: polars",
        "unpacking",
    ]


def test_the_files_say_how_many_there_are():
    asked = ["--no-deps", "-r", str(ROOT / "pins" / "run.txt"), "-r", str(ROOT / "pins" / "torch.txt")]
    lines = [line for file in asked if file.endswith(".txt") for line in Path(file).read_text("utf-8").splitlines()]
    assert TOOL["pinned"](asked) == sum("==" in line for line in lines) > 10


def test_what_pip_refuses_is_refused_in_its_words(tmp_path):
    command = [sys.executable, str(PATH), "--no-index", "--find-links", str(tmp_path), "headgate-is-not-there"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "No matching distribution found for headgate-is-not-there" in done.stderr
