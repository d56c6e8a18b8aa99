"""Reading run folders, also while they are being written. What is damaged is refused in one line that names the file."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from headgate.errors import DataError
from headgate.limits import CLIENTS, FOLDER, LIST, LISTED, LISTED_CLIENTS, RECIPE, ROUNDS, RUNS, TABLE
from headgate.reading import read_text, read_toml
from headgate.records.rows import Follower, Rows
from headgate.records.sums import check_recorded, read_sealed
from headgate.records.sweeps import STATE, find_runs
from headgate.records.tables import (
    CHANGED,
    LOOKS,
    MEASURED,
    concepts_of,
    mark_of,
    may_look,
    part_folders,
    table_files,
    whole_table,
)
from headgate.records.together import Allowance, smallest_first

CONFIG, ENVIRONMENT = "config.toml", "environment.json"
Read = TypeVar("Read")
STATES = ("running", "finished", "interrupted")
A_RUN = 256
"""bytes that one run of a folder takes in a list, with rows or without"""
CHECKSUMS = "tables"
"""of the state of a finished run: the checksum of each of its tables"""
MEAN_PRICE = "mean_price"
"""of environment.json: what a sample costs in expectation, mean over the rounds; whoever makes a run folder writes it"""


@dataclass(frozen=True)
class RunFolder:
    """A run as its folder tells it. Settings and state are as they were when it was opened; tables are read when asked for."""

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    state: dict[str, Any]
    name: str = ""
    """as listed: of a point of a sweep, with the sweep before it"""
    sweep: str | None = None

    @classmethod
    def open(cls, path: Path | str, listed: bool = False) -> "RunFolder":
        """The run in `path`, with what `buffers`, `budget` and `status` need already checked; `listed`: among others."""
        path = Path(path)
        if not path.is_dir():
            raise DataError(f"{path}: not a run folder, there is no such folder")
        for name in (CONFIG, ENVIRONMENT, STATE):
            if mark_of(path / name) is None:
                raise DataError(f"{path}: not a run folder, {name} is missing or is no plain file")
        return cls(path, {}, read_sealed(path / ENVIRONMENT), read_state(path)).with_settings(listed)

    def with_settings(self, listed: bool = False) -> "RunFolder":
        """The same, its settings read and checked."""
        config = read_toml(self.path / CONFIG, LISTED if listed else RECIPE)
        _check_config(self.path / CONFIG, config, LISTED_CLIENTS if listed else CLIENTS)
        return replace(self, config=config)

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.path.resolve().name)

    @cached_property
    def buffers(self) -> list[int]:
        """B_m; a list shorter than the clients is repeated, as recipes have it."""
        system = self.config["system"]
        buffers: list[int] = system["buffers"]
        return [int(b) for b in np.resize(buffers, system.get("clients") or len(buffers))]

    @property
    def budget(self) -> float:
        return float(self.config["system"]["budget"])

    @property
    def rounds(self) -> int:
        """T, the rounds asked for."""
        return int(self.state["rounds"])

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
        """Seconds since 1970; where the environment does not say, when its file was written."""
        said = self.environment.get("started")
        if isinstance(said, str):
            try:
                return datetime.fromisoformat(said).timestamp()
            except (ValueError, OverflowError, OSError):
                pass
        mark = mark_of(self.path / ENVIRONMENT)
        return mark.changed / 1e9 if mark is not None else 0.0

    @cached_property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(self.state["policies"]))

    @property
    def seeds(self) -> list[int]:
        return list(self.state["seeds"])

    @cached_property
    def runs(self) -> list[tuple[str, int]]:
        """(policy, seed) of all runs."""
        return [(policy, seed) for policy in self.policies for seed in self.seeds]

    @cached_property
    def lost(self) -> frozenset[tuple[str, int]]:
        """(policy, seed) of the runs whose model diverged: they have no learning numbers, but their money and memory count."""
        return frozenset((one["policy"], one["seed"]) for one in self.state["diverged"])

    def kind(self, section: str) -> str | None:
        """What [data] or [model] says that it is."""
        said = self.config.get(section)
        kind = said.get("kind") if isinstance(said, dict) else None
        return kind if isinstance(kind, str) else None

    @property
    def target(self) -> float | None:
        """The test accuracy whose first round is told, where the recipe names one."""
        training = self.config.get("training")
        said = training.get("target") if isinstance(training, dict) else None
        fine = isinstance(said, int | float) and not isinstance(said, bool) and 0 < said <= 1
        return float(said) if fine else None  # type: ignore[arg-type]

    def config_text(self) -> str:
        """The settings as they stand in their file."""
        return read_text(self.path / CONFIG)

    def metrics(self) -> pl.DataFrame:
        """One row per policy, seed and round; null where nothing was measured."""
        known = self.policies, self.most_rows, self._sums, concepts_of(self.config), may_look(self.config)
        return self._checked("metrics", lambda: whole_table(self.path, "metrics", *known))

    def clients(self) -> pl.DataFrame:
        """One row per policy, seed and round with what each client admitted, held and was paid; empty or null where that was
        not recorded."""
        self.check_tables("clients")
        most = self.most_rows * len(self.buffers)
        return self._checked("clients", lambda: whole_table(self.path, "clients", self.policies, most, self._sums))

    def rows(self, table: str, *columns: str) -> Rows:
        """The same as arrays: these columns of the metrics, or all; or one of the clients."""
        return self._checked(table, self.follower(table, *columns, sums=self._sums).look)

    def follower(
        self, table: str, *columns: str, most_bytes: float = np.inf, sums: Mapping[str, str] | None = None
    ) -> Follower:
        """One who reads these rows; without `sums` what was written is not held against its checksums."""
        clients = len(self.buffers) if table == "clients" else 0
        most = self.most_rows * max(1, clients)
        return Follower(self.path, table, self.rounds, columns or self.measured, clients, most_bytes, most, sums)

    def listed(self, table: str, *columns: str) -> Rows:
        """The same where the run is one of many: no more than a list can hold, and not held against checksums."""
        return self._saying_where(self.follower(table, *columns, most_bytes=TABLE).look)

    def listed_bytes(self, table: str, numbers: int) -> int:
        """What a list reads of a table with so many numbers of 8 bytes in a row, or makes of it."""
        files = table_files(self.path, table)
        room = self.most_rows * numbers * 8 if any(path.suffix == ".parquet" for path in files) else 0
        return max(sum(mark.size for mark in files.values()), room, len(self.policies) * len(self.seeds) * A_RUN)

    @property
    def measured(self) -> tuple[str, ...]:
        """The columns of its metrics; where the world changes, when it did, and where clients may look, what of that."""
        changed, looks = (CHANGED,) if concepts_of(self.config) else (), tuple(LOOKS) if may_look(self.config) else ()
        return (*MEASURED, *changed, *looks)

    @property
    def most_rows(self) -> int:
        """Rows that a table of the whole run has."""
        return len(self.runs) * self.rounds

    @property
    def _sums(self) -> dict[str, str]:
        said = self.state.get(CHECKSUMS)
        return said if isinstance(said, dict) else {}

    def check_tables(self, *tables: str) -> None:
        """Refuses a finished run that has lost its metrics, or another of these tables whose checksum it tells."""
        for table, file in ((table, f"{table}.parquet") for table in tables if self.state["state"] == "finished"):
            if (table == "metrics" or file in self._sums) and not table_files(self.path, table):
                raise DataError(f"{self.path / file}: is missing, although the run is finished")

    def _checked(self, table: str, read: Callable[[], Read]) -> Read:
        """Rows of a run that nobody is playing must be those that were written, as far as a checkpoint or a state tells."""
        if table == "metrics":  # memory is known without the clients
            self.check_tables(table)
        if self.status != "running":
            for part in part_folders(self.path):
                check_recorded(part, [f"{table}.jsonl"])
        return self._saying_where(read)

    def _saying_where(self, read: Callable[[], Read]) -> Read:
        try:
            return read()
        except DataError as error:
            raise DataError(f"{self.path}{os.sep}{error}") from None


def read_config(folder: Path) -> dict[str, Any]:
    return read_toml(folder / CONFIG)


def read_state(folder: Path) -> dict[str, Any]:
    state = read_sealed(folder / STATE)
    check_state(folder / STATE, state)
    return state


def list_runs(folder: Path | str) -> list[RunFolder]:
    """The runs in `folder` and in its sweeps, newest first. What is no run folder, or a damaged one, is passed over."""
    return look_for_runs(folder)[0]


def look_for_runs(folder: Path | str) -> tuple[list[RunFolder], dict[str, str]]:
    """The same; and those that are damaged, by name, with why."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    runs, damaged, left = [], {}, Allowance(LIST)
    for found, size in smallest_first(find_runs(folder), lambda found: settings_bytes(found.path)):
        try:
            if not left.take(size):
                raise DataError(f"{found.path}: {left.over('the settings')}")
            runs.append(replace(RunFolder.open(found.path, listed=True), name=found.name, sweep=found.sweep))
        except DataError as error:
            damaged[found.name] = str(error)
    return sorted(runs, key=lambda run: (run.started, run.name), reverse=True), dict(sorted(damaged.items()))


