"""Readers of run folders, also of runs in progress. A damaged file causes an error of
one line that names the file.
"""

import os
import re
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
    DELAYED,
    LOOKS,
    MEASURED,
    STATE,
    Follower,
    Rows,
    find_runs,
    mark_of,
    names_in,
    read_sealed,
    table_files,
    whole_table,
)
from headgate.registry import fill

CONFIG, ENVIRONMENT = "config.toml", "environment.json"
CHECKPOINTS, HEAD = "checkpoints", "checkpoint.json"
CHECKPOINT = re.compile(r"(?:c(\d{3,6})-)?(\d{8,10})")
"""the name of a checkpoint: its chunk, if there are several, and its round"""
CHUNKS = "chunks"
"""the key, in environment.json, of the list of the chunks of a divided run"""
CHECKSUMS = "tables"
"""the key, in the state of a finished run, of the checksums of its tables"""
OF_THE_APP = "of_the_app"
"""key of environment.json: the sections that are not those of the recipe, because a
Flower app has its own data and model"""
MEAN_PRICE = "mean_price"
"""the key, in environment.json, of the expected price of a sample, averaged over the
rounds
"""
WARN_AT = 0.8
"""the share of the money that is spent when a run with real clients issues a warning"""


@dataclass(frozen=True)
class RunFolder:
    """A run folder, to be read.

    Settings and state are read once, when the folder is opened; tables are read when
    they are requested.

    Parameters
    ----------
    path : pathlib.Path
        The folder.
    config : dict
        The settings, as in config.toml.
    environment : dict
        The facts about software and device, as in environment.json.
    state : dict
        The progress of the run, as in state.json.
    name : str
        The name under which the run is listed; for a point of a sweep, SWEEP~POINT.
    sweep : str, optional
        The name of the sweep to which the run belongs.
    tables : dict of str to polars.DataFrame
        The tables of a finished run that are in memory.
    """

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    state: dict[str, Any]
    name: str
    sweep: str | None = None
    tables: dict[str, pl.DataFrame] = field(
        default_factory=dict,
        repr=False,
        compare=False,
    )

    @classmethod
    def open(cls, path: Path | str) -> "RunFolder":
        """Open a run, and check the settings and the state that the readers use.

        Parameters
        ----------
        path : pathlib.Path or str
            The run folder.

        Returns
        -------
        RunFolder
            The run.

        Raises
        ------
        DataError
            If the folder holds no run, or a file of it is damaged.
        """
        return cls.head(Path(path)).with_settings()

    @classmethod
    def head(
        cls,
        path: Path,
        name: str = "",
        sweep: str | None = None,
    ) -> "RunFolder":
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
        environment, state = read_sealed(path / ENVIRONMENT), read_state(path)
        return cls(path, {}, environment, state, name or path.resolve().name, sweep)

    def with_settings(self) -> "RunFolder":
        """Return a copy of this run with its settings read and checked."""
        run = replace(self, config=read_toml(self.path / CONFIG))
        for name in ("data", "model", "policies", "training"):
            if not isinstance(run.config.get(name, {}), dict):
                raise DataError(f"{self.path / CONFIG}: [{name}] must be a section")
        _ = run.system
        return run

    @property
    def rounds(self) -> int:
        """The number of rounds in the settings, T."""
        return int(self.state["rounds"])

    @cached_property
    def policies(self) -> list[str]:
        """The names of the policies."""
        return list(dict.fromkeys(self.state["policies"]))

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return list(self.state["seeds"])

    @cached_property
    def runs(self) -> list[tuple[str, int]]:
        """The policy and the seed of each run."""
        return [(policy, seed) for policy in self.policies for seed in self.seeds]

    @cached_property
    def lost(self) -> frozenset[tuple[str, int]]:
        """The policy and the seed of the runs whose model diverged.

        Their accuracy and loss are null, but money and memory are recorded.
        """
        return frozenset((one["policy"], one["seed"]) for one in self.state["diverged"])

    @property
    def most_rows(self) -> int:
        """The number of rows that each table has when all rounds are complete."""
        return len(self.runs) * self.rounds

    @cached_property
    def system(self) -> System:
        """The system that the settings of the run describe, without a horizon."""
        with config_errors(self.path):
            table = self.config.get("system", {})
            stated: SystemTable = fill(SystemTable, table, "system")
            return stated.system(None)

    @property
    def finished(self) -> bool:
        """Whether the state of the run is finished."""
        return bool(self.state["state"] == "finished")

    @property
    def status(self) -> str:
        """The state of the run, as users see it.

        It is "diverged" if all its models diverged, and "interrupted" if the state is
        "running" and the process of the run does not exist on this machine.
        """
        state: str = self.state["state"]
        if self.lost and self.lost >= set(self.runs):
            return "diverged"
        if state == "running" and not _alive(self.state["pid"]):
            return "interrupted"
        return state

    @property
    def started(self) -> float:
        """The start time in seconds since 1970, 0 if it is not recorded."""
        text = str(self.environment.get("started"))
        try:
            return datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0

    @property
    def computing_s(self) -> float:
        """The seconds that all chunks of the run took to compute."""
        return float(self.state.get("computing_s", self.state.get("elapsed_s")) or 0.0)

    def fact(self, key: str) -> str:
        """Return a string from environment.json; raise DataError if it is missing."""
        value = self.environment.get(key)
        if not isinstance(value, str):
            raise DataError(
                f"{self.path / ENVIRONMENT}: {key} is missing; the run cannot be"
                " continued"
            )
        return value

    def kind(self, section: str) -> str | None:
        """Return the setting `kind` of a section, [data] or [model], or None if the
        section does not state it. That of a Flower app is the app's own.
        """
        of_the_app = self.environment.get(OF_THE_APP)
        if isinstance(of_the_app, list) and section in of_the_app:
            return "the app's own"
        kind = self.config.get(section, {}).get("kind")
        return kind if isinstance(kind, str) else None

    @property
    def target(self) -> float | None:
        """The test accuracy for which the first round that reaches it is reported.

        It is None if the settings have no target.
        """
        target = self.config.get("training", {}).get("target")
        if isinstance(target, bool) or not isinstance(target, int | float):
            return None
        return float(target) if 0 < target <= 1 else None

    def metrics(self) -> pl.DataFrame:
        """Return the metrics, one row per policy, seed and round.

        Returns
        -------
        polars.DataFrame
            The metrics; a value that was not measured is null.

        Raises
        ------
        DataError
            If a file is damaged, or the table of a finished run is missing.
        """
        return self._table("metrics")

    def clients(self) -> pl.DataFrame:
        """Return what each client admitted, held and was paid.

        Returns
        -------
        polars.DataFrame
            One row per policy, seed and round; a value that was not recorded is null.

        Raises
        ------
        DataError
            If a file is damaged, or the table of a finished run is missing.
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
            if not self.finished:
                return frame
            self.tables[table] = frame
        return self.tables[table]

    def rows(self, table: str, *columns: str) -> Rows:
        """Return columns of the metrics, by default all, or one column of the clients,
        as arrays.
        """
        follower, frame = self.follower(table, *columns), self._table(table)
        kind = pl.List(pl.Float64()) if table == "clients" else pl.Float64()
        absent = [name for name in follower.columns if name not in frame.columns]
        nothing = pl.lit(None, kind)
        frame = frame.with_columns(nothing.alias(name) for name in absent)
        follower.put(self.path, frame)
        return follower.rows

    def follower(
        self,
        table: str,
        *columns: str,
        most_bytes: float = np.inf,
    ) -> Follower:
        """Return a follower of these columns that holds at most `most_bytes` of rows;
        it does not compare checksums.
        """
        return Follower(
            self.path,
            table,
            self.rounds,
            columns or self.measured,
            self.system.clients if table == "clients" else 0,
            most_bytes,
            self.most_rows,
        )

    @property
    def measured(self) -> tuple[str, ...]:
        """The columns of the metrics that this run records.

        Some are recorded only if the world changes, clients look or samples come late.
        """
        data, columns = self.config.get("data", {}), list(MEASURED)
        if "changes" in data:
            columns.append(CHANGED)
        if data.get("window", 1) != 1:
            columns.extend(LOOKS)
        if "delay" in data:
            columns.extend(DELAYED)
        return tuple(columns)

    @property
    def _sums(self) -> dict[Path, str]:
        """The recorded checksums by file; none while the run is running.

        They are in the state of a finished run, else in the checkpoints. Parts that are
        newer than the checkpoints have no checksum.
        """
        sums: dict[str, str] = {}
        if self.finished:
            recorded = self.state.get(CHECKSUMS)
            sums = recorded if isinstance(recorded, dict) else {}
        elif self.status != "running":
            for head in newest_heads(self.path, {}).values():
                sums |= head["parts"]
        return {self.path / name: each for name, each in sums.items()}

    def check_tables(self, *tables: str) -> None:
        """Raise DataError if a finished run lacks its metrics, or one of these tables
        whose checksum is in its state.
        """
        for table in tables if self.finished else ():
            file = self.path / f"{table}.parquet"
            recorded = table == "metrics" or file in self._sums
            if recorded and not table_files(self.path, table):
                raise DataError(f"{file}: is missing, although the run is finished")


@contextmanager
def config_errors(folder: Path) -> Iterator[None]:
    """Convert a SettingError about the run in `folder` to a DataError that names its
    settings file.
    """
    try:
        yield
    except SettingError as error:
        raise DataError(f"{folder / CONFIG}: {error}") from None


class _LostRun(BaseModel, strict=True, extra="allow"):
    policy: str
    seed: int


class _State(BaseModel, strict=True):
    """The fields of a state that `RunFolder` needs; a state may have further fields."""

    state: Literal["running", "finished", "interrupted"]
    round: int
    rounds: int = Field(
        ge=0,
        le=ROUNDS,
    )
    pid: int
    elapsed_s: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
    )
    computing_s: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
    )
    policies: list[str] = Field(min_length=1)
    seeds: list[int] = Field(min_length=1)
    diverged: list[_LostRun]
    guessing: list[_LostRun]


def read_state(folder: Path) -> dict[str, Any]:
    """Return the content of state.json, checked."""
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


class _Facts(BaseModel, strict=True, extra="allow"):
    """What a checkpoint reports about its runs, for the state."""

    diverged: list[_LostRun] = []
    guessing: list[_LostRun] = []
    note: str = ""


class _Head(BaseModel, strict=True):
    """The fields of the head file of a checkpoint."""

    t: int
    policies: list[str]
    parts: dict[str, str]
    files: dict[str, str]
    facts: _Facts = _Facts()


def newest_checkpoints(folder: Path) -> dict[int, Path]:
    """Return the folder of the newest checkpoint of each chunk that has one.

    Links are ignored. An undivided run is chunk 0.
    """
    within = folder / CHECKPOINTS
    names = filter(None, map(CHECKPOINT.fullmatch, names_in(within)))
    found = sorted((int(one[1] or 0), int(one[2]), one[0]) for one in names)
    paths = [(chunk, within / name) for chunk, _, name in found]
    return {
        chunk: path for chunk, path in paths if path.is_dir() and not path.is_symlink()
    }


def round_of(checkpoint: Path) -> int:
    """Return the round of a checkpoint, from its name."""
    return int(checkpoint.name.rpartition("-")[2])


def read_head(checkpoint: Path) -> dict[str, Any]:
    """Return the content of the head file of a checkpoint, checked as far as is
    possible without its other files.
    """
    path = checkpoint / HEAD
    raw = read_sealed(path, RECIPE)
    try:
        head = _Head.model_validate(raw)
    except ValidationError:
        head = None
    names = () if head is None else (*head.parts, *head.files)
    outside = any(".." in name or name.startswith("/") for name in names)
    if head is None or outside or head.t != round_of(checkpoint):
        raise DataError(f"{path}: is damaged; the run cannot be continued")
    return head.model_dump()


Heads = dict[Path, dict[str, Any]]
"""the content of the head files of checkpoints, by the checkpoint's folder"""


def newest_heads(folder: Path, known: Heads) -> Heads:
    """Return the head of the newest checkpoint of each chunk; `known` is not read
    again.
    """
    newest = newest_checkpoints(folder)
    try:
        return {path: known.get(path) or read_head(path) for path in newest.values()}
    except DataError:
        if newest_checkpoints(folder) == newest:
            raise
        # a process has just written a newer checkpoint
        return newest_heads(folder, known)


def scan_runs(folder: Path | str) -> tuple[list[RunFolder], dict[str, str]]:
    """Return the runs in `folder` and in its sweeps, newest first, and the error
    messages of damaged runs by name.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    runs: list[RunFolder] = []
    damaged: dict[str, str] = {}
    for found in find_runs(folder):
        try:
            head = RunFolder.head(found.path, found.name, found.sweep)
            runs.append(head.with_settings())
        except DataError as error:
            damaged[found.name] = str(error)
    runs.sort(
        key=lambda run: (run.started, run.name),
        reverse=True,
    )
    return runs, dict(sorted(damaged.items()))


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
