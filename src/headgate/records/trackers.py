"""Loggers of others behind one interface: TensorBoard, MLflow and Weights & Biases.

Each is imported when it is started, so that nobody needs a library whose logger was not asked for.
"""

import importlib.util
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headgate.errors import SettingError
from headgate.escaping import one_line
from headgate.experiment.build import dotted
from headgate.records.reader import RunFolder
from headgate.writing import check_no_link

FOLDERS = ("tensorboard", "mlflow", "wandb")
"""of a run folder in which they write"""
Row = Mapping[str, Any]
Log = Callable[[int, Mapping[str, float]], object]
"""takes a round and what is known after it"""
Begin = Callable[[str], Log]
"""begins the run of a policy"""


class Tracker:
    """A logger with a run for each policy: it is started once, given every round, and closed once."""

    def __init__(self, kind: str) -> None:
        self.kind, self._logs, self._ends = kind, dict[str, Log](), ExitStack()

    def start(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        """Prepare to log the experiment `name`, into `folder` if it writes files; refuse where that is not possible."""
        simple = str | int | float | None
        settings = {key: value if isinstance(value, simple) else str(value) for key, value in dotted(config)}
        self._begin = _TRACKERS[self.kind](name, settings, folder, self._ends)

    def log(self, policy: str, t: int, values: Mapping[str, float | None]) -> None:
        """Log means over seeds of one policy after round `t`; NaN and None are left out."""
        known = {name: float(value) for name, value in values.items() if value is not None and not math.isnan(value)}
        if known and policy not in self._logs:
            self._logs[policy] = self._begin(policy)
        if known:
            self._logs[policy](t, known)

    def close(self) -> None:
        """End all runs. It may be called again, or without a start."""
        self._ends.close()


def make_trackers(names: Sequence[str]) -> list[Tracker]:
    """The loggers with these names, each once and none started yet; refused where the library of one is missing."""
    for name in names:
        if name not in _TRACKERS:
            hint = "".join(f"; did you mean {close}?" for close in get_close_matches(name.lower(), _TRACKERS, n=1))
            raise SettingError(f"--track {name}: must be one of {', '.join(_TRACKERS)}{hint}")
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            package = "wandb" if name == "wandb" else "'headgate[track]'"
            raise SettingError(f"--track {name}: is not installed; pip install {package}")
    return [Tracker(name) for name in dict.fromkeys(names)]


def _tensorboard(name: str, settings: Row, folder: Path, ends: ExitStack) -> Begin:
    """Event files in folder/tensorboard/POLICY, the metrics' names as tags; neither torch nor TensorFlow is needed."""
    # What torch.utils.tensorboard is built on; tensorboard.summary.Writer calls itself experimental.
    event = import_module("tensorboard.compat.proto.event_pb2").Event
    summary = import_module("tensorboard.compat.proto.summary_pb2").Summary
    make_writer = import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter

    def begin(policy: str) -> Log:
        # TensorBoard's own 120 seconds from one flush to the next are long for someone who watches.
        run = make_writer(str(folder / "tensorboard" / quote(policy, " ()+,=")), flush_secs=10)
        ends.callback(run.close)

        def log(t: int, values: Mapping[str, float]) -> None:
            scalars = [summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
            run.add_event(event(wall_time=time.time(), step=t, summary=summary(value=scalars)))

        return log

    return begin


def _mlflow(name: str, settings: Row, folder: Path, ends: ExitStack) -> Begin:
    """One run for each policy, all below one run of the experiment `name`; every run has the settings as parameters.

    They go to $MLFLOW_TRACKING_URI, otherwise to files in folder/mlflow.
    """
    # MLflow reports its use to its makers from the moment it is imported. Logging a run is no consent to that.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    # Of MLflow's local stores only the one of plain files comes with mlflow-skinny; its databases need the whole
    # of MLflow. Newer versions open it only for those who say that they mean it.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow, entities = import_module("mlflow"), import_module("mlflow.entities")
    where = os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlflow").absolute().as_uri()

    def plain(key: str) -> str:
        return re.sub(r"[^\w.-]+", "_", key)[:250]

    def create(title: str, settings: Row, tags: Mapping[str, str]) -> str:
        run = str(client.create_run(experiment, run_name=title, tags=tags).info.run_id)
        ends.callback(client.set_terminated, run)
        params = [entities.Param(plain(key), str(value)) for key, value in settings.items()]
        for first in range(0, len(params), 100):  # the most that MLflow takes in one call
            client.log_batch(run, params=params[first : first + 100])
        return run

    def begin(policy: str) -> Log:
        run = create(policy, {**settings, "policy": policy}, {"mlflow.parentRunId": parent, "policy": policy})

        def log(t: int, values: Mapping[str, float]) -> None:
            now = time.time_ns() // 1_000_000
            client.log_batch(run, metrics=[entities.Metric(plain(key), value, now, t) for key, value in values.items()])

        return log

    try:
        client = mlflow.MlflowClient(tracking_uri=where)
        known = client.get_experiment_by_name(name)
        experiment = known.experiment_id if known is not None else client.create_experiment(name)
        parent = create(name, settings, {})
    except mlflow.MlflowException as error:
        raise SettingError(f"--track mlflow: {one_line(error)}") from None
    return begin


def _wandb(name: str, settings: Row, folder: Path, ends: ExitStack) -> Begin:
    """One run for each policy in the group `name`. Mode, project and account are those of the user's environment."""
    wandb = import_module("wandb")
    folder.mkdir(parents=True, exist_ok=True)  # wandb writes elsewhere where its folder is missing

    def begin(policy: str) -> Log:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "headgate",
            group=name,
            name=policy,
            config={**settings, "policy": policy},
            dir=str(folder),
            reinit="create_new",  # the policies take turns, none of their runs is over before the last round
        )
        ends.callback(run.finish)
        return lambda t, values: run.log(values, step=t)

    return begin


_TRACKERS = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}


