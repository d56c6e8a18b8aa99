"""Chunks as tasks of a Ray cluster, one core each (or, asked for `cuda`, one GPU).

Workers write into the run folder, so it lies where every node sees it under the same path, and so do the data sets; on one
machine that is always so. A task that is lost is not repeated in secret: its chunk goes on from its checkpoint with --resume.
"""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.errors import DataError, HeadgateError, Interrupted, SettingError
from headgate.experiment import Experiment, build, load
from headgate.records.reader import CONFIG
from headgate.simulation.workers import (
    LOOK,
    ONE_THREAD,
    Datasets,
    cores,
    error_from,
    error_message,
    raise_first,
    stop_requested,
)

if TYPE_CHECKING:
    from headgate.simulation.schedule import ChunkProgress

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_prestart_worker_first_driver": "0"}
"""Nothing is reported to anybody, and no warning about a default to come. A cluster started here has no workers before there
are tasks: they would lack the tasks' variables, so nobody would use them."""
CARRIED = ("HEADGATE_DATA", "PYTHONPATH")
Result = tuple[Any, list[str] | None]
"""a result, or an error as it travels"""
STOP = ".stop"
"""a file in a chunk's folder at which its worker finishes the round: a task receives no signals"""


class Cluster:
    """A Ray cluster: one started for the purpose on this machine ("local"), a running one ("auto" or host:port)."""

    def __init__(self, address: str) -> None:
        for key, value in QUIET.items():
            os.environ.setdefault(key, value)
        try:
            import ray
        except ImportError:
            raise SettingError(f"--ray {address}: Ray is not installed; pip install 'headgate[ray]'") from None
        self._ray, self.where = ray, f"on Ray ({address})"
        own: dict[str, Any] = {}
        if address == "local":
            own = {"num_cpus": cores(), "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        variables = {**ONE_THREAD, **{key: os.environ[key] for key in CARRIED if key in os.environ}}
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": variables}, **own)
        except Exception as error:  # of a node that is slow to start Ray says no more than that
            raise SettingError(f"--ray {address}: no cluster answers ({' '.join(str(error).split())})") from None

    def examine(self, experiment: Experiment, device: str, executor: str) -> dict[str, Any]:
        task = self._task(_examine, device)
        facts, error = self._result(task.remote(experiment.tables(), device, executor))
        if error is not None:
            raise error
        return dict(facts)

    def execute(
        self, chunks: Mapping[Path, Experiment | None], device: str, progress: "ChunkProgress", stop: Callable[[], bool]
    ) -> None:
        folders = list(chunks)
        for folder in folders:
            (folder / STOP).unlink(missing_ok=True)
        task = self._task(_play, device)
        running = {task.remote(str(folder.absolute()), device): folder for folder in folders}
        why: dict[str, HeadgateError] = {}
        stopping = False
        while running:
            ended, _ = self._ray.wait(list(running), num_returns=1, timeout=LOOK)
            for each in ended:
                folder = running.pop(each)
                _, error = self._result(each)
                if error is not None:
                    why[str(folder)] = error
            progress.look()
            if not stopping and (stop() or why):
                stopping = True
                for folder in folders:
                    (folder / STOP).touch()
        for folder in folders:
            (folder / STOP).unlink(missing_ok=True)
        raise_first(why)

    def close(self) -> None:
        self._ray.shutdown()

    def _task(self, function: Callable[..., Any], device: str) -> Any:
        gpus = 1 if device == "cuda" else 0
        return self._ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(function)

    def _result(self, ended: Any) -> tuple[Any, HeadgateError | None]:
        try:
            result, message = self._ray.get(ended)
        except self._ray.exceptions.RayError as error:
            return None, HeadgateError(f"its task was lost ({' '.join(str(error).split())[:300]})")
        return result, None if message is None else error_from(message)


# on the workers


_DATASETS = Datasets()
"""of each worker: Ray gives it one task after the other"""


def _examine(settings: dict[str, Any], device: str, executor: str) -> Result:
    from headgate.simulation.run import examine

    try:
        experiment = build("", settings)
        return examine(experiment, _DATASETS.of(experiment.data), _on_worker(device), executor)[0], None
    except Exception as error:
        return None, error_message(error)


def _play(folder: str, device: str) -> Result:
    from headgate.simulation.run import play_folder

    own = Path(folder)
    try:
        if (own / STOP).exists():  # it waited in the queue
            raise Interrupted("interrupted")
        if not own.is_dir():
            raise DataError(f"{own}: is not there on {os.uname().nodename}; --out must be a folder that every node sees")
        dataset = _DATASETS.of(load(own / CONFIG).data)
        with stop_requested() as stop:
            play_folder(own, None, dataset, _on_worker(device), lambda done: None, lambda: stop() or (own / STOP).exists())
    except (Exception, KeyboardInterrupt) as error:
        return None, error_message(error)
    return None, None


def _on_worker(device: str) -> str:
    """A task that asked for no GPU has none."""
    return "cuda" if device == "cuda" else "cpu"
