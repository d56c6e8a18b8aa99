"""How kernels are compiled, and how compiled code calls them one after the other. Importing this needs numba.

Between two kernels Python would take its lock, and read a dozen arguments off their objects. Here all kernels take the same:
the room of a thread, and numbers that say where in it their arrays begin. So one compiled loop can call any of them by its
address, and a kernel needs no form that Python can call.
"""
# mypy: allow-untyped-calls

from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import from_dtype, njit, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from headgate.simulation.executors import compiled_room, compiled_shapes, vectors
from headgate.simulation.executors.compiled_shapes import LANES, LONG, REGISTERS
from headgate.simulation.executors.kernel_cache import keep

_MADE_FROM = __file__, compiled_room.__file__, compiled_shapes.__file__, vectors.__file__
_SOURCES = b"".join(Path(str(each)).read_bytes() for each in _MADE_FROM)
_SOURCES += f"{LANES} {LONG} {REGISTERS}".encode()


def compiled(file: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles for Python, which lets go of its lock meanwhile; kept on disk. `file` is where the function stands."""
    sources = _SOURCES + Path(file).read_bytes()

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return keep(njit(nogil=True, error_model="numpy", **options)(function), sources)

    return decorate


class Kernel:
    """A function kernel(floats, marks, ints, args, n) for n samples, which only compiled code can call."""

    def __init__(self, file: str, function: Callable[..., Any]) -> None:
        self.function = compiled(file, no_cpython_wrapper=True)(function)

    def address(self, dtype: Any) -> int:
        """Of its version for floats of this type, compiled or found on disk."""
        kinds, made = _kinds(from_dtype(dtype)), self.function
        made.compile(kinds)  # type: ignore[attr-defined]
        result = made.overloads[kinds]  # type: ignore[attr-defined]
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def _kinds(number: Any) -> tuple[Any, ...]:
    """What a kernel takes."""
    return number[::1], types.uint16[::1], types.int64[::1], types.int64[::1], types.int64


def _known(typed: Callable[..., Any]) -> Callable[..., Any]:
    """To numba, which writes its instructions down where it is called."""
    made: Callable[..., Any] = intrinsic(prefer_literal=True)(typed)
    return made


@_known
def call(_: Any, address: Any, floats: Any, marks: Any, ints: Any, args: Any, n: Any) -> Any:
    """Calls a kernel. None of them raises anything, so nobody asks."""
    kinds = _kinds(floats.dtype)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = context.call_conv.get_function_type(types.none, kinds)
        callee = builder.inttoptr(values[0], kind.as_pointer())
        context.call_conv.call_function(builder, callee, types.none, kinds, values[1:])
        return context.get_dummy_value()

    return types.void(types.int64, *kinds), generate


@_known
def parts(_: Any, count: Any, array: Any, args: Any, first: Any) -> Any:
    """The arrays that begin in `array` where the `count` numbers args[first], args[first + 1], … say. They know no ends."""
    if not isinstance(count, types.IntegerLiteral) or not isinstance(first, types.IntegerLiteral):
        return None
    number, skipped = count.literal_value, first.literal_value

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = context.make_array(array)(context, builder, values[1])
        starts = context.make_array(args)(context, builder, values[2])
        made = []
        for i in range(number):
            start = builder.load(builder.gep(starts.data, [ir.IntType(64)(skipped + i)]))
            part = context.make_array(array)(context, builder)
            populate_array(part, builder.gep(whole.data, [start]), whole.shape, whole.strides, whole.itemsize, meminfo=None)
            made.append(part._getvalue())
        return context.make_tuple(builder, signature.return_type, made)

    return types.UniTuple(array, number)(count, array, args, first), generate


@_known
def numbers(_: Any, count: Any, args: Any, first: Any) -> Any:
    """args[first], args[first + 1], … as `count` whole numbers."""
    if not isinstance(count, types.IntegerLiteral) or not isinstance(first, types.IntegerLiteral):
        return None
    number, skipped = count.literal_value, first.literal_value

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(args)(context, builder, values[1]).data
        made = [builder.load(builder.gep(data, [ir.IntType(64)(skipped + i)])) for i in range(number)]
        return context.make_tuple(builder, signature.return_type, made)

    return types.UniTuple(args.dtype, number)(count, args, first), generate
