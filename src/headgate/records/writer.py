"""Writes a run folder, so that it can be killed at any moment and continued to the same bytes.

A checkpoint is a folder that is moved into place when all of it is on disk. It notes the parts of the tables that hold the
rows up to its round, and their checksums: a resumed run checks these and removes all others.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tomli_w

import headgate
from headgate import __version__
from headgate.control.controller import Controller
from headgate.control.files import load_ledger, save_ledger
from headgate.control.types import Ledger
from headgate.errors import DataError
from headgate.limits import RECIPE
from headgate.reading import read_bytes
from headgate.records.reader import CHECKPOINTS, CHECKSUMS, CONFIG, ENVIRONMENT, HEAD, newest_checkpoint, read_head
from headgate.records.sums import checksum, file_checksum, read_sealed, sealed
from headgate.records.tables import STATE, TABLES, part_files, part_name
from headgate.writing import check_no_link, clear_partial, json_bytes, partial_of, replace_file, sync

TENSORS = "tensors.safetensors"
Fact = TypeVar("Fact")


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror})") from None


class RunWriter:
    """Writes a run folder, or a shard of one.

    Parameters
    ----------
    parts : mapping, optional
        The parts of its tables that are there, with their checksums, where checkpoints will be written.
    """

    def __init__(self, folder: Path, parts: Mapping[str, str] | None = None) -> None:
        self.folder, self._parts = folder, dict(parts or {})

    @classmethod
    def create(cls, folder: Path, config: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, Any]:
        """Make a new folder with its settings and return its environment; refused where there is something already."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{folder}: exists already; resume it, or choose another folder")
        make_folder(folder)
        text = tomli_w.dumps(config).encode()
        replace_file(folder / CONFIG, text)
        facts = {
            "headgate": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": platform.platform(),
            "config_sha256": hashlib.sha256(text).hexdigest(),
            **environment,
        }
        replace_file(folder / ENVIRONMENT, json_bytes(sealed(facts)))
        return facts

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows as the next part of a table."""
        if not rows:
            return
        name, content = part_name(table, max(row["t"] for row in rows)), json.dumps(rows).encode()
        check_no_link(self.folder / table)
        (self.folder / table).mkdir(exist_ok=True)
        replace_file(self.folder / name, content)
        self._parts[name] = checksum(content)

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

    def fact(self, key: str, kind: type[Fact]) -> Fact:
        """Return what the environment says of how the run was begun."""
        value = self.environment.get(key)
        if not isinstance(value, kind):
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
        """Remove the parts that were written after the checkpoint, and what is half written.

        Parameters
        ----------
        whole : Path, optional
            The folder of the whole run, in which parts may have become tables already; by default the checkpoint's.

        Returns
        -------
        dict
            The parts up to the checkpoint with their checksums, which were checked.
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
    try:
        _git(package, "ls-files", "--error-unmatch", "__init__.py")
        found = _git(package, "rev-parse", "--short", "HEAD")
        changed = _git(package.parent, "diff", "--name-only", "HEAD", "--", ".")
    except (OSError, subprocess.SubprocessError):  # no git, no checkout, or one that does not answer
        return None
    return found + ("+changes" if changed else "")


def _git(folder: Path, *words: str) -> str:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # only looks, never writes
    how: dict[str, Any] = {"cwd": folder, "env": environment, "stderr": subprocess.DEVNULL, "text": True, "timeout": 10}
    return str(subprocess.check_output(["git", *words], **how)).strip()
