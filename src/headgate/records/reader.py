"""Reading run folders, also while they are being written. What is damaged is refused in one line that names the file."""

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
"""of the state of a finished run: the checksum of each of its tables"""
MEAN_PRICE = "mean_price"
"""of environment.json: the expected price of a sample, mean over the rounds"""
WARN_AT = 0.8
"""share of the money at which a run with real clients warns"""


@dataclass(frozen=True)
class RunFolder:
    """A run as its folder has it. Settings and state are as they were when it was opened; tables are read when asked for."""

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    state: dict[str, Any]
    name: str = ""
    """as listed: of a point of a sweep, with the sweep before it"""
    sweep: str | None = None
    tables: dict[str, pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)
    """of a finished run, those that are in memory"""
    rounds: int = field(init=False)
    """T, the rounds asked for"""
    policies: list[str] = field(init=False)
    seeds: list[int] = field(init=False)
    runs: list[tuple[str, int]] = field(init=False)
    """(policy, seed) of all runs"""
    lost: frozenset[tuple[str, int]] = field(init=False)
    """(policy, seed) of the runs whose model diverged: they have no learning numbers, but their money and memory count"""
    most_rows: int = field(init=False)
    """rows that a table of the whole run has"""

    @classmethod
    def open(cls, path: Path | str) -> "RunFolder":
        """Open the run in `path` and check what `system` and `status` need."""
        return cls.head(Path(path)).with_settings()

    @classmethod
    def head(cls, path: Path, name: str = "", sweep: str | None = None) -> "RunFolder":
        """Return the run in `path` without its settings, which take longest to read."""
        if not path.is_dir():
            raise DataError(f"{path}: not a run folder, there is no such folder")
        for file in (CONFIG, ENVIRONMENT, STATE):
            if mark_of(path / file) is None:
                raise DataError(f"{path}: not a run folder, {file} is missing or is no plain file")
        return cls(path, {}, read_sealed(path / ENVIRONMENT), read_state(path), name, sweep)

    def with_settings(self) -> "RunFolder":
        """Return the same with its settings read and checked."""
        run = replace(self, config=read_toml(self.path / CONFIG))
        for name in ("data", "model", "policies", "training"):
            if not isinstance(run.config.get(name, {}), dict):
                raise DataError(f"{self.path / CONFIG}: [{name}] must be a section")
        _ = run.system
        return run

    def __post_init__(self) -> None:
        known, policies, seeds = self.state, list(dict.fromkeys(self.state["policies"])), list(self.state["seeds"])
        facts: dict[str, Any] = {"rounds": int(known["rounds"]), "policies": policies, "seeds": seeds}
        facts["runs"] = [(policy, seed) for policy in policies for seed in seeds]
        facts["lost"] = frozenset((one["policy"], one["seed"]) for one in known["diverged"])
        facts["most_rows"] = len(facts["runs"]) * facts["rounds"]
        for name, value in (facts | {"name": self.name or self.path.resolve().name}).items():
            object.__setattr__(self, name, value)

    @cached_property
    def system(self) -> System:
        """The terms of the run as its settings have them, open-ended."""
        with config_errors(self.path):
            stated: SystemTable = fill(SystemTable, self.config.get("system", {}), "system")
            return stated.system(None)

    @property
    def status(self) -> str:
        """The state, or diverged where all models are lost. A run that says "running" while its process is gone was
        interrupted; that is known on the machine it runs on."""
        state: str = self.state["state"]
        if self.lost and self.lost >= set(self.runs):
            return "diverged"
        return "interrupted" if state == "running" and not _alive(self.state["pid"]) else state

    @property
    def started(self) -> float:
        """Seconds since 1970; 0 where the environment does not say."""
        try:
            return datetime.fromisoformat(str(self.environment.get("started"))).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0

    def kind(self, section: str) -> str | None:
        """Return the kind of [data] or [model]."""
        kind = self.config.get(section, {}).get("kind")
        return kind if isinstance(kind, str) else None

    @property
    def target(self) -> float | None:
        """The test accuracy whose first round is reported, where the recipe names one."""
        target = self.config.get("training", {}).get("target")
        fine = isinstance(target, int | float) and not isinstance(target, bool) and 0 < target <= 1
        return float(target) if fine else None

    def metrics(self) -> pl.DataFrame:
        """Return one row per policy, seed and round; null where nothing was measured."""
        return self._table("metrics")

    def clients(self) -> pl.DataFrame:
        """Return what each client admitted, held and was paid: one row per policy, seed and round, null where not recorded."""
        self.check_tables("clients")
        return self._table("clients")

    def _table(self, table: str) -> pl.DataFrame:
        if table not in self.tables:
            if table == "metrics":
                self.check_tables(table)
            frame = whole_table(self.path, table, self.policies, self.most_rows, self._sums)
            if self.state["state"] != "finished":
                return frame
            self.tables[table] = frame
        return self.tables[table]

    def rows(self, table: str, *columns: str) -> Rows:
        """Return the same as arrays: these columns of the metrics, or all; or one of the clients."""
        follower, frame = self.follower(table, *columns), self._table(table)
        kind = pl.List(pl.Float64()) if table == "clients" else pl.Float64()
        absent = [pl.lit(None, kind).alias(name) for name in follower.columns if name not in frame.columns]
        follower.put(self.path, frame.with_columns(absent))
        return follower.rows

    def follower(self, table: str, *columns: str, most_bytes: float = np.inf) -> Follower:
        """Return a reader of these rows, at most so many bytes of them, that does not compare their checksums."""
        clients = self.system.clients if table == "clients" else 0
        return Follower(self.path, table, self.rounds, columns or self.measured, clients, most_bytes, self.most_rows)

    @property
    def measured(self) -> tuple[str, ...]:
        """The columns of its metrics; where the world changes, when it did, and where clients may look, what of that."""
        data = self.config.get("data", {})
        return (*MEASURED, *((CHANGED,) if "changes" in data else ()), *(LOOKS if data.get("window", 1) != 1 else ()))

    @property
    def _sums(self) -> dict[Path, str]:
        """The checksums of what was written: of a finished run in its state, of one that nobody writes in its checkpoints."""
        if self.state["state"] == "finished":
            sums = self.state.get(CHECKSUMS)
            return {self.path / name: each for name, each in sums.items()} if isinstance(sums, dict) else {}
        if self.status == "running":
            return {}
        return {shard / name: each for shard in shard_folders(self.path) for name, each in _recorded(shard).items()}

    def check_tables(self, *tables: str) -> None:
        """Refuse a finished run that has lost its metrics, or another of these tables whose checksum its state has."""
        for table, file in ((table, f"{table}.parquet") for table in tables if self.state["state"] == "finished"):
            if (table == "metrics" or self.path / file in self._sums) and not table_files(self.path, table):
                raise DataError(f"{self.path / file}: is missing, although the run is finished")


