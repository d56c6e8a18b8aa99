"""Writes a run folder, so that it can be killed at any moment and continued to the same bytes."""

import hashlib
import io
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from headgate import __version__
from headgate.control.types import Ledger
from headgate.errors import DataError
from headgate.records.checkpoint import write_checkpoint
from headgate.records.reader import CHECKSUMS, CONFIG, ENVIRONMENT
from headgate.records.sums import checksum, file_checksum, sealed
from headgate.records.sweeps import STATE
from headgate.records.tables import TABLES, frame_of_rows, part_files, part_name
from headgate.writing import check_no_link, json_bytes, replace_file


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
        writer, text = cls(folder), tomli_w.dumps(config).encode()
        writer.replace(CONFIG, text)
        facts = {
            "headgate": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": platform.platform(),
            "config_sha256": hashlib.sha256(text).hexdigest(),
            **environment,
        }
        writer.replace(ENVIRONMENT, json_bytes(sealed(facts)))
        return facts

    def replace(self, name: str, content: bytes) -> None:
        """Write a whole file, or leave the old one."""
        replace_file(self.folder / name, content)

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows as the next part of a table; NaN and infinity become null."""
        if not rows:
            return
        buffer, name = io.BytesIO(), part_name(table, max(row["t"] for row in rows))
        frame_of_rows(rows, table).write_parquet(buffer)
        content = buffer.getvalue()
        check_no_link(self.folder / table)
        (self.folder / table).mkdir(exist_ok=True)
        self.replace(name, content)
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
        self.replace(STATE, json_bytes(sealed(facts)))
        return facts

    def checkpoint(
        self, t: int, tensors: Mapping[str, Any], ledgers: Mapping[str, Ledger], facts: Mapping[str, Any] | None = None
    ) -> None:
        """See `write_checkpoint`."""
        write_checkpoint(self.folder, t, tensors, ledgers, self._parts, facts)
