"""Kernels compiled for vectors of other processors than this one: the same tests, in a
process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate_kernels import processor

pytest.importorskip("numba")

OTHERS = sorted({(4, 4, 32), (8, 8, 16)} - {processor.vector_registers()})
"""ARM, and x86 without AVX-512"""
PROCESS = """
import sys
import pytest
from headgate_kernels import processor
processor.vector_registers = lambda: {kind}
from headgate_kernels import compiled_shapes as shapes
assert (shapes.LANES, shapes.LONG, shapes.REGISTERS) == {kind}
alone = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
sys.exit(pytest.main([*alone, {file!r}, "-k", {which!r}]))
"""
WHICH = "many_channels"


@pytest.mark.long
@pytest.mark.parametrize("kind", OTHERS)
def test_other_vectors_give_what_the_reference_gives(kind, tmp_path):
    file = str(Path(__file__).with_name("test_compiled.py"))
    process = PROCESS.format(kind=kind, file=file, which=WHICH)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", process],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )
    assert told.returncode == 0, told.stdout + told.stderr  # 5 if there is no such test


FEATURES = [
    ("x86_64", {"avx2": True, "fma": True, "avx512vl": True}, (8, 16, 32)),
    ("AMD64", {"avx2": True, "fma": True, "avx512f": True}, (8, 8, 16)),
    ("x86_64", {"avx2": True, "fma": False}, (4, 4, 16)),
    ("x86_64", {}, (4, 4, 16)),
    ("aarch64", {"neon": True}, (4, 4, 32)),
    ("arm64", {}, (4, 4, 32)),
]


@pytest.mark.parametrize(("machine", "features", "expected"), FEATURES)
def test_what_a_processor_has_decides(monkeypatch, machine, features, expected):
    monkeypatch.setattr(processor.platform, "machine", lambda: machine)
    monkeypatch.setattr(processor, "_features", lambda: features)
    assert processor.vector_registers() == expected


def test_where_nothing_compiles_nothing_is_known(monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    assert processor._features() == {}
