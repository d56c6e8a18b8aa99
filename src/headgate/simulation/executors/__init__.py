"""Executors do the local training of all clients of all runs for a round. They agree to rounding and differ in speed.

Bits differ between executors, so one table of results takes one executor.
"""

from collections.abc import Callable

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.batched import Batched
from headgate.simulation.executors.compiled import Compiled, is_compiled
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.gram import Gram, is_linear
from headgate.simulation.executors.gram_torch import GramTorch
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.types import Executor, Packed, Task

__all__ = ["Executor", "Packed", "Task", "names", "pick"]
_KINDS: dict[str, Callable[[Task], Reference | Gram | GramTorch | FlatLoop | Compiled | Batched]] = {
    "reference": Reference,
    "gram": lambda task: Gram(task) if task.device.type == "cpu" else GramTorch(task),
    "compiled": Compiled,
    "flat": FlatLoop,
    "batched": Batched,
}


def names() -> tuple[str, ...]:
    """What `pick` takes for a name."""
    return ("auto", *_KINDS)


def pick(task: Task, training: LocalTraining, name: str = "auto") -> Executor:
    """The executor `name`, or the fastest that fits: gram for linear models, batched on CUDA, on the CPU
    compiled for small convolutional nets, flat for all else.
    """
    if name not in names():
        raise SettingError(f"--executor {name}: must be {', '.join(names())}")
    executor = _KINDS[_fastest(task, training) if name == "auto" else name](task)
    if isinstance(executor, Gram | GramTorch | Compiled | Batched):
        executor.check(training)
    return executor


def _fastest(task: Task, training: LocalTraining) -> str:
    if training.batch_size is None and training.weight_decay == 0 and is_linear(task.model):
        return "gram"
    if is_compiled(task, training):
        return "compiled"
    return "batched" if task.device.type == "cuda" and training.batch_size is None else "flat"
