"""A small file beside the ledger that says how far the accounts have come, so that a
ledger that is gone or old is noticed.

It is written after each commit, so it never says more than the ledger held. After a
power cut it may say less, or nothing. If both files were put back it cannot tell.
"""

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from headgate.control.checks import text, whole_number
from headgate.errors import DataError, SettingError
from headgate.reading import read_text
from headgate.writing import NOFOLLOW

ANCHOR = "ledger.last"
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
"""a pipe in place of the file is not waited for"""
SIZE = 512
"""bytes of the file, always as many, so that it is written over in one piece"""


class Anchor(NamedTuple):
    """How far the accounts have come."""

    accounts: str
    """random name of the accounts"""
    begun: int
    """the last round that was begun"""
    settled: int
    """the last round that was settled"""
    amendments: int
    """number of amendments"""

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """Return what the file in `folder` says; None if there is none, or it is
        damaged and says nothing.
        """
        try:
            content, _, checksum = (
                read_text(folder / ANCHOR, SIZE).rstrip().rpartition("\n")
            )
            if checksum != _checksum(content):
                return None
            found = json.loads(content)
            counts = [whole_number(name, found.get(name)) for name in cls._fields[1:]]
            return cls(text("accounts", found.get("accounts"), 200), *counts)
        except (DataError, SettingError, ValueError, AttributeError):
            return None

    def write(self, folder: Path) -> None:
        """Write the file in place, at once. If it cannot be written it stays older, and
        notices less.
        """
        content = json.dumps(self._asdict())
        line = f"{content}\n{_checksum(content)}\n".ljust(SIZE).encode()
        with suppress(OSError):
            descriptor = os.open(
                folder / ANCHOR, os.O_WRONLY | os.O_CREAT | NOFOLLOW | NONBLOCK, 0o600
            )
            try:
                os.write(descriptor, line)
                os.ftruncate(descriptor, SIZE)
            finally:
                os.close(descriptor)

    def check(self, path: Path, found: "Anchor") -> None:
        """Raise DataError if the ledger at `path`, which has come as far as `found`, is
        not the newest one.
        """
        log = f"without the old {path.name}-wal and {path.name}-shm"
        hint = (
            f"put the newest copy in its place, {log}; to go on from this one on"
            f" purpose, remove {ANCHOR} first"
        )
        if found.accounts != self.accounts:
            raise DataError(
                f"{path}: holds other accounts than {ANCHOR} tells of; {hint}"
            )
        for name, own in found._asdict().items():
            if name != "accounts" and own < getattr(self, name):
                told = f"{_counted(name, own)}, {ANCHOR} tells of {getattr(self, name)}"
                raise DataError(f"{path}: is an old copy: it knows {told}; {hint}")

    def missing(self, path: Path, state: str) -> DataError:
        """Return the error for a ledger at `path` that is `state`: "missing" or
        "empty".
        """
        begun = f"though its accounts have begun: {ANCHOR} tells of round {self.begun}"
        return DataError(
            f"{path}: is {state}, {begun}; put the newest copy in its place, or choose"
            " another folder"
        )


def _counted(name: str, number: int) -> str:
    return f"{number} amendments" if name == "amendments" else f"{number} rounds {name}"


def _checksum(content: str) -> str:
    return f"{zlib.crc32(content.encode()):08x}"
