"""Writes run folders. A process can be killed at any time, and the resumed run writes
the same bytes.

A checkpoint is a folder that is moved to its place when all its files are on disk. It
lists the parts of the tables with the rows up to its round, and their checksums. A
resumed run checks these parts and removes all others.
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

from headgate.control.files import save_ledger
from headgate.control.types import Ledger
from headgate.errors import DataError
from headgate.experiment import named_outside
from headgate.reading import read_toml
from headgate.records.reader import (
    CHECKPOINT,
    CHECKPOINTS,
    CHECKSUMS,
    CHUNKS,
    CONFIG,
    ENVIRONMENT,
    HEAD,
    RunFolder,
)
from headgate.records.tables import (
    STATE,
    TABLES,
    checksum,
    file_checksum,
    frame_of_rows,
    names_in,
    part_name,
    parts_of,
    points_of,
    prefix_of,
    sealed,
    whole_table,
)
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
        folder.mkdir(
            parents=True,
            exist_ok=True,
        )
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror})") from None


class RunWriter:
    """Writes the rows, checkpoints and state of a run, or those of a chunk of it.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    parts : mapping of str to str
        The checksums of the parts of tables that exist already, by file name.
    chunk : int, optional
        The number of the chunk; None if the run is not divided.
    """

    def __init__(
        self,
        folder: Path,
        parts: Mapping[str, str] | None = None,
        chunk: int | None = None,
    ) -> None:
        self.folder, self.chunk = folder, chunk
        self._parts = dict(parts or {})

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows as the next part of a table.

        Parameters
        ----------
        table : str
            "metrics" or "clients".
        rows : sequence of mapping
            The rows; nothing is written if there are none.
        """
        if not rows:
            return
        name = part_name(table, self.chunk, max(row["t"] for row in rows))
        content = io.BytesIO()
        frame_of_rows(rows, table).write_parquet(content)
        check_no_link(self.folder / table)
        (self.folder / table).mkdir(exist_ok=True)
        replace_file(self.folder / name, content.getvalue())
        self._parts[name] = checksum(content.getvalue())

    def rewrite(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace all parts of a table by one part with these rows.

        Parameters
        ----------
        table : str
            "metrics" or "clients".
        rows : sequence of mapping
            The rows.
        """
        self.append(table, rows)
        last = max((row["t"] for row in rows), default=0)
        for part in parts_of(self.folder, table):
            if part.t != last:
                part.path.unlink()

    def state(
        self,
        state: str,
        t: int,
        rounds: int,
        **more: Any,
    ) -> dict[str, Any]:
        """Write the state; that of a finished run has the checksums of its tables.

        Parameters
        ----------
        state : str
            "running", "interrupted" or "finished".
        t : int
            The last complete round.
        rounds : int
            The number of rounds.
        **more
            Further facts.

        Returns
        -------
        dict
            What was written.
        """
        facts = {
            "state": state,
            "round": t,
            "rounds": rounds,
            "pid": os.getpid(),
            **more,
        }
        files = [self.folder / f"{table}.parquet" for table in TABLES]
        made = [path for path in files if path.exists()]
        if state == "finished" and made:
            facts[CHECKSUMS] = {path.name: file_checksum(path) for path in made}
        replace_file(self.folder / STATE, json_bytes(sealed(facts)))
        return facts

    def checkpoint(
        self,
        t: int,
        tensors: Mapping[str, Any],
        ledgers: Mapping[str, Ledger],
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Write all that is needed to continue from a round.

        The previous checkpoint is removed when this one is in place.

        Parameters
        ----------
        t : int
            The round.
        tensors : mapping of str to array
            The arrays of the simulation.
        ledgers : mapping of str to Ledger
            The ledger of each policy.
        facts : mapping, optional
            What is known about the runs at this round.

        Raises
        ------
        OSError
            If the disk is full.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        final = self.folder / CHECKPOINTS / f"{prefix_of(self.chunk)}{t:08d}"
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
        made = sorted(partial.iterdir())
        head = {
            "t": t,
            "policies": list(ledgers),
            "facts": dict(facts or {}),
            "parts": self._parts,
            "files": {path.name: file_checksum(path) for path in made},
        }
        replace_file(partial / HEAD, json_bytes(sealed(head)))
        move_checkpoint(partial, final)


def move_checkpoint(partial: Path, final: Path) -> None:
    """Move a complete checkpoint to its place, and remove the previous one."""
    for path in (*sorted(partial.iterdir()), partial):
        sync(path)
    partial.rename(final)
    sync(final.parent)
    remove_older(final)


def remove_older(checkpoint: Path) -> None:
    """Remove the other checkpoints of the same chunk.

    One of them may be incomplete if a process was killed while it removed it.
    """
    chunk = checkpoint.name.rpartition("-")[0]
    for name in names_in(checkpoint.parent):
        other = checkpoint.with_name(name)
        same = CHECKPOINT.fullmatch(name) and name.rpartition("-")[0] == chunk
        if same and other != checkpoint and other.is_dir() and not other.is_symlink():
            shutil.rmtree(other)


@cache
def commit(package: Path = PACKAGE) -> str | None:
    """Return the commit of the checkout that contains the package, with "+changes" if
    files under src differ from it.

    Return None if no checkout tracks the package. An installed package may be inside a
    checkout that does not track it.
    """
    try:
        _git(package, "ls-files --error-unmatch __init__.py")
        found = _git(package, "rev-parse --short HEAD")
        changes = _git(package, "diff --name-only HEAD -- ..")
    except (OSError, subprocess.SubprocessError):
        return None  # no git, no checkout, or one that does not answer
    return f"{found}+changes" if changes else found


def _git(folder: Path, command: str) -> str:
    """Return what a git command prints in a folder."""
    printed = subprocess.check_output(
        ["git", *command.split()],
        cwd=folder,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # git must not write
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=10,
    )
    return printed.strip()


def never_begun(folder: Path) -> bool:
    """Return whether a folder is empty, or contains only files that `create` writes
    before the state.
    """
    names = {whole_name(name) for name in os.listdir(folder)}
    return names <= {CONFIG, ENVIRONMENT, STATE} and not (folder / STATE).exists()


def create(
    folder: Path,
    config: Mapping[str, Any],
    environment: Mapping[str, Any],
    chunks: Sequence[Mapping[str, Any]] = (),
) -> RunFolder:
    """Make a new run folder before round 1.

    The state is written last, so a folder with a state is complete, and a start that
    was killed can be repeated.

    Parameters
    ----------
    folder : pathlib.Path
        The folder, which must be empty, missing or left by a start that was killed.
    config : mapping
        The settings of the run.
    environment : mapping
        Facts about software and device.
    chunks : sequence of mapping
        The policies and seeds of each chunk, empty if the run is not divided.

    Returns
    -------
    RunFolder
        The run.

    Raises
    ------
    DataError
        If the folder contains anything else, or cannot be made.
    """
    if folder.exists() and not (folder.is_dir() and never_begun(folder)):
        raise DataError(
            f"{folder}: exists already; resume it, or choose another folder"
        )
    make_folder(folder)
    clear_partial(folder)
    text = tomli_w.dumps(config).encode()
    facts = {
        "headgate": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        **environment,
        "config_sha256": hashlib.sha256(text).hexdigest(),
    }
    if chunks:
        facts[CHUNKS] = list(chunks)
    run = config["run"]
    state = {
        "state": "running",
        "round": 0,
        "rounds": run["rounds"],
        "pid": os.getpid(),
        "elapsed_s": 0.0,
        "policies": run["policies"],
        "seeds": list(range(run["first_seed"], run["first_seed"] + run["seeds"])),
        "diverged": [],
        "guessing": [],
    }
    replace_file(folder / CONFIG, text)
    replace_file(folder / ENVIRONMENT, json_bytes(sealed(facts)))
    replace_file(folder / STATE, json_bytes(sealed(state)))
    return RunFolder(folder, dict(config), facts, state, folder.resolve().name)


def write_tables(run: RunFolder) -> RunFolder:
    """Merge the parts into one file per table, and return the run with its tables in
    memory.

    This can be repeated if the process is killed.

    Parameters
    ----------
    run : RunFolder
        The run, of which all rounds are complete.

    Returns
    -------
    RunFolder
        The run with its tables.

    Raises
    ------
    DataError
        If rows are missing.
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
    for table in TABLES:
        parts = run.path / table
        if parts.is_dir() and not parts.is_symlink():
            shutil.rmtree(parts)
    return replace(run, tables=tables)


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
    named: set[str] = set()
    with suppress(DataError):  # the command itself reports damaged files
        for point in points_of(folder):
            named |= {*named_outside(read_toml(point / CONFIG)).values()}
    trust = [word for name in sorted(named) for word in ("--trust", name)]
    return shlex.join(["headgate", "run", "--resume", str(folder), *trust])
