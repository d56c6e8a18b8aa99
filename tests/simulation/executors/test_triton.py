"""The Triton kernels by way of Triton's interpreter, in a process of its own."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_the_kernels_do_what_torch_does():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-W", "ignore::RuntimeWarning"]
    checks = Path(__file__).with_name("interpreted_kernels.py")
    done = subprocess.run(
        [*command, str(checks)], env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
