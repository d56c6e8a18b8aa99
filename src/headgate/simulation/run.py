"""From an experiment to a finished run folder: the loop over rounds, checkpoints, Ctrl-C, going on later."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headgate.config import Experiment
from headgate.errors import DataError, Interrupted, SettingError
from headgate.learning.datasets import Dataset
from headgate.records.trackers import Tracker
from headgate.records.writer import Checkpoint, RunWriter
from headgate.simulation.engine import Round, Simulation

Tick = Callable[[Round], None]
CHECKPOINT_SECONDS = 15.0
DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """auto takes a GPU where there is one; there float32 means float32 (no TF32), by kernels that repeat their bits."""
    if name not in DEVICES:
        raise SettingError(f"--device {name}: must be one of {', '.join(DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingError("--device cuda: torch finds no GPU here")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    return torch.device("cuda")


def start(
    experiment: Experiment, dataset: Dataset, folder: Path, device: str = "auto", executor: str = "auto"
) -> tuple[Simulation, RunWriter]:
    """A new run in a new folder."""
    simulation = Simulation(experiment, dataset, choose_device(device), executor)
    environment = {
        "torch": torch.__version__,
        "executor": simulation.executor.name,
        "device": torch.cuda.get_device_name() if simulation.device.type == "cuda" else "cpu",
        "dtype": experiment.training.dtype,
        "threads": torch.get_num_threads(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    return simulation, RunWriter.create(folder, experiment.resolved, environment)


def resume(
    experiment: Experiment, dataset: Dataset, checkpoint: Checkpoint, device: str = "auto"
) -> tuple[Simulation, RunWriter]:
    """A run as it stood at its newest checkpoint, by the same executor on the same kind of device."""
    simulation = Simulation(experiment, dataset, choose_device(device), checkpoint.environment["executor"])
    began_on, here = checkpoint.environment["device"], simulation.device
    if (began_on == "cpu") != (here.type == "cpu"):
        raise SettingError(f"--resume {checkpoint.folder}: began on {began_on}, --device is {here.type}; results would differ")
    if began_on == "cpu":  # the order of sums hangs on the number of threads
        torch.set_num_threads(int(checkpoint.environment["threads"]))
    checkpoint.cut_rows()
    if checkpoint.path is not None:
        ledgers = {name: checkpoint.ledger(name, each) for name, each in simulation.controllers.items()}
        simulation.restore(checkpoint.t, checkpoint.tensors(), ledgers)
    return simulation, RunWriter(checkpoint.folder)


def play(
    simulation: Simulation,
    writer: RunWriter,
    tick: Tick,
    trackers: Sequence[Tracker] = (),
    seconds: float = CHECKPOINT_SECONDS,
) -> None:
    """All rounds that are left, with a checkpoint every so many seconds and at the end.

    After Ctrl-C the round is finished and checkpointed, and `Interrupted` says how to go on.
    """
    rounds = simulation.experiment.rounds
    saved = began = time.monotonic()
    _note(simulation, writer, "running", began)
    try:
        with _told_to_stop() as told:
            while simulation.t < rounds:
                done = simulation.step()
                writer.append("metrics", done.metrics)
                writer.append("occupancy", done.occupancy)
                for tracker in trackers:
                    _track(tracker, done)
                tick(done)
                if told() or simulation.t == rounds or time.monotonic() - saved > seconds:
                    writer.checkpoint(simulation.t, simulation.tensors(), simulation.ledgers)
                    saved = time.monotonic()
                    _note(simulation, writer, "running", began)
                if told() and simulation.t < rounds:
                    _note(simulation, writer, "interrupted", began)
                    raise Interrupted(
                        f"interrupted after round {simulation.t} of {rounds}; go on with: headgate run --resume {writer.folder}"
                    )
        writer.finish()
        _note(simulation, writer, "finished", began)
    except OSError as error:
        raise DataError(
            f"{writer.folder}: cannot be written ({error.strerror or error}); "
            f"make room and go on with: headgate run --resume {writer.folder}"
        ) from None


def _note(simulation: Simulation, writer: RunWriter, state: str, began: float) -> None:
    names = np.repeat(simulation.names, len(simulation.seeds)).tolist()
    runs = [{"policy": name, "seed": seed} for name, seed in zip(names, simulation.run_seeds, strict=True)]
    writer.state(
        state,
        simulation.t,
        simulation.experiment.rounds,
        policies=simulation.names,
        seeds=[int(seed) for seed in simulation.seeds],
        elapsed_s=round(time.monotonic() - began, 3),
        diverged=[{**run, "t": int(t)} for run, t in zip(runs, simulation.diverged, strict=True) if t],
        guessing=[run for run, lost in zip(runs, simulation.guessing, strict=True) if lost],
    )


def _track(tracker: Tracker, done: Round) -> None:
    """Means over the seeds of each policy."""
    by_policy: dict[str, list[dict[str, Any]]] = {}
    for row in done.metrics:
        by_policy.setdefault(row["policy"], []).append(row)
    for policy, rows in by_policy.items():
        names = [name for name in rows[0] if name not in ("policy", "seed", "t")]
        values = {name: [row[name] for row in rows if np.isfinite(row[name])] for name in names}
        tracker.log(policy, done.t, {name: float(np.mean(each)) for name, each in values.items() if each})


@contextmanager
def _told_to_stop() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C is noted, so that a round is never torn; the second one stops at once."""
    noted = False

    def note(signum: int, frame: object) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: signals are somebody else's business
        yield lambda: False
        return
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)
