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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

from headgate.errors import SettingError
from headgate.records.reader import RunFolder
from headgate.writing import check_no_link

FOLDERS = ("tensorboard", "mlflow", "wandb")
"""of a run folder in which they write"""
_PARAMS_AT_ONCE = 100  # the most that MLflow takes in one call
_LONGEST_NAME = 120
Row = Mapping[str, Any]


class Tracker(Protocol):
    """A logger: started once, told of every round of every policy, closed once."""

    def start(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        """Gets ready to log the experiment `name`, into `folder` where it writes files; refuses where it cannot."""

    def log(self, policy: str, t: int, values: Mapping[str, float]) -> None:
        """Means over seeds of one policy after round `t`; NaN and None are left out."""

    def close(self) -> None:
        """Writes what is still held back; more than once, or without a start, is no harm."""


def tracker_names(text: str) -> list[str]:
    """Return the names in a text such as "mlflow, wandb"."""
    return [name.strip() for name in text.split(",") if name.strip()]


def make_trackers(names: Sequence[str]) -> list[Tracker]:
    """The loggers with these names, each once and none started yet."""
    for name in names:
        if name not in _TRACKERS:
            close = get_close_matches(name.lower(), _TRACKERS, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise SettingError(f"--track {name}: must be one of {', '.join(_TRACKERS)}{hint}")
    return [_TRACKERS[name]() for name in dict.fromkeys(names)]


def check_installed(names: Sequence[str]) -> None:
    """Refuse loggers whose library is missing, before anything is written for them."""
    make_trackers(names)
    for name in names:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            raise SettingError(f"--track {name}: is not installed; pip install {_PACKAGES[name]}")


class TensorBoard:
    """Event files in folder/tensorboard/POLICY, the metrics' names as tags; neither torch nor TensorFlow is needed."""

    _FLUSH_SECONDS = 10  # TensorBoard's own 120 is long for someone who watches

    def __init__(self) -> None:
        self._writers: dict[str, Any] = {}

    def start(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        with _needing("tensorboard"):
            # What torch.utils.tensorboard is built on; tensorboard.summary.Writer calls itself experimental.
            self._event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
            self._summary = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
            self._make_writer = importlib.import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter
        self._folder = folder / "tensorboard"
        self._folders: set[str] = set()

    def log(self, policy: str, t: int, values: Mapping[str, float]) -> None:
        scalars = [self._summary.Value(tag=tag, simple_value=value) for tag, value in _known(values).items()]
        if scalars:
            event = self._event(wall_time=time.time(), step=t, summary=self._summary(value=scalars))
            self._writer(policy).add_event(event)

    def close(self) -> None:
        while self._writers:
            self._writers.popitem()[1].close()

    def _writer(self, policy: str) -> Any:
        if policy not in self._writers:
            folder = free_name(policy, self._folders)
            self._folders.add(folder)
            self._writers[policy] = self._make_writer(str(self._folder / folder), flush_secs=self._FLUSH_SECONDS)
        return self._writers[policy]


class MLflow:
    """One run for each policy, all below one run of the experiment `name`; every run has the settings as parameters.

    They go to $MLFLOW_TRACKING_URI, otherwise to files in folder/mlflow.
    """

    def __init__(self) -> None:
        self._runs: dict[str, str] = {}
        self._open: list[str] = []

    def start(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        # MLflow reports its use to its makers from the moment it is imported. Logging a run is no consent to that.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        with _needing("mlflow"):
            mlflow = importlib.import_module("mlflow")
            self._entities = importlib.import_module("mlflow.entities")
        self._settings = flatten(config)
        try:
            self._client = self._connect(mlflow, folder)
            self._experiment = self._find_experiment(name)
            self._parent = self._create_run(name, self._settings, {})
        except mlflow.MlflowException as error:
            raise SettingError(f"--track mlflow: {' '.join(str(error).split())}") from None

    def log(self, policy: str, t: int, values: Mapping[str, float]) -> None:
        now = time.time_ns() // 1_000_000
        metrics = [self._entities.Metric(safe_name(key), value, now, t) for key, value in _known(values).items()]
        if metrics:
            self._client.log_batch(self._run(policy), metrics=metrics)

    def close(self) -> None:
        while self._open:
            self._client.set_terminated(self._open.pop())

    @staticmethod
    def _connect(mlflow: Any, folder: Path) -> Any:
        chosen = os.environ.get("MLFLOW_TRACKING_URI")
        if chosen:
            return mlflow.MlflowClient(tracking_uri=chosen)
        # Of MLflow's local stores only the one of plain files comes with mlflow-skinny; its databases need the whole
        # of MLflow. Newer versions open it only for those who say that they mean it.
        with _environment("MLFLOW_ALLOW_FILE_STORE", "true"):
            return mlflow.MlflowClient(tracking_uri=(folder / "mlflow").absolute().as_uri())

    def _find_experiment(self, name: str) -> str:
        known = self._client.get_experiment_by_name(name)
        return str(known.experiment_id if known is not None else self._client.create_experiment(name))

    def _create_run(self, title: str, settings: Mapping[str, Any], tags: Mapping[str, str]) -> str:
        run = str(self._client.create_run(self._experiment, run_name=title, tags=tags).info.run_id)
        self._open.append(run)
        texts = {safe_name(key): str(value) for key, value in settings.items()}
        params = [self._entities.Param(key, value) for key, value in texts.items()]
        for first in range(0, len(params), _PARAMS_AT_ONCE):
            self._client.log_batch(run, params=params[first : first + _PARAMS_AT_ONCE])
        return run

    def _run(self, policy: str) -> str:
        if policy not in self._runs:
            tags = {"mlflow.parentRunId": self._parent, "policy": policy}
            self._runs[policy] = self._create_run(policy, {**self._settings, "policy": policy}, tags)
        return self._runs[policy]


class WeightsAndBiases:
    """One run for each policy in the group `name`. Mode, project and account are those of the user's environment."""

    def __init__(self) -> None:
        self._runs: dict[str, Any] = {}

    def start(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        with _needing("wandb"):
            self._wandb = importlib.import_module("wandb")
        folder.mkdir(parents=True, exist_ok=True)  # wandb writes elsewhere where its folder is missing
        self._group, self._settings, self._folder = name, flatten(config), folder

    def log(self, policy: str, t: int, values: Mapping[str, float]) -> None:
        known = _known(values)
        if known:
            self._run(policy).log(known, step=t)

    def close(self) -> None:
        while self._runs:
            self._runs.popitem()[1].finish()

    def _run(self, policy: str) -> Any:
        if policy not in self._runs:
            self._runs[policy] = self._wandb.init(
                project=os.environ.get("WANDB_PROJECT") or "headgate",
                group=self._group,
                name=policy,
                config={**self._settings, "policy": policy},
                dir=str(self._folder),
                reinit="create_new",  # the policies take turns, none of their runs is over before the last round
            )
        return self._runs[policy]


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


_PACKAGES = {"tensorboard": "'headgate[track]'", "mlflow": "'headgate[track]'", "wandb": "wandb"}
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


def safe_name(name: str) -> str:
    """A name that every file system takes: letters, digits and . _ - are kept.

    >>> safe_name("ac-dpp: V=0.5"), safe_name("../up"), safe_name("κ=0.3"), safe_name("")
    ('ac-dpp_V_0.5', '_up', 'κ_0.3', '_')
    """
    return re.sub(r"[^\w.-]+", "_", name).strip(".")[:_LONGEST_NAME] or "_"


def free_name(name: str, taken: Collection[str]) -> str:
    """The safe name, numbered where another one would differ from it only in the case of its letters.

    >>> free_name("A/b", {"a_b"}), free_name("A/b", {"c"})
    ('A_b-2', 'A_b')
    """
    safe, used = safe_name(name), {other.casefold() for other in taken}
    choices = (safe, *(f"{safe}-{number}" for number in range(2, len(used) + 2)))
    return next(choice for choice in choices if choice.casefold() not in used)


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None and not math.isnan(value)}


@contextmanager
def _needing(name: str) -> Iterator[None]:
    """Turns a library that cannot be imported into the advice to install it."""
    try:
        yield
    except ImportError as error:
        raise SettingError(f"--track {name}: {' '.join(str(error).split())}; pip install {_PACKAGES[name]}") from None


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable of the environment for a while, unless the user has set it."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


# who tells them


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
