"""What `executors/vectors.py` does, as one would write it in numba: see vectors.py."""
# mypy: allow-untyped-defs, allow-untyped-calls

from numba import njit

from headgate.kernels.compiled_shapes import LANES

plain = njit(fastmath=True, error_model="numpy")  # not inlined by numba: the liberties would be lost


@plain
def multiply(W, P, V, TAIL, runs, whole, a, a_at, a_step, a_run, b, b_at, b_step, bias, bias_at, out, out_at, out_step):
    for p in range(P):
        to = out_at + p * out_step
        for v in range(V * W):
            out[to + v] = bias[bias_at + v]
    for run in range(runs):
        for i in range(whole * LANES + TAIL):
            for p in range(P):
                value, to = a[a_at + p * a_step + run * a_run + i], out_at + p * out_step
                for v in range(V * W):
                    out[to + v] += value * b[b_at + v]
            b_at += b_step


@plain
def add_scaled(ROWS, V, values, places, count, source, step, out, out_at, out_step):
    for i in range(count):
        for row in range(ROWS):
            for v in range(V * LANES):
                out[out_at + row * out_step + v] += values[i] * source[places[i] + row * step + v]


@plain
def spread_scaled(ROWS, V, values, places, count, source, source_at, step, out, out_step):
    for row in range(ROWS):
        for i in range(count):
            for v in range(V * LANES):
                out[places[i] + row * out_step + v] += values[i] * source[source_at + row * step + v]


@plain
def dots(W, P, length, x, x_at, x_step, w, w_at, w_step, bias, bias_at, out, out_at, out_step):
    for p in range(P):
        for q in range(LANES):
            total = bias[bias_at + q]
            for i in range(length * W):
                total += x[x_at + p * x_step + i] * w[w_at + q * w_step + i]
            out[out_at + p * out_step + q] = total


@plain
def outer(W, V, count, a, a_at, a_step, b, b_at, b_step, out, out_at, out_step):
    for p in range(LANES):
        to = out_at + p * out_step
        for v in range(V * W):
            out[to + v] = 0
        for i in range(count):
            value = a[a_at + i * a_step + p]
            for v in range(V * W):
                out[to + v] += value * b[b_at + i * b_step + v]


@plain
def largest(K, V, RELU, x, x_at, x_row, x_pixel, out, out_at, chosen, chosen_at):
    for v in range(V * LANES):
        best, which = x[x_at + v], 0
        for number in range(1, K * K):
            here = x[x_at + number // K * x_row + number % K * x_pixel + v]
            if here > best:
                best, which = here, number
        if RELU and best < 0:
            best = x.dtype.type(0)
        out[out_at + v] = best
        chosen[chosen_at + v] = which
