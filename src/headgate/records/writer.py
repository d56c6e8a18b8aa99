"""Writes run folders. A process can be killed at any time, and the resumed run writes
the same bytes.

A checkpoint is a folder that is moved to its place when all its files are on disk. It
lists the parts of the tables with the rows up to its round, and their checksums. A
resumed run checks these parts and removes all others.

A run may be divided into shards. Each shard is a run folder for some of the runs, with
its own rows and checkpoints. While the shards are in progress, the state of the run is
combined from theirs. When all are finished, their rows are merged into the tables of
the run; the config and the last checkpoint of each shard remain.
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
from headgate.version import PACKAGE, __version__
from headgate.writing import (
    check_no_link,
    clear_partial,
    json_bytes,
    partial_of,
    replace_file,
    sync,
    whole_name,
)

TENSORS = "tensors.safetensors"


def make_folder(folder: Path) -> None:
    """Make a folder and its parents; raise DataError if that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror})") from None


class RunWriter:
    """Writes a run folder, or a shard of one. `parts` are the checksums of the table
    parts that exist already, by file name.
    """

    def __init__(self, folder: Path, parts: Mapping[str, str] | None = None) -> None:
        self.folder, self._parts = folder, dict(parts or {})

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows as the next part of a table."""
        if not rows:
            return
        name, content = (
            f"{table}/{PART.format(max(row['t'] for row in rows))}",
            io.BytesIO(),
        )
        frame_of_rows(rows, table).write_parquet(content)
        check_no_link(self.folder / table)
        (self.folder / table).mkdir(exist_ok=True)
        replace_file(self.folder / name, content.getvalue())
        self._parts[name] = checksum(content.getvalue())

    def rewrite(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace all parts of a table by one part with these rows."""
        self.append(table, rows)
        last = max((row["t"] for row in rows), default=0)
        for t, path in part_files(self.folder, table).items():
            if t != last:
                path.unlink()

    def state(self, state: str, t: int, rounds: int, **more: Any) -> dict[str, Any]:
        """Write and return the state; the state of a finished run includes the
        checksums of its tables.
        """
        facts = {
            "state": state,
            "round": t,
            "rounds": rounds,
            "pid": os.getpid(),
            **more,
        }
        made = [
            f"{table}.parquet"
            for table in TABLES
            if (self.folder / f"{table}.parquet").exists()
        ]
        if state == "finished" and made:
            facts[CHECKSUMS] = {
                name: file_checksum(self.folder / name) for name in made
            }
        replace_file(self.folder / STATE, json_bytes(sealed(facts)))
        return facts

    def checkpoint(
        self,
        t: int,
        tensors: Mapping[str, Any],
        ledgers: Mapping[str, Ledger],
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Write all that is needed to continue from round `t`, and `facts` about the
        runs at this round.

        The previous checkpoint is removed when this one is in place.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        final = self.folder / CHECKPOINTS / f"{t:08d}"
        if final.exists():  # the run was resumed from it, and no round has followed
            return
        check_no_link(final.parent)
        partial = partial_of(final)
        partial.mkdir(parents=True)
        try:
            save_file(dict(tensors), partial / TENSORS)
        except SafetensorError as error:  # raised by safetensors if the disk is full
            raise OSError(f"{TENSORS}: {error}") from None
        for number, ledger in enumerate(ledgers.values()):
            save_ledger(ledger, partial / f"ledger-{number}.npz")
        head = {
            "t": t,
            "policies": list(ledgers),
            "facts": dict(facts or {}),
            "parts": dict(self._parts),
            "files": {
                path.name: file_checksum(path) for path in sorted(partial.iterdir())
            },
        }
        replace_file(partial / HEAD, json_bytes(sealed(head)))
        for path in (*partial.iterdir(), partial):
            sync(path)
        partial.rename(final)
        sync(final.parent)
        _remove_others(final)


class Checkpoint:
    """The newest checkpoint of a run that was begun in `folder`, or its start if it has
    no checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        check_no_link(folder / CONFIG, folder / ENVIRONMENT)
        self.environment = read_sealed(folder / ENVIRONMENT, RECIPE)
        if hashlib.sha256(
            read_bytes(folder / CONFIG)
        ).hexdigest() != self.environment.get("config_sha256"):
            raise DataError(
                f"{folder}: {CONFIG} was changed after the run began; start a new run"
                " with it"
            )
        if (folder / STATE).exists():
            read_sealed(folder / STATE)
        self.path = newest_checkpoint(folder)
        self.head: dict[str, Any] = (
            {"t": 0, "parts": {}} if self.path is None else read_head(self.path)
        )
        for name, digest in self.head.get("files", {}).items():
            file = folder / CHECKPOINTS / f"{self.t:08d}" / name
            if not file.is_file() or file_checksum(file) != digest:
                raise DataError(
                    f"{folder}: {file.relative_to(folder)} is damaged; the run cannot"
                    " be continued"
                )

    def fact(self, key: str) -> str:
        """Return a string from environment.json; raise DataError if it is missing."""
        value = self.environment.get(key)
        if not isinstance(value, str):
            raise DataError(
                f"{self.folder / ENVIRONMENT}: {key} is missing; the run cannot be"
                " continued"
            )
        return value

    @property
    def t(self) -> int:
        return int(self.head["t"])

    def tensors(self) -> dict[str, Any]:
        """Return the arrays of the simulation at this checkpoint, by name."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        assert self.path is not None
        try:
            return dict(load_file(self.path / TENSORS))
        except (SafetensorError, OSError) as error:
            raise DataError(
                f"{self.path / TENSORS}: is damaged ({error}); the run cannot be"
                " continued"
            ) from None

    def ledger(self, policy: str, controller: Controller) -> Ledger:
        """Return the ledger of a policy at this checkpoint."""
        assert self.path is not None
        if policy not in self.head["policies"]:
            raise DataError(
                f"{self.path / HEAD}: knows no policy {policy}; the run cannot be"
                " continued"
            )
        ledger = load_ledger(
            self.path / f"ledger-{self.head['policies'].index(policy)}.npz", controller
        )
        if ledger.t != self.t:
            raise DataError(
                f"{self.path}: the ledger of {policy} is of round {ledger.t}; the run"
                " cannot be continued"
            )
        return ledger

    def cut_rows(self, whole: Path | None = None) -> dict[str, str]:
        """Remove incomplete files and the parts written after the checkpoint; check the
        other parts and return their checksums.

        `whole` is the folder of the run that this shard belongs to, whose tables may be
        merged already; default: `self.folder`.
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
                continue  # the parts have already been merged into the table
            for name, digest in parts.items():
                if (
                    name.startswith(f"{table}/")
                    and file_checksum(self.folder / name) != digest
                ):
                    raise DataError(
                        f"{self.folder / name}: is not what was written, its checksum"
                        " differs"
                    )
            for path in part_files(self.folder, table).values():
                if f"{table}/{path.name}" not in parts:
                    path.unlink()
        return parts


def _remove_others(checkpoint: Path) -> None:
    """Remove all other checkpoints; one of them may be incomplete if a process was
    killed while it removed it.
    """
    for other in checkpoint.parent.iterdir():
        if other != checkpoint and other.is_dir() and not other.is_symlink():
            shutil.rmtree(other)


@cache
def commit(package: Path = PACKAGE) -> str | None:
    """Return the commit of the checkout that contains the package, with "+changes" if
    files under src differ from it.

    Return None if no checkout tracks the package. An installed package may be inside a
    checkout that does not track it.
    """
    commands = (
        "ls-files --error-unmatch __init__.py",
        "rev-parse --short HEAD",
        "diff --name-only HEAD -- ..",
    )
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # git must not write
    how: dict[str, Any] = {
        "cwd": package,
        "env": environment,
        "stderr": subprocess.DEVNULL,
        "text": True,
        "timeout": 10,
    }
    try:
        _, found, changed = (
            str(subprocess.check_output(["git", *each.split()], **how)).strip()
            for each in commands
        )
    except (
        OSError,
        subprocess.SubprocessError,
    ):  # no git, no checkout, or one that does not answer
        return None
    return found + ("+changes" if changed else "")


# whole runs, and their shards


def asked_runs(folder: Path, config: Mapping[str, Any] | None = None) -> RunTable:
    """Return the runs that the settings in `folder` specify; `config` are these
    settings, None to read them.
    """
    with config_errors(folder):
        run: RunTable = fill(
            RunTable,
            (read_toml(folder / CONFIG) if config is None else config).get("run", {}),
            "run",
        )
    return run


def create(
    folder: Path,
    config: Mapping[str, Any],
    environment: Mapping[str, Any],
    shards: Sequence[Mapping[str, Any]],
) -> RunFolder:
    """Make a new run folder before round 1. `shards` are the configs of its shards,
    empty if the run is not divided.

    The state is written last, so a folder with a state is complete.
    """
    versions = {
        "headgate": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    environment = {**versions, "platform": platform.platform(), **environment}
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            f"{folder}: exists already; resume it, or choose another folder"
        )
    for number, settings in enumerate((config, *shards)):
        place = folder / SHARDS / f"{number - 1:03d}" if number else folder
        make_folder(place)
        text = tomli_w.dumps(settings).encode()
        replace_file(place / CONFIG, text)
        facts = {**environment, "config_sha256": hashlib.sha256(text).hexdigest()}
        replace_file(place / ENVIRONMENT, json_bytes(sealed(facts)))
    run = config["run"]
    runs = {
        "policies": run["policies"],
        "seeds": list(range(run["first_seed"], run["first_seed"] + run["seeds"])),
    }
    state = RunWriter(folder).state(
        "running", 0, run["rounds"], elapsed_s=0.0, **runs, diverged=[], guessing=[]
    )
    return RunFolder(folder, dict(config), environment, state)


def left_by_a_killed_start(folder: Path) -> bool:
    """Return whether `folder` contains only files that `create` writes before the
    state.
    """
    names = {whole_name(path.name) for path in folder.iterdir()}
    return (
        CONFIG in names
        and names <= {CONFIG, ENVIRONMENT, STATE, SHARDS}
        and not (folder / STATE).exists()
    )


def clear_killed_start(folder: Path) -> None:
    """Empty the folder for a new start; the config is removed last, so that this can be
    repeated if the process is killed.
    """
    for path in sorted(folder.iterdir(), key=lambda path: CONFIG in path.name):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def check_shards(folder: Path, config: Mapping[str, Any] | None = None) -> None:
    """Raise DataError unless the shards of a run contain each of its runs exactly
    once.
    """
    shards, whole = shard_folders(folder), asked_runs(folder, config).runs
    if shards != [folder] and sorted(
        run for shard in shards for run in asked_runs(shard).runs
    ) != sorted(whole):
        raise DataError(
            f"{folder}: its shards do not hold each of its {len(whole)} runs once; it"
            " cannot be continued"
        )


def played(shard: Path) -> int:
    """Return the round of a shard's newest checkpoint, from its name alone; 0 if there
    is no checkpoint.
    """
    newest = newest_checkpoint(shard)
    return 0 if newest is None else int(newest.name)


def write_state(run: RunFolder, state: str, t: int, elapsed: float) -> RunFolder:
    """Combine the states of the shards to the state of the run, write it, and return
    the run with this state.
    """
    lost: dict[str, list[dict[str, Any]]] = {"diverged": [], "guessing": []}
    note: dict[str, str] = {}
    for each in (
        read_state(shard)
        for shard in shard_folders(run.path)
        if (shard / STATE).exists()
    ):
        for key, runs in lost.items():
            runs += each[key]
        if "note" in each:
            note = {"note": each["note"]}
    places = {name: place for place, name in enumerate(run.policies)}
    for runs in lost.values():
        runs.sort(key=lambda one: (places.get(one["policy"], len(places)), one["seed"]))
    known = {"policies": run.policies, "seeds": run.seeds, **lost, **note}
    return replace(
        run,
        state=RunWriter(run.path).state(
            state, t, run.rounds, elapsed_s=round(elapsed, 3), **known
        ),
    )


def finish(
    run: RunFolder,
    elapsed: float = 0.0,
    states: Mapping[Path, Mapping[str, Any]] | None = None,
) -> RunFolder:
    """Merge the parts into tables, set the state to finished, and return the run with
    its tables in memory.

    This can be repeated if the process is killed. It needs neither the executor nor the
    device of the run: `states`, the last states of the shards that this process has
    finished, or else their last checkpoints state which models diverged.
    """
    shards = shard_folders(run.path)
    for shard in shards:
        if (t := played(shard)) < run.rounds:
            raise DataError(
                f"{shard}: round {t} of {run.rounds}; cannot be finished yet"
            )
    run = write_tables(run)
    for shard in shards:
        known = dict((states or {}).get(shard) or read_state(shard))
        if (
            shard not in (states or {})
            and (newest := newest_checkpoint(shard)) is not None
        ):
            known |= read_head(newest).get("facts", {})
        more = {
            key: value
            for key, value in known.items()
            if key not in ("state", "round", "rounds", "pid", CHECKSUMS)
        }
        state = RunWriter(shard).state("finished", run.rounds, run.rounds, **more)
    return (
        replace(run, state=state)
        if shards == [run.path]
        else write_state(run, "finished", run.rounds, elapsed)
    )


def write_tables(run: RunFolder) -> RunFolder:
    """Merge the parts of all shards into one file per table; return the run with its
    tables in memory.
    """
    tables = {}
    for table in TABLES:
        path = run.path / f"{table}.parquet"
        done = path.exists()  # a process that was killed afterwards has written it
        tables[table] = frame = whole_table(run.path, table, run.policies)
        if table == "metrics" and frame.height < run.most_rows:
            missing = f"{frame.height} of {run.most_rows} rows are there"
            raise DataError(
                f"{run.path}: metrics: {missing}; the run cannot be finished"
            )
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
    """Return the metrics rows of each round after round `t` that another process has
    written in a shard.
    """
    frames = [
        read_table(path, "metrics")
        for last, path in part_files(shard, "metrics").items()
        if last > t
    ]
    return [
        own.to_dicts()
        for frame in frames
        for own in frame.partition_by("t", maintain_order=True)
    ]


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Convert an OSError, for example about a full disk, to a DataError that states the
    command to continue the run.
    """
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise DataError(
            f"{folder}: cannot be written ({why}); make room and continue with:"
            f" {resume_command(folder)}"
        ) from None


def resume_command(folder: Path) -> str:
    """Return the command that continues a run, or all runs of a sweep."""
    named: list[str] = []
    with suppress(DataError):  # the command itself reports damaged files
        named = [
            name
            for point in points_of(folder)
            for name in named_outside(read_toml(point / CONFIG)).values()
        ]
    trust = [word for name in sorted({*named}) for word in ("--trust", name)]
    return shlex.join(["headgate", "run", "--resume", str(folder), *trust])
