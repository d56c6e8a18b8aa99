"""How kernels are compiled, cached and called from compiled code. Importing this module
needs numba.

All kernels take the same arguments: the room of a thread, and numbers that say where
their arrays begin in it. So one compiled loop can call any of them by its address,
without Python between two kernels, and a kernel needs no Python wrapper.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

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
_SOURCES = b"".join(each.read_bytes() for each in _MADE_FROM)
"""all files of this room: numba checks only the file of a function, whose constants and
helpers may be elsewhere
"""


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def kernel_folder() -> Path:
    """Return `headgate-kernels` in $XDG_CACHE_HOME or ~/.cache; a relative path is
    ignored.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not home.is_absolute():
        home = Path(os.path.expanduser("~/.cache"))
    return home / "headgate-kernels"


def objection() -> str | None:
    """Return why compiled kernels are not kept on disk, or None if they are.

    numba runs whatever it finds there, so the folder must be this user's, and nobody
    else may write to it.
    """
    folder = kernel_folder()
    refusal = f"compiled kernels are not kept: {folder}"
    try:
        folder.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        seen = folder.lstat()
    except OSError as error:
        return f"{refusal} cannot be made ({error.strerror})"
    own = stat.S_ISDIR(seen.st_mode) and seen.st_uid == _user()
    if not own or seen.st_mode & 0o077:
        return f"{refusal} is not this user's alone"
    return None


def is_empty() -> bool:
    """Return whether nothing is kept yet, so that the first round has to wait for the
    compiler.
    """
    return objection() is not None or not any(kernel_folder().rglob("*.nbc"))


def compiled(
    function: Callable[..., Any],
    origin: object = None,
    **options: Any,
) -> Callable[..., Any]:
    """Compile a function that runs without Python's lock, and cache the result on disk.

    `origin` is what a closure was made from. The linker knows a function by its name,
    and numba makes names unique by a number that each process counts from 1, so a
    process could confuse two closures of one name that two other processes compiled.
    Here the name of the function depends on `origin`, and the folder on the sources.
    """
    if origin is not None:
        function.__qualname__ += f"_{_digest(repr(origin).encode())}"
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(kernel_folder() / _digest(_SOURCES))
    options |= {"cache": objection() is None, "nogil": True, "error_model": "numpy"}
    try:
        made: Callable[..., Any] = njit(**options)(function)
        return made
    finally:
        settings.CACHE_DIR = before


class Kernel:
    """A function kernel(floats, marks, ints, args, n) for n samples, which only
    compiled code can call.
    """

    def __init__(self, function: Callable[..., Any], origin: object = None) -> None:
        self.function: Any = compiled(function, origin, no_cpython_wrapper=True)

    def address(self, dtype: Any) -> int:
        """Return the address of its version for floats of this type, compiled now or
        read from disk.
        """
        kinds = _kinds(from_dtype(dtype))
        self.function.compile(kinds)
        result = self.function.overloads[kinds]
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def _kinds(number):
    """Return the types of a kernel's arguments."""
    ints = types.int64[::1]
    return number[::1], types.uint16[::1], ints, ints, types.int64


def _call(
    _,
    address,
    floats,
    marks,
    ints,
    args,
    n,
):
    """Call a kernel. No kernel raises an exception, so no status is checked."""
    kinds = _kinds(floats.dtype)

    def generate(
        context,
        builder,
        _,
        values,
    ):
        kind = context.call_conv.get_function_type(types.none, kinds)
        callee = builder.inttoptr(values[0], kind.as_pointer())
        context.call_conv.call_function(builder, callee, types.none, kinds, values[1:])
        return context.get_dummy_value()

    return types.void(types.int64, *kinds), generate


def _views(
    _,
    array,
    starts,
    first,
    count,
):
    """Return `count` parts of an array, each to its end: the first begins at
    starts[first], the next at starts[first + 1].
    """
    kind = types.UniTuple(array, count.literal_value)
    asked = array(array, starts, types.int64)

    def generate(
        context,
        builder,
        _,
        values,
    ):
        def part(i):
            number = context.get_constant(types.int64, first.literal_value + i)
            given = [*values[:2], number]
            return context.compile_internal(builder, _part, asked, given)

        parts = [part(i) for i in range(kind.count)]
        return context.make_tuple(builder, kind, parts)

    return kind(array, starts, first, count), generate


def _part(
    array,
    starts,
    number,
):
    return array[starts[number] :]


call: Callable[..., Any] = intrinsic(_call)
views: Callable[..., Any] = intrinsic(prefer_literal=True)(_views)
