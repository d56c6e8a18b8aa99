"""Readers of run folders, also of runs in progress. A damaged file causes an error of
one line that names the file.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, Field, ValidationError

from headgate.control.types import System
from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.experiment.sections import SystemTable
from headgate.limits import RECIPE, ROUNDS, RUNS
from headgate.reading import read_toml
from headgate.records.tables import (
    CHANGED,
    LOOKS,
    MEASURED,
    STATE,
    Follower,
    Rows,
    find_runs,
    mark_of,
    read_sealed,
    shard_folders,
    table_files,
    whole_table,
)
from headgate.registry import fill

CONFIG, ENVIRONMENT = "config.toml", "environment.json"
CHECKPOINTS, HEAD = "checkpoints", "checkpoint.json"
CHECKSUMS = "tables"
"""the key, in the state of a finished run, of the checksums of its tables"""
MEAN_PRICE = "mean_price"
"""the key, in environment.json, of the expected price of a sample, averaged over the
rounds
"""
WARN_AT = 0.8
"""the share of the money that is spent when a run with real clients issues a warning"""


@dataclass(frozen=True)
class RunFolder:
    """A run folder. Settings and state are read once, when the folder is opened; tables
    are read when they are requested.
    """

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    state: dict[str, Any]
    name: str = ""
    """the name under which the run is listed; for a point of a sweep, SWEEP~POINT"""
    sweep: str | None = None
    tables: dict[str, pl.DataFrame] = field(
        default_factory=dict, repr=False, compare=False
    )
    """the tables of a finished run that are in memory"""
    rounds: int = field(init=False)
    """T, the number of rounds in the settings"""
    policies: list[str] = field(init=False)
    seeds: list[int] = field(init=False)
    runs: list[tuple[str, int]] = field(init=False)
    """(policy, seed) of all runs"""
    lost: frozenset[tuple[str, int]] = field(init=False)
    """(policy, seed) of the runs whose model diverged; accuracy and loss are then null,
    but money and memory are recorded
    """
    most_rows: int = field(init=False)
    """the number of rows that each table has when all rounds are complete"""

    @classmethod
    def open(cls, path: Path | str) -> "RunFolder":
        """Open the run in `path` and check the settings and the state that `system` and
        `status` use.
        """
        return cls.head(Path(path)).with_settings()

    @classmethod
    def head(cls, path: Path, name: str = "", sweep: str | None = None) -> "RunFolder":
        """Open the run in `path` without its settings, which take the longest to
        read.
        """
        if not path.is_dir():
            raise DataError(f"{path}: not a run folder, there is no such folder")
        for file in (CONFIG, ENVIRONMENT, STATE):
            if mark_of(path / file) is None:
                raise DataError(
                    f"{path}: not a run folder, {file} is missing or is no plain file"
                )
        return cls(
            path, {}, read_sealed(path / ENVIRONMENT), read_state(path), name, sweep
        )

    def with_settings(self) -> "RunFolder":
        """Return a copy of this run with its settings read and checked."""
        run = replace(self, config=read_toml(self.path / CONFIG))
        for name in ("data", "model", "policies", "training"):
            if not isinstance(run.config.get(name, {}), dict):
                raise DataError(f"{self.path / CONFIG}: [{name}] must be a section")
        _ = run.system
        return run

    def __post_init__(self) -> None:
        known, policies, seeds = (
            self.state,
            list(dict.fromkeys(self.state["policies"])),
            list(self.state["seeds"]),
        )
        facts: dict[str, Any] = {
            "rounds": int(known["rounds"]),
            "policies": policies,
            "seeds": seeds,
        }
        facts["runs"] = [(policy, seed) for policy in policies for seed in seeds]
        facts["lost"] = frozenset(
            (one["policy"], one["seed"]) for one in known["diverged"]
        )
        facts["most_rows"] = len(facts["runs"]) * facts["rounds"]
        for name, value in (
            facts | {"name": self.name or self.path.resolve().name}
        ).items():
            object.__setattr__(self, name, value)

    @cached_property
    def system(self) -> System:
        """the system that the settings of the run describe, without a horizon"""
        with config_errors(self.path):
            stated: SystemTable = fill(
                SystemTable, self.config.get("system", {}), "system"
            )
            return stated.system(None)

    @property
    def status(self) -> str:
        """the state of the run, but "diverged" if all its models diverged, and
        "interrupted" if the state is "running" and the process of the run does not
        exist on this machine"""
        state: str = self.state["state"]
        if self.lost and self.lost >= set(self.runs):
            return "diverged"
        return (
            "interrupted"
            if state == "running" and not _alive(self.state["pid"])
            else state
        )

    @property
    def started(self) -> float:
        """the start time in seconds since 1970, 0 if the environment does not state
        it
        """
        try:
            return datetime.fromisoformat(
                str(self.environment.get("started"))
            ).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0

    def kind(self, section: str) -> str | None:
        """Return the setting `kind` of a section, [data] or [model], or None if the
        section does not state it.
        """
        kind = self.config.get(section, {}).get("kind")
        return kind if isinstance(kind, str) else None

    @property
    def target(self) -> float | None:
        """the test accuracy for which the first round that reaches it is reported, None
        if the settings have no target
        """
        target = self.config.get("training", {}).get("target")
        fine = (
            isinstance(target, int | float)
            and not isinstance(target, bool)
            and 0 < target <= 1
        )
        return float(target) if fine else None

    def metrics(self) -> pl.DataFrame:
        """Return the metrics, one row per policy, seed and round; a value that was not
        measured is null.
        """
        return self._table("metrics")

    def clients(self) -> pl.DataFrame:
        """Return what each client admitted, held and was paid, one row per policy, seed
        and round; null if not recorded.
        """
        self.check_tables("clients")
        return self._table("clients")

    def _table(self, table: str) -> pl.DataFrame:
        if table not in self.tables:
            if table == "metrics":
                self.check_tables(table)
            frame = whole_table(
                self.path, table, self.policies, self.most_rows, self._sums
            )
            if self.state["state"] != "finished":
                return frame
            self.tables[table] = frame
        return self.tables[table]

    def rows(self, table: str, *columns: str) -> Rows:
        """Return columns of the metrics, by default all, or one column of the clients,
        as arrays.
        """
        follower, frame = self.follower(table, *columns), self._table(table)
        kind = pl.List(pl.Float64()) if table == "clients" else pl.Float64()
        absent = [
            pl.lit(None, kind).alias(name)
            for name in follower.columns
            if name not in frame.columns
        ]
        follower.put(self.path, frame.with_columns(absent))
        return follower.rows

    def follower(
        self, table: str, *columns: str, most_bytes: float = np.inf
    ) -> Follower:
        """Return a follower of these columns that holds at most `most_bytes` of rows;
        it does not compare checksums.
        """
        clients = self.system.clients if table == "clients" else 0
        return Follower(
            self.path,
            table,
            self.rounds,
            columns or self.measured,
            clients,
            most_bytes,
            self.most_rows,
        )

    @property
    def measured(self) -> tuple[str, ...]:
        """the columns of the metrics that this run records; some only if the world
        changes or if clients look
        """
        data = self.config.get("data", {})
        return (
            *MEASURED,
            *((CHANGED,) if "changes" in data else ()),
            *(LOOKS if data.get("window", 1) != 1 else ()),
        )

    @property
    def _sums(self) -> dict[Path, str]:
        """the recorded checksums by file: in the state of a finished run, else in the
        checkpoints; empty while it is running
        """
        if self.state["state"] == "finished":
            sums = self.state.get(CHECKSUMS)
            return (
                {self.path / name: each for name, each in sums.items()}
                if isinstance(sums, dict)
                else {}
            )
        if self.status == "running":
            return {}
        return {
            shard / name: each
            for shard in shard_folders(self.path)
            for name, each in _recorded(shard).items()
        }

    def check_tables(self, *tables: str) -> None:
        """Raise DataError if a finished run lacks its metrics, or one of these tables
        whose checksum is in its state.
        """
        for table, file in (
            (table, f"{table}.parquet")
            for table in tables
            if self.state["state"] == "finished"
        ):
            if (
                table == "metrics" or self.path / file in self._sums
            ) and not table_files(self.path, table):
                raise DataError(
                    f"{self.path / file}: is missing, although the run is finished"
                )


@contextmanager
def config_errors(folder: Path) -> Iterator[None]:
    """Convert a SettingError about the run in `folder` to a DataError that names its
    settings file.
    """
    try:
        yield
    except SettingError as error:
        raise DataError(f"{folder / CONFIG}: {error}") from None


class _LostRun(BaseModel, strict=True):
    policy: str
    seed: int


class _State(BaseModel, strict=True):
    """The fields of a state that `RunFolder` needs; a state may have further fields."""

    state: Literal["running", "finished", "interrupted"]
    round: int
    rounds: int = Field(ge=0, le=ROUNDS)
    pid: int
    elapsed_s: float = Field(0.0, ge=0, allow_inf_nan=False)
    policies: list[str] = Field(min_length=1)
    seeds: list[int] = Field(min_length=1)
    diverged: list[_LostRun]
    guessing: list[_LostRun]


def read_state(folder: Path) -> dict[str, Any]:
    state = read_sealed(folder / STATE)
    state |= {key: [] for key in ("diverged", "guessing") if key not in state}
    try:
        _State.model_validate(state)
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        raise DataError(
            f"{folder / STATE}: {key} = {shown(state.get(key))} is not what a state"
            " says"
        ) from None
    policies, seeds = len(state["policies"]), len(state["seeds"])
    if policies * seeds > RUNS:
        raise DataError(
            f"{folder / STATE}: {policies:,} policies and {seeds:,} seeds are more than"
            f" {RUNS:,} runs"
        )
    return state


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the folder of the newest checkpoint, or None if the folder has no
    checkpoint; links are ignored.
    """
    within = folder / CHECKPOINTS
    if within.is_symlink():
        raise DataError(f"{within}: is a link, which is not followed")
    found = [
        path
        for path in within.glob("[0-9]*")
        if path.name.isdigit() and path.is_dir() and not path.is_symlink()
    ]
    return max(found, key=lambda path: int(path.name), default=None)


