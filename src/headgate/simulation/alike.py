"""What machines must agree in, so that they play the rounds of one run to the same last
bits.
"""

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from headgate.records.writer import commit
from headgate.simulation.cut import device_name
from headgate.version import __version__

WIDE = {"X86_V4": 512, "AVX512_SKX": 512, "X86_V3": 256, "AVX2": 256}
"""the bits of vectors of processors with these features, as numpy names them"""


def software() -> dict[str, str]:
    """Return the versions and the kind of processor of this machine."""
    facts = {
        "headgate": __version__,
        "numpy": np.__version__,
        "processor": _processor(),
    }
    made_by = commit()
    return {**facts, "commit": made_by} if made_by else facts


def _processor() -> str:
    """Return a text like "x86_64, vectors of 512 bits, OpenBLAS for SkylakeX"."""
    config: Any = np.show_config(mode="dicts")
    found = config.get("SIMD Extensions", {}).get("found", ())
    wide = max((WIDE.get(each, 128) for each in found), default=128)
    blas = {
        f"OpenBLAS for {each['architecture']}"
        for each in threadpool_info()
        if each.get("internal_api") == "openblas"
    }
    return ", ".join([platform.machine(), f"vectors of {wide} bits", *sorted(blas)])


def difference(begun: Mapping[str, Any]) -> str:
    """Return in what this machine differs from what the environment of a run states;
    empty if in nothing.
    """
    here = software()
    if "torch" in begun:
        import torch

        here["torch"] = torch.__version__  # with the kind of build, as in 2.13.0+cpu
    if begun.get("device") != "cpu":
        here["device"] = device_name()
    different = [
        f"{key} is {own}, the run has {begun[key]}"
        for key, own in here.items()
        if key in begun and begun[key] != own
    ]
    return "; ".join(different)