def settings_bytes(folder: Path) -> int:
    """What a list reads of a folder to know what it is, beyond what every folder may have."""
    seen = (mark_of(folder / name) for name in (CONFIG, ENVIRONMENT, STATE))
    return max(0, sum(mark.size for mark in seen if mark is not None) - FOLDER)


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


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_config(path: Path, config: dict[str, Any], most: int) -> None:
    system = config.get("system")
    if not isinstance(system, dict):
        raise DataError(f"{path}: the section [system] is missing")
    buffers, clients, budget = system.get("buffers"), system.get("clients"), system.get("budget")
    if not isinstance(buffers, list) or not buffers or not all(_whole(b) and b >= 0 for b in buffers):
        raise DataError(f"{path}: system.buffers must be a list of whole numbers")
    if not (clients is None or _whole(clients)) or not 1 <= (len(buffers) if clients is None else clients) <= most:
        raise DataError(f"{path}: system.clients = {clients!r} must be a whole number from 1 to {most:,}")
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not math.isfinite(budget) or budget < 0:
        raise DataError(f"{path}: system.budget = {budget!r} must be a number from 0 on")
    if not isinstance(config.get("policies", {}), dict):
        raise DataError(f"{path}: [policies] must be a section")


def check_state(path: Path, state: dict[str, Any]) -> None:
    """Refuses a state that does not say what `RunFolder` needs to know."""
    said = state.get("state")
    if said not in STATES:
        raise DataError(f"{path}: state = {said!r} must be one of {', '.join(STATES)}")
    for key in ("round", "rounds", "pid"):
        if not _whole(state.get(key)):
            raise DataError(f"{path}: {key} = {state.get(key)!r} must be a whole number")
    if not 0 <= state["rounds"] <= ROUNDS:
        raise DataError(f"{path}: rounds = {state['rounds']} must be 0 to {ROUNDS:,}")
    _check_list(path, state, "policies", lambda one: isinstance(one, str))
    _check_list(path, state, "seeds", _whole)
    if not state["policies"] or not state["seeds"]:
        raise DataError(f"{path}: names no policies or no seeds")
    check_count(path, state["policies"], state["seeds"])
    for key in ("diverged", "guessing"):
        lost_runs(path, state, key)


def lost_runs(path: Path, state: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The runs that a state tells of as diverged or guessing; none where it does not."""
    state.setdefault(key, [])
    _check_list(path, state, key, _names_a_run)
    runs: list[dict[str, Any]] = state[key]
    return runs


def check_count(path: Path, policies: Sequence[str], seeds: Sequence[int]) -> None:
    if len(policies) * len(seeds) > RUNS:
        raise DataError(f"{path}: {len(policies):,} policies and {len(seeds):,} seeds are more than {RUNS:,} runs")


def _names_a_run(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("policy"), str) and _whole(one.get("seed"))


def _check_list(path: Path, state: dict[str, Any], key: str, fits: Any) -> None:
    value = state.get(key)
    if not isinstance(value, list) or not all(fits(one) for one in value):
        raise DataError(f"{path}: {key} is missing or is not the list it should be")
