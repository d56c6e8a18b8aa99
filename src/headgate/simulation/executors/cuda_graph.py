"""How work on a GPU is recorded, to be played again without the host."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def recording(graph: Any, **where: Any) -> Iterator[None]:
    """torch.cuda.graph, during which no garbage is collected.

    An older graph that is garbage may be freed at any moment. While another one is recorded CUDA does not permit it, and
    the recording fails.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, **where):
            yield
    finally:
        if collecting:
            gc.enable()
