"""Writes a run folder, so that it can be killed at any moment and continued to the same bytes.

Rows go to `metrics.jsonl` and `clients.jsonl` as rounds are done. A checkpoint is a folder that is moved into place
when all of it is on disk; it notes how long the two files were and their checksums up to there. A resumed run checks
those and cuts the files back to that length.
"""

import hashlib
import json
import math
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tomli_w

from headgate import __version__
from headgate.control.controller import Controller
from headgate.control.files import load_ledger, save_ledger
from headgate.control.types import Ledger
from headgate.errors import DataError
from headgate.limits import RECIPE
from headgate.reading import read_bytes
from headgate.records.reader import CHECKSUMS, CONFIG, ENVIRONMENT
from headgate.records.sums import (
    CHECKPOINTS,
    HEAD,
    RowSums,
    check_rows,
    file_checksum,
    newest_checkpoint,
    read_head,
    read_sealed,
    sealed,
)
from headgate.records.sweeps import STATE
from headgate.records.tables import TABLES
from headgate.writing import append, check_no_link, clear_partial, cut, partial_of, replace_file, sync

ROWS = tuple(f"{name}.jsonl" for name in TABLES)
TABLE_FILES = tuple(f"{name}.parquet" for name in TABLES)
TENSORS = "tensors.safetensors"
Fact = TypeVar("Fact")


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror})") from None


