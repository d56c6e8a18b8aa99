"""The Triton kernels for stacks, compiled for a GPU that need not be there: the interpreter takes what a compiler refuses."""

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
FLOATS, BYTES, INTS, INT, FLOAT = "*fp32", "*u8", "*i32", "i32", "fp32"
TYPES = {
    **dict.fromkeys(("x", "theta", "y", "slope", "wide_slope", "dx", "velocity", "logits", "losses"), FLOATS),
    **dict.fromkeys(("tile_client", "tile_start", "offsets", "owner"), INTS),
    **dict.fromkeys(("images", "stride", "weight", "bias"), INT),
    **dict.fromkeys(("lr", "momentum", "decay"), FLOAT),
    "winner": BYTES,
    "labels": "*i64",
}
SHAPE = {"C": 6, "H": 14, "W": 14, "CO": 16, "KERNEL": 5}
PRODUCT = {"ROWS": 64, "COLUMNS": 16, "DEEP": 32, "PRECISION": "tf32x3"}
LINEAR = {"C": 400, "CO": 120, "ROWS": 16, "COLUMNS": 32, "DEEP": 32, "PRECISION": "tf32x3"}
SIZES = {
    "convolve": {**SHAPE, **PRODUCT, "POOL": 2, "FRAME": 1, "ACTIVATION": 1, "BIAS": True, "LEARN": True},
    "unpool": {"CO": 16, "HIGH": 5, "WIDE": 5, "POOL": 2, "FRAME": 4, "H": 18, "W": 18, "BLOCK": 1024},
    "convolution_slope": {**SHAPE, **PRODUCT, "FRAME": 0, "BEFORE": 2},
    "descend_convolution": {**SHAPE, "POOL": 2, "BIAS": True, "MOMENTUM": True, "ROWS": 64, "DEEP": 32},
    "linear": {**LINEAR, "ACTIVATION": 3, "BIAS": True},
    "linear_slope": {**LINEAR, "BEFORE": 0},
    "descend_linear": {**LINEAR, "BIAS": True, "MOMENTUM": False, "ROWS": 32, "COLUMNS": 64, "DEEP": 16},
    "cross_entropy": {"K": 10, "KP": 16},
}


@pytest.mark.parametrize("name", SIZES)
def test_a_kernel_compiles_for_hopper(name):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from headgate.simulation.executors import triton_stacks

    kernel, sizes = getattr(triton_stacks, name), SIZES[name]
    signature = {argument: "constexpr" if argument in sizes else TYPES[argument] for argument in kernel.arg_names}
    fixed = {(kernel.arg_names.index(argument),): value for argument, value in sizes.items()}
    made = triton.compile(ASTSource(kernel, signature, fixed), target=GPUTarget("cuda", 90, 32), options={"num_warps": 2})
    assert ".target sm_90" in made.asm["ptx"]