# what calls them


class Watching(ExitStack):
    """Logs a policy's round when all its seeds have done it; it is called with every round that a part of a run has finished.

    `trackers` are names of loggers, of which each run folder has its own; `say` is given every round as a line of JSON.
    """

    def __init__(self, trackers: Sequence[str], say: Callable[[str], None] | None = None) -> None:
        super().__init__()
        make_trackers(trackers)  # refuses one that is missing before anything is written
        self.names, self.say = trackers, say
        self._runs: dict[Path, tuple[RunFolder, list[Tracker], dict[tuple[str, int], dict[int, Row]]]] = {}
        """by folder; the rows of a round that some seeds have done and others have not"""

    def __call__(self, folder: Path, rows: Sequence[Row]) -> None:
        """No rows: the run is about to begin, and earlier rounds of its parts are on disk."""
        if folder not in self._runs:
            run, trackers, waiting = RunFolder.open(folder), make_trackers(self.names), dict[tuple[str, int], dict[int, Row]]()
            check_no_link(*(folder / each for each in FOLDERS))  # loggers write where a stranger might point to
            for tracker in trackers:
                tracker.start(run.name, run.config, folder)
                self.callback(tracker.close)
            for known in run.metrics().iter_rows(named=True):  # of a run that is resumed some parts are ahead of others
                waiting.setdefault((known["policy"], known["t"]), {})[known["seed"]] = known
            waiting = {key: some for key, some in waiting.items() if len(some) < len(run.seeds)}
            self._runs[folder] = run, trackers, waiting
        run, trackers, waiting = self._runs[folder]
        for row in rows:
            key = row["policy"], row["t"]
            together = waiting.setdefault(key, {})
            together[row["seed"]] = row
            if len(together) == len(run.seeds):
                seeds = waiting.pop(key).values()
                names = [name for name in row if name not in ("policy", "seed", "t")]
                told = {name: [each[name] for each in seeds if each[name] is not None] for name in names}
                for tracker in trackers:
                    tracker.log(*key, {name: sum(values) / len(values) for name, values in told.items() if values})
        if rows and self.say is not None:
            seen = [row["test_accuracy"] for row in rows if row["test_accuracy"] is not None]
            line = {
                "run": run.name,
                "policies": list(dict.fromkeys(row["policy"] for row in rows)),
                "seeds": list(dict.fromkeys(row["seed"] for row in rows)),
                "round": rows[0]["t"],
                "rounds": run.rounds,
                "mean_test_accuracy": sum(seen) / len(seen) if seen else None,
            }
            self.say(json.dumps(line))
