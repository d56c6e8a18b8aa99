"""How kernels are compiled, cached and called from compiled code. Importing this module
needs numba.

All kernels take the same arguments: the room of a thread, and numbers that say where
their arrays begin in it. So one compiled loop can call any of them by its address,
without Python between two kernels, and a kernel needs no Python wrapper.
"""

# mypy: allow-untyped-calls

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import config, from_dtype, njit, types
from numba.extending import intrinsic

_user = getattr(os, "getuid", lambda: -1)
"""on a system without user ids no folder is known to belong to the user, so nothing is
kept
"""
_MADE_FROM = sorted(Path(__file__).parent.glob("*.py"))
_SOURCES = hashlib.sha256(
    b"".join(each.read_bytes() for each in _MADE_FROM)
).hexdigest()[:16]
"""a hash of all files of this room: numba checks only the file of a function, whose
constants and helpers may be elsewhere
"""


def kernel_folder() -> Path:
    """Return `headgate-kernels` in $XDG_CACHE_HOME or ~/.cache; a relative path is
    ignored.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (
        Path(home if os.path.isabs(home) else os.path.expanduser("~/.cache"))
        / "headgate-kernels"
    )


def objection() -> str | None:
    """Return why compiled kernels are not kept on disk, or None if they are.

    numba runs whatever it finds there, so the folder must be this user's, and nobody
    else may write to it.
    """
    folder = kernel_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = folder.lstat()
    except OSError as error:
        return (
            f"compiled kernels are not kept: {folder} cannot be made ({error.strerror})"
        )
    alone = (
        stat.S_ISDIR(seen.st_mode)
        and seen.st_uid == _user()
        and not seen.st_mode & 0o077
    )
    return (
        None
        if alone
        else f"compiled kernels are not kept: {folder} is not this user's alone"
    )


def is_empty() -> bool:
    """Return whether nothing is kept yet, so that the first round has to wait for the
    compiler.
    """
    return objection() is not None or not any(kernel_folder().rglob("*.nbc"))


def compiled(
    function: Callable[..., Any], origin: object = None, **options: Any
) -> Callable[..., Any]:
    """Compile a function that runs without Python's lock, and cache the result on disk.

    `origin` is what a closure was made from. The linker knows a function by its name,
    and numba makes names unique by a number that each process counts from 1, so a
    process could confuse two closures of one name that two other processes compiled.
    Here the name of the function depends on `origin`, and the folder on the sources.
    """
    if origin is not None:
        function.__qualname__ += (
            f"_{hashlib.sha256(repr(origin).encode()).hexdigest()[:16]}"
        )
    settings: Any = config
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(kernel_folder() / _SOURCES)
    try:
        made: Callable[..., Any] = njit(
            cache=objection() is None, nogil=True, error_model="numpy", **options
        )(function)
        return made
    finally:
        settings.CACHE_DIR = before


class Kernel:
    """A function kernel(floats, marks, ints, args, n) for n samples, which only
    compiled code can call.
    """

    def __init__(self, function: Callable[..., Any], origin: object = None) -> None:
        self.function = compiled(function, origin, no_cpython_wrapper=True)

    def address(self, dtype: Any) -> int:
        """Return the address of its version for floats of this type, compiled now or
        read from disk.
        """
        kinds, made = _kinds(from_dtype(dtype)), self.function
        made.compile(kinds)  # type: ignore[attr-defined]
        result = made.overloads[kinds]  # type: ignore[attr-defined]
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def _kinds(number: Any) -> tuple[Any, ...]:
    """Return the types of a kernel's arguments."""
    return (
        number[::1],
        types.uint16[::1],
        types.int64[::1],
        types.int64[::1],
        types.int64,
    )


def _call(
    _: Any, address: Any, floats: Any, marks: Any, ints: Any, args: Any, n: Any
) -> Any:
    """Call a kernel. No kernel raises an exception, so no status is checked."""
    kinds = _kinds(floats.dtype)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = context.call_conv.get_function_type(types.none, kinds)
        callee = builder.inttoptr(values[0], kind.as_pointer())
        context.call_conv.call_function(builder, callee, types.none, kinds, values[1:])
        return context.get_dummy_value()

    return types.void(types.int64, *kinds), generate


call: Callable[..., Any] = intrinsic(_call)
