"""Executors do the local training of all clients of all runs for a round. They agree to rounding and differ in speed.

Bits differ between executors, so one table of results takes one executor.
"""

from collections.abc import Callable
from contextlib import suppress

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.batched import Batched
from headgate.simulation.executors.compiled import Compiled
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.gram import Gram
from headgate.simulation.executors.gram_torch import GramTorch
from headgate.simulation.executors.packed_net import check_packed_form
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.stack_net import LARGE, is_small_stack
from headgate.simulation.executors.streams import CudaStreams
from headgate.simulation.executors.types import Executor, Packed, Task

__all__ = ["Executor", "Packed", "Task", "names", "pick"]


def _packed(task: Task) -> Executor:
    check_packed_form(task)
    from headgate.simulation.executors.packed import PackedKernels  # only where triton is installed

    return PackedKernels(task)


_KINDS: dict[str, Callable[[Task], Executor]] = {
    "reference": Reference,
    "gram": lambda task: Gram(task) if task.device.type == "cpu" else GramTorch(task),
    "compiled": Compiled,
    "flat": FlatLoop,
    "batched": Batched,
    "streams": CudaStreams,
    "packed": _packed,
}


def names() -> tuple[str, ...]:
    """What `pick` takes for a name."""
    return ("auto", *_KINDS)


def pick(task: Task, training: LocalTraining, name: str = "auto") -> Executor:
    """The executor `name`, or the fastest that fits: gram for linear models; on CUDA packed for residual nets in
    bfloat16 and for small stacks of convolutions and linear layers, streams for other large models, batched for small ones;
    on the CPU compiled for small convolutional nets, flat for all else.
    """
    if name not in names():
        raise SettingError(f"--executor {name}: must be {', '.join(names())}")
    if task.bfloat16 and task.device.type != "cuda":
        raise SettingError(f"training.dtype = bfloat16: needs CUDA, the device is {task.device.type}")
    if task.bfloat16 and name not in ("auto", "packed", "streams"):
        raise SettingError(f"training.dtype = bfloat16: only for --executor packed or streams, not {name}")
    for choosy in _choosy(task) if name == "auto" else ():
        with suppress(SettingError):
            return _made(choosy, task, training)
    return _made(_else(task, training) if name == "auto" else name, task, training)


def _choosy(task: Task) -> tuple[str, ...]:
    """Those that are the fastest where they fit."""
    if task.bfloat16:
        return ("packed",)
    return ("gram", "packed") if task.device.type == "cuda" and is_small_stack(task) else ("gram", "compiled")


def _made(name: str, task: Task, training: LocalTraining) -> Executor:
    """Refused where the executor does not do this, or not here: layers are looked at, not a name."""
    executor = _KINDS[name](task)
    executor.check(training)
    return executor


def _else(task: Task, training: LocalTraining) -> str:
    """For any model."""
    if task.bfloat16 or (task.device.type == "cuda" and task.flat.size >= LARGE):
        return "streams"
    return "batched" if task.device.type == "cuda" and training.batch_size is None else "flat"
