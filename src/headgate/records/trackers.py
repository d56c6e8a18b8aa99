"""One interface to the loggers TensorBoard, MLflow and Weights & Biases.

The library of a logger is imported when the logger is started, so only the libraries of
selected loggers are needed.
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
from headgate.records.tables import KEY
from headgate.writing import check_no_link

FOLDERS = ("tensorboard", "mlflow", "wandb")
"""the subfolders of a run folder in which loggers write"""
Row = Mapping[str, Any]
Log = Callable[[int, Mapping[str, float]], object]
"""a function that logs values after a round"""
Begin = Callable[[str], Log]
"""a function that begins the logger's run of a policy"""


class Tracker:
    """A logger with one run per policy; call `start` once, `log` after each round and
    `close` at the end.
    """

    def __init__(self, kind: str) -> None:
        self.kind, self._logs, self._ends = kind, dict[str, Log](), ExitStack()

    def start(
        self,
        name: str,
        config: Mapping[str, Any],
        folder: Path,
    ) -> None:
        """Prepare to log the experiment `name`, in `folder` if the logger writes files;
        raise SettingError if this fails.
        """
        simple = str | int | float | None
        settings = {
            key: value if isinstance(value, simple) else str(value)
            for key, value in dotted(config)
        }
        self._begin = _TRACKERS[self.kind](name, settings, folder, self._ends)

    def log(
        self,
        policy: str,
        t: int,
        values: Mapping[str, float | None],
    ) -> None:
        """Log the means over the seeds of one policy after round `t`, without values
        that are NaN or None.
        """
        known = {
            name: float(value)
            for name, value in values.items()
            if value is not None and not math.isnan(value)
        }
        if not known:
            return
        if policy not in self._logs:
            self._logs[policy] = self._begin(policy)
        self._logs[policy](t, known)

    def close(self) -> None:
        """End all runs of the logger; further calls, and a call before `start`, do
        nothing.
        """
        self._ends.close()


def make_trackers(names: Sequence[str]) -> list[Tracker]:
    """Return one logger per distinct name, not started; raise SettingError for an
    unknown name or a missing library.
    """
    for name in names:
        if name not in _TRACKERS:
            close = get_close_matches(name.lower(), _TRACKERS, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise SettingError(
                f"--track {name}: must be one of {', '.join(_TRACKERS)}{hint}"
            )
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            package = "wandb" if name == "wandb" else "'headgate[track]'"
            raise SettingError(
                f"--track {name}: is not installed; pip install {package}"
            )
    return [Tracker(name) for name in dict.fromkeys(names)]


def _tensorboard(
    name: str,
    settings: Row,
    folder: Path,
    ends: ExitStack,
) -> Begin:
    """Write event files in folder/tensorboard/POLICY, with the metrics' names as tags,
    without torch or TensorFlow.
    """
    # torch.utils.tensorboard uses these modules too; tensorboard.summary.Writer is
    # documented as experimental.
    event = import_module("tensorboard.compat.proto.event_pb2").Event
    summary = import_module("tensorboard.compat.proto.summary_pb2").Summary
    make_writer = import_module(
        "tensorboard.summary.writer.event_file_writer"
    ).EventFileWriter

    def begin(policy: str) -> Log:
        # TensorBoard's default of 120 seconds between flushes is long for a user who
        # watches the run.
        run = make_writer(
            str(folder / "tensorboard" / quote(policy, " ()+,=")), flush_secs=10
        )
        ends.callback(run.close)

        def log(t: int, values: Mapping[str, float]) -> None:
            scalars = [
                summary.Value(
                    tag=tag,
                    simple_value=value,
                )
                for tag, value in values.items()
            ]
            run.add_event(
                event(
                    wall_time=time.time(),
                    step=t,
                    summary=summary(value=scalars),
                )
            )

        return log

    return begin


def _mlflow(
    name: str,
    settings: Row,
    folder: Path,
    ends: ExitStack,
) -> Begin:
    """Log one run per policy, nested in one parent run of the experiment `name`; every
    run has the settings as parameters.

    The runs are sent to $MLFLOW_TRACKING_URI if it is set, else written to files in
    folder/mlflow.
    """
    # MLflow sends telemetry from the moment it is imported. A user who logs a run has
    # not consented to this.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    # The file store is the only local store of mlflow-skinny; the database stores need
    # the full MLflow package. Newer versions open the file store only if this variable
    # is set.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow, entities = import_module("mlflow"), import_module("mlflow.entities")
    where = (
        os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlflow").absolute().as_uri()
    )

    def plain(key: str) -> str:
        return re.sub(r"[^\w.-]+", "_", key)[:250]

    def create(
        title: str,
        settings: Row,
        tags: Mapping[str, str],
    ) -> str:
        run = str(
            client.create_run(
                experiment,
                run_name=title,
                tags=tags,
            ).info.run_id
        )
        ends.callback(client.set_terminated, run)
        params = [
            entities.Param(plain(key), str(value)) for key, value in settings.items()
        ]
        for first in range(
            0, len(params), 100
        ):  # MLflow accepts at most 100 parameters per call
            client.log_batch(run, params=params[first : first + 100])
        return run

    def begin(policy: str) -> Log:
        run = create(
            policy,
            {**settings, "policy": policy},
            {"mlflow.parentRunId": parent, "policy": policy},
        )

        def log(t: int, values: Mapping[str, float]) -> None:
            now = time.time_ns() // 1_000_000
            client.log_batch(
                run,
                metrics=[
                    entities.Metric(plain(key), value, now, t)
                    for key, value in values.items()
                ],
            )

        return log

    try:
        client = mlflow.MlflowClient(tracking_uri=where)
        known = client.get_experiment_by_name(name)
        experiment = (
            known.experiment_id if known is not None else client.create_experiment(name)
        )
        parent = create(name, settings, {})
    except mlflow.MlflowException as error:
        raise SettingError(f"--track mlflow: {one_line(error)}") from None
    return begin


def _wandb(
    name: str,
    settings: Row,
    folder: Path,
    ends: ExitStack,
) -> Begin:
    """Log one run per policy in the group `name`; the user's environment sets the mode,
    the project and the account.
    """
    wandb = import_module("wandb")
    folder.mkdir(
        parents=True,
        exist_ok=True,
    )  # if the folder is missing, wandb writes to another one

    def begin(policy: str) -> Log:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "headgate",
            group=name,
            name=policy,
            config={**settings, "policy": policy},
            dir=str(folder),
            # the runs of all policies stay open until the last round
            reinit="create_new",
        )
        ends.callback(run.finish)
        return lambda t, values: run.log(values, step=t)

    return begin


