"""cifar-10-batches-py: pickles, replayed without anything that could run code."""

import math
import pickletools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headgate.errors import DataError
from headgate.learning.formats.checks import reason
from headgate.learning.formats.types import Pixels
from headgate.parquet_pages import check_growth


def read_batch(path: Path) -> dict[str, Any]:
    """A CIFAR-10 python batch as a dict: lists and texts as they are, arrays as uint8.

    These files are pickles, which may run any code when unpickled. This reader only replays the
    opcodes for dicts, lists, numbers, strings and uint8 arrays and refuses every other one.
    """
    try:
        check_growth(path, 2 * path.stat().st_size, path.stat().st_size)
        batch = _Replay().run(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason(error)})") from None
    except (_RefusedError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path}: not a CIFAR-10 batch, or a damaged one ({reason(error)})") from None
    if not isinstance(batch, dict):
        raise DataError(f"{path}: not a CIFAR-10 batch (no dict)")
    return {key: value.pixels if isinstance(value, _Array) else value for key, value in batch.items()}


class _RefusedError(Exception):
    """A pickle asks for something a CIFAR batch has no need of."""


@dataclass(frozen=True)
class _Global:
    """A name a pickle mentions. It is never looked up."""

    name: str


class _Dtype:
    """The uint8 dtype, the only one there is here."""


@dataclass(eq=False)
class _Array:
    """An array between its opcode REDUCE and the BUILD which brings its bytes."""

    pixels: Pixels | None = None


_RECONSTRUCT = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()
_MOST_STEPS = 500_000
"""a batch of CIFAR-10 takes 30,000 to 120,000, by the protocol of its pickle"""


class _Replay:
    """A stack machine for the few opcodes a CIFAR batch is made of. It calls nothing and imports nothing."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.bytes_left = 0

    def run(self, data: bytes) -> Any:
        self.bytes_left = len(data)  # of texts that are encoded, each of which is in the file
        for done, (opcode, argument, _) in enumerate(pickletools.genops(data)):  # parses, and does nothing of what it reads
            if opcode.name == "STOP":
                return self.stack.pop()
            if done == _MOST_STEPS:
                raise _RefusedError(f"it takes more than {_MOST_STEPS:,} steps")
            self.step(opcode.name, argument)
        raise _RefusedError("it ends too early")

    def step(self, name: str, argument: Any) -> None:
        push = self.stack.append
        match name:
            case "PROTO" | "FRAME":
                pass
            case "BININT" | "BININT1" | "BININT2" | "SHORT_BINBYTES" | "BINBYTES" | "SHORT_BINUNICODE" | "BINUNICODE":
                push(argument)
            case "SHORT_BINSTRING" | "BINSTRING":  # what Python 2 calls a string
                push(argument.encode("latin-1"))
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                push(_CONSTANTS[name])
            case "MARK":
                push(_MARK)
            case "EMPTY_LIST":
                push([])
            case "EMPTY_DICT":
                push({})
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                push(tuple(self.take(_TUPLES[name])))
            case "TUPLE":
                push(tuple(self.take_to_mark()))
            case "APPEND" | "APPENDS":
                items = self.take(1) if name == "APPEND" else self.take_to_mark()
                _grown(self.stack[-1], list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self.take(2) if name == "SETITEM" else self.take_to_mark()
                pairs = zip(items[::2], items[1::2], strict=True)
                _grown(self.stack[-1], dict).update((to_text(key), value) for key, value in pairs)
            case "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self.stack[-1]
            case "BINGET" | "LONG_BINGET":
                push(self.memo[argument])
            case "GLOBAL" | "STACK_GLOBAL":
                push(_Global(argument if name == "GLOBAL" else " ".join(self.take(2))))
            case "REDUCE":
                push(made := _made(*self.take(2)))
                if isinstance(made, bytes):
                    self.bytes_left -= len(made)
                    if self.bytes_left < 0:
                        raise _RefusedError("it holds less than it makes")
            case "BUILD":
                _fill(self.stack[-2], self.stack.pop())
            case _:
                raise _RefusedError(f"the opcode {name} has no place in it")

    def take(self, many: int) -> list[Any]:
        if len(self.stack) < many:
            raise _RefusedError("its stack runs empty")
        taken = self.stack[len(self.stack) - many :]
        del self.stack[len(self.stack) - many :]
        return taken

    def take_to_mark(self) -> list[Any]:
        for depth, item in enumerate(reversed(self.stack)):
            if item is _MARK:
                taken = self.take(depth)
                self.stack.pop()
                return taken
        raise _RefusedError("a mark is missing")


def _grown(target: Any, kind: type) -> Any:
    if type(target) is not kind:
        raise _RefusedError(f"items for a {kind.__name__} go to something else")
    return target


def to_text(key: Any) -> str:
    """A string of a pickle as text: Python 2 wrote bytes."""
    if isinstance(key, bytes):
        return key.decode("latin-1")
    if isinstance(key, str):
        return key
    raise _RefusedError("a key is not a string")


def _made(name: Any, arguments: Any) -> Any:
    """What the calls in a CIFAR batch stand for; any other call is refused."""
    if not isinstance(name, _Global) or not isinstance(arguments, tuple):
        raise _RefusedError("it calls something without a name")
    # Python 3 writes bytes to old protocols as text which is to be encoded.
    if name.name == "_codecs encode" and len(arguments) == 2 and arguments[1] == "latin1" and isinstance(arguments[0], str):
        return arguments[0].encode("latin-1")
    if name.name in _RECONSTRUCT and arguments[:1] == (_Global("numpy ndarray"),):
        return _Array()
    if name.name == "numpy dtype" and arguments and to_text(arguments[0]) in ("u1", "|u1"):
        return _Dtype()
    raise _RefusedError(f"it calls {name.name.replace(' ', '.')}")


def _fill(target: Any, state: Any) -> None:
    if isinstance(target, _Dtype):
        return  # byte order and alignment, which one byte does not have
    if not isinstance(target, _Array) or not isinstance(state, tuple) or len(state) != 5:
        raise _RefusedError("it sets the state of something other than an array")
    _, shape, dtype, columns_first, data = state
    whole = isinstance(shape, tuple) and len(shape) <= 4 and all(type(n) is int and n >= 0 for n in shape)
    if not (whole and isinstance(dtype, _Dtype) and isinstance(data, bytes) and len(data) == math.prod(shape)):
        raise _RefusedError("its array is not uint8 or of another length than it says")
    target.pixels = np.frombuffer(data, np.uint8).reshape(shape, order="F" if columns_first else "C")
