"""The Triton kernels by way of Triton's interpreter, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .worlds import with_triton

ALL = pytest.param("", marks=pytest.mark.long)


@with_triton
@pytest.mark.parametrize("which", ["reference and training1 or logits or 9-True", ALL], ids=["some", "all"])
def test_the_kernels_do_what_torch_does(which):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-W", "ignore::RuntimeWarning"]
    checks = Path(__file__).with_name("interpreted_kernels.py")
    done = subprocess.run(
        [*command, str(checks), "-k", which],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
