"""Simulates a chunk of a run in this process: the loop over rounds, the checkpoints,
and the resumption from one.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from headgate.errors import DataError, Interrupted, SettingError
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset, hold_out
from headgate.records.chunks import Checkpoint, Chunk
from headgate.records.reader import MEAN_PRICE
from headgate.records.writer import RunWriter, disk_errors
from headgate.registry import in_one_line
from headgate.simulation.alike import software
from headgate.simulation.cut import (
    Footprint,
    choose_device,
    footprint,
    give_back,
    most_runs,
    runs_of,
)
from headgate.simulation.engine import Simulation, streams_of
from headgate.simulation.learner import EVALUATED
from headgate.simulation.rounds import Round

Tick = Callable[[Round], None]
CHECKPOINT_SECONDS = 15.0
PART_SECONDS, PART_SHARE = 0.5, 0.01
"""the time between two parts of a table, in seconds and as a share of the time so far;
the longer one applies
"""


def examine(
    experiment: Experiment,
    dataset: Dataset,
    device: str,
    executor: str,
) -> tuple[dict[str, Any], Simulation | None]:
    """Return facts about software and device, and raise the errors that can be found
    before the start.

    For an experiment that is one chunk on the CPU, also return its simulation, ready to
    run. For others make a simulation of one seed, and check for each other seed that
    the data can be divided among the clients.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    dataset : Dataset
        Its data set.
    device : str
        auto, cpu or cuda.
    executor : str
        The executor of local training: auto, or a name.

    Returns
    -------
    dict
        The environment, and on a GPU the footprint and the free memory.
    Simulation or None
        The simulation of the whole experiment.
    """
    chosen = choose_device(device)
    whole = chosen == "cpu" and runs_of(experiment) <= most_runs(experiment, executor)
    first, later = experiment.seeds[:1], experiment.seeds[1:]
    one = experiment if whole else replace(experiment, seeds=first)
    simulation = Simulation(one, dataset, chosen, executor)
    if not whole and later.size:
        kept = hold_out(dataset, experiment.data.validation)
        for _ in streams_of(experiment, kept, later, simulation.world, tried=True):
            pass

    environment = {
        **software(),
        **simulation.learner.facts(),
        "threads": 1,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        MEAN_PRICE: experiment.prices.mean(experiment.rounds),
    }
    facts: dict[str, Any] = {
        "environment": environment,
        "at_first": simulation.learner.executor.at_first,
    }
    if simulation.learner.device == "cpu":
        return facts, simulation if whole else None
    facts["footprint"] = _footprint(experiment, simulation, dataset)
    del simulation
    give_back(device)
    import torch

    facts["free"] = int(torch.cuda.mem_get_info()[0])
    return facts, None


def _footprint(
    experiment: Experiment,
    one: Simulation,
    dataset: Dataset,
) -> Footprint:
    """Return the footprint of an experiment on a GPU."""
    theta, executor = one.models.theta, one.learner.executor
    # includes the images of every concept if the world changes
    here = one.learner.dataset
    clients = experiment.training.cohort or experiment.system.clients
    return footprint(
        images=len(here.train_labels) + sum(len(labels) for _, labels in here.judged),
        pixels=math.prod(dataset.shape),
        pixel=dataset.train_images.itemsize,
        parameters=theta.shape[1],
        clients=clients,
        itemsize=theta.dtype.itemsize,
        evaluated=EVALUATED,
        working=executor.memory,
        run=executor.bytes_of_run(
            int(experiment.system.all_places), clients, experiment.local
        ),
    )


def resume(
    chunk: Chunk,
    dataset: Dataset,
    device: str = "auto",
) -> tuple[Simulation, RunWriter]:
    """Restore a chunk from its newest checkpoint, with the same executor and kind of
    device.

    Parameters
    ----------
    chunk : Chunk
        The chunk.
    dataset : Dataset
        The data set of its experiment.
    device : str
        auto, cpu or cuda.

    Returns
    -------
    Simulation
        The simulation, ready to continue.
    RunWriter
        The writer of the chunk's files.

    Raises
    ------
    SettingError
        If the run began on another kind of device.
    DataError
        If the checkpoint is damaged or does not fit the run.
    """
    checkpoint = Checkpoint(chunk)
    simulation = Simulation(
        chunk.experiment, dataset, choose_device(device), chunk.run.fact("executor")
    )
    began_on, here = chunk.run.fact("device"), simulation.learner.device
    if (began_on == "cpu") != (here == "cpu"):
        raise SettingError(
            f"{chunk.folder}: began on {began_on}, the device is now {here};"
            " results would differ"
        )
    if checkpoint.path is not None:
        ledgers = {
            name: checkpoint.ledger(name, each)
            for name, each in simulation.controllers.items()
        }
        tensors = checkpoint.tensors()
        try:
            simulation.restore(checkpoint.t, tensors, ledgers)
        except (LookupError, ValueError, TypeError, RuntimeError) as error:
            # it is of another model, or forged
            raise DataError(
                f"{checkpoint.path}: does not fit the run ({in_one_line(error)}); it"
                " cannot be continued"
            ) from None
    return simulation, chunk.writer(checkpoint.parts)


def play_chunk(
    chunk: Chunk,
    dataset: Dataset,
    device: str,
    tick: Tick,
    stop: Callable[[], bool],
) -> float:
    """Simulate the remaining rounds of a chunk, as `play_rounds` does."""
    simulation, writer = resume(chunk, dataset, device)
    return play_rounds(simulation, writer, tick, stop=stop)


def play_rounds(
    simulation: Simulation,
    writer: RunWriter,
    tick: Tick,
    seconds: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    part_seconds: float = PART_SECONDS,
) -> float:
    """Simulate the remaining rounds of a chunk; its rows stay in parts.

    Parameters
    ----------
    simulation : Simulation
        The simulation, before its first round or restored.
    writer : RunWriter
        The writer of the chunk's files.
    tick : callable
        Called with each finished round.
    seconds : float, optional
        The time between two checkpoints; one is also written at the end.
    stop : callable
        When it returns True, the round is finished and a checkpoint is written.
    part_seconds : float
        The least time between two parts of a table.

    Returns
    -------
    float
        The seconds that this took.

    Raises
    ------
    Interrupted
        If `stop` returned True before the last round.
    DataError
        If the folder cannot be written.
    """
    rounds = simulation.experiment.rounds
    seconds = CHECKPOINT_SECONDS if seconds is None else seconds
    saved = written = began = time.monotonic()
    metrics: list[dict[str, Any]] = []
    clients: list[dict[str, Any]] = []

    with disk_errors(writer.folder), simulation.learner.one_thread():
        while simulation.t < rounds:
            done = simulation.step()
            metrics += done.metrics
            clients += done.clients
            tick(done)

            ending, now = stop(), time.monotonic()
            save = ending or simulation.t == rounds or now - saved > seconds
            pause = max(part_seconds, PART_SHARE * (now - began))
            if save or now - written > pause:
                writer.append("metrics", metrics)
                writer.append("clients", clients)
                metrics, clients, written = [], [], now
            if save:
                writer.checkpoint(
                    simulation.t,
                    simulation.tensors(),
                    simulation.ledgers,
                    _facts(simulation),
                )
                saved = time.monotonic()
            if ending and simulation.t < rounds:
                raise Interrupted(f"interrupted after round {simulation.t} of {rounds}")
    return time.monotonic() - began


def _facts(simulation: Simulation) -> dict[str, Any]:
    """Return the policies and seeds of the runs, the runs whose model diverged or only
    guesses, and the executor's note.
    """
    names = np.repeat(simulation.names, len(simulation.seeds)).tolist()
    seeds = simulation.run_seeds
    diverged: list[dict[str, Any]] = []
    guessing: list[dict[str, Any]] = []
    for place, (name, seed) in enumerate(zip(names, seeds, strict=True)):
        run = {"policy": name, "seed": seed}
        if simulation.diverged[place]:
            diverged.append({**run, "t": int(simulation.diverged[place])})
        if simulation.guessing[place]:
            guessing.append(run)
    facts: dict[str, Any] = {
        "policies": list(simulation.names),
        "seeds": [int(seed) for seed in simulation.seeds],
        "diverged": diverged,
        "guessing": guessing,
    }
    if simulation.learner.executor.note:
        facts["note"] = simulation.learner.executor.note
    return facts
