"""Simulates a run folder in this process: the loop over rounds, the checkpoints, and
the resumption of a run.

`schedule` divides large experiments into shards; each process simulates a shard with
the functions of this module.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headgate.errors import DataError, Interrupted, SettingError
from headgate.experiment import Experiment, load
from headgate.learning.datasets import Dataset, hold_out
from headgate.records.reader import CONFIG, MEAN_PRICE
from headgate.records.writer import (
    Checkpoint,
    RunWriter,
    commit,
    disk_errors,
    resume_command,
)
from headgate.registry import in_one_line
from headgate.simulation.cut import (
    choose_device,
    footprint,
    give_back,
    most_runs,
    runs_of,
)
from headgate.simulation.engine import Simulation, streams_of
from headgate.simulation.learner import EVALUATED
from headgate.simulation.rounds import Round
from headgate.writing import FolderLock

Tick = Callable[[Round], None]
CHECKPOINT_SECONDS = 15.0
PART_SECONDS, PART_SHARE = 0.5, 0.01
"""the time between two parts of a table, in seconds and as a share of the time so far;
the longer one applies
"""


def examine(
    experiment: Experiment, dataset: Dataset, device: str, executor: str
) -> tuple[dict[str, Any], Simulation | None]:
    """Return facts about software and device, on a GPU also about memory; raise the
    errors that can be found before the start.

    For an experiment that is one chunk on the CPU, also return its simulation, ready to
    run. For others make a simulation of one seed, and check for each other seed that
    the data can be divided among the clients.
    """
    chosen = choose_device(device)
    whole = chosen == "cpu" and runs_of(experiment) <= most_runs(experiment, executor)
    one = (
        experiment
        if whole or len(experiment.seeds) == 1
        else replace(experiment, seeds=experiment.seeds[:1])
    )
    simulation = Simulation(one, dataset, chosen, executor)
    if one is not experiment:
        others = (
            hold_out(dataset, experiment.data.validation),
            experiment.seeds[1:],
            simulation.world,
        )
        for _ in streams_of(experiment, *others, tried=True):
            pass
    environment = {
        **simulation.learner.facts(),
        "threads": 1,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        MEAN_PRICE: experiment.prices.mean(experiment.rounds),
        **({"commit": made_by} if (made_by := commit()) else {}),
    }
    facts: dict[str, Any] = {
        "environment": environment,
        "at_first": simulation.learner.executor.at_first,
    }
    if simulation.learner.device == "cpu":
        return facts, simulation if whole else None
    facts |= _memory(
        experiment, simulation, math.prod(dataset.shape), dataset.train_images.itemsize
    )
    del simulation
    give_back(device)
    import torch

    return facts | {"free": int(torch.cuda.mem_get_info()[0])}, None


def _memory(
    experiment: Experiment, one: Simulation, pixels: int, itself: int
) -> dict[str, Any]:
    """Return the footprint of an experiment on a GPU."""
    theta, executor = one.models.theta, one.learner.executor
    here = (
        one.learner.dataset
    )  # includes the images of every concept if the world changes
    images = len(here.train_labels) + sum(len(labels) for _, labels in here.judged)
    clients = experiment.training.cohort or experiment.system.clients
    run = executor.bytes_of_run(
        int(experiment.system.all_places), clients, experiment.local
    )
    size = theta.shape[1], clients, theta.dtype.itemsize
    return {
        "footprint": footprint(
            images, pixels, itself, *size, EVALUATED, executor.memory, run
        )
    }


def resume(
    experiment: Experiment,
    dataset: Dataset,
    checkpoint: Checkpoint,
    device: str = "auto",
) -> tuple[Simulation, RunWriter]:
    """Restore a run from its newest checkpoint, with the same executor and kind of
    device; return it and its writer.
    """
    simulation = Simulation(
        experiment, dataset, choose_device(device), checkpoint.fact("executor")
    )
    began_on, here = checkpoint.fact("device"), simulation.learner.device
    if (began_on == "cpu") != (here == "cpu"):
        raise SettingError(
            f"{checkpoint.folder}: began on {began_on}, the device is now {here};"
            " results would differ"
        )
    parts = checkpoint.cut_rows()
    if checkpoint.path is not None:
        ledgers = {
            name: checkpoint.ledger(name, each)
            for name, each in simulation.controllers.items()
        }
        try:
            simulation.restore(checkpoint.t, checkpoint.tensors(), ledgers)
        except (
            LookupError,
            ValueError,
            TypeError,
            RuntimeError,
        ) as error:  # for another model, or forged
            raise DataError(
                f"{checkpoint.path}: does not fit the run ({in_one_line(error)}); it"
                " cannot be continued"
            ) from None
    return simulation, RunWriter(checkpoint.folder, parts)


def play_folder(
    folder: Path,
    experiment: Experiment | None,
    dataset: Dataset,
    device: str,
    tick: Tick,
    stop: Callable[[], bool],
) -> dict[str, Any]:
    """Simulate the remaining rounds of the run in `folder`, which may be a shard of a
    larger run; return its last state.

    The rows stay in parts. When `stop` returns True, finish the round, write a
    checkpoint and raise `Interrupted`.
    """
    with FolderLock() as held:
        held.take(folder / CONFIG, folder)
        checkpoint = Checkpoint(folder)
        simulation, writer = resume(
            experiment or load(folder / CONFIG), dataset, checkpoint, device
        )
        return play_rounds(simulation, writer, tick, stop=stop)


def play_rounds(
    simulation: Simulation,
    writer: RunWriter,
    tick: Tick,
    seconds: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Simulate the remaining rounds as `play_folder` does; write a checkpoint every
    `seconds`, when stopped and at the end.
    """
    rounds, seconds = (
        simulation.experiment.rounds,
        CHECKPOINT_SECONDS if seconds is None else seconds,
    )
    saved = written = began = time.monotonic()
    metrics: list[dict[str, Any]] = []
    clients: list[dict[str, Any]] = []

    def note(state: str) -> dict[str, Any]:
        elapsed = round(time.monotonic() - began, 3)
        return writer.state(
            state, simulation.t, rounds, elapsed_s=elapsed, **_facts(simulation)
        )

    with disk_errors(writer.folder), simulation.learner.one_thread():
        state = note("running")
        try:
            while simulation.t < rounds:
                done = simulation.step()
                metrics += done.metrics
                clients += done.clients
                tick(done)
                ending, now = stop(), time.monotonic()
                save = ending or simulation.t == rounds or now - saved > seconds
                if save or now - written > max(
                    PART_SECONDS, PART_SHARE * (now - began)
                ):
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
                    state = note("running")
                if ending and simulation.t < rounds:
                    note("interrupted")
                    go_on = f"continue with: {resume_command(writer.folder)}"
                    raise Interrupted(
                        f"interrupted after round {simulation.t} of {rounds}", go_on
                    )
        except (
            KeyboardInterrupt
        ):  # the second Ctrl-C: this round is lost, and --resume repeats it
            note("interrupted")
            raise
    return state


def _facts(simulation: Simulation) -> dict[str, Any]:
    """Return the policies and seeds of the runs, the runs whose model diverged or only
    guesses, and the executor's note.
    """
    names = np.repeat(simulation.names, len(simulation.seeds)).tolist()
    runs = [
        {"policy": name, "seed": seed}
        for name, seed in zip(names, simulation.run_seeds, strict=True)
    ]
    note = simulation.learner.executor.note
    return {
        "policies": list(simulation.names),
        "seeds": [int(seed) for seed in simulation.seeds],
        "diverged": [
            {**run, "t": int(t)}
            for run, t in zip(runs, simulation.diverged, strict=True)
            if t
        ],
        "guessing": [
            run for run, lost in zip(runs, simulation.guessing, strict=True) if lost
        ],
        **({"note": note} if note else {}),
    }
