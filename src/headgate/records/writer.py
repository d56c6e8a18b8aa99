"""Writes a run folder, so that it can be killed at any moment and continued to the same bytes.

A checkpoint is a folder that is moved into place when all of it is on disk. It notes the parts of the tables that hold the
rows up to its round, and their checksums: a resumed run checks these and removes all others.

A run may be in shards: each is a run folder of some of the runs, with rows and checkpoints of its own. While they are in
progress the state of the whole folder is put together from theirs. When all are done their rows become the tables of the
whole; config and last checkpoint of each shard stay.
"""

import hashlib
import io
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

import headgate
from headgate import __version__
from headgate.control.controller import Controller
from headgate.control.files import load_ledger, save_ledger
from headgate.control.types import Ledger
from headgate.errors import DataError
from headgate.experiment import named_outside
from headgate.experiment.sections import RunTable
from headgate.limits import RECIPE
from headgate.reading import read_bytes, read_toml
from headgate.records.reader import (
    CHECKPOINTS,
    CHECKSUMS,
    CONFIG,
    ENVIRONMENT,
    HEAD,
    RunFolder,
    config_errors,
    newest_checkpoint,
    read_head,
    read_state,
)
from headgate.records.tables import (
    PART,
    SHARDS,
    STATE,
    TABLES,
    checksum,
    file_checksum,
    frame_of_rows,
    part_files,
    points_of,
    read_sealed,
    read_table,
    sealed,
    shard_folders,
    whole_table,
)
from headgate.registry import fill
from headgate.writing import check_no_link, clear_partial, json_bytes, partial_of, replace_file, sync, whole_name

TENSORS = "tensors.safetensors"


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror})") from None