@contextmanager
def config_errors(folder: Path) -> Iterator[None]:
    """Name the file where settings of the run in `folder` are refused."""
    try:
        yield
    except SettingError as error:
        raise DataError(f"{folder / CONFIG}: {error}") from None


class _LostRun(BaseModel, strict=True):
    policy: str
    seed: int


class _State(BaseModel, strict=True):
    """What a state must have for `RunFolder`; it may have more."""

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
        raise DataError(f"{folder / STATE}: {key} = {shown(state.get(key))} is not what a state says") from None
    policies, seeds = len(state["policies"]), len(state["seeds"])
    if policies * seeds > RUNS:
        raise DataError(f"{folder / STATE}: {policies:,} policies and {seeds:,} seeds are more than {RUNS:,} runs")
    return state


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the folder of the newest checkpoint; a link is none."""
    within = folder / CHECKPOINTS
    if within.is_symlink():
        raise DataError(f"{within}: is a link, which is not followed")
    found = [path for path in within.glob("[0-9]*") if path.name.isdigit() and path.is_dir() and not path.is_symlink()]
    return max(found, key=lambda path: int(path.name), default=None)


def read_head(path: Path) -> dict[str, Any]:
    """Return what a checkpoint says of itself, as far as it can be checked without looking into its files."""
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
    """The parts of a shard up to its newest checkpoint with their checksums; what came after it nobody has vouched for."""
    newest = newest_checkpoint(shard)
    try:
        return {} if newest is None else dict(read_head(newest)["parts"])
    except DataError:
        if newest_checkpoint(shard) == newest:
            raise
        return _recorded(shard)  # a process on another machine writes it, and has just continued


def look_for_runs(folder: Path | str) -> tuple[list[RunFolder], dict[str, str]]:
    """Return the runs in `folder` and in its sweeps, newest first; and those that are damaged, by name, with why."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    runs, damaged = [], {}
    for found in find_runs(folder):
        try:
            runs.append(RunFolder.head(found.path, found.name, found.sweep).with_settings())
        except DataError as error:
            damaged[found.name] = str(error)
    return sorted(runs, key=lambda run: (run.started, run.name), reverse=True), dict(sorted(damaged.items()))


def _alive(pid: int) -> bool:
    if pid <= 0:  # these stand for groups of processes
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # somebody else's, so it is there
    except (ProcessLookupError, OverflowError):
        return False
    return True
