"""Which device trains, and how an experiment is cut into chunks, sub-experiments that are simulated one by one.

The cut depends on the experiment, the executor and the device's memory, never on how many processes work, so neither do
the results: prices and streams are addressed by seed, and a policy sees only its own run.
"""

import ctypes
import gc
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.learning.data import Digits
from headgate.learning.models import Logistic

LIGHT = 5.0
"""seconds of work that are not worth a second process"""
TOGETHER = {"gram": 40}
"""runs in a chunk on the CPU: linear models share the products of their evaluation"""
TOGETHER_ELSE = 2
"""and others a policy's decision, which for AC-DPP takes as long for one seed as for ten"""
MOST_NETS = 200
"""in a chunk on a GPU, also where more would fit: more are not faster, and more is lost with a chunk"""
SHARE = 0.8
"""of a device's free memory; the rest is for what libraries take for themselves, and for fragments"""


def work(experiment: Experiment) -> float:
    """Seconds on one core, very roughly: what tells a second from a minute without looking at data or model."""
    digits, linear = isinstance(experiment.data.source, Digits), type(experiment.model) is Logistic
    training = ((0.0006 if digits else 0.002) if linear else 0.15) * max(1.0, experiment.system.clients / 100)
    evaluation = (0.0001 if digits else 0.007) if linear else 1.0
    return runs_of(experiment) * experiment.rounds * (training + evaluation / max(experiment.training.evaluate_every, 1))


def runs_of(experiment: Experiment) -> int:
    return len(experiment.policies) * len(experiment.seeds)


def most_runs(experiment: Experiment, executor: str, fit: int | None = None) -> int:
    """How many runs a chunk may have; `fit` is how many the device has room for, None on the CPU."""
    if fit is not None:
        return min(fit, MOST_NETS)
    return runs_of(experiment) if work(experiment) < LIGHT else TOGETHER.get(executor, TOGETHER_ELSE)


def cut(experiment: Experiment, most: int) -> list[Experiment]:
    """Chunks of at most `most` runs: whole policies together where their seeds fit, else some seeds of one policy."""
    names, seeds = list(experiment.policies), experiment.seeds
    if runs_of(experiment) <= most:
        return [experiment]
    if len(seeds) <= most:
        groups = -(-len(names) // (most // len(seeds)))
        return [experiment.only(own.tolist()) for own in np.array_split(np.array(names, dtype=object), groups)]
    spans = np.array_split(seeds, -(-len(seeds) // most))
    return [experiment.only([name], span) for name in names for span in spans]


class Footprint(NamedTuple):
    """Bytes on a device: what is there once, and what each run adds."""

    once: int
    run: int

    def bytes(self, runs: int) -> int:
        return self.once + runs * self.run

    def fit(self, free: int) -> int:
        """How many runs fit into the free memory; at least one is tried."""
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
    """All images stay on the device, `pixel` bytes for each of their pixels, with a label each; `evaluated` of them at once
    become numbers, several times.

    A run has its model before and after, and one for its sum, and what the executor says that it takes (`run`). Where it says
    nothing and has no bound in all (`working`) either, every client of every run is taken to have a model, its gradient, its
    move and a copy at the same time.
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
    """cpu or cuda; auto takes a GPU where there is one."""
    if name not in DEVICES:
        raise SettingError(f"--device {name}: must be one of {', '.join(DEVICES)}")
    if name == "cuda" and not _finds_gpu():
        raise SettingError("--device cuda: torch finds no GPU here")
    driver = Path("/dev/kfd").exists()  # AMD's; a driver is looked for first, because to import torch takes seconds
    if name == "auto" and not driver:
        with suppress(OSError):
            driver = bool(ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"))
    return "cuda" if name == "cuda" or (name == "auto" and driver and _finds_gpu()) else "cpu"


def _finds_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def give_back(device: str) -> None:
    """Free the memory of a GPU that is no longer used: executors refer to themselves, so garbage is collected first."""
    if choose_device(device) == "cuda":
        import torch

        gc.collect()
        torch.cuda.empty_cache()
