"""Everything that is written into a folder goes through here: never through a link, and whole or not at all.

A folder may be somebody else's: a file is replaced by a new one of a random name beside it that is moved there.
"""

import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

from headgate.errors import DataError

if sys.platform != "win32":
    import fcntl

PARTIAL = ".partial"
"""ends the names of what is not whole yet; they begin with a dot"""
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


def replace_file(path: Path, content: bytes | Callable[[BinaryIO], object], durable: bool = True) -> None:
    """A whole file, or the old one. `content` may be what writes it. `durable`: it is on disk before it is moved."""
    partial = partial_of(path)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW, 0o666)
    try:
        with open(descriptor, "wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def partial_of(path: Path) -> Path:
    """A name for what will become `path`, which nobody can have guessed."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")


def whole_name(name: str) -> str:
    """The file that a partial one would have become.

    >>> whole_name(".state.json.1234abcd.partial"), whole_name("state.json")
    ('state.json', 'state.json')
    """
    return re.sub(rf"^\.(.*?)\.[0-9a-f]{{8}}{re.escape(PARTIAL)}$", r"\1", name)


def clear_partial(folder: Path) -> None:
    """Removes what a killed process left half written."""
    for path in folder.glob(f".*{PARTIAL}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def json_bytes(value: Any) -> bytes:
    """Return a value as the content of a file of JSON."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def check_no_link(*paths: Path) -> None:
    """Refuses what is a link: what is written or removed in such a folder would be elsewhere."""
    for path in paths:
        if path.is_symlink():
            raise DataError(f"{path}: is a link; nothing is written through it")


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FolderLock(ExitStack):
    """The run that this process writes: one process at a time writes a run, until it ends, however it ends.

    The whole of a run is held by its folder, a part by its config: they may be the same run. The locks are the kernel's; a file
    system that knows none is gone without.
    """

    def __init__(self) -> None:
        super().__init__()
        self._paths: set[Path] = set()

    def take(self, path: Path, folder: Path) -> None:
        """Hold `path`, a folder or file of the run in `folder`; refused where another process does."""
        if path in self._paths or sys.platform == "win32":
            return
        try:
            descriptor = os.open(path, os.O_RDONLY | (NOFOLLOW if path != folder else 0))
        except OSError as error:
            raise DataError(f"{path}: cannot be opened ({error.strerror})") from None
        self.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"{folder}: is in use by another process; wait for it to end") from None
        except OSError:  # no locks here
            pass
        self._paths.add(path)
