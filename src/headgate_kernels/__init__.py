"""Executors for speed: `compiled` and `triton` with kernels written by hand, `batched`
and `streams` with those of torch on CUDA.

headgate loads them by name, as it loads an executor of anybody else, and imports
nothing from here. See README.md.
"""

__all__: list[str] = []
