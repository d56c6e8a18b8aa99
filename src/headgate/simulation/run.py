"""From a run folder to a played one, in this process: the loop over rounds, checkpoints, going on later.

`schedule` cuts large experiments into parts and has each played by what is here, wherever that may be.
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from headgate.errors import DataError, Interrupted, SettingError
from headgate.experiment import Experiment, load
from headgate.learning.datasets import Dataset, hold_out
from headgate.records.lock import FolderLock
from headgate.records.reader import CONFIG, MEAN_PRICE
from headgate.records.scored import read_scored
from headgate.records.shards import resuming, saying_how_to_go_on
from headgate.records.source import commit
from headgate.records.writer import Checkpoint, RunWriter
from headgate.registry import in_one_line
from headgate.simulation.cut import footprint
from headgate.simulation.devices import choose_device, give_back
from headgate.simulation.engine import Simulation, streams_of
from headgate.simulation.learner import EVALUATED
from headgate.simulation.rounds import Round

Tick = Callable[[Round], None]
CHECKPOINT_SECONDS = 15.0
MOST_THREADS = 1024


def examine(experiment: Experiment, dataset: Dataset, device: str, executor: str) -> dict[str, Any]:
    """What the record says of the machinery, and the room on a GPU. What can be refused is refused here.

    One seed is simulated; they differ in how the data are dealt, which is tried for each.
    """
    one = Simulation(replace(experiment, seeds=experiment.seeds[:1]), dataset, choose_device(device), executor)
    others = hold_out(dataset, experiment.data.validation), experiment.seeds[1:], one.moving
    for _ in streams_of(experiment, *others, tried=True):
        pass
    facts: dict[str, Any] = {"environment": _environment(one), "at_first": one.learner.executor.at_first}
    if one.learner.device == "cuda":
        import torch

        theta, trainer = one.models.theta, one.learner.executor
        parameters, itemsize = theta.shape[1], theta.dtype.itemsize
        here = one.learner.dataset  # in every concept, where the world changes
        images = len(here.train_labels) + sum(len(labels) for _, labels in here.judged)
        clients = experiment.training.cohort or experiment.system.clients
        run = trainer.bytes_of_run(int(experiment.system.memory), clients, experiment.training.local())
        working, pixels = trainer.memory, math.prod(dataset.shape)
        del one, theta, here, trainer
        give_back(device)
        itself = dataset.train_images.itemsize
        need = footprint(images, pixels, itself, parameters, clients, itemsize, EVALUATED, working, run)
        facts |= {"free": torch.cuda.mem_get_info()[0], "footprint": asdict(need)}
    return facts


def _environment(simulation: Simulation) -> dict[str, Any]:
    return {
        **simulation.learner.facts(),
        "threads": 1,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        MEAN_PRICE: simulation.experiment.prices.mean(simulation.experiment.rounds),
        **({"commit": made_by} if (made_by := commit()) else {}),
    }


def resume(
    experiment: Experiment, dataset: Dataset, checkpoint: Checkpoint, device: str = "auto"
) -> tuple[Simulation, RunWriter]:
    """A run as it stood at its newest checkpoint, by the same executor on the same kind of device."""
    simulation = Simulation(experiment, dataset, choose_device(device), checkpoint.fact("executor", str))
    began_on, here = checkpoint.fact("device", str), simulation.learner.device
    if (began_on == "cpu") != (here == "cpu"):
        raise SettingError(f"{checkpoint.folder}: began on {began_on}, the device is now {here}; results would differ")
    sums = checkpoint.cut_rows()
    if checkpoint.path is not None:
        ledgers = {name: checkpoint.ledger(name, each) for name, each in simulation.controllers.items()}
        try:
            simulation.restore(checkpoint.t, checkpoint.tensors(), ledgers)
            simulation.scoring.took = read_scored([checkpoint.facts])
        except (LookupError, ValueError, TypeError, RuntimeError) as error:  # of another model, or made up
            raise DataError(f"{checkpoint.path}: does not fit the run ({in_one_line(error)}); it cannot be continued") from None
    return simulation, RunWriter(checkpoint.folder, sums)


def play_folder(
    folder: Path, experiment: Experiment | None, dataset: Dataset, device: str, tick: Tick, stop: Callable[[], bool]
) -> None:
    """All rounds that are left of the run in `folder`, which may be a part of a larger one; its rows stay rows.

    `experiment` is the one in the folder's config where it is None.

    When `stop` says so, the round is finished and checkpointed, and `Interrupted` says how to go on.
    """
    with FolderLock() as held:
        held.take(folder / CONFIG, folder)
        checkpoint = Checkpoint(folder)
        simulation, writer = resume(experiment or load(folder / CONFIG), dataset, checkpoint, device)
        with simulation.learner.threads(min(max(1, checkpoint.fact("threads", int)), MOST_THREADS)):
            play_rounds(simulation, writer, tick, stop=stop)


def play_rounds(
    simulation: Simulation,
    writer: RunWriter,
    tick: Tick,
    seconds: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """See `play_folder`; a checkpoint every so many seconds, when told to stop and at the end."""
    rounds, seconds = simulation.experiment.rounds, CHECKPOINT_SECONDS if seconds is None else seconds
    saved = began = time.monotonic()

    def note(state: str) -> None:
        elapsed = round(time.monotonic() - began, 3)
        writer.state(state, simulation.t, rounds, elapsed_s=elapsed, **_facts(simulation))

    with saying_how_to_go_on(writer.folder):
        note("running")
        try:
            while simulation.t < rounds:
                done = simulation.step()
                writer.append("metrics", done.metrics)
                writer.append("clients", done.clients)
                tick(done)
                ending = stop()
                if ending or simulation.t == rounds or time.monotonic() - saved > seconds:
                    writer.checkpoint(simulation.t, simulation.tensors(), simulation.ledgers, _facts(simulation))
                    saved = time.monotonic()
                    note("running")
                if ending and simulation.t < rounds:
                    note("interrupted")
                    go_on = f"go on with: {resuming(writer.folder)}"
                    raise Interrupted(f"interrupted after round {simulation.t} of {rounds}", go_on)
        except KeyboardInterrupt:  # the second: this round is lost, and played again on --resume
            note("interrupted")
            raise


def _facts(simulation: Simulation) -> dict[str, Any]:
    """Which runs these are, which of them broke down, and what the executor had to give up."""
    names = np.repeat(simulation.names, len(simulation.seeds)).tolist()
    runs = [{"policy": name, "seed": seed} for name, seed in zip(names, simulation.run_seeds, strict=True)]
    note = simulation.learner.executor.note
    return {
        "policies": list(simulation.names),
        "seeds": [int(seed) for seed in simulation.seeds],
        "diverged": [{**run, "t": int(t)} for run, t in zip(runs, simulation.diverged, strict=True) if t],
        "guessing": [run for run, lost in zip(runs, simulation.guessing, strict=True) if lost],
        **({"note": note} if note else {}),
        **simulation.scoring.took.told(),
    }
