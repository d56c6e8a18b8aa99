"""Loggers of others behind one interface: TensorBoard, MLflow and Weights & Biases.

Each is imported when it is started, so that nobody needs a library whose logger was not asked for.
"""

import importlib
import importlib.util
import json
import math
import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headgate.errors import SettingError
from headgate.escaping import one_line
from headgate.records.reader import RunFolder
from headgate.writing import check_no_link

FOLDERS = ("tensorboard", "mlflow", "wandb")
"""of a run folder in which they write"""
Row = Mapping[str, Any]


class Tracker(ABC):
    """A logger: started once, told of every round of every policy, closed once. It has a run for each policy."""

    def __init__(self) -> None:
        self._runs: dict[str, Any] = {}

    @abstractmethod
    def start(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        """Gets ready to log the experiment `name`, into `folder` where it writes files; refuses where it cannot."""

    @abstractmethod
    def _begin(self, policy: str) -> Any:
        """The run of a policy."""

    @abstractmethod
    def _write(self, run: Any, t: int, values: Mapping[str, float]) -> None:
        """What is known of it after round `t`."""

    @abstractmethod
    def _end(self, run: Any) -> None:
        """Writes what is still held back."""

    def log(self, policy: str, t: int, values: Mapping[str, float | None]) -> None:
        """Means over seeds of one policy after round `t`; NaN and None are left out."""
        known = {name: float(value) for name, value in values.items() if value is not None and not math.isnan(value)}
        if known:
            if policy not in self._runs:
                self._runs[policy] = self._begin(policy)
            self._write(self._runs[policy], t, known)

    def close(self) -> None:
        """Ends all runs; more than once, or without a start, is no harm."""
        while self._runs:
            self._end(self._runs.popitem()[1])


def tracker_names(text: str) -> list[str]:
    """Return the names in a text such as "mlflow, wandb"."""
    return [name.strip() for name in text.split(",") if name.strip()]


def make_trackers(names: Sequence[str]) -> list[Tracker]:
    """The loggers with these names, each once and none started yet; refused where the library of one is missing."""
    for name in names:
        if name not in _TRACKERS:
            hint = "".join(f"; did you mean {close}?" for close in get_close_matches(name.lower(), _TRACKERS, n=1))
            raise SettingError(f"--track {name}: must be one of {', '.join(_TRACKERS)}{hint}")
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            package = "wandb" if name == "wandb" else "'headgate[track]'"
            raise SettingError(f"--track {name}: is not installed; pip install {package}")
    return [_TRACKERS[name]() for name in dict.fromkeys(names)]


class TensorBoard(Tracker):
    """Event files in folder/tensorboard/POLICY, the metrics' names as tags; neither torch nor TensorFlow is needed."""

    def start(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        # What torch.utils.tensorboard is built on; tensorboard.summary.Writer calls itself experimental.
        self._event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._make_writer = importlib.import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter
        self._folder = folder / "tensorboard"

    def _begin(self, policy: str) -> Any:
        # TensorBoard's own 120 seconds from one flush to the next are long for someone who watches.
        return self._make_writer(str(self._folder / quote(policy, " ()+,=")), flush_secs=10)

    def _write(self, run: Any, t: int, values: Mapping[str, float]) -> None:
        scalars = [self._summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        run.add_event(self._event(wall_time=time.time(), step=t, summary=self._summary(value=scalars)))

    def _end(self, run: Any) -> None:
        run.close()


class MLflow(Tracker):
    """One run for each policy, all below one run of the experiment `name`; every run has the settings as parameters.

    They go to $MLFLOW_TRACKING_URI, otherwise to files in folder/mlflow.
    """

    _AT_ONCE = 100
    """parameters, the most that MLflow takes in one call"""

    def start(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        # MLflow reports its use to its makers from the moment it is imported. Logging a run is no consent to that.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        # Of MLflow's local stores only the one of plain files comes with mlflow-skinny; its databases need the whole
        # of MLflow. Newer versions open it only for those who say that they mean it.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        mlflow = importlib.import_module("mlflow")
        self._entities = importlib.import_module("mlflow.entities")
        self._settings = flatten(config)
        where = os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlflow").absolute().as_uri()
        try:
            self._client = mlflow.MlflowClient(tracking_uri=where)
            known = self._client.get_experiment_by_name(name)
            self._experiment = known.experiment_id if known is not None else self._client.create_experiment(name)
            self._parent = self._create(name, self._settings, {})
        except mlflow.MlflowException as error:
            raise SettingError(f"--track mlflow: {one_line(error)}") from None
        self._runs[""] = self._parent

    def _create(self, title: str, settings: Mapping[str, Any], tags: Mapping[str, str]) -> str:
        run = str(self._client.create_run(self._experiment, run_name=title, tags=tags).info.run_id)
        params = [self._entities.Param(_mlflow_name(key), str(value)) for key, value in settings.items()]
        for first in range(0, len(params), self._AT_ONCE):
            self._client.log_batch(run, params=params[first : first + self._AT_ONCE])
        return run

    def _begin(self, policy: str) -> Any:
        tags = {"mlflow.parentRunId": self._parent, "policy": policy}
        return self._create(policy, {**self._settings, "policy": policy}, tags)

    def _write(self, run: Any, t: int, values: Mapping[str, float]) -> None:
        now = time.time_ns() // 1_000_000
        metrics = [self._entities.Metric(_mlflow_name(key), value, now, t) for key, value in values.items()]
        self._client.log_batch(run, metrics=metrics)

    def _end(self, run: Any) -> None:
        self._client.set_terminated(run)


class WeightsAndBiases(Tracker):
    """One run for each policy in the group `name`. Mode, project and account are those of the user's environment."""

    def start(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        self._wandb = importlib.import_module("wandb")
        folder.mkdir(parents=True, exist_ok=True)  # wandb writes elsewhere where its folder is missing
        self._group, self._settings, self._folder = name, flatten(config), folder

    def _begin(self, policy: str) -> Any:
        return self._wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "headgate",
            group=self._group,
            name=policy,
            config={**self._settings, "policy": policy},
            dir=str(self._folder),
            reinit="create_new",  # the policies take turns, none of their runs is over before the last round
        )

    def _write(self, run: Any, t: int, values: Mapping[str, float]) -> None:
        run.log(values, step=t)

    def _end(self, run: Any) -> None:
        run.finish()


_TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WeightsAndBiases}


def flatten(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested settings with dots in their names; what is no number, truth value or text becomes text.

    >>> flatten({"learning": {"rate": 0.1}, "seeds": [1, 2], "policies": [{"name": "dpp"}]})
    {'learning.rate': 0.1, 'seeds': '[1, 2]', 'policies.0.name': 'dpp'}
    """
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            value = {str(place): item for place, item in enumerate(value)}
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{above}{key}.")
        else:
            flat[f"{above}{key}"] = value if isinstance(value, str | int | float | None) else str(value)
    return flat


def _mlflow_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)[:250]


# who tells them


class SeedMeans:
    """Log a policy's round when all its seeds have done it: its runs may be played in several parts."""

    def __init__(self, run: RunFolder, trackers: Sequence[Tracker]) -> None:
        self.trackers, self.seeds = trackers, len(run.state["seeds"])
        self._waiting: dict[tuple[str, int], dict[int, Row]] = {}
        for row in run.metrics().iter_rows(named=True):  # where a run is taken up again, some parts are ahead of others
            self._waiting.setdefault((row["policy"], row["t"]), {})[row["seed"]] = row
        self._waiting = {key: rows for key, rows in self._waiting.items() if len(rows) < self.seeds}
        check_no_link(*(run.path / each for each in FOLDERS))  # loggers write where a stranger might point to
        for tracker in trackers:
            tracker.start(run.name, run.config, run.path)

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            key = row["policy"], row["t"]
            together = self._waiting.setdefault(key, {})
            together[row["seed"]] = row
            if len(together) == self.seeds:
                self._log(*key, list(self._waiting.pop(key).values()))

    def _log(self, policy: str, t: int, rows: Sequence[Row]) -> None:
        names = [name for name in rows[0] if name not in ("policy", "seed", "t")]
        known = {name: [row[name] for row in rows if row[name] is not None] for name in names}
        means = {name: sum(values) / len(values) for name, values in known.items() if values}
        for tracker in self.trackers:
            tracker.log(policy, t, means)

    def close(self) -> None:
        for tracker in self.trackers:
            tracker.close()


class Watching:
    """Told of every round that a part of a run has finished."""

    def __init__(self, trackers: Sequence[str], say: Callable[[str], None] | None = None) -> None:
        self.names, self.say = trackers, say
        self.wanted = bool(trackers) or say is not None
        self._runs: dict[Path, RunFolder] = {}
        self._means: dict[Path, SeedMeans] = {}

    def __enter__(self) -> "Watching":
        return self

    def __exit__(self, *_: object) -> None:
        for means in self._means.values():
            means.close()

    def watch(self, folder: Path, rows: Sequence[Row]) -> None:
        """No rows: the run is about to be played, and what its parts have done before is on disk."""
        if folder not in self._runs:
            self._runs[folder] = RunFolder.open(folder)
            if self.names:
                self._means[folder] = SeedMeans(self._runs[folder], make_trackers(self.names))
        if not rows:
            return
        if self.say is not None:
            self.say(_line(self._runs[folder], rows))
        if self.names:
            self._means[folder].add(rows)


def _line(run: RunFolder, rows: Sequence[Row]) -> str:
    """A round as a line of JSON."""
    seen = [row["test_accuracy"] for row in rows if row["test_accuracy"] is not None]
    line = {
        "run": run.name,
        "policies": list(dict.fromkeys(row["policy"] for row in rows)),
        "seeds": list(dict.fromkeys(row["seed"] for row in rows)),
        "round": rows[0]["t"],
        "rounds": run.rounds,
        "mean_test_accuracy": sum(seen) / len(seen) if seen else None,
    }
    return json.dumps(line)
