"""Everything that is written into a folder goes through here: never through a link, and whole or not at all.

A folder may be somebody else's: a file is replaced by a new one of a random name beside it that is moved there.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from headgate.errors import DataError

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
