"""Executors with kernels written by hand: `compiled` with numba, `triton` on CUDA.

headgate loads them by name, as it loads an executor of anybody else, and imports
nothing from here. See README.md.
"""

__all__: list[str] = []
