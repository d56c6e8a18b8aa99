"""Reading run folders, also while they are being written. What is damaged is refused in one line that names the file."""

import json
import math
import os
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from headgate.errors import DataError
from headgate.records.rows import MEASURED, Follower, Rows, table_files, whole_table
from headgate.records.sweeps import STATE, find_runs

CONFIG, ENVIRONMENT = "config.toml", "environment.json"
Read = TypeVar("Read")
STATES = ("running", "finished", "interrupted")
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
    def open(cls, path: Path | str) -> "RunFolder":
        """The run in `path`, with what `buffers`, `budget` and `status` need already checked."""
        path = Path(path)
        if not path.is_dir():
            raise DataError(f"{path}: not a run folder, there is no such folder")
        for name in (CONFIG, ENVIRONMENT, STATE):
            if not (path / name).is_file():
                raise DataError(f"{path}: not a run folder, {name} is missing")
        run = cls(path, _read_toml(path / CONFIG), read_object(path / ENVIRONMENT), read_object(path / STATE))
        _check_config(path / CONFIG, run.config)
        check_state(path / STATE, run.state)
        return run

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
            except ValueError:
                pass
        return (self.path / ENVIRONMENT).stat().st_mtime

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
        """What [data] or [model] says that it is; older folders say `name`."""
        said = self.config.get(section)
        found = [said[key] for key in ("kind", "name") if isinstance(said.get(key), str)] if isinstance(said, dict) else []
        return found[0] if found else None

    @property
    def target(self) -> float | None:
        """The test accuracy whose first round is told, where the recipe names one."""
        training = self.config.get("training")
        said = training.get("target") if isinstance(training, dict) else None
        fine = isinstance(said, int | float) and not isinstance(said, bool) and 0 < said <= 1
        return float(said) if fine else None  # type: ignore[arg-type]

    def config_text(self) -> str:
        """The settings as they stand in their file."""
        return _read_text(self.path / CONFIG)

    def metrics(self) -> pl.DataFrame:
        """One row per policy, seed and round; null where nothing was measured."""
        self._check_recorded()
        return self._saying_where(lambda: whole_table(self.path, "metrics", self.policies))

    def clients(self) -> pl.DataFrame:
        """One row per policy, seed and round with what each client admitted, held and was paid; empty or null where that was
        not recorded."""
        return self._saying_where(lambda: whole_table(self.path, "clients", self.policies))

    def rows(self, table: str, *columns: str) -> Rows:
        """The same as arrays: these columns of the metrics, or all; or one of the clients."""
        if table == "metrics":
            self._check_recorded()
        clients = len(self.buffers) if table == "clients" else 0
        return self._saying_where(Follower(self.path, table, self.rounds, columns or MEASURED, clients).look)

    def _check_recorded(self) -> None:
        if self.state["state"] == "finished" and not table_files(self.path, "metrics"):
            raise DataError(f"{self.path / 'metrics.parquet'}: is missing, although the run is finished")

    def _saying_where(self, read: Callable[[], Read]) -> Read:
        try:
            return read()
        except DataError as error:
            raise DataError(f"{self.path}{os.sep}{error}") from None


def read_config(folder: Path) -> dict[str, Any]:
    return _read_toml(folder / CONFIG)


def list_runs(folder: Path | str) -> list[RunFolder]:
    """The runs in `folder` and in its sweeps, newest first. What is no run folder, or a damaged one, is passed over."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    runs = []
    for found in find_runs(folder):
        with suppress(DataError):
            runs.append(replace(RunFolder.open(found.path), name=found.name, sweep=found.sweep))
    return sorted(runs, key=lambda run: (run.started, run.name), reverse=True)


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


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _read_text(path: Path) -> str:
    try:
        return _read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path}: is damaged, it is not UTF-8 text") from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: not valid TOML ({error})") from None


def read_object(path: Path) -> dict[str, Any]:
    """What a file of JSON says, which must be an object."""
    try:
        value = json.loads(_read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: must hold a JSON object")
    return value


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_config(path: Path, config: dict[str, Any]) -> None:
    system = config.get("system")
    if not isinstance(system, dict):
        raise DataError(f"{path}: the section [system] is missing")
    buffers, clients, budget = system.get("buffers"), system.get("clients"), system.get("budget")
    if not isinstance(buffers, list) or not buffers or not all(_whole(b) and b >= 0 for b in buffers):
        raise DataError(f"{path}: system.buffers must be a list of whole numbers")
    if clients is not None and not (_whole(clients) and clients >= 1):
        raise DataError(f"{path}: system.clients = {clients!r} must be a whole number from 1 on")
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not math.isfinite(budget) or budget < 0:
        raise DataError(f"{path}: system.budget = {budget!r} must be a number from 0 on")


def check_state(path: Path, state: dict[str, Any]) -> None:
    """Refuses a state that does not say what `RunFolder` needs to know."""
    said = state.get("state")
    if said not in STATES:
        raise DataError(f"{path}: state = {said!r} must be one of {', '.join(STATES)}")
    for key in ("round", "rounds", "pid"):
        if not _whole(state.get(key)):
            raise DataError(f"{path}: {key} = {state.get(key)!r} must be a whole number")
    _check_list(path, state, "policies", lambda one: isinstance(one, str))
    _check_list(path, state, "seeds", _whole)
    state.setdefault("diverged", [])
    _check_list(path, state, "diverged", _names_a_run)


def _names_a_run(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("policy"), str) and _whole(one.get("seed"))


def _check_list(path: Path, state: dict[str, Any], key: str, fits: Any) -> None:
    value = state.get(key)
    if not isinstance(value, list) or not all(fits(one) for one in value):
        raise DataError(f"{path}: {key} is missing or is not the list it should be")
