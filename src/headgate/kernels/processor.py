"""What the vectors of this machine's processor can hold."""

import platform


def vector_registers() -> tuple[int, int, int]:
    """(numbers of float32 in a vector, in the longest vector, vectors that a core can keep).

    Every 64-bit ARM or x86 processor has vectors of 128 bits. 256 are used where the processor has AVX2 and multiplies and
    adds in one, and 512 with AVX-512 only in blocks that fill them: rows of LeNet's first layer would be half empty.
    """
    features = _features()
    wide = features.get("avx2", False) and features.get("fma", False)
    long = wide and features.get("avx512vl", False)
    many = platform.machine().lower() in ("aarch64", "arm64") or features.get("avx512vl", False)
    return 8 if wide else 4, 16 if long else 8 if wide else 4, 32 if many else 16


def _features() -> dict[str, bool]:
    """Those that LLVM, which compiles for this processor, knows of; none where it is not installed."""
    try:
        from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]

        return dict(get_host_cpu_features())
    except (ImportError, RuntimeError):
        return {}
