"""What executors on CUDA share: recording of CUDA graphs, and few sizes to record."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

LARGE = 1_000_000
"""the number of parameters from which one client occupies a GPU, so that clients train
on several streams, not in a batch
"""


@contextmanager
def recording(graph: Any, **where: Any) -> Iterator[None]:
    """Record a CUDA graph like torch.cuda.graph, with garbage collection disabled.

    The garbage collector may free an older graph at any time. CUDA does not permit this
    while another graph is recorded, and the recording would fail.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, **where):
            yield
    finally:
        if collecting:
            gc.enable()


def rung(n: int) -> int:
    """Round n up to a number of a sequence with four steps per doubling, so that many
    sizes need few shapes.

    >>> [rung(n) for n in (1, 4, 7, 8, 9, 16, 17, 33)]
    [1, 4, 7, 8, 10, 16, 20, 40]
    """
    step = 1 << max(0, (n - 1).bit_length() - 3)
    return -(-n // step) * step
