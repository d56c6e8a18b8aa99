"""Executors do the local training of all clients of all runs for a round. They agree to rounding and differ in speed.

An executor is a class with a `name`, a `cost` and a `train`. It is found by an entry point of the group
`headgate.executors`, or named as `module:Class`. Bits differ between executors, so one table of results takes one executor.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.registry import find_outside, in_one_line
from headgate.simulation.executors.executor import Executor, RaggedBatch, TrainingTask, Work

GROUP = "headgate.executors"
SHIPPED = {
    "reference": "headgate.simulation.executors.reference:Reference",
    "gram": "headgate.simulation.executors.gram:Gram",
    "flat": "headgate.simulation.executors.flat:FlatLoop",
    "batched": "headgate.simulation.executors.batched:Batched",
    "streams": "headgate.simulation.executors.streams:CudaStreams",
    "compiled": "headgate.kernels.compiled:Compiled",
    "triton": "headgate.kernels.triton_executor:TritonKernels",
}
"""Entry points of this package. They stand here and not in its metadata, so that a checkout needs no installation."""


def available() -> dict[str, EntryPoint]:
    """Return the entry points of all executors by name: ours, then those of other installed packages."""
    ours = {name: EntryPoint(name, value, GROUP) for name, value in SHIPPED.items()}
    return ours | {each.name: each for each in entry_points(group=GROUP) if each.name not in ours}


def find(name: str) -> type[Executor[Any]]:
    """Return the executor class called `name`, or that of `module:Class`; a SettingError says that there is none."""
    if ":" in name:
        return find_outside("--executor", name, (Executor,))
    known = available()
    if name not in known:
        raise SettingError(f"--executor {name}: must be auto, {', '.join(known)}, or module:Class")
    try:
        found: type[Executor[Any]] = known[name].load()
    except ImportError as error:
        raise SettingError(f"--executor {name}: needs {error.name or in_one_line(error)}, which is not installed") from error
    return found


def choose(
    task: TrainingTask, training: LocalTraining, name: str = "auto", or_else: TrainingTask | None = None
) -> Executor[Any]:
    """Return the executor that trains the task at the least cost; `auto` asks all, anything else only the one of this name.

    `or_else` is the same task in another precision, where either will do. If nobody can do it, a SettingError says what the
    last one said that was asked.
    """
    offers: list[tuple[float, int, type[Executor[Any]], TrainingTask]] = []
    refusal = SettingError(f"--executor {name}: cannot train this model with these settings")
    for kind in available() if name == "auto" else [name]:
        for each in (task,) if or_else is None else (task, or_else):
            try:
                own = find(kind)
                if getattr(each, "bfloat16", False) and not own.bfloat16:
                    raise SettingError(f"training.dtype = bfloat16: --executor {kind} does not do it")
                if (cost := own.cost(each, training)) is not None:
                    offers.append((cost, len(offers), own, each))
            except SettingError as error:
                refusal = error
    for _, _, own, each in sorted(offers, key=lambda offer: offer[:2]):
        try:
            made = own(each)
            made.name = name if ":" in name else own.name  # by which it is found again
            return made
        except SettingError as error:  # what shows only when it is tried
            refusal = error
    raise refusal
