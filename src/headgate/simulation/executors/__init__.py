"""Executors do the local training of all clients of all runs for a round. They agree up
to rounding and differ in speed.

An executor is a class with `name`, `cost` and `train`. It is registered as an entry
point of the group `headgate.executors`, or named as `module:Class`. Because of
rounding, use the same executor for all results of a table.
"""

from importlib.metadata import EntryPoint, entry_points
from itertools import product
from typing import Any

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.registry import find_outside, in_one_line
from headgate.simulation.executors.executor import (
    Executor,
    RaggedBatch,
    TrainingTask,
    Work,
)

__all__ = [
    "Executor",
    "RaggedBatch",
    "TrainingTask",
    "Work",
    "available",
    "choose",
    "find",
]

GROUP = "headgate.executors"
SHIPPED = {
    "reference": "headgate.simulation.executors.reference:Reference",
    "gram": "headgate.simulation.executors.gram:Gram",
    "flat": "headgate.simulation.executors.flat:FlatLoop",
    "batched": "headgate_kernels.batched:Batched",
    "streams": "headgate_kernels.streams:CudaStreams",
    "compiled": "headgate_kernels.compiled:Compiled",
    "triton": "headgate_kernels.triton_executor:TritonKernels",
}
"""The entry points of our own executors. They are listed here and not in the
distribution's metadata, so that a checkout need not be installed. Those of
`headgate_kernels`, a package of its own with those that are there for speed alone, come
in by this door.
"""
OURS = {name: EntryPoint(name, value, GROUP) for name, value in SHIPPED.items()}


def available() -> dict[str, EntryPoint]:
    """Return the entry points of all executors by name: those of this package, then
    those of other installed packages.
    """
    return OURS | {
        each.name: each for each in entry_points(group=GROUP) if each.name not in OURS
    }


def find(name: str) -> type[Executor[Any]]:
    """Return the executor class called `name`, which may be `module:Class`; raise
    SettingError if it cannot be imported.
    """
    if ":" in name:
        return find_outside("--executor", name, (Executor,))
    # to look through all installed packages takes longer than a small round
    known = OURS if name in OURS else available()
    if name not in known:
        raise SettingError(
            f"--executor {name}: must be auto, {', '.join(known)}, or module:Class"
        )
    try:
        found: type[Executor[Any]] = known[name].load()
    except ImportError as error:
        raise SettingError(
            f"--executor {name}: needs {error.name or in_one_line(error)}, which is not"
            " installed"
        ) from error
    return found


def choose(
    task: TrainingTask,
    training: LocalTraining,
    name: str = "auto",
    or_else: TrainingTask | None = None,
) -> Executor[Any]:
    """Return the executor that trains the task at the lowest cost, among all if `name`
    is `auto`, else the one of this name.

    `or_else` is the same task in another precision, if both are allowed. If no executor
    can train the task, raise the SettingError of the executor that was tried last.
    """
    offers: list[tuple[float, int, type[Executor[Any]], TrainingTask]] = []
    refusal = SettingError(
        f"--executor {name}: cannot train this model with these settings"
    )
    kinds = list(available()) if name == "auto" else [name]
    tasks = [task] if or_else is None else [task, or_else]
    for kind, each in product(kinds, tasks):
        try:
            own = find(kind)
            if getattr(each, "bfloat16", False) and not own.bfloat16:
                raise SettingError(
                    f"training.dtype = bfloat16: --executor {kind} does not do it"
                )
            cost = own.cost(each, training)
        except SettingError as error:
            refusal = error
            continue
        if cost is not None:
            offers.append((cost, len(offers), own, each))
    for _, _, own, each in sorted(offers, key=lambda offer: offer[:2]):
        try:
            made = own(each)
        except SettingError as error:
            # some executors detect only here that they cannot train the task
            refusal = error
        else:
            # the name under which a resumed run finds it
            made.name = name if ":" in name else own.name
            return made
    raise refusal
