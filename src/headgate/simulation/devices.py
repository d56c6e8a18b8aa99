"""Which device trains: the processor or a GPU. torch is imported only to ask about a GPU that may be there."""

import ctypes
import gc
import sys
from contextlib import suppress
from pathlib import Path

from headgate.errors import SettingError

DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> str:
    """cpu or cuda; auto takes a GPU where there is one."""
    if name not in DEVICES:
        raise SettingError(f"--device {name}: must be one of {', '.join(DEVICES)}")
    if name == "cuda" and not _finds_gpu():
        raise SettingError("--device cuda: torch finds no GPU here")
    return "cuda" if name == "cuda" or (name == "auto" and _has_driver() and _finds_gpu()) else "cpu"


def _has_driver() -> bool:
    """Of a GPU that torch may find: asked first, because to import torch takes seconds."""
    if Path("/dev/kfd").exists():  # AMD's
        return True
    with suppress(OSError):
        return bool(ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"))
    return False


def _finds_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def give_back(device: str) -> None:
    """Memory of a GPU that nobody needs any more: executors hang together in circles, which must be broken first."""
    if choose_device(device) == "cuda":
        import torch

        gc.collect()
        torch.cuda.empty_cache()