class RunWriter:
    """The one who writes a run folder."""

    def __init__(self, folder: Path, sums: Mapping[str, RowSums] | None = None) -> None:
        """`sums` of the rows that are there, where checkpoints will be written."""
        self.folder, self._sums = folder, dict(sums or {})

    @classmethod
    def create(cls, folder: Path, config: Mapping[str, Any], environment: Mapping[str, Any]) -> "RunWriter":
        """A new folder with its config; refused where there is something already."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{folder}: exists already; resume it, or choose another folder")
        make_folder(folder)
        writer = cls(folder)
        text = tomli_w.dumps(config)
        writer.replace(CONFIG, text.encode())
        facts = {
            "headgate": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": platform.platform(),
            "config_sha256": hashlib.sha256(text.encode()).hexdigest(),
            **environment,
        }
        writer.replace(ENVIRONMENT, _json(sealed(facts)))
        for name in ROWS:
            writer.replace(name, b"")
        return writer

    def replace(self, name: str, content: bytes) -> None:
        """A whole file, or the old one."""
        replace_file(self.folder / name, content)

    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """One JSON object a line; not-a-number and infinity have no JSON and become null."""
        file = f"{name}.jsonl"
        content = "".join(json.dumps({k: _finite(v) for k, v in row.items()}) + "\n" for row in rows).encode()
        append(self.folder / file, content)
        if file in self._sums:
            self._sums[file].add(content)

    def state(self, state: str, t: int, rounds: int, **more: Any) -> None:
        """A finished run tells the checksums of its tables."""
        facts = {"state": state, "round": t, "rounds": rounds, "pid": os.getpid(), **more}
        made = [table for table in TABLE_FILES if state == "finished" and (self.folder / table).exists()]
        if made:
            facts[CHECKSUMS] = {table: file_checksum(self.folder / table) for table in made}
        self.replace(STATE, _json(sealed(facts)))

    def checkpoint(
        self, t: int, tensors: Mapping[str, Any], ledgers: Mapping[str, Ledger], facts: Mapping[str, Any] | None = None
    ) -> None:
        """All that is needed to go on from round t, and `facts` to tell of it. The one before goes when this is in place."""
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        final = self.folder / CHECKPOINTS / f"{t:08d}"
        if final.exists():  # resumed from it, and nothing has happened since
            return
        for name in ROWS:
            sync(self.folder / name)
        check_no_link(final.parent)
        partial = partial_of(final)
        partial.mkdir(parents=True)
        try:
            save_file(dict(tensors), partial / TENSORS)
        except SafetensorError as error:  # its word for a full disk
            raise OSError(f"{TENSORS}: {error}") from None
        for i, ledger in enumerate(ledgers.values()):
            save_ledger(ledger, partial / f"ledger-{i}.npz")
        head = {
            "t": t,
            "policies": list(ledgers),
            "facts": dict(facts or {}),
            "rows": {name: (self.folder / name).stat().st_size for name in ROWS},
            "sums": {name: sums.told() for name, sums in self._sums.items()},
            "sha256": {path.name: file_checksum(path, "sha256") for path in sorted(partial.iterdir())},
        }
        replace_file(partial / HEAD, _json(sealed(head)))
        for path in partial.iterdir():
            sync(path)
        sync(partial)
        partial.rename(final)
        sync(final.parent)
        _remove_others(final)


class Checkpoint:
    """Where a run stands that was begun in `folder`: its newest checkpoint, or its beginning."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        check_no_link(folder / CONFIG, folder / ENVIRONMENT)
        environment = read_sealed(folder / ENVIRONMENT, RECIPE)
        if hashlib.sha256(read_bytes(folder / CONFIG)).hexdigest() != environment.get("config_sha256"):
            raise DataError(f"{folder}: {CONFIG} was changed after the run began; start a new run with it")
        self.environment = environment
        if (folder / STATE).exists():
            read_sealed(folder / STATE)
        self.path = newest_checkpoint(folder)
        self.head: dict[str, Any] = {"t": 0, "rows": dict.fromkeys(ROWS, 0)}
        if self.path is not None:
            self.head = read_head(self.path)
            for name, digest in self.head["sha256"].items():
                file = self.path / name
                if not file.is_file() or file_checksum(file, "sha256") != digest:
                    raise DataError(f"{folder}: {file.relative_to(folder)} is damaged; the run cannot be continued")

    def fact(self, key: str, kind: type[Fact]) -> Fact:
        """What the environment says of how the run was begun."""
        said = self.environment.get(key)
        if not isinstance(said, kind):
            raise DataError(f"{self.folder / ENVIRONMENT}: {key} is missing; the run cannot be continued")
        return said

    @property
    def t(self) -> int:
        return int(self.head["t"])

    @property
    def facts(self) -> dict[str, Any]:
        """What was known of the runs at this point."""
        return dict(self.head.get("facts", {}))

    def tensors(self) -> dict[str, Any]:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        assert self.path is not None
        try:
            return dict(load_file(self.path / TENSORS))
        except (SafetensorError, OSError) as error:
            raise DataError(f"{self.path / TENSORS}: is damaged ({error}); the run cannot be continued") from None

    def ledger(self, policy: str, controller: Controller) -> Ledger:
        assert self.path is not None
        if policy not in self.head["policies"]:
            raise DataError(f"{self.path / HEAD}: knows no policy {policy}; the run cannot be continued")
        ledger = load_ledger(self.path / f"ledger-{self.head['policies'].index(policy)}.npz", controller)
        if ledger.t != self.t:
            raise DataError(f"{self.path}: the ledger of {policy} is of round {ledger.t}; the run cannot be continued")
        return ledger

    def cut_rows(self, tables: Path | None = None) -> dict[str, RowSums]:
        """Drop the rows that were written after the checkpoint, a half-written one included, and what else is half written.

        The rows up to it must be those that were written; their checksums, to go on with. `tables` is the folder in which
        rows may have become tables already; the run's own, unless it is a part.
        """
        for place in (self.folder, self.folder / CHECKPOINTS):
            clear_partial(place)
        if self.path is not None:
            _remove_others(self.path)
        sums: dict[str, RowSums] = {}
        for name in ROWS:
            path, length = self.folder / name, int(self.head["rows"].get(name, 0))
            if not path.exists():
                if ((tables or self.folder) / name.replace("jsonl", "parquet")).exists():
                    continue  # the run was finishing
                raise DataError(f"{self.folder}: {name} is missing; the run cannot be continued")
            if path.stat().st_size < length:
                raise DataError(f"{self.folder}: {name} is shorter than its checkpoint says; the run cannot be continued")
            sums[name] = check_rows(path, length, self.head.get("sums", {}).get(name))
            cut(path, length)
        return sums


def _remove_others(checkpoint: Path) -> None:
    """Those before it; one may have gone by half when somebody was killed."""
    for other in checkpoint.parent.iterdir():
        if other != checkpoint and other.is_dir() and not other.is_symlink():
            shutil.rmtree(other)


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(each) for each in value] if value and isinstance(value[0], float) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