class RunWriter:
    """Writes a run folder, or a shard of one. `parts` are those of its tables that are there, with their checksums."""

    def __init__(self, folder: Path, parts: Mapping[str, str] | None = None) -> None:
        self.folder, self._parts = folder, dict(parts or {})

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows as the next part of a table."""
        if not rows:
            return
        name, content = f"{table}/{PART.format(max(row['t'] for row in rows))}", io.BytesIO()
        frame_of_rows(rows, table).write_parquet(content)
        check_no_link(self.folder / table)
        (self.folder / table).mkdir(exist_ok=True)
        replace_file(self.folder / name, content.getvalue())
        self._parts[name] = checksum(content.getvalue())

    def rewrite(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Put these rows in the place of all parts of a table."""
        self.append(table, rows)
        last = max((row["t"] for row in rows), default=0)
        for t, path in part_files(self.folder, table).items():
            if t != last:
                path.unlink()

    def state(self, state: str, t: int, rounds: int, **more: Any) -> dict[str, Any]:
        """Write and return the state; a finished run has the checksums of its tables in it."""
        facts = {"state": state, "round": t, "rounds": rounds, "pid": os.getpid(), **more}
        made = [f"{table}.parquet" for table in TABLES if (self.folder / f"{table}.parquet").exists()]
        if state == "finished" and made:
            facts[CHECKSUMS] = {name: file_checksum(self.folder / name) for name in made}
        replace_file(self.folder / STATE, json_bytes(sealed(facts)))
        return facts

    def checkpoint(
        self, t: int, tensors: Mapping[str, Any], ledgers: Mapping[str, Ledger], facts: Mapping[str, Any] | None = None
    ) -> None:
        """Write all that is needed to go on from round `t`, and `facts` that are known of the runs then.

        The checkpoint before goes when this one is in place.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        final = self.folder / CHECKPOINTS / f"{t:08d}"
        if final.exists():  # resumed from it, and nothing has happened since
            return
        check_no_link(final.parent)
        partial = partial_of(final)
        partial.mkdir(parents=True)
        try:
            save_file(dict(tensors), partial / TENSORS)
        except SafetensorError as error:  # its word for a full disk
            raise OSError(f"{TENSORS}: {error}") from None
        for number, ledger in enumerate(ledgers.values()):
            save_ledger(ledger, partial / f"ledger-{number}.npz")
        head = {
            "t": t,
            "policies": list(ledgers),
            "facts": dict(facts or {}),
            "parts": dict(self._parts),
            "files": {path.name: file_checksum(path) for path in sorted(partial.iterdir())},
        }
        replace_file(partial / HEAD, json_bytes(sealed(head)))
        for path in (*partial.iterdir(), partial):
            sync(path)
        partial.rename(final)
        sync(final.parent)
        _remove_others(final)


class Checkpoint:
    """Where a run stands that was begun in `folder`: its newest checkpoint, or its beginning."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        check_no_link(folder / CONFIG, folder / ENVIRONMENT)
        self.environment = read_sealed(folder / ENVIRONMENT, RECIPE)
        if hashlib.sha256(read_bytes(folder / CONFIG)).hexdigest() != self.environment.get("config_sha256"):
            raise DataError(f"{folder}: {CONFIG} was changed after the run began; start a new run with it")
        if (folder / STATE).exists():
            read_sealed(folder / STATE)
        self.path = newest_checkpoint(folder)
        self.head: dict[str, Any] = {"t": 0, "parts": {}} if self.path is None else read_head(self.path)
        for name, digest in self.head.get("files", {}).items():
            file = folder / CHECKPOINTS / f"{self.t:08d}" / name
            if not file.is_file() or file_checksum(file) != digest:
                raise DataError(f"{folder}: {file.relative_to(folder)} is damaged; the run cannot be continued")

    def fact(self, key: str) -> str:
        """Return what the environment says of how the run was begun."""
        value = self.environment.get(key)
        if not isinstance(value, str):
            raise DataError(f"{self.folder / ENVIRONMENT}: {key} is missing; the run cannot be continued")
        return value

    @property
    def t(self) -> int:
        return int(self.head["t"])

    def tensors(self) -> dict[str, Any]:
        """Return the arrays of the simulation."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        assert self.path is not None
        try:
            return dict(load_file(self.path / TENSORS))
        except (SafetensorError, OSError) as error:
            raise DataError(f"{self.path / TENSORS}: is damaged ({error}); the run cannot be continued") from None

    def ledger(self, policy: str, controller: Controller) -> Ledger:
        """Return the ledger of a policy."""
        assert self.path is not None
        if policy not in self.head["policies"]:
            raise DataError(f"{self.path / HEAD}: knows no policy {policy}; the run cannot be continued")
        ledger = load_ledger(self.path / f"ledger-{self.head['policies'].index(policy)}.npz", controller)
        if ledger.t != self.t:
            raise DataError(f"{self.path}: the ledger of {policy} is of round {ledger.t}; the run cannot be continued")
        return ledger

    def cut_rows(self, whole: Path | None = None) -> dict[str, str]:
        """Remove the parts that were written after the checkpoint, and what is half written; check and return the others.

        `whole` is the folder of the whole run, in which parts may have become tables already; by default the checkpoint's.
        """
        inside = [self.folder / name for name in (CHECKPOINTS, *TABLES)]
        check_no_link(*inside)
        for place in (self.folder, *inside):
            clear_partial(place)
        if self.path is not None:
            _remove_others(self.path)
        parts: dict[str, str] = self.head["parts"]
        for table in TABLES:
            if ((whole or self.folder) / f"{table}.parquet").exists():
                continue  # the run was finishing
            for name, digest in parts.items():
                if name.startswith(f"{table}/") and file_checksum(self.folder / name) != digest:
                    raise DataError(f"{self.folder / name}: is not what was written, its checksum differs")
            for path in part_files(self.folder, table).values():
                if f"{table}/{path.name}" not in parts:
                    path.unlink()
        return parts


def _remove_others(checkpoint: Path) -> None:
    """Remove the checkpoints before it; one may be half removed by a process that was killed."""
    for other in checkpoint.parent.iterdir():
        if other != checkpoint and other.is_dir() and not other.is_symlink():
            shutil.rmtree(other)


@cache
def commit(package: Path = Path(headgate.__file__).parent) -> str | None:
    """The commit of the checkout that the package lies in, "+changes" where files under src differ from it.

    None where it lies in none (an installed package may lie in somebody's checkout, which does not track it).
    """
    commands = ("ls-files --error-unmatch __init__.py", "rev-parse --short HEAD", "diff --name-only HEAD -- ..")
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # only looks, never writes
    how: dict[str, Any] = {"cwd": package, "env": environment, "stderr": subprocess.DEVNULL, "text": True, "timeout": 10}
    try:
        _, found, changed = (str(subprocess.check_output(["git", *each.split()], **how)).strip() for each in commands)
    except (OSError, subprocess.SubprocessError):  # no git, no checkout, or one that does not answer
        return None
    return found + ("+changes" if changed else "")


# whole runs, and their shards


def asked_runs(folder: Path, config: Mapping[str, Any] | None = None) -> RunTable:
    """Return the runs that the settings in `folder` ask for; `config` are these settings where they are known."""
    with config_errors(folder):
        run: RunTable = fill(RunTable, (read_toml(folder / CONFIG) if config is None else config).get("run", {}), "run")
    return run


def create(
    folder: Path, config: Mapping[str, Any], environment: Mapping[str, Any], shards: Sequence[Mapping[str, Any]]
) -> RunFolder:
    """Make a new run folder without any round. `shards` are the configs of its shards, none where it is one piece.

    The state comes last: a folder with one is complete.
    """
    versions = {"headgate": __version__, "python": platform.python_version(), "numpy": np.__version__}
    environment = {**versions, "platform": platform.platform(), **environment}
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists already; resume it, or choose another folder")
    for number, settings in enumerate((config, *shards)):
        place = folder / SHARDS / f"{number - 1:03d}" if number else folder
        make_folder(place)
        text = tomli_w.dumps(settings).encode()
        replace_file(place / CONFIG, text)
        facts = {**environment, "config_sha256": hashlib.sha256(text).hexdigest()}
        replace_file(place / ENVIRONMENT, json_bytes(sealed(facts)))
    run = config["run"]
    runs = {"policies": run["policies"], "seeds": list(range(run["first_seed"], run["first_seed"] + run["seeds"]))}
    state = RunWriter(folder).state("running", 0, run["rounds"], elapsed_s=0.0, **runs, diverged=[], guessing=[])
    return RunFolder(folder, dict(config), environment, state)


def left_by_a_killed_start(folder: Path) -> bool:
    """Return whether `folder` holds nothing but what `create` writes before the state."""
    names = {whole_name(path.name) for path in folder.iterdir()}
    return CONFIG in names and names <= {CONFIG, ENVIRONMENT, STATE, SHARDS} and not (folder / STATE).exists()


def clear_killed_start(folder: Path) -> None:
    """Make way for a new start. The config goes last, so that a process killed here leaves what a killed start leaves."""
    for path in sorted(folder.iterdir(), key=lambda path: CONFIG in path.name):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def check_shards(folder: Path, config: Mapping[str, Any] | None = None) -> None:
    """Refuse a run whose shards are not all there."""
    shards, whole = shard_folders(folder), asked_runs(folder, config).runs
    if shards != [folder] and sorted(run for shard in shards for run in asked_runs(shard).runs) != sorted(whole):
        raise DataError(f"{folder}: its shards do not hold each of its {len(whole)} runs once; it cannot be continued")


def played(shard: Path) -> int:
    """Return the round of a shard's newest checkpoint, without looking into it."""
    newest = newest_checkpoint(shard)
    return 0 if newest is None else int(newest.name)


def write_state(run: RunFolder, state: str, t: int, elapsed: float) -> RunFolder:
    """Write the state of a run in shards, put together from theirs; return the run with it."""
    lost: dict[str, list[dict[str, Any]]] = {"diverged": [], "guessing": []}
    note: dict[str, str] = {}
    for each in (read_state(shard) for shard in shard_folders(run.path) if (shard / STATE).exists()):
        for key, runs in lost.items():
            runs += each[key]
        if "note" in each:
            note = {"note": each["note"]}
    places = {name: place for place, name in enumerate(run.policies)}
    for runs in lost.values():
        runs.sort(key=lambda one: (places.get(one["policy"], len(places)), one["seed"]))
    known = {"policies": run.policies, "seeds": run.seeds, **lost, **note}
    return replace(run, state=RunWriter(run.path).state(state, t, run.rounds, elapsed_s=round(elapsed, 3), **known))


def finish(run: RunFolder, elapsed: float = 0.0, states: Mapping[Path, Mapping[str, Any]] | None = None) -> RunFolder:
    """Make tables of the rows and finish the run. A process killed in the midst of it can do it again.

    It needs neither the executor nor the device of the run: which models were lost is known from `states`, the last ones of
    shards that this process has finished, or from their last checkpoints. The run that is returned has its tables in memory.
    """
    shards = shard_folders(run.path)
    for shard in shards:
        if (t := played(shard)) < run.rounds:
            raise DataError(f"{shard}: round {t} of {run.rounds}; cannot be finished yet")
    run = write_tables(run)
    for shard in shards:
        known = dict((states or {}).get(shard) or read_state(shard))
        if shard not in (states or {}) and (newest := newest_checkpoint(shard)) is not None:
            known |= read_head(newest).get("facts", {})
        more = {key: value for key, value in known.items() if key not in ("state", "round", "rounds", "pid", CHECKSUMS)}
        state = RunWriter(shard).state("finished", run.rounds, run.rounds, **more)
    return replace(run, state=state) if shards == [run.path] else write_state(run, "finished", run.rounds, elapsed)


def write_tables(run: RunFolder) -> RunFolder:
    """Make one table of the parts of all shards; return the run with its tables in memory."""
    tables = {}
    for table in TABLES:
        path = run.path / f"{table}.parquet"
        done = path.exists()  # by a process that was killed right after
        tables[table] = frame = whole_table(run.path, table, run.policies)
        if table == "metrics" and frame.height < run.most_rows:
            missing = f"{frame.height} of {run.most_rows} rows are there"
            raise DataError(f"{run.path}: metrics: {missing}; the run cannot be finished")
        if not done:
            buffer = io.BytesIO()
            frame.write_parquet(buffer)
            replace_file(path, buffer.getvalue())
    for shard in shard_folders(run.path):
        for table in TABLES:
            if (shard / table).is_dir() and not (shard / table).is_symlink():
                shutil.rmtree(shard / table)
    return replace(run, tables=tables)


def rounds_after(shard: Path, t: int) -> list[list[dict[str, Any]]]:
    """Return the rows of each round that another process has written of a shard since round `t`."""
    frames = [read_table(path, "metrics") for last, path in part_files(shard, "metrics").items() if last > t]
    return [own.to_dicts() for frame in frames for own in frame.partition_by("t", maintain_order=True)]


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Say how to go on where a folder cannot be written, because the disk is full for example: nothing is lost."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"{folder}: cannot be written ({why}); make room and continue with: {resume_command(folder)}") from None


def resume_command(folder: Path) -> str:
    """Return the command that goes on with a run, or with all of a sweep."""
    named: list[str] = []
    with suppress(DataError):  # the command itself says what is damaged
        named = [name for point in points_of(folder) for name in named_outside(read_toml(point / CONFIG)).values()]
    trust = [word for name in sorted({*named}) for word in ("--trust", name)]
    return shlex.join(["headgate", "run", "--resume", str(folder), *trust])
