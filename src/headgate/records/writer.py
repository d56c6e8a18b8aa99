"""Writes a run folder, so that it can be killed at any moment and continued to the same bytes.

Rows go to `metrics.jsonl` and `clients.jsonl` as rounds are done. A checkpoint is a folder that is moved into place
when all of it is on disk; it notes how long the two files were, and a resumed run cuts them back to that.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from headgate import __version__
from headgate.control.controller import Controller
from headgate.control.files import load_ledger, save_ledger
from headgate.control.types import Ledger
from headgate.errors import DataError
from headgate.records.reader import CONFIG, ENVIRONMENT, read_object
from headgate.records.rows import OLDER_TABLES, TABLES
from headgate.records.sweeps import STATE

ROWS = tuple(f"{name}.jsonl" for name in TABLES)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror})") from None


class RunWriter:
    """The one who writes a run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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
        writer.replace(ENVIRONMENT, _json(facts))
        for name in ROWS:
            writer.replace(name, b"")
        return writer

    def replace(self, name: str, content: bytes) -> None:
        """A whole file, or the old one."""
        path = self.folder / name
        partial = path.with_name(f".{path.name}.partial")
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """One JSON object a line; not-a-number and infinity have no JSON and become null."""
        with (self.folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps({k: _finite(v) for k, v in row.items()}) + "\n" for row in rows)

    def state(self, state: str, t: int, rounds: int, **more: Any) -> None:
        facts = {"state": state, "round": t, "rounds": rounds, "pid": os.getpid(), **more}
        self.replace(STATE, _json(facts))

    def checkpoint(
        self, t: int, tensors: Mapping[str, Any], ledgers: Mapping[str, Ledger], facts: Mapping[str, Any] | None = None
    ) -> None:
        """All that is needed to go on from round t, and `facts` to tell of it. The one before goes when this is in place."""
        from safetensors.torch import save_file

        final = self.folder / "checkpoints" / f"{t:08d}"
        if final.exists():  # resumed from it, and nothing has happened since
            return
        for name in ROWS:
            sync(self.folder / name)
        partial = final.with_name(f".{final.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_file(dict(tensors), partial / "tensors.safetensors")
        for i, ledger in enumerate(ledgers.values()):
            save_ledger(ledger, partial / f"ledger-{i}.npz")
        head = {
            "t": t,
            "policies": list(ledgers),
            "facts": dict(facts or {}),
            "rows": {name: (self.folder / name).stat().st_size for name in ROWS},
            "sha256": {path.name: _digest(path) for path in sorted(partial.iterdir())},
        }
        (partial / "checkpoint.json").write_bytes(_json(head))
        for path in partial.iterdir():
            sync(path)
        sync(partial)
        partial.rename(final)
        sync(final.parent)
        for other in final.parent.iterdir():
            if other != final:
                shutil.rmtree(other)


class Checkpoint:
    """The newest checkpoint of a folder, verified."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        config = folder / CONFIG
        environment = read_object(folder / ENVIRONMENT)
        try:
            text = config.read_bytes()
        except OSError as error:
            raise DataError(f"{folder}: {CONFIG} cannot be read ({error.strerror})") from None
        if hashlib.sha256(text).hexdigest() != environment.get("config_sha256"):
            raise DataError(f"{folder}: {CONFIG} was changed after the run began; start a new run with it")
        self.environment = environment
        found = sorted(path for path in (folder / "checkpoints").glob("[0-9]*") if path.is_dir())
        self.path = found[-1] if found else None
        self.head: dict[str, Any] = {"t": 0, "rows": dict.fromkeys(ROWS, 0)}
        if self.path is not None:
            self.head = read_object(self.path / "checkpoint.json")
            for name, digest in self.head["sha256"].items():
                file = self.path / name
                if not file.is_file() or _digest(file) != digest:
                    raise DataError(f"{folder}: {file.relative_to(folder)} is damaged; the run cannot be continued")

    def _rename_older_rows(self) -> None:
        """A run that an earlier version began goes on under the names of today; the rows that it wrote stay as they are."""
        for name, older in ((f"{name}.jsonl", f"{older}.jsonl") for name, older in OLDER_TABLES.items()):
            if (self.folder / older).exists():
                (self.folder / older).rename(self.folder / name)
            self.head["rows"].setdefault(name, self.head["rows"].get(older, 0))

    @property
    def t(self) -> int:
        return int(self.head["t"])

    @property
    def facts(self) -> dict[str, Any]:
        """What was known of the runs at this point."""
        return dict(self.head.get("facts", {}))

    def tensors(self) -> dict[str, Any]:
        from safetensors.torch import load_file

        assert self.path is not None
        return dict(load_file(self.path / "tensors.safetensors"))

    def ledger(self, policy: str, controller: Controller) -> Ledger:
        assert self.path is not None
        return load_ledger(self.path / f"ledger-{self.head['policies'].index(policy)}.npz", controller)

    def cut_rows(self, tables: Path | None = None) -> None:
        """Drop the rows that were written after the checkpoint, a half-written one included.

        `tables` is the folder in which rows may have become tables already; the run's own, unless it is a part.
        """
        self._rename_older_rows()
        for name in ROWS:
            path, length = self.folder / name, int(self.head["rows"][name])
            if not path.exists():
                if ((tables or self.folder) / name.replace("jsonl", "parquet")).exists():
                    continue  # the run was finishing
                raise DataError(f"{self.folder}: {name} is missing; the run cannot be continued")
            if path.stat().st_size < length:
                raise DataError(f"{self.folder}: {name} is shorter than its checkpoint says; the run cannot be continued")
            os.truncate(path, length)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
