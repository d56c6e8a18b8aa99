"""The Triton kernels by way of Triton's interpreter, in a process of its own, and
compiled for a GPU that need not be there.

The interpreter takes what a compiler refuses.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .worlds import with_triton

pytestmark = with_triton
ALL = pytest.param("", marks=pytest.mark.long)


@pytest.mark.parametrize(
    "which", ["reference and training1 or logits or 16-0.9", ALL], ids=["some", "all"]
)
def test_the_kernels_do_what_torch_does(which):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-W",
        "ignore::RuntimeWarning",
    ]
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


# compiled

FLOATS, BYTES, INTS, INT, FLOAT = "*fp32", "*u8", "*i32", "i32", "fp32"
TYPES = {
    **dict.fromkeys(
        (
            "x",
            "theta",
            "y",
            "slope",
            "wide_slope",
            "dx",
            "velocity",
            "logits",
            "losses",
        ),
        FLOATS,
    ),
    **dict.fromkeys(("tile_client", "tile_start", "offsets", "owner"), INTS),
    **dict.fromkeys(("images", "stride", "weight", "bias"), INT),
    **dict.fromkeys(("lr", "momentum", "decay"), FLOAT),
    "winner": BYTES,
    "labels": "*i64",
}
SHAPE = {"C": 6, "H": 14, "W": 14, "CO": 16, "KERNEL": 5}
PRODUCT = {"ROWS": 64, "COLUMNS": 16, "DEEP": 32, "PRECISION": "tf32x3"}
LINEAR = {
    "C": 400,
    "CO": 120,
    "ROWS": 32,
    "COLUMNS": 64,
    "DEEP": 16,
    "PRECISION": "tf32x3",
}
BACK = {"C": 16, "H": 18, "W": 18, "CO": 6, "KERNEL": 5, **PRODUCT}
SIZES = {
    "convolve": {
        **SHAPE,
        **PRODUCT,
        "POOL": 2,
        "FRAME": 1,
        "ACTIVATION": 1,
        "BIAS": True,
        "LEARN": True,
        "BACKWARD": False,
    },
    "convolve backward": {
        **BACK,
        "POOL": 1,
        "FRAME": 0,
        "ACTIVATION": 2,
        "BIAS": False,
        "LEARN": False,
        "BACKWARD": True,
    },
    "unpool": {
        "CO": 16,
        "HIGH": 5,
        "WIDE": 5,
        "POOL": 2,
        "FRAME": 4,
        "H": 18,
        "W": 18,
        "BLOCK": 1024,
    },
    "descend_convolution": {
        **SHAPE,
        "POOL": 2,
        "BIAS": True,
        "MOMENTUM": True,
        "ROWS": 64,
        "DEEP": 32,
    },
    "descend_linear": {**LINEAR, "BIAS": True, "MOMENTUM": False},
    "cross_entropy": {"K": 10, "KP": 16},
}


NARROW = {
    **dict.fromkeys(("x", "y", "added", "slope", "dx", "low"), "*bf16"),
    "master": FLOATS,
    "velocity": FLOATS,
}
NARROW |= dict.fromkeys(("affine", "mean", "rstd", "d_affine"), FLOATS) | {
    "winner": BYTES,
    "eps": FLOAT,
}
NARROW |= dict.fromkeys(("tile_client", "tile_start", "offsets", "owner"), INTS) | {
    "lr": FLOAT,
    "momentum": FLOAT,
}
NARROW |= dict.fromkeys(("stride", "d_stride", "low_stride"), INT) | {"decay": FLOAT}
TILE = {
    "H": 4,
    "W": 4,
    "CI": 64,
    "CO": 128,
    "TAPS": 9,
    "BM": 64,
    "BN": 128,
    "BK": 64,
    "PRECISION": "tf32",
}
STRIP = {"HW": 64, "W": 8, "C": 128, "GROUP": 4, "POOL": True, "CB": 32, "ROWS": 16}


def compiled(kernel, types, sizes, warps):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {
        argument: "constexpr" if argument in sizes else types[argument]
        for argument in kernel.arg_names
    }
    fixed = {
        (kernel.arg_names.index(argument),): value for argument, value in sizes.items()
    }
    made = triton.compile(
        ASTSource(kernel, signature, fixed),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": warps},
    )
    assert ".target sm_90" in made.asm["ptx"]
    return made.asm["ptx"]


@pytest.mark.parametrize("name", SIZES)
def test_a_kernel_compiles_for_hopper(name):
    from headgate_kernels import triton_stacks

    types = TYPES | {"beside": FLOATS if "backward" in name else BYTES}
    compiled(getattr(triton_stacks, name.split()[0]), types, SIZES[name], 2)


@pytest.mark.parametrize(
    ("name", "boxes", "sizes"),
    [
        (
            "convolve",
            {"x": "4,4,4,64", "w": "1,64,128"},
            {"BACKWARD": False, "ADD": False},
        ),
        (
            "convolve",
            {"x": "4,4,4,64", "w": "1,128,64"},
            {"BACKWARD": True, "ADD": True},
        ),
        (
            "descend_convolution",
            {"x": "1,8,8,64", "slope": "64,128"},
            {"H": 8, "W": 8, "MOMENTUM": True, "LOW": True},
        ),
    ],
)
def test_boxes_come_by_the_copy_engine_and_feed_whole_warp_groups(name, boxes, sizes):
    from headgate_kernels import triton_kernels

    types = NARROW | {
        argument: f"tensordesc<bf16[{shape}]>" for argument, shape in boxes.items()
    }
    text = compiled(getattr(triton_kernels, name), types, TILE | sizes, 4)
    assert "cp.async.bulk.tensor" in text
    assert "wgmma.mma_async" in text
    assert "ldmatrix" not in text  # no factor goes by way of registers


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("norm_mish", {"ADD": False, "LEARN": True}), ("norm_mish_slope", {})],
)
def test_normalisation_compiles_for_hopper(name, sizes):
    from headgate_kernels import triton_norms

    assert "ex2.approx.ftz" in compiled(
        getattr(triton_norms, name), NARROW, STRIP | sizes, 4
    )
