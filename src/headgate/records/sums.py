"""Records prove themselves: checksums of rows as they are written, of checkpoints, of what a run says of itself, and of the
tables of a finished run.

They tell what was changed from what was written. They do not tell who wrote it: whoever changes a folder can work them out
anew.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.errors import DataError
from headgate.limits import JSON, RECIPE
from headgate.reading import opened, read_object

BLOCK = 64 * 2**10
"""bytes of rows that have one checksum: what was changed is named as closely as that"""
SEAL = "seal"
"""in a file of JSON: the checksum of all the rest"""
CHECKPOINTS, HEAD = "checkpoints", "checkpoint.json"


def checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def file_checksum(path: Path, kind: str = "blake2b") -> str:
    """Of a file of any size; `kind` sha256 for the files of a checkpoint."""
    digest = hashlib.blake2b(digest_size=16) if kind == "blake2b" else hashlib.new(kind)
    with opened(path) as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def sealed(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {**facts, SEAL: _seal(facts)}


def read_sealed(path: Path, most: int = JSON) -> dict[str, Any]:
    """Without its seal, which is checked where there is one."""
    facts = read_object(path, most)
    if facts.pop(SEAL, None) not in (None, _seal(facts)):
        raise DataError(f"{path}: is not what was written, its checksum differs")
    return facts


def _seal(facts: Mapping[str, Any]) -> str:
    return checksum(json.dumps({key: facts[key] for key in facts if key != SEAL}, sort_keys=True).encode())


class RowSums:
    """Checksums of a file that grows, one for each `BLOCK` of it."""

    def __init__(self) -> None:
        self._whole: list[str] = []
        self._half = b""

    def add(self, content: bytes) -> None:
        self._half += content
        while len(self._half) >= BLOCK:
            self._whole.append(checksum(self._half[:BLOCK]))
            self._half = self._half[BLOCK:]

    def told(self) -> list[str]:
        return [*self._whole, checksum(self._half)] if self._half else list(self._whole)


def check_rows(path: Path, length: int, told: Sequence[str] | None) -> RowSums:
    """The checksums of the first `length` bytes of rows, which must be those that were `told`; None: nobody told any."""
    sums, row = RowSums(), 1
    if told is not None and len(told) != -(-length // BLOCK):
        raise DataError(f"{path}: has not as many checksums as rows; the run cannot be continued")
    with opened(path) as file:
        for start in range(0, length, BLOCK):
            block = file.read(min(BLOCK, length - start))
            last = row + max(0, block.count(b"\n") - block.endswith(b"\n"))
            if told is not None and checksum(block) != told[start // BLOCK]:
                raise DataError(f"{path}: rows {row} to {last} are not what was written, their checksum differs")
            sums.add(block)
            row += block.count(b"\n")
    return sums


def newest_checkpoint(folder: Path) -> Path | None:
    """Its folder; a link is none."""
    within = folder / CHECKPOINTS
    if within.is_symlink():
        raise DataError(f"{within}: is a link, which is not followed")
    found = [path for path in within.glob("[0-9]*") if path.name.isdigit() and path.is_dir() and not path.is_symlink()]
    return max(found, key=lambda path: int(path.name), default=None)


def read_head(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself, as far as it can be checked without looking into its files."""
    head = read_sealed(path / HEAD, RECIPE)
    rows, files, sums = head.get("rows"), head.get("sha256"), head.get("sums", {})
    counts = [head.get("t"), *(rows.values() if isinstance(rows, dict) else ())]
    names = [*head.get("policies", ()), *files.values()] if isinstance(files, dict) else [None]
    if (
        not isinstance(rows, dict)
        or not all(isinstance(each, int) and each >= 0 for each in counts)
        or not all(isinstance(each, str) for each in names)
        or any("/" in file for file in files or ())
        or not isinstance(head.get("facts", {}), dict)
        or not (isinstance(sums, dict) and all(isinstance(each, list) for each in sums.values()))
        or head["t"] != int(path.name)
    ):
        raise DataError(f"{path / HEAD}: is damaged; the run cannot be continued")
    return head


def check_recorded(folder: Path, tables: Sequence[str]) -> None:
    """The rows of these files up to the newest checkpoint; what came after it nobody has vouched for yet."""
    newest = newest_checkpoint(folder)
    if newest is None:
        return
    try:
        head = read_head(newest)
        for name in tables:
            length, told = int(head["rows"].get(name, 0)), head.get("sums", {}).get(name)
            if told is not None and (folder / name).exists():
                check_rows(folder / name, length, told)
    except DataError:
        if newest_checkpoint(folder) == newest and all((folder / name).exists() for name in tables):
            raise  # else somebody plays it elsewhere, and has just gone on
