"""Inner loops on vectors that stay in registers, for use inside numba functions.
Importing this module needs numba.

numba compiles plain loops over short rows to code that stores and reloads values that
could stay in registers. The functions here emit LLVM instructions instead: a block of
sums is initialised, updated in a loop and stored once. Sums are `fma`s in a fixed
order, so the results of a sample do not depend on other samples. A function belongs
here only if a round, evaluation included, takes at least a tenth longer without it.

Arrays are flat; `x_at` is a place in an array, `x_step` the distance between two rows
of the block. Names in capitals are compile-time constants. Whole vectors are read and
written, so arrays need spare numbers at their end.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from headgate.kernels.compiled_shapes import LANES, LONG

SUMS = 24
"""Registers for sums if each product reads a vector from memory."""
_INDEX, _SMALL = ir.IntType(64), ir.IntType(32)
Value = Any
"""An LLVM value."""


class _Code:
    """Emits LLVM instructions for vectors of one type."""

    def __init__(
        self, context: Any, builder: Any, dtype: Any, lanes: int = LANES
    ) -> None:
        self.context, self.builder, self.dtype, self.lanes = (
            context,
            builder,
            dtype,
            lanes,
        )
        self.vector = ir.VectorType(context.get_value_type(dtype), lanes)
        self.aligned, self.suffix = dtype.bitwidth // 8, f"v{lanes}f{dtype.bitwidth}"
        self.zero = ir.Constant(self.vector, [0.0] * lanes)
        self.nothing = ir.Constant(self.vector, ir.Undefined)
        self.lost = ir.Constant(self.vector, [float("nan")] * lanes)

    def of(self, lanes: int) -> "_Code":
        """Return the same for vectors of `lanes` numbers."""
        return _Code(self.context, self.builder, self.dtype, lanes)

    def pieces(self, count: int) -> list[tuple[int, int]]:
        """Divide `count` vectors into the longest possible ones; return (first number,
        numbers) of each.
        """
        long = LONG if self.aligned == 4 else LANES
        whole = count * LANES // long * long
        return [
            *((at, long) for at in range(0, whole, long)),
            *((at, LANES) for at in range(whole, count * LANES, LANES)),
        ]

    def at(self, pointer: Value, *steps: Value | int) -> Value:
        for step in steps:
            pointer = self.builder.gep(
                pointer, [_INDEX(step) if isinstance(step, int) else step]
            )
        return pointer

    def rows(self, pointer: Value, step: Value, count: int) -> list[Value]:
        return [
            self.at(pointer, self.builder.mul(step, _INDEX(row)))
            for row in range(count)
        ]

    def load(self, pointer: Value) -> Value:
        return self.builder.load(
            self.builder.bitcast(pointer, self.vector.as_pointer()), align=self.aligned
        )

    def store(self, value: Value, pointer: Value, aligned: int | None = None) -> None:
        self.builder.store(
            value,
            self.builder.bitcast(pointer, value.type.as_pointer()),
            align=aligned or self.aligned,
        )

    def shuffled(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        return self.builder.shuffle_vector(
            a, b, ir.Constant(ir.VectorType(_SMALL, len(lanes)), list(lanes))
        )

    def everywhere(self, vector: Value, lane: int) -> Value:
        """Return one number of a vector in all lanes; the processor does this as part
        of the multiplication.
        """
        return self.shuffled(
            vector, ir.Constant(vector.type, ir.Undefined), [lane] * self.lanes
        )

    def number(self, pointer: Value) -> Value:
        """Return a number from memory in all lanes."""
        return self.everywhere(
            self.builder.insert_element(
                self.nothing, self.builder.load(pointer), _SMALL(0)
            ),
            0,
        )

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return a·b + c."""
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        known = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.fma.{self.suffix}"
        )
        return self.builder.call(known, (a, b, c))

    def loop(
        self,
        count: Value,
        carried: list[Value],
        body: Callable[[Value, list[Value]], list[Value]],
    ) -> list[Value]:
        """Return what is carried after `count` iterations of body(i, carried) ->
        carried.
        """
        builder, before = self.builder, self.builder.block
        head, inside, after = (
            builder.append_basic_block(name) for name in ("head", "inside", "after")
        )
        builder.branch(head)
        builder.position_at_end(head)
        i = builder.phi(_INDEX)
        i.add_incoming(_INDEX(0), before)
        now = [builder.phi(value.type) for value in carried]
        for phi, value in zip(now, carried, strict=True):
            phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", i, count), inside, after)
        builder.position_at_end(inside)
        then, following = body(i, now), builder.add(i, _INDEX(1))
        i.add_incoming(following, builder.block)
        for phi, value in zip(now, then, strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return now


def _inlined(constants: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that emits instructions with numba, which calls it without
    `code`.

    Its first `constants` arguments are compile-time constants; arrays are passed as
    pointers.
    """

    def decorate(write: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(write)
        def typed(_: Any, *kinds: Any) -> Any:
            if not all(
                isinstance(kind, types.IntegerLiteral) for kind in kinds[:constants]
            ):
                return None
            known = [kind.literal_value for kind in kinds[:constants]]
            others = [
                kind if isinstance(kind, types.Array) else types.int64
                for kind in kinds[constants:]
            ]
            dtype = next(kind.dtype for kind in others if isinstance(kind, types.Array))

            def generate(
                context: Any, builder: Any, signature: Any, values: Any
            ) -> Any:
                given = [
                    (
                        context.make_array(kind)(context, builder, value).data
                        if isinstance(kind, types.Array)
                        else value
                    )
                    for kind, value in zip(others, values[constants:], strict=True)
                ]
                write(_Code(context, builder, dtype), *known, *given)
                return context.get_dummy_value()

            return types.void(*kinds[:constants], *others), generate

        made: Callable[..., Any] = intrinsic(prefer_literal=True)(typed)
        return made

    return decorate


@_inlined(4)
def multiply(
    code,
    W,
    P,
    V,
    TAIL,
    runs,
    whole,
    a,
    a_at,
    a_step,
    a_run,
    b,
    b_at,
    b_step,
    out,
    out_at,
    out_step,
):
    """out[p, :] = Σ_t a[p, t]·b[t, :] for P rows of V vectors, each of W numbers.

    The terms t come in `runs` of `whole` times LANES and TAIL numbers of a, the runs
    `a_run` apart.
    """
    narrow, code = code, code.of(W)
    block = [(p, v) for p in range(P) for v in range(V)]

    def terms(a, b, sums, lanes):
        left = [narrow.load(row) for row in code.rows(a, a_step, P)]
        for lane in range(lanes):
            right = [code.load(code.at(b, W * v)) for v in range(V)]
            sums = [
                code.fma(code.everywhere(left[p], lane), right[v], total)
                for (p, v), total in zip(block, sums, strict=True)
            ]
            b = code.at(b, b_step)
        return [b, *sums]

    def run(i, carried):
        first = code.at(a, a_at, code.builder.mul(i, a_run))

        def vector(j, carried):
            b, *sums = carried
            return terms(
                code.at(first, code.builder.mul(j, _INDEX(LANES))), b, sums, LANES
            )

        b, *sums = code.loop(whole, carried, vector)
        return (
            terms(code.at(first, code.builder.mul(whole, _INDEX(LANES))), b, sums, TAIL)
            if TAIL
            else [b, *sums]
        )

    _, *sums = code.loop(runs, [code.at(b, b_at), *[code.zero] * len(block)], run)
    rows = code.rows(code.at(out, out_at), out_step, P)
    for (p, v), total in zip(block, sums, strict=True):
        code.store(total, code.at(rows[p], W * v))


@_inlined(2)
def add_scaled(
    code, ROWS, V, values, places, count, source, step, out, out_at, out_step
):
    """out[r, :] += Σ_i values[i]·source[places[i] + r·step + :] for ROWS rows of V
    vectors and i < count.
    """
    block = [
        (row, at, code.of(lanes)) for row in range(ROWS) for at, lanes in code.pieces(V)
    ]
    passes = -(-len(block) // SUMS)
    rows = code.rows(code.at(out, out_at), out_step, ROWS)
    for i in range(passes):
        part = block[i * len(block) // passes : (i + 1) * len(block) // passes]

        def term(i, sums, part=part):
            seen = code.rows(
                code.at(source, code.builder.load(code.at(places, i))), step, ROWS
            )
            return [
                own.fma(
                    own.number(code.at(values, i)),
                    own.load(code.at(seen[row], at)),
                    total,
                )
                for (row, at, own), total in zip(part, sums, strict=True)
            ]

        for (row, at, own), total in zip(
            part, code.loop(count, [own.zero for *_, own in part], term), strict=True
        ):
            to = code.at(rows[row], at)
            own.store(code.builder.fadd(own.load(to), total), to)


@_inlined(2)
def dots(
    code,
    W,
    P,
    length,
    x,
    x_at,
    x_step,
    w,
    w_at,
    w_step,
    bias,
    bias_at,
    out,
    out_at,
    out_step,
):
    """out[p, q] = x[p, :]·w[q, :] + bias[q] for P rows x, LANES rows w, and `length`
    vectors of W numbers.
    """
    narrow, code = code, code.of(W)
    left, right = (
        code.rows(code.at(x, x_at), x_step, P),
        code.rows(code.at(w, w_at), w_step, LANES),
    )

    def term(i, sums):
        along = code.builder.mul(i, _INDEX(W))
        ours, theirs = (
            [code.load(code.at(row, along)) for row in rows] for rows in (left, right)
        )
        pairs = [(one, other) for one in ours for other in theirs]
        return [
            code.fma(one, other, total)
            for (one, other), total in zip(pairs, sums, strict=True)
        ]

    sums = code.loop(length, [code.zero] * (P * LANES), term)
    added = narrow.load(code.at(bias, bias_at))
    for p, row in enumerate(code.rows(code.at(out, out_at), out_step, P)):
        parts = sums[p * LANES : (p + 1) * LANES]
        half = W // 2
        while half >= LANES:
            parts = [
                code.builder.fadd(
                    *(code.shuffled(a, a, range(at, at + half)) for at in (0, half))
                )
                for a in parts
            ]
            half //= 2
        while (
            len(parts) > 1
        ):  # adds neighbours until one vector holds the sum of each row
            pairs = zip(parts[::2], parts[1::2], strict=True)
            evens, odds = range(0, 2 * LANES, 2), range(1, 2 * LANES, 2)
            parts = [
                code.builder.fadd(code.shuffled(a, b, evens), code.shuffled(a, b, odds))
                for a, b in pairs
            ]
        code.store(code.builder.fadd(parts[0], added), row)


@_inlined(2)
def outer(code, W, V, count, a, a_at, a_step, b, b_at, b_step, out, out_at, out_step):
    """out[p, :] = Σ_i a[i, p]·b[i, :] for LANES rows p, V vectors of W numbers, and i <
    count.
    """
    narrow, code = code, code.of(W)

    def term(i, sums):
        left = narrow.load(code.at(a, a_at, code.builder.mul(i, a_step)))
        row = code.at(b, b_at, code.builder.mul(i, b_step))
        right = [code.load(code.at(row, W * v)) for v in range(V)]
        pairs = [
            (code.everywhere(left, lane), each)
            for lane in range(LANES)
            for each in right
        ]
        return [
            code.fma(one, other, total)
            for (one, other), total in zip(pairs, sums, strict=True)
        ]

    sums = code.loop(count, [code.zero] * (LANES * V), term)
    for lane, row in enumerate(code.rows(code.at(out, out_at), out_step, LANES)):
        for v in range(V):
            code.store(sums[lane * V + v], code.at(row, W * v))


@_inlined(2)
def largest(code, K, V, x, x_at, x_row, x_pixel, bias, out, out_at, chosen, chosen_at):
    """Compute the largest of K x K pixels of V vectors, plus the bias, and its number:
    the first of equals; nan if any is nan.

    `chosen` holds uint16.
    """
    builder, whole = code.builder, ir.VectorType(_SMALL, LANES)
    pixels = [
        pixel
        for row in code.rows(code.at(x, x_at), x_row, K)
        for pixel in code.rows(row, x_pixel, K)
    ]
    for v in range(V):
        seen = [code.load(code.at(pixel, LANES * v)) for pixel in pixels]
        best, which = seen[0], ir.Constant(whole, [0] * LANES)
        for number, here in enumerate(seen[1:], start=1):
            more = builder.fcmp_ordered(">", here, best)
            which = builder.select(more, ir.Constant(whole, [number] * LANES), which)
            best = builder.select(more, here, best)
        for one, other in zip(
            seen[::2], seen[1::2] + seen[-1:] * (len(seen) % 2), strict=True
        ):
            best = builder.select(
                builder.fcmp_unordered("uno", one, other), code.lost, best
            )
        best = builder.fadd(best, code.load(code.at(bias, LANES * v)))
        code.store(best, code.at(out, out_at, LANES * v))
        short = builder.trunc(which, ir.VectorType(ir.IntType(16), LANES))
        code.store(short, code.at(chosen, chosen_at, LANES * v), aligned=2)
