"""Reading run folders, also while they are being written. What is damaged is refused in one line that names the file."""

import json
import math
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headgate.errors import DataError

CONFIG, ENVIRONMENT, STATE = "config.toml", "environment.json", "state.json"
STATES = ("running", "finished", "interrupted")
METRICS: Mapping[str, pl.DataType] = {
    "policy": pl.String(),
    "seed": pl.Int64(),
    "t": pl.Int64(),
    "test_accuracy": pl.Float64(),
    "test_loss": pl.Float64(),
    "train_loss": pl.Float64(),
    "n": pl.Int64(),
    "N": pl.Int64(),
    "n_eff": pl.Float64(),
    "admitted": pl.Int64(),
    "price": pl.Float64(),
    "spend": pl.Float64(),
    "debt": pl.Float64(),
    "bound": pl.Float64(),
}
OCCUPANCY: Mapping[str, pl.DataType] = {
    "policy": pl.String(),
    "seed": pl.Int64(),
    "t": pl.Int64(),
    "n": pl.List(pl.Int64()),
}
TABLES = {"metrics": METRICS, "occupancy": OCCUPANCY}
KEY = ["policy", "seed", "t"]
PARTS = "parts"


@dataclass(frozen=True)
class RunFolder:
    """A run as its folder tells it. Settings and state are as they were when it was opened; tables are read when asked for."""

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    state: dict[str, Any]

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

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
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
        """The state; a run that says "running" while its process is gone was interrupted. Holds on the machine it runs on."""
        state: str = self.state["state"]
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

    @property
    def diverged(self) -> frozenset[tuple[str, int]]:
        """(policy, seed) of the runs whose model was lost."""
        return frozenset((one["policy"], one["seed"]) for one in self.state["diverged"])

    def config_text(self) -> str:
        """The settings as they stand in their file."""
        return _read_text(self.path / CONFIG)

    def metrics(self) -> pl.DataFrame:
        """One row per policy, seed and round; null where nothing was measured."""
        found = self._tables("metrics")
        if not found and self.state["state"] == "finished":
            raise DataError(f"{self.path / 'metrics.parquet'}: is missing, although the run is finished")
        return self._together(found.values(), METRICS)

    def occupancy(self) -> pl.DataFrame:
        """One row per policy, seed and round with `n`, the samples each client holds; empty where none was recorded."""
        found = self._tables("occupancy")
        clients, held = len(self.buffers), pl.col("n").list
        complete = held.len().eq_missing(clients) & held.eval(pl.element().is_not_null()).list.all()
        for path, frame in found.items():
            if not frame.select(complete.all()).item():
                raise DataError(f"{path}: n does not hold one number for each of the {clients} clients")
        return self._together(found.values(), OCCUPANCY)

    def _tables(self, name: str) -> dict[Path, pl.DataFrame]:
        """Parquet when the run is done, JSON lines before; those of its parts while it is played in parts."""
        found = _tables_in([self.path], name) or _tables_in(part_folders(self.path), name)
        try:
            return {path: _read_table(path, TABLES[name]) for path in found}
        except DataError:
            if all(path.is_file() for path in found):
                raise
            return {path: _read_table(path, TABLES[name]) for path in _tables_in([self.path], name)}  # it has just finished

    def _together(self, frames: Iterable[pl.DataFrame], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
        frame = pl.concat([pl.DataFrame(schema=schema), *frames])
        return in_order(frame, self.state["policies"]) if (self.path / PARTS).is_dir() else frame


def part_folders(folder: Path) -> list[Path]:
    """The folders in which a run is played: its parts, or itself where it has none."""
    return sorted(path for path in (folder / PARTS).glob("[0-9]*") if path.is_dir()) or [folder]


def _tables_in(folders: Iterable[Path], name: str) -> list[Path]:
    """The newest form of a table in each folder that has one."""
    choices = ([folder / f"{name}{suffix}" for suffix in READERS] for folder in folders)
    return [found[0] for paths in choices if (found := [path for path in paths if path.is_file()])]


def in_order(frame: pl.DataFrame, policies: Sequence[str]) -> pl.DataFrame:
    """Rows by round, then policy as the recipe has them, then seed: the order in which one process would write them."""
    place = pl.col("policy").replace_strict({name: place for place, name in enumerate(policies)}, default=len(policies))
    return frame.sort("t", place, "seed", maintain_order=True)


def read_config(folder: Path) -> dict[str, Any]:
    return _read_toml(folder / CONFIG)


def list_runs(folder: Path | str) -> list[RunFolder]:
    """The runs in `folder`, newest first. What is no run folder, or a damaged one, is passed over."""
    folder = Path(folder)
    runs = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            runs.append(RunFolder.open(path))
        except DataError:
            continue
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


def _read_parquet(path: Path, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path}: is damaged, not readable as parquet ({_first_line(error)})") from None


def _read_lines(path: Path, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """JSON lines; a last line without its end is what a killed writer leaves, and is passed over."""
    lines = _read_bytes(path).split(b"\n")
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines):  # only the last one has no line feed after it
                break
            raise DataError(f"{path}: line {number} is damaged, it is not valid JSON") from None
        if not isinstance(row, dict) or not schema.keys() <= row.keys():
            raise DataError(f"{path}: line {number} does not hold {', '.join(schema)}")
        rows.append(row)
    try:
        # floats first: a writer may say 12.0 where a count is meant
        return pl.DataFrame(
            [pl.Series(key, [row[key] for row in rows], dtype=_as_written(kind)) for key, kind in schema.items()]
        )
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path}: is damaged ({_first_line(error)})") from None


def _as_written(kind: pl.DataType) -> pl.DataType:
    if isinstance(kind, pl.List):
        return pl.List(pl.Float64())
    return kind if isinstance(kind, pl.String) else pl.Float64()


READERS = {".parquet": _read_parquet, ".jsonl": _read_lines}


def _read_table(path: Path, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return _tidy(path, READERS[path.suffix](path, schema), schema)


def _tidy(path: Path, frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The columns of `schema` in order. A round written twice, by a run that was taken up again, counts as last written."""
    missing = [key for key in schema if key not in frame.columns]
    if missing:
        raise DataError(f"{path}: has no column {', '.join(missing)}")
    try:
        frame = frame.select(pl.col(key).cast(kind) for key, kind in schema.items())
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: is damaged ({_first_line(error)})") from None
    if frame.select(pl.any_horizontal(pl.col(KEY).is_null().any())).item():
        raise DataError(f"{path}: is damaged, policy, seed or t is empty")
    frame = frame.with_columns(pl.col(pl.Float64).fill_nan(None))
    return frame.unique(KEY, keep="last", maintain_order=True)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