def read_head(path: Path) -> dict[str, Any]:
    """Return the facts in the head file of a checkpoint, checked as far as is possible
    without its other files.
    """
    head = read_sealed(path / HEAD, RECIPE)
    sums = [head.get(key) for key in ("parts", "files")]
    names = [name for each in sums if isinstance(each, dict) for name in each]
    if (
        head.get("t") != int(path.name)
        or not all(isinstance(each, dict) for each in (*sums, head.get("facts", {})))
        or not isinstance(head.get("policies"), list)
        or any(".." in name or name.startswith("/") for name in names)
    ):
        raise DataError(f"{path / HEAD}: is damaged; the run cannot be continued")
    return head


def _recorded(shard: Path) -> dict[str, str]:
    """Return the checksums of the parts that a shard had at its newest checkpoint;
    later parts have no recorded checksum.
    """
    newest = newest_checkpoint(shard)
    try:
        return {} if newest is None else dict(read_head(newest)["parts"])
    except DataError:
        if newest_checkpoint(shard) == newest:
            raise
        return _recorded(
            shard
        )  # a process on another machine has just written a newer checkpoint


def scan_runs(folder: Path | str) -> tuple[list[RunFolder], dict[str, str]]:
    """Return the runs in `folder` and in its sweeps, newest first, and the error
    messages of damaged runs by name.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    runs, damaged = [], {}
    for found in find_runs(folder):
        try:
            runs.append(
                RunFolder.head(found.path, found.name, found.sweep).with_settings()
            )
        except DataError as error:
            damaged[found.name] = str(error)
    return sorted(runs, key=lambda run: (run.started, run.name), reverse=True), dict(
        sorted(damaged.items())
    )


def _alive(pid: int) -> bool:
    if pid <= 0:  # os.kill takes such a number for a group of processes
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # the process exists and belongs to another user
    except (ProcessLookupError, OverflowError):
        return False
    return True
