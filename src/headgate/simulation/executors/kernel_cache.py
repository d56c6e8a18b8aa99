"""What numba compiled, kept on disk for the next process. Importing this needs numba.

What is kept is code, and numba would run whatever it finds. Here a file counts only if it is sealed with this user's key,
which lies outside the cache folder: an archive, a shared volume or another user cannot know it. Anything else is compiled
again and replaced. The seal also covers what the code was made from: sources, numba and processor.

The linker knows a function by its name, and of two that have the same it takes the one that came last. numba makes names
differ by a number that each process counts from 1, so functions of one name with other closures, compiled by two processes
and found by a third, would be taken for each other. Here a name says what the function was made from.
"""
# mypy: allow-untyped-calls

import hashlib
import hmac
import os
import pickle
import secrets
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from headgate.errors import DataError
from headgate.reading import opened, read_bytes
from headgate.writing import replace_file

LARGEST = 1 << 24
"""bytes of a file; LeNet's take up to a hundred thousand"""
_SEAL = _KEY = 32
_user = getattr(os, "getuid", lambda: -1)
"""where there are no users, no key is known to be one's own, and nothing is kept"""


def kernel_folder() -> Path:
    """`headgate-kernels` in $NUMBA_CACHE_DIR, $XDG_CACHE_HOME or ~/.cache; a relative path is ignored."""
    return _absolute("~/.cache", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME") / "headgate-kernels"


def key_file() -> Path:
    """In $XDG_STATE_HOME or ~/.local/state, likewise."""
    return _absolute("~/.local/state", "XDG_STATE_HOME") / "headgate" / "kernel-key"


def _absolute(default: str, *variables: str) -> Path:
    said = (os.environ.get(each, "") for each in variables)
    return Path(next(filter(os.path.isabs, said), os.path.expanduser(default)))


def objection() -> str | None:
    """Why nothing is kept here, if nothing is."""
    folder = kernel_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return f"compiled kernels are not kept: {folder} cannot be made ({error.strerror})"
    return None if _key() else f"compiled kernels are not kept: {key_file()} cannot be made, or is not this user's alone"


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
        try:
            content = read_bytes(kernel_folder() / name, LARGEST)
        except DataError:
            return None
        sealed = _sealed(content[_SEAL:], known)
        if sealed is None or not hmac.compare_digest(content, sealed):
            return None
        return self._impl.rebuild(context, pickle.loads(content[_SEAL:]))

    def _save_overload(self, signature: Any, made: Any) -> None:
        name, known = self._named(signature, made.codegen)
        sealed = _sealed(dumps(self._impl.reduce(made)), known)
        if sealed is not None and objection() is None:
            with suppress(OSError):  # then the next process compiles
                replace_file(kernel_folder() / name, sealed, durable=False)

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


def _sealed(content: bytes, known: bytes) -> bytes | None:
    key = _key()
    return key and hmac.digest(key, hashlib.sha256(known).digest() + content, "sha256") + content


def _key() -> bytes | None:
    """Made at first use; None where it cannot be, or where others may read it."""
    file = key_file()
    try:
        if not file.exists():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, made = tempfile.mkstemp(dir=file.parent)  # readable by this user alone
            with open(descriptor, "wb") as new:
                new.write(secrets.token_bytes(_KEY))
            with suppress(FileExistsError):  # another process was quicker
                os.link(made, file)
            os.unlink(made)
        with opened(file) as kept:
            seen, key = os.fstat(kept.fileno()), kept.read()
    except (OSError, DataError):
        return None
    alone = seen.st_uid == _user() and not seen.st_mode & 0o077
    return key if alone and len(key) == _KEY and file.is_absolute() else None
