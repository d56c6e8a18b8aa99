"""Executors do the local training of all clients of all runs for a round. They agree to rounding and differ in speed.

Bits differ between executors, so one table of results takes one executor.
"""

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Executor, Packed

if TYPE_CHECKING:
    from headgate.simulation.executors.types import Task


def _of(module: str, kind: str) -> Callable[["Task"], Executor[Any]]:
    """One that is imported when it is made."""

    def made(task: "Task") -> Executor[Any]:
        executor: Executor[Any] = getattr(import_module(f"{__name__}.{module}"), kind)(task)
        return executor

    return made


def _packed(task: "Task") -> Executor[Any]:
    from headgate.simulation.executors.packed_net import check_packed_form

    check_packed_form(task)
    return _of("packed", "PackedKernels")(task)  # only where triton is installed


_KINDS: dict[str, Callable[["Task"], Executor[Any]]] = {
    "reference": _of("reference", "Reference"),
    "gram": _of("gram_host", "GramHost"),
    "compiled": _of("compiled", "Compiled"),
    "flat": _of("flat", "FlatLoop"),
    "batched": _of("batched", "Batched"),
    "streams": _of("streams", "CudaStreams"),
    "packed": _packed,
}


def names() -> tuple[str, ...]:
    """What `pick` takes for a name."""
    return ("auto", *_KINDS)


def pick(task: "Task", training: LocalTraining, name: str = "auto") -> Executor[Any]:
    """The executor `name`, or the fastest that fits: on CUDA packed for residual nets in bfloat16 and for small
    stacks of convolutions and linear layers, streams for other large models, batched for small ones; on the CPU gram for linear
    models, compiled for small stacks, flat for all else.
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


def _choosy(task: "Task") -> tuple[str, ...]:
    """Those that are the fastest where they fit."""
    from headgate.simulation.executors.stack_net import is_small_stack

    if task.bfloat16:
        return ("packed",)
    return ("packed",) if task.device.type == "cuda" and is_small_stack(task) else ("gram", "compiled")


def _made(name: str, task: "Task", training: LocalTraining) -> Executor[Any]:
    """Refused where the executor does not do this, or not here: layers are looked at, not a name."""
    executor = _KINDS[name](task)
    executor.check(training)
    return executor


def _else(task: "Task", training: LocalTraining) -> str:
    """For any model."""
    from headgate.simulation.executors.stack_net import LARGE

    if task.bfloat16 or (task.device.type == "cuda" and task.flat.size >= LARGE and training.plain):
        return "streams"
    return "batched" if task.device.type == "cuda" and training.batch_size is None else "flat"
