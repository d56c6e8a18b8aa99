# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
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

from functools import wraps
from itertools import product

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from headgate_kernels.compiled_shapes import LANES, LONG

SUMS = 24
"""Registers for sums if each product reads a vector from memory."""
_INDEX = ir.IntType(64)
_SMALL = ir.IntType(32)


class _Code:
    """Emits LLVM instructions for vectors of one type."""

    def __init__(
        self,
        context,
        builder,
        dtype,
        lanes=LANES,
    ):
        self.context = context
        self.builder = builder
        self.dtype = dtype
        self.lanes = lanes
        self.aligned = dtype.bitwidth // 8
        self.vector = ir.VectorType(context.get_value_type(dtype), lanes)
        self.zero = self.constant(0.0)

    def of(self, lanes):
        """Return the same for vectors of `lanes` numbers."""
        return _Code(self.context, self.builder, self.dtype, lanes)

    def constant(self, number):
        """Return a vector of one number."""
        return ir.Constant(self.vector, [number] * self.lanes)

    # places

    def times(self, index, step):
        """Return index·step, where step may be an int."""
        return self.builder.mul(index, _INDEX(step) if isinstance(step, int) else step)

    def at(self, pointer, *steps):
        """Return the pointer, moved by some numbers."""
        for step in steps:
            index = _INDEX(step) if isinstance(step, int) else step
            pointer = self.builder.gep(pointer, [index])
        return pointer

    def rows(
        self,
        pointer,
        step,
        count,
    ):
        """Return where `count` rows begin that are `step` apart."""
        return [self.at(pointer, self.times(step, row)) for row in range(count)]

    def pieces(self, count):
        """Divide `count` vectors into the longest possible ones; return (first number,
        numbers) of each.
        """
        long = LONG if self.aligned == 4 else LANES
        size = count * LANES
        whole = size // long * long
        pieces = [(at, long) for at in range(0, whole, long)]
        return pieces + [(at, LANES) for at in range(whole, size, LANES)]

    # vectors

    def load(self, pointer):
        """Return the vector that begins at a place."""
        place = self.builder.bitcast(pointer, self.vector.as_pointer())
        return self.builder.load(place, align=self.aligned)

    def load_all(self, pointer, count):
        """Return adjacent vectors."""
        return [self.load(self.at(pointer, self.lanes * v)) for v in range(count)]

    def store(
        self,
        value,
        pointer,
        aligned=None,
    ):
        """Write a vector to a place."""
        place = self.builder.bitcast(pointer, value.type.as_pointer())
        self.builder.store(value, place, align=aligned or self.aligned)

    def store_rows(
        self,
        vectors,
        pointer,
        step,
        count,
    ):
        """Write `count` rows of equally many adjacent vectors."""
        wide = len(vectors) // count
        for p, row in enumerate(self.rows(pointer, step, count)):
            for v in range(wide):
                self.store(vectors[p * wide + v], self.at(row, self.lanes * v))

    def shuffled(
        self,
        a,
        b,
        lanes,
    ):
        """Return some numbers of two vectors."""
        mask = ir.Constant(ir.VectorType(_SMALL, len(lanes)), list(lanes))
        return self.builder.shuffle_vector(a, b, mask)

    def everywhere(self, vector, lane):
        """Return one number of a vector in all lanes; the processor does this as part
        of the multiplication.
        """
        nothing = ir.Constant(vector.type, ir.Undefined)
        return self.shuffled(vector, nothing, [lane] * self.lanes)

    def number(self, pointer):
        """Return a number from memory in all lanes."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        value = self.builder.load(pointer)
        first = self.builder.insert_element(nothing, value, _SMALL(0))
        return self.everywhere(first, 0)

    # sums

    def fma(
        self,
        a,
        b,
        c,
    ):
        """Return a·b + c."""
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fma.v{self.lanes}f{self.dtype.bitwidth}"
        known = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(known, (a, b, c))

    def fmas(self, pairs, sums):
        """Return the sums, with the product of a pair added to each."""
        terms = zip(pairs, sums, strict=True)
        return [self.fma(one, other, total) for (one, other), total in terms]

    def row_sums(self, vectors):
        """Return a vector of the sums of the numbers of each of LANES vectors."""

        def added(
            a,
            b,
            some,
            others,
        ):
            one, other = self.shuffled(a, b, some), self.shuffled(a, b, others)
            return self.builder.fadd(one, other)

        half = self.lanes // 2
        while half >= LANES:
            low, high = range(half), range(half, 2 * half)
            vectors = [added(each, each, low, high) for each in vectors]
            half //= 2
        evens, odds = range(0, 2 * LANES, 2), range(1, 2 * LANES, 2)
        while len(vectors) > 1:
            neighbours = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [added(a, b, evens, odds) for a, b in neighbours]
        return vectors[0]

    def loop(
        self,
        count,
        carried,
        body,
    ):
        """Return what is carried after `count` iterations of body(i, carried) ->
        carried.
        """
        builder, before = self.builder, self.builder.block
        names = ("head", "inside", "after")
        head, inside, after = map(builder.append_basic_block, names)
        builder.branch(head)

        builder.position_at_end(head)
        begun = [_INDEX(0), *carried]
        phis = [builder.phi(value.type) for value in begun]
        i, *now = phis
        builder.cbranch(builder.icmp_signed("<", i, count), inside, after)

        builder.position_at_end(inside)
        then = body(i, now)
        then = [builder.add(i, _INDEX(1)), *then]
        for phi, first, following in zip(phis, begun, then, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(following, builder.block)
        builder.branch(head)

        builder.position_at_end(after)
        return now


def _inlined(constants):
    """Register a function that emits instructions with numba, which calls it without
    `code`.

    Its first `constants` arguments are compile-time constants; arrays are passed as
    pointers.
    """

    def decorate(write):
        @wraps(write)
        def typed(_, *kinds):
            literals = kinds[:constants]
            if not all(isinstance(kind, types.IntegerLiteral) for kind in literals):
                return None
            known = [kind.literal_value for kind in literals]
            others = [
                kind if isinstance(kind, types.Array) else types.int64
                for kind in kinds[constants:]
            ]
            dtype = next(kind.dtype for kind in others if isinstance(kind, types.Array))

            def generate(
                context,
                builder,
                _,
                values,
            ):
                given = list(values[constants:])
                for i, kind in enumerate(others):
                    if isinstance(kind, types.Array):
                        array = context.make_array(kind)(context, builder, given[i])
                        given[i] = array.data
                write(_Code(context, builder, dtype), *known, *given)
                return context.get_dummy_value()

            return types.void(*literals, *others), generate

        return intrinsic(prefer_literal=True)(typed)

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

    def terms(
        a,
        b,
        sums,
        lanes,
    ):
        left = [narrow.load(row) for row in code.rows(a, a_step, P)]
        for lane in range(lanes):
            numbers = [code.everywhere(each, lane) for each in left]
            sums = code.fmas(product(numbers, code.load_all(b, V)), sums)
            b = code.at(b, b_step)
        return [b, *sums]

    def run(i, carried):
        first = code.at(a, a_at, code.times(i, a_run))

        def vector(j, carried):
            b, *sums = carried
            return terms(code.at(first, code.times(j, LANES)), b, sums, LANES)

        b, *sums = code.loop(whole, carried, vector)
        last = code.at(first, code.times(whole, LANES))
        return terms(last, b, sums, TAIL) if TAIL else [b, *sums]

    _, *sums = code.loop(runs, [code.at(b, b_at), *[code.zero] * (P * V)], run)
    code.store_rows(sums, code.at(out, out_at), out_step, P)


@_inlined(2)
def add_scaled(
    code,
    ROWS,
    V,
    values,
    places,
    count,
    source,
    step,
    out,
    out_at,
    out_step,
):
    """out[r, :] += Σ_i values[i]·source[places[i] + r·step + :] for ROWS rows of
    V vectors and i < count.
    """
    builder = code.builder
    pieces = [(at, code.of(lanes)) for at, lanes in code.pieces(V)]
    block = [(row, at, own) for row in range(ROWS) for at, own in pieces]
    passes = -(-len(block) // SUMS)
    rows = code.rows(code.at(out, out_at), out_step, ROWS)
    for i in range(passes):
        part = block[i * len(block) // passes : (i + 1) * len(block) // passes]

        def term(
            i,
            sums,
            part=part,
        ):
            place = builder.load(code.at(places, i))
            seen = code.rows(code.at(source, place), step, ROWS)
            value = code.at(values, i)
            return [
                own.fma(own.number(value), own.load(code.at(seen[row], at)), total)
                for (row, at, own), total in zip(part, sums, strict=True)
            ]

        sums = code.loop(count, [own.zero for *_, own in part], term)
        for (row, at, own), total in zip(part, sums, strict=True):
            to = code.at(rows[row], at)
            own.store(builder.fadd(own.load(to), total), to)


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
    left = code.rows(code.at(x, x_at), x_step, P)
    right = code.rows(code.at(w, w_at), w_step, LANES)

    def term(i, sums):
        along = code.times(i, W)
        ours = [code.load(code.at(row, along)) for row in left]
        theirs = [code.load(code.at(row, along)) for row in right]
        return code.fmas(product(ours, theirs), sums)

    sums = code.loop(length, [code.zero] * (P * LANES), term)
    added = narrow.load(code.at(bias, bias_at))
    for p, row in enumerate(code.rows(code.at(out, out_at), out_step, P)):
        products = code.row_sums(sums[p * LANES : (p + 1) * LANES])
        code.store(code.builder.fadd(products, added), row)


@_inlined(2)
def outer(
    code,
    W,
    V,
    count,
    a,
    a_at,
    a_step,
    b,
    b_at,
    b_step,
    out,
    out_at,
    out_step,
):
    """out[p, :] = Σ_i a[i, p]·b[i, :] for LANES rows p, V vectors of W numbers, and i <
    count.
    """
    narrow, code = code, code.of(W)

    def term(i, sums):
        left = narrow.load(code.at(a, a_at, code.times(i, a_step)))
        right = code.load_all(code.at(b, b_at, code.times(i, b_step)), V)
        numbers = [code.everywhere(left, lane) for lane in range(LANES)]
        return code.fmas(product(numbers, right), sums)

    sums = code.loop(count, [code.zero] * (LANES * V), term)
    code.store_rows(sums, code.at(out, out_at), out_step, LANES)


@_inlined(2)
def largest(
    code,
    K,
    V,
    x,
    x_at,
    x_row,
    x_pixel,
    bias,
    bias_at,
    out,
    out_at,
    chosen,
    chosen_at,
):
    """Compute the largest of K x K pixels of V vectors, plus the bias, and its number:
    the first of equals; nan if any is nan.

    K is 1 or 2, and `chosen` holds uint16.
    """
    builder = code.builder
    numbers, marks = (ir.VectorType(kind, LANES) for kind in (_SMALL, ir.IntType(16)))
    unknown = code.constant(float("nan"))
    rows = code.rows(code.at(x, x_at), x_row, K)
    pixels = [pixel for row in rows for pixel in code.rows(row, x_pixel, K)]
    for v in range(V):
        along = LANES * v
        seen = [code.load(code.at(pixel, along)) for pixel in pixels]

        best, which = seen[0], ir.Constant(numbers, [0] * LANES)
        for number, here in enumerate(seen[1:], start=1):
            more = builder.fcmp_ordered(">", here, best)
            which = builder.select(more, ir.Constant(numbers, [number] * LANES), which)
            best = builder.select(more, here, best)

        # one comparison finds a nan in either of two vectors
        for one, other in zip(seen[::2], seen[1::2] or seen, strict=True):
            lost = builder.fcmp_unordered("uno", one, other)
            best = builder.select(lost, unknown, best)

        best = builder.fadd(best, code.load(code.at(bias, bias_at, along)))
        code.store(best, code.at(out, out_at, along))
        short = builder.trunc(which, marks)
        code.store(short, code.at(chosen, chosen_at, along), aligned=2)
