# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Triton kernels for stacks of convolutions and linear layers that train many clients
at a time without padding.

Images are [sample, channel, y, x], the samples of a client are adjacent, and each
client has its own parameters, a flat vector of length `stride` in `theta`. `owner` has
the client of each sample (-1 for none), `offsets` the beginning of each client's
samples, and a tile of rows belongs to one client (`tile_client`, -1 for none). The
input of a convolution has a frame of zeros, so that no tap falls outside; a linear
layer is a convolution of one pixel. A convolution and its 2x2 max-pool are one kernel:
only the number of a window's winner is stored, and only the winner has a slope. Slopes
are with respect to a layer's output before its activation. The kernel that sums the
gradient of a weight also takes the gradient step, so it must run after all kernels that
read the weights. Sums have a fixed order, so results repeat to the bit, and the results
of a client do not depend on the other clients.
"""

import triton
import triton.language as tl
from triton.language import constexpr

from headgate_kernels.triton_kernels import _descend


@triton.jit
def _active(value, KIND: constexpr):
    """Return the result of the activation."""
    if KIND == 1:
        # a nan stays one
        value = tl.where(value != value, value, tl.maximum(value, 0.0))
    elif KIND == 2:
        value = 2.0 * tl.sigmoid(2.0 * value) - 1.0
    return value


@triton.jit
def _steep(value, KIND: constexpr):
    """Return the slope of the activation whose result is `value`."""
    if KIND == 1:
        value = tl.where(value > 0, 1.0, 0.0)
    elif KIND == 2:
        value = 1.0 - value * value
    else:
        value = tl.full(value.shape, 1.0, dtype=tl.float32)
    return value


@triton.jit
def _tap(
    k,
    down,
    right,
    H: constexpr,
    W: constexpr,
    KERNEL: constexpr,
):
    """Return where summand k of a position is, from the position's corner moved by
    (down, right).
    """
    channel = k // (KERNEL * KERNEL) * (H * W)
    return channel + ((k // KERNEL) % KERNEL + down) * W + k % KERNEL + right


@triton.jit
def convolve(
    x,
    theta,
    y,
    beside,
    tile_client,
    tile_start,
    offsets,
    images,
    stride,
    weight,
    bias,
    C: constexpr,
    H: constexpr,
    W: constexpr,
    CO: constexpr,
    KERNEL: constexpr,
    POOL: constexpr,
    FRAME: constexpr,
    ACTIVATION: constexpr,
    BIAS: constexpr,
    LEARN: constexpr,
    BACKWARD: constexpr,
    ROWS: constexpr,
    COLUMNS: constexpr,
    DEEP: constexpr,
    PRECISION: constexpr,
):
    """Compute y [sample, CO, y, x] in its frame from x, H x W with its frame; sample s
    is image s modulo `images` of x.

    LEARN: also write the winners to `beside`. BACKWARD: x is the slope of a layer's
    output and y, without a frame, that of its input: the output, in its frame, of the
    layer before, which is `beside` and has this activation.
    """
    client = tl.load(tile_client + tl.program_id(0))
    if client >= 0:
        high: constexpr = (H - KERNEL + 1) // POOL
        wide: constexpr = (W - KERNEL + 1) // POOL
        taps: constexpr = KERNEL * KERNEL
        row = tl.load(tile_start + tl.program_id(0)) + tl.arange(0, ROWS)
        inside = row < tl.load(offsets + client + 1) * (high * wide)
        sample = tl.where(inside, row // (high * wide), 0)
        down = (row // wide) % high
        right = row % wide
        image = (sample % images).to(tl.int64)
        corner_of = image * (C * H * W) + down * (POOL * W) + right * POOL
        theta += client.to(tl.int64) * stride
        out = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        best = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        which = tl.zeros((ROWS, COLUMNS), dtype=tl.int32)
        for corner in tl.static_range(POOL * POOL):
            total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
            for first in range(0, C * taps, DEEP):
                k = first + tl.arange(0, DEEP)
                known = k < C * taps
                tap = _tap(k, corner // POOL, corner % POOL, H, W, KERNEL)
                a = tl.load(x + corner_of[:, None] + tl.where(known, tap, 0)[None, :])
                if BACKWARD:
                    reversed_k = k // taps * (CO * taps) + taps - 1 - k % taps
                    place = reversed_k[:, None] + out[None, :] * taps
                else:
                    place = out[None, :] * (C * taps) + k[:, None]
                used = known[:, None] & (out < CO)[None, :]
                b = tl.load(
                    theta + weight + place,
                    mask=used,
                    other=0.0,
                )
                total = tl.dot(a, b, total, input_precision=PRECISION)
            if corner == 0:
                best = total
            else:
                # the first of equals; always a nan, as in torch
                better = (total > best) | (total != total)
                which = tl.where(better, corner, which)
                best = tl.where(better, total, best)
        if BIAS:
            best += tl.load(
                theta + bias + out,
                mask=out < CO,
                other=0.0,
            )[None, :]
        real = (out < CO)[None, :] & inside[:, None]
        long: constexpr = wide + 2 * FRAME
        area: constexpr = (high + 2 * FRAME) * long
        sample = sample.to(tl.int64) * CO
        framed = sample * area + (down + FRAME) * long + right + FRAME
        framed = framed[:, None] + out[None, :] * area
        plain = sample * (high * wide) + down * wide + right
        plain = plain[:, None] + out[None, :] * (high * wide)
        if BACKWARD:
            output = tl.load(
                beside + framed,
                mask=real,
                other=0.0,
            )
            tl.store(y + plain, best * _steep(output, ACTIVATION), mask=real)
        else:
            tl.store(y + framed, _active(best, ACTIVATION), mask=real)
            if LEARN and POOL > 1:
                tl.store(beside + plain, which.to(tl.uint8), mask=real)


@triton.jit
def unpool(
    slope,
    winner,
    wide_slope,
    owner,
    CO: constexpr,
    HIGH: constexpr,
    WIDE: constexpr,
    POOL: constexpr,
    FRAME: constexpr,
    H: constexpr,
    W: constexpr,
    BLOCK: constexpr,
):
    """Compute the slope of a pool's input of HIGH x WIDE windows, framed to H x W: at
    winners that of the output, else 0.
    """
    sample = tl.program_id(0)
    if tl.load(owner + sample) >= 0:
        index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        down = (index // W) % H - FRAME
        right = index % W - FRAME
        within = index < CO * H * W
        seen = (down >= 0) & (down < HIGH * POOL) & (right >= 0)
        seen = seen & (right < WIDE * POOL) & within
        window = (down // POOL) * WIDE + right // POOL
        place = (index // (H * W)) * (HIGH * WIDE) + window
        place = sample.to(tl.int64) * (CO * HIGH * WIDE) + place
        if POOL > 1:
            won = tl.load(
                winner + place,
                mask=seen,
                other=0,
            ).to(tl.int32)
            seen = seen & (won == (down % POOL) * POOL + right % POOL)
        value = tl.load(
            slope + place,
            mask=seen,
            other=0.0,
        )
        to = sample.to(tl.int64) * (CO * H * W) + index
        tl.store(wide_slope + to, value, mask=within)


@triton.jit
def descend_convolution(
    x,
    slope,
    winner,
    theta,
    velocity,
    offsets,
    stride,
    weight,
    bias,
    lr,
    momentum,
    decay,
    C: constexpr,
    H: constexpr,
    W: constexpr,
    CO: constexpr,
    KERNEL: constexpr,
    POOL: constexpr,
    BIAS: constexpr,
    MOMENTUM: constexpr,
    ROWS: constexpr,
    DEEP: constexpr,
):
    """Take a step with DEEP weights of an output channel, and in its first program with
    the bias; x is H x W with its frame.
    """
    client = tl.program_id(1)
    first = tl.load(offsets + client)
    last = tl.load(offsets + client + 1)
    if last > first:
        wide: constexpr = (W - KERNEL + 1) // POOL
        positions: constexpr = (H - KERNEL + 1) // POOL * wide
        summands: constexpr = C * KERNEL * KERNEL
        blocks: constexpr = (summands + DEEP - 1) // DEEP
        out = tl.program_id(0) // blocks
        k = (tl.program_id(0) % blocks) * DEEP + tl.arange(0, DEEP)
        tap = tl.where(k < summands, _tap(k, 0, 0, H, W, KERNEL), 0)
        total = tl.zeros((ROWS, DEEP), dtype=tl.float32)
        alone = tl.zeros((ROWS,), dtype=tl.float32)
        for begin in range(first * positions, last * positions, ROWS):
            row = begin + tl.arange(0, ROWS)
            inside = row < last * positions
            # never another client's, not even times 0
            sample = tl.where(inside, row // positions, first).to(tl.int64)
            position = row % positions
            place = sample * (CO * positions) + out * positions + position
            steep = tl.load(
                slope + place,
                mask=inside,
                other=0.0,
            )
            alone += steep
            corner_of = sample * (C * H * W) + (position // wide) * (POOL * W)
            corner_of += (position % wide) * POOL
            if POOL > 1:
                won = tl.load(
                    winner + place,
                    mask=inside,
                    other=0,
                ).to(tl.int32)
                corner_of += (won // POOL) * W + won % POOL
            total += steep[:, None] * tl.load(x + corner_of[:, None] + tap[None, :])
        own = client.to(tl.int64) * stride + weight + out * summands + k
        change, real = tl.sum(total, 0), k < summands
        _descend(theta, velocity, own, change, real, lr, momentum, decay, MOMENTUM)
        if BIAS:  # noqa: SIM102  a compile-time constant, unlike the next condition
            if tl.program_id(0) % blocks == 0:
                beside = client.to(tl.int64) * stride + bias + out
                whole = tl.sum(alone, 0)
                _descend(
                    theta, velocity, beside, whole, True, lr, momentum, decay, MOMENTUM
                )


@triton.jit
def descend_linear(
    x,
    slope,
    theta,
    velocity,
    offsets,
    stride,
    weight,
    bias,
    lr,
    momentum,
    decay,
    C: constexpr,
    CO: constexpr,
    BIAS: constexpr,
    MOMENTUM: constexpr,
    ROWS: constexpr,
    COLUMNS: constexpr,
    DEEP: constexpr,
    PRECISION: constexpr,
):
    """Take a step with ROWS x COLUMNS weights, DEEP samples at a time, and in the first
    columns with the bias.
    """
    client = tl.program_id(1)
    first = tl.load(offsets + client)
    last = tl.load(offsets + client + 1)
    if last > first:
        across: constexpr = (C + COLUMNS - 1) // COLUMNS
        out = (tl.program_id(0) // across) * ROWS + tl.arange(0, ROWS)
        feature = (tl.program_id(0) % across) * COLUMNS + tl.arange(0, COLUMNS)
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        alone = tl.zeros((ROWS,), dtype=tl.float32)
        for begin in range(first, last, DEEP):
            sample = begin + tl.arange(0, DEEP)
            wide = sample.to(tl.int64)
            seen = (out < CO)[:, None] & (sample < last)[None, :]
            place = wide[None, :] * CO + out[:, None]
            a = tl.load(
                slope + place,
                mask=seen,
                other=0.0,
            )
            known = (sample < last)[:, None] & (feature < C)[None, :]
            place = wide[:, None] * C + feature[None, :]
            b = tl.load(
                x + place,
                mask=known,
                other=0.0,
            )
            total = tl.dot(a, b, total, input_precision=PRECISION)
            alone += tl.sum(a, 1)
        begun = client.to(tl.int64) * stride
        own = begun + weight + out[:, None] * C + feature[None, :]
        real = (out < CO)[:, None] & (feature < C)[None, :]
        _descend(theta, velocity, own, total, real, lr, momentum, decay, MOMENTUM)
        if BIAS:  # noqa: SIM102
            if tl.program_id(0) % across == 0:
                beside, its_own = begun + bias + out, out < CO
                _descend(
                    theta,
                    velocity,
                    beside,
                    alone,
                    its_own,
                    lr,
                    momentum,
                    decay,
                    MOMENTUM,
                )


@triton.jit
def cross_entropy(
    logits,
    labels,
    offsets,
    owner,
    losses,
    slope,
    K: constexpr,
    KP: constexpr,
):
    """Compute each sample's loss, and the slope of the client's mean loss with respect
    to the logits.
    """
    sample = tl.program_id(0).to(tl.int64)
    client = tl.load(owner + sample)
    if client >= 0:
        k = tl.arange(0, KP)
        made = tl.load(
            logits + sample * K + k,
            mask=k < K,
            other=float("-inf"),
        )
        label = tl.load(labels + sample)
        samples = tl.load(offsets + client + 1) - tl.load(offsets + client)
        made -= tl.max(made, 0)
        raised = tl.exp(made)
        whole = tl.sum(raised, 0)
        true = tl.sum(tl.where(k == label, made, 0.0), 0)
        tl.store(losses + sample, tl.log(whole) - true)
        steep = raised / whole - tl.where(k == label, 1.0, 0.0)
        tl.store(slope + sample * K + k, steep / samples.to(tl.float32), mask=k < K)