_TRACKERS = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}


# the caller of the loggers


class _Watched:
    """A run with its loggers, and the rows of rounds that not all seeds have finished.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    trackers : sequence of Tracker
        The loggers, which are started.
    """

    def __init__(self, folder: Path, trackers: Sequence[Tracker]) -> None:
        self.run, self.trackers = RunFolder.open(folder), trackers
        check_no_link(*(folder / each for each in FOLDERS))  # files go where it leads
        for tracker in trackers:
            tracker.start(self.run.name, self.run.config, folder)
        self.waiting: dict[tuple[str, int], dict[int, Row]] = {}
        for row in self.run.metrics().iter_rows(named=True):
            self.together(row)  # in a resumed run, some chunks are ahead

    def together(self, row: Row) -> list[Row]:
        """Return the rows of all seeds of a round if this was the last, else none."""
        key = row["policy"], row["t"]
        rows = self.waiting.setdefault(key, {})
        rows[row["seed"]] = row
        if len(rows) < len(self.run.seeds):
            return []
        return list(self.waiting.pop(key).values())

    def log(self, row: Row) -> None:
        """Log the means of a round if all seeds have finished it."""
        rows = self.together(row)
        if not rows:
            return
        names = [name for name in row if name not in KEY]
        means = {name: _mean(rows, name) for name in names}
        for tracker in self.trackers:
            tracker.log(row["policy"], row["t"], means)


def _mean(rows: Sequence[Row], name: str) -> float | None:
    """Return the mean of a column over the rows in which it was measured."""
    values = [row[name] for row in rows if row[name] is not None]
    return sum(values) / len(values) if values else None


class Watching(ExitStack):
    """Logs a round of a policy when all seeds have finished it.

    Call it with the rows of each finished round of a chunk.

    Parameters
    ----------
    trackers : sequence of str
        The names of the loggers; each run folder has its own loggers.
    say : callable, optional
        Called with a line of JSON for each round of a chunk.
    """

    def __init__(
        self, trackers: Sequence[str], say: Callable[[str], None] | None = None
    ) -> None:
        super().__init__()
        make_trackers(trackers)  # refuses a missing logger before anything is written
        self.names, self.say = trackers, say
        self._runs: dict[Path, _Watched] = {}

    def __call__(self, folder: Path, rows: Sequence[Row]) -> None:
        """Log rows of the run in `folder`; call it first with no rows, when the earlier
        rounds of a resumed run are on disk.
        """
        if folder not in self._runs:
            trackers = make_trackers(self.names)
            for tracker in trackers:
                self.callback(tracker.close)
            self._runs[folder] = _Watched(folder, trackers)
        watched = self._runs[folder]
        for row in rows:
            watched.log(row)
        if rows and self.say is not None:
            line = {
                "run": watched.run.name,
                "policies": list(dict.fromkeys(row["policy"] for row in rows)),
                "seeds": list(dict.fromkeys(row["seed"] for row in rows)),
                "round": rows[0]["t"],
                "rounds": watched.run.rounds,
                "mean_test_accuracy": _mean(rows, "test_accuracy"),
            }
            self.say(json.dumps(line))
