"""cifar-10-batches-py: pickles, replayed without anything that could run code."""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headgate.errors import DataError
from headgate.learning.formats.checks import reason
from headgate.learning.formats.types import Pixels


def read_batch(path: Path) -> dict[str, Any]:
    """A CIFAR-10 python batch as a dict: lists and texts as they are, arrays as uint8.

    These files are pickles, which may run any code when unpickled. This reader only replays the
    opcodes for dicts, lists, numbers, strings and uint8 arrays and refuses every other one.
    """
    try:
        batch = _Replay().run(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason(error)})") from None
    except (_RefusedError, ValueError, LookupError, TypeError, struct.error) as error:
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
# Opcode: its name and what follows it: a number in struct's notation, a counted string ("text", "bytes" after
# the notation of its length), or two lines which name a global. Everything not listed is refused unparsed.
_OPCODES = {
    0x80: ("PROTO", "<B"), 0x95: ("FRAME", "<Q"), ord("."): ("STOP", ""),
    ord("J"): ("NUMBER", "<i"), ord("K"): ("NUMBER", "<B"), ord("M"): ("NUMBER", "<H"),
    ord("U"): ("STRING", "<B bytes"), ord("T"): ("STRING", "<I bytes"),  # what Python 2 calls a string
    ord("C"): ("STRING", "<B bytes"), ord("B"): ("STRING", "<I bytes"),
    0x8C: ("STRING", "<B text"), ord("X"): ("STRING", "<I text"),
    ord("N"): ("NONE", ""), 0x88: ("TRUE", ""), 0x89: ("FALSE", ""),
    ord(")"): ("TUPLE0", ""), 0x85: ("TUPLE1", ""), 0x86: ("TUPLE2", ""), 0x87: ("TUPLE3", ""), ord("t"): ("TUPLE", ""),
    ord("]"): ("LIST", ""), ord("a"): ("APPEND", ""), ord("e"): ("APPENDS", ""),
    ord("}"): ("DICT", ""), ord("s"): ("SETITEM", ""), ord("u"): ("SETITEMS", ""), ord("("): ("MARK", ""),
    ord("q"): ("PUT", "<B"), ord("r"): ("PUT", "<I"), 0x94: ("MEMOIZE", ""), ord("h"): ("GET", "<B"), ord("j"): ("GET", "<I"),
    ord("c"): ("GLOBAL", "lines"), 0x93: ("STACK_GLOBAL", ""), ord("R"): ("REDUCE", ""), ord("b"): ("BUILD", ""),
}  # fmt: skip
_CONSTANTS = {"NONE": None, "TRUE": True, "FALSE": False}
_TUPLES = {"TUPLE0": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


def _opcodes(data: bytes) -> Iterator[tuple[str, Any]]:
    """The opcodes of a pickle with their arguments."""
    at = 0
    while at < len(data):
        if data[at] not in _OPCODES:
            raise _RefusedError(f"the opcode {data[at]:#04x} has no place in it")
        name, form = _OPCODES[data[at]]
        argument, at = _argument(data, at + 1, form)
        yield name, argument


def _argument(data: bytes, at: int, form: str) -> tuple[Any, int]:
    """What follows an opcode, and where the next one starts."""
    if not form:
        return None, at
    if form == "lines":
        middle = data.index(b"\n", at)
        end = data.index(b"\n", middle + 1)
        return f"{data[at:middle].decode('ascii')} {data[middle + 1 : end].decode('ascii')}", end + 1
    number, _, string = form.partition(" ")
    (value,) = struct.unpack_from(number, data, at)
    at += struct.calcsize(number)
    if not string:
        return value, at
    content = data[at : at + value]
    if len(content) != value:
        raise _RefusedError("it ends within a string")
    return content.decode("utf-8", "surrogatepass") if string == "text" else content, at + value


class _Replay:
    """A stack machine for the few opcodes a CIFAR batch is made of. It calls nothing and imports nothing."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for name, argument in _opcodes(data):
            if name == "STOP":
                return self.stack.pop()
            self.step(name, argument)
        raise _RefusedError("it ends too early")

    def step(self, name: str, argument: Any) -> None:
        push = self.stack.append
        if name in ("NUMBER", "STRING"):
            push(argument)
        elif name in _CONSTANTS:
            push(_CONSTANTS[name])
        elif name in ("PUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self.stack[-1]
        elif name == "GET":
            push(self.memo[argument])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            push(_Global(argument if name == "GLOBAL" else " ".join(self.take(2))))
        elif name == "REDUCE":
            push(_made(*self.take(2)))
        elif name == "BUILD":
            _fill(self.stack[-2], self.stack.pop())
        elif name not in ("PROTO", "FRAME"):
            self.gather(name)

    def gather(self, name: str) -> None:
        """Opcodes which make or grow a list, a dict or a tuple."""
        if name in ("LIST", "DICT"):
            self.stack.append([] if name == "LIST" else {})
        elif name == "MARK":
            self.stack.append(_MARK)
        elif name in _TUPLES or name == "TUPLE":
            self.stack.append(tuple(self.take(_TUPLES[name]) if name in _TUPLES else self.take_to_mark()))
        elif name in ("APPEND", "APPENDS"):
            items = self.take(1) if name == "APPEND" else self.take_to_mark()
            _grown(self.stack[-1], list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self.take(2) if name == "SETITEM" else self.take_to_mark()
            pairs = zip(items[::2], items[1::2], strict=True)
            _grown(self.stack[-1], dict).update((to_text(key), value) for key, value in pairs)

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
    whole = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not (whole and isinstance(dtype, _Dtype) and isinstance(data, bytes) and len(data) == math.prod(shape)):
        raise _RefusedError("its array is not uint8 or of another length than it says")
    target.pixels = np.frombuffer(data, np.uint8).reshape(shape, order="F" if columns_first else "C")
