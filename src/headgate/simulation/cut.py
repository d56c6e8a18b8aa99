"""Selects the device, and divides an experiment into chunks: smaller experiments that
are simulated separately.

The division depends on the experiment, the executor and the device's memory, but not on
the number of processes. The results do not depend on it either, because prices and
streams are determined by the seed, and a policy sees only its own run.
"""

import ctypes
import gc
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.learning.data import Digits
from headgate.learning.models import Logistic

LIGHT = 5.0
"""the seconds of work below which one process is used and the experiment is not divided
"""
TOGETHER = {"gram": 40}
"""the number of runs in a chunk on the CPU, by executor; linear models share the
products of their evaluation
"""
TOGETHER_ELSE = 2
"""the number of runs in a chunk on the CPU for other executors; the runs share a
policy's decision, which is slow for AC-DPP
"""
MOST_NETS = 200
"""the largest number of runs in a chunk on a GPU: more are not faster, and more work is
lost if a chunk fails
"""
SHARE = 0.8
"""the share of a device's free memory that is used; the rest is for libraries and
fragmentation
"""


def work(experiment: Experiment) -> float:
    """Return a very rough estimate of the seconds on one core, from the settings alone,
    to distinguish seconds from minutes.
    """
    training, evaluation = 0.15, 1.0
    if type(experiment.model) is Logistic:
        digits = isinstance(experiment.data.source, Digits)
        training, evaluation = (0.0006, 0.0001) if digits else (0.002, 0.007)
    training *= max(1.0, experiment.system.clients / 100)
    each_round = training + evaluation / max(experiment.training.evaluate_every, 1)
    return runs_of(experiment) * experiment.rounds * each_round


def runs_of(experiment: Experiment) -> int:
    """Return the number of runs, one for each policy and seed."""
    return len(experiment.policies) * len(experiment.seeds)


def most_runs(
    experiment: Experiment,
    executor: str,
    fit: int | None = None,
) -> int:
    """Return the largest number of runs in a chunk; `fit` is the number that fits into
    the device memory, None on the CPU.
    """
    if fit is not None:
        return min(fit, MOST_NETS)
    if work(experiment) < LIGHT:
        return runs_of(experiment)
    return TOGETHER.get(executor, TOGETHER_ELSE)


def cut(experiment: Experiment, most: int) -> list[Experiment]:
    """Divide an experiment into chunks of at most `most` runs: several policies with
    all seeds, or some seeds of one policy.
    """
    names, seeds = list(experiment.policies), experiment.seeds
    if runs_of(experiment) <= most:
        return [experiment]
    if len(seeds) <= most:
        together = most // len(seeds)
        groups = np.array_split(np.array(names, object), -(-len(names) // together))
        return [experiment.only(group.tolist()) for group in groups]
    spans = np.array_split(seeds, -(-len(seeds) // most))
    return [experiment.only([name], span) for name in names for span in spans]


class Footprint(NamedTuple):
    """The bytes that a chunk needs on a device.

    Parameters
    ----------
    once : int
        The bytes that it needs whatever the number of its runs.
    run : int
        The bytes that each of its runs needs more.
    """

    once: int
    run: int

    def bytes(self, runs: int) -> int:
        """Return the bytes that a chunk of so many runs needs."""
        return self.once + runs * self.run

    def fit(self, free: int) -> int:
        """Return the number of runs that fit into the free memory, at least 1."""
        return max(1, (int(SHARE * free) - self.once) // max(self.run, 1))


def footprint(
    images: int,
    pixels: int,
    pixel: int,
    parameters: int,
    clients: int,
    itemsize: int,
    evaluated: int,
    working: int | None,
    run: int | None = None,
) -> Footprint:
    """Return an estimate of the memory that a chunk needs on a device.

    All images and labels stay on the device, with `pixel` bytes per pixel; `evaluated`
    images at a time become floats, in several copies. A run needs three models and the
    `run` bytes that the executor states. If it states none, the estimate uses its bound
    `working` for all runs, or four models for each client of each run if it has no
    bound either.
    """
    once = images * (pixels * pixel + 8) + 4 * evaluated * pixels * itemsize
    own = 3 * parameters * itemsize
    if run is not None:
        return Footprint(once, own + run)
    if working is not None:
        return Footprint(once + working, own)
    return Footprint(once, own + 4 * clients * parameters * itemsize)


# which device trains


DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> str:
    """Return "cpu" or "cuda"; for "auto", return "cuda" if torch finds a GPU."""
    if name not in DEVICES:
        raise SettingError(f"--device {name}: must be one of {', '.join(DEVICES)}")
    if name == "auto":
        return "cuda" if _has_driver() and _finds_gpu() else "cpu"
    if name == "cuda" and not _finds_gpu():
        raise SettingError("--device cuda: torch finds no GPU here")
    return name


def _has_driver() -> bool:
    """Return whether a GPU driver is installed, because importing torch takes
    seconds.
    """
    if Path("/dev/kfd").exists():  # for AMD
        return True
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def _finds_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def device_name() -> str:
    """Return the name of the GPU of this process, or cpu."""
    if not (_has_driver() and _finds_gpu()):
        return "cpu"
    import torch

    return torch.cuda.get_device_name()


def give_back(device: str) -> None:
    """Free GPU memory that is no longer used; garbage is collected first, because
    executors have reference cycles.
    """
    if choose_device(device) == "cuda":
        import torch

        gc.collect()
        torch.cuda.empty_cache()
