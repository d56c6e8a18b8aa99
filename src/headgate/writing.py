"""Writing of files into folders: never through a link, and whole or not at all.

Other users may write into the same folder, so a file is written beside its place under
a random name and then moved.
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
"""the end of the names of incomplete files, which begin with a dot"""
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


class InUseError(DataError):
    """Another process has what this one asks for."""


def replace_file(
    path: Path,
    content: bytes | Callable[[BinaryIO], object],
    durable: bool = True,
) -> None:
    """Replace a file whole or not at all. `content` is its bytes or a function that
    writes them; `durable` syncs them first.
    """
    partial = partial_of(path)
    descriptor = os.open(
        partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW, 0o666
    )
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
    """Return a random name, which nobody can guess, for the incomplete file that will
    become `path`.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")


def whole_name(name: str) -> str:
    """Return the name of the file that an incomplete file would have become.

    >>> whole_name(".state.json.1234abcd.partial"), whole_name("state.json")
    ('state.json', 'state.json')
    """
    return re.sub(rf"^\.(.*?)\.[0-9a-f]{{8}}{re.escape(PARTIAL)}$", r"\1", name)


def clear_partial(folder: Path, prefix: str = "") -> None:
    """Remove the incomplete files and folders that a killed process left, those whose
    names would begin with `prefix`.
    """
    for path in folder.glob(f".{prefix}*{PARTIAL}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def json_bytes(value: Any) -> bytes:
    """Return a value as the content of a JSON file."""
    return (
        json.dumps(
            value,
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    ).encode()


def check_no_link(*paths: Path) -> None:
    """Raise DataError if one of the paths is a link, because changes there would happen
    elsewhere.
    """
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
    """The locks on the run that this process writes. No other process can write the run
    until this one releases them or ends.

    A whole run is locked by its folder; the processes that play chunks of it share a
    lock on its config. The kernel releases the locks of a killed process. On a file
    system without locks the run is written unlocked.
    """

    def __init__(self) -> None:
        super().__init__()
        self._paths: set[Path] = set()

    def take(
        self,
        path: Path,
        folder: Path,
        shared: bool = False,
    ) -> None:
        """Lock `path`, a folder or file of the run in `folder`; raise DataError if
        another process holds the lock. Processes may hold a `shared` lock together.
        """
        if path in self._paths or sys.platform == "win32":
            return
        try:
            descriptor = os.open(
                path, os.O_RDONLY | (NOFOLLOW if path != folder else 0)
            )
        except OSError as error:
            raise DataError(f"{path}: cannot be opened ({error.strerror})") from None
        self.callback(os.close, descriptor)
        try:
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(
                f"{folder}: is in use by another process; wait for it to end"
            ) from None
        except OSError:  # the file system has no locks
            pass
        self._paths.add(path)
