"""The vector registers of this machine's processor."""

import platform


def vector_registers() -> tuple[int, int, int]:
    """Return the numbers of float32 in a usual and in the longest vector, and the
    number of vector registers.

    Every 64-bit ARM or x86 processor has vectors of 128 bits. Those of 256 bits are
    used with AVX2 and fused multiply-add, and those of 512 bits (AVX-512) only in
    blocks that fill them: rows of LeNet's first layer would leave them half empty.
    """
    features = _features()
    wide = features.get("avx2", False) and features.get("fma", False)
    long = wide and features.get("avx512vl", False)
    many = platform.machine().lower() in ("aarch64", "arm64") or features.get(
        "avx512vl", False
    )
    return 8 if wide else 4, 16 if long else 8 if wide else 4, 32 if many else 16


def _features() -> dict[str, bool]:
    """Return the features of this processor that LLVM reports; none where LLVM is not
    installed.
    """
    try:
        from llvmlite.binding import (  # type: ignore[import-untyped]
            get_host_cpu_features,
        )

        return dict(get_host_cpu_features())
    except (ImportError, RuntimeError):
        return {}
