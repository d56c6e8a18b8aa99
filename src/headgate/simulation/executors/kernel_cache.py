"""What numba compiled, kept on disk for the next process. Importing this needs numba.

What is kept is code, and numba would run whatever it finds. Here a file counts only if it lies in a folder that nobody else
may enter, belongs to this user and has its checksum; anything else is compiled anew and replaced. A checksum is also of what
the code was made from: other sources, another numba or another processor are another file's.

The linker knows a function by its name, and of two that have the same it takes the one that came last. numba makes names
differ by a number that each process counts from 1, so functions of one name with other closures, compiled by two processes
and found by a third, would be taken for each other. Here a name says what the function was made from.
"""
# mypy: allow-untyped-calls

import hashlib
import os
import pickle
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from headgate.writing import replace_file

LARGEST = 1 << 24
"""bytes of a file; LeNet's take up to a hundred thousand"""
_SEAL = hashlib.sha256().digest_size
_PLAIN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_user = getattr(os, "getuid", lambda: -1)
"""where there are no users, nothing is known to be one's own, and nothing is kept"""


def kernel_folder() -> Path:
    """`headgate-kernels` in $NUMBA_CACHE_DIR or the user's cache folder."""
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(chosen).expanduser() / "headgate-kernels"


def objection() -> str | None:
    """Why nothing is kept here, if nothing is."""
    folder = kernel_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = _is_own(os.lstat(folder))
    except OSError as error:
        return f"compiled kernels are not kept: {folder} cannot be made ({error.strerror})"
    return None if own else f"compiled kernels are not kept: others may enter {folder}, or it is not this user's"


def is_empty() -> bool:
    """Whether nothing is kept yet, so that the first round has to wait for the compiler."""
    try:
        return not any(kernel_folder().iterdir())
    except OSError:
        return True


def keep(dispatcher: Any, sources: bytes) -> Callable[..., Any]:
    """The same function, which looks on disk before it compiles. `sources`: all that its code is made from."""
    dispatcher._cache = cache = KernelCache(dispatcher.py_func, sources)
    dispatcher.py_func.__qualname__ += f"_{cache.origin}"
    kept: Callable[..., Any] = dispatcher
    return kept


class KernelCache(FunctionCache):
    """Of one function: a file for each kind of arguments, closure and processor."""

    def __init__(self, function: Callable[..., Any], sources: bytes) -> None:
        self._name, self._py_func, self._impl = repr(function), function, _Parts()
        self._sources = hashlib.sha256(sources + numba.__version__.encode()).digest()
        self._file = function.__qualname__.replace(".<locals>", "")
        self.enable()

    @property
    def origin(self) -> str:
        """Of functions of one name in one process, two that differ have different ones."""
        closure = [cell.cell_contents for cell in self._py_func.__closure__ or ()]
        return hashlib.sha256(self._sources + self._py_func.__code__.co_code + dumps(closure)).hexdigest()[:16]

    @property
    def cache_path(self) -> str:
        return str(kernel_folder())

    def flush(self) -> None:
        """Nothing is kept in memory."""

    def _load_overload(self, signature: Any, context: Any) -> Any:
        name, known = self._named(signature, context.codegen())
        content = _read(kernel_folder(), name)
        if content is None or not _is_sealed(content, known):
            return None
        return self._impl.rebuild(context, pickle.loads(content[_SEAL:]))

    def _save_overload(self, signature: Any, made: Any) -> None:
        folder, (name, known) = kernel_folder(), self._named(signature, made.codegen)
        content = dumps(self._impl.reduce(made))
        if objection() is None:
            with suppress(OSError):  # then the next process compiles
                replace_file(folder / name, _sealed(content, known), durable=False)

    def _named(self, signature: Any, codegen: Any) -> tuple[str, bytes]:
        """The file's name, and all that the code depends on."""
        key = self._index_key(signature, codegen)
        _, processor, (_, closure) = key
        python = sys.implementation.cache_tag
        which = hashlib.sha256(repr((signature, processor, closure, python)).encode()).hexdigest()[:16]
        return f"{self._file}-{which}", self._sources + repr(key).encode()


class _Parts(CompileResultCacheImpl):
    """How a compiled function becomes bytes and back; nothing of where numba would put them."""

    def __init__(self) -> None:
        pass


def _sealed(content: bytes, known: bytes) -> bytes:
    return hashlib.sha256(known + content).digest() + content


def _is_sealed(content: bytes, known: bytes) -> bool:
    return content == _sealed(content[_SEAL:], known)


def _read(folder: Path, name: str) -> bytes | None:
    """A plain file of this user's in a folder of this user's, neither of them a link. Not by name twice, so that nobody can
    put another in its place meanwhile."""
    try:
        place = os.open(folder, _PLAIN | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return None
    try:
        if not _is_own(os.fstat(place)):
            return None
        descriptor = os.open(name, _PLAIN, dir_fd=place)
    except OSError:
        return None
    finally:
        os.close(place)
    with open(descriptor, "rb") as file:
        seen = os.fstat(descriptor)
        plain = stat.S_ISREG(seen.st_mode) and seen.st_uid == _user() and seen.st_size <= LARGEST
        return file.read(LARGEST) if plain else None


def _is_own(folder: os.stat_result) -> bool:
    return stat.S_ISDIR(folder.st_mode) and folder.st_uid == _user() and not folder.st_mode & 0o077
