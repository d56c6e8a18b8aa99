# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Triton kernels for GroupNorm, Mish and a 2x2 max-pool, and their slopes, on rows of
[sample, y, x, channel].

A program takes some channels of a sample, in whole groups. If they fit into its
registers (ROWS is the number of rows) they are read once. Mish falls and then rises, so
its maximum over a window is where its argument is smallest or largest: two of four
corners are enough.
"""

import triton
import triton.language as tl
from triton.language import constexpr
from triton.language.extra import libdevice


@triton.jit
def _mish(u):
    """With e = exp(u), tanh(log(1 + e)) = n / (n + 2) for n = e(e + 2)."""
    e = libdevice.fast_expf(tl.minimum(u, 20.0))
    n = e * (e + 2.0)
    return libdevice.fast_dividef(u * n, n + 2.0)


@triton.jit
def _mish_slope(u):
    e = libdevice.fast_expf(tl.minimum(u, 20.0))
    n = e * (e + 2.0)
    r = libdevice.fast_dividef(1.0, n + 2.0)
    return r * (n + 4.0 * u * (n - e) * r)


@triton.jit
def _group_mean(
    values,
    HW: constexpr,
    CB: constexpr,
    GROUP: constexpr,
):
    """Return for each channel the mean over positions and the channels of its group,
    from sums over positions.
    """
    sums = tl.sum(tl.reshape(values, (CB // GROUP, GROUP)), 1) / (HW * GROUP)
    return tl.reshape(tl.broadcast_to(sums[:, None], (CB // GROUP, GROUP)), (CB,))


@triton.jit
def _places(
    row,
    channel,
    W: constexpr,
    C: constexpr,
    POOL: constexpr,
):
    """Return where rows begin; before a pool, where the first corners of windows
    are.
    """
    if POOL:
        row = 2 * (row // (W // 2)) * W + 2 * (row % (W // 2))
    return row[:, None] * C + channel[None, :]


@triton.jit
def _corners(
    x,
    row,
    channel,
    W: constexpr,
    C: constexpr,
    POOL: constexpr,
):
    """Return the four corners of windows; without a pool, the same numbers four
    times.
    """
    place = _places(row, channel, W, C, POOL)
    a = tl.load(x + place).to(tl.float32)
    b, c, d = a, a, a
    if POOL:
        b = tl.load(x + place + C).to(tl.float32)
        c = tl.load(x + place + W * C).to(tl.float32)
        d = tl.load(x + place + (W + 1) * C).to(tl.float32)
    return a, b, c, d


@triton.jit
def _largest(
    a,
    b,
    c,
    d,
    slant,
    shift,
):
    """Return the largest Mish of four corners and its number, the first of equals."""
    high = tl.maximum(tl.maximum(a, b), tl.maximum(c, d))
    low = tl.minimum(tl.minimum(a, b), tl.minimum(c, d))
    at_high = _mish(high * slant + shift)
    at_low = _mish(low * slant + shift)
    chosen = tl.where(at_high >= at_low, high, low)
    later = tl.where(b == chosen, 1, tl.where(c == chosen, 2, 3))
    which = tl.where(a == chosen, 0, later)
    return tl.maximum(at_high, at_low), tl.where(slant == 0.0, 0, which)


@triton.jit
def norm_mish(
    x,
    affine,
    added,
    y,
    winner,
    mean,
    rstd,
    owner,
    stride,
    eps,
    HW: constexpr,
    W: constexpr,
    C: constexpr,
    GROUP: constexpr,
    POOL: constexpr,
    ADD: constexpr,
    LEARN: constexpr,
    CB: constexpr,
    ROWS: constexpr,
):
    """Compute y = Mish(GroupNorm(x)) + `added`, or its 2x2 max-pool; LEARN: also
    winners, mean and rstd, [sample, C].
    """
    sample = (tl.program_id(0) // (C // CB)).to(tl.int64)
    client = tl.load(owner + sample)
    if client >= 0:
        channel = tl.program_id(0) % (C // CB) * CB + tl.arange(0, CB)
        row = tl.arange(0, ROWS)
        rows: constexpr = HW // 4 if POOL else HW
        x += sample * (HW * C)
        y += sample * (rows * C)
        total = tl.zeros((ROWS, CB), dtype=tl.float32)
        squares, a, b, c, d = total, total, total, total, total
        for h in range(0, rows, ROWS):
            a, b, c, d = _corners(x, h + row, channel, W, C, POOL)
            if POOL:
                total += (a + b) + (c + d)
                squares += (a * a + b * b) + (c * c + d * d)
            else:
                total += a
                squares += a * a
        middle = _group_mean(tl.sum(total, 0), HW, CB, GROUP)
        spread = tl.maximum(
            _group_mean(tl.sum(squares, 0), HW, CB, GROUP) - middle * middle, 0.0
        )
        scale = 1.0 / tl.sqrt(spread + eps)
        if LEARN:
            tl.store(mean + sample * C + channel, middle)
            tl.store(rstd + sample * C + channel, scale)
        affine += client.to(tl.int64) * stride
        slant = tl.load(affine + channel) * scale
        shift = (tl.load(affine + C + channel) - middle * slant)[None, :]
        slant = slant[None, :]
        for h in range(0, rows, ROWS):
            out = _places(h + row, channel, W, C, False)
            if rows > ROWS:  # otherwise they are still in registers
                a, b, c, d = _corners(x, h + row, channel, W, C, POOL)
            if POOL:
                made, which = _largest(a, b, c, d, slant, shift)
                if LEARN:
                    tl.store(winner + sample * (rows * C) + out, which.to(tl.uint8))
            else:
                made = _mish(a * slant + shift)
                if ADD:
                    made += tl.load(added + sample * (rows * C) + out).to(tl.float32)
            tl.store(y + out, made.to(y.dtype.element_ty))


@triton.jit
def _du(
    x,
    slope,
    winner,
    row,
    channel,
    scale,
    middle,
    gain,
    shift,
    W: constexpr,
    C: constexpr,
    POOL: constexpr,
):
    """Return the corners, the winning one, its normalised value, and the slope with
    respect to the argument of Mish.
    """
    out = _places(row, channel, W, C, False)
    a, b, c, d = _corners(x, row, channel, W, C, POOL)
    chosen, which = a, tl.zeros(a.shape, dtype=tl.int32)
    if POOL:
        which = tl.load(winner + out).to(tl.int32)
        later = tl.where(which == 1, b, tl.where(which == 2, c, d))
        chosen = tl.where(which == 0, a, later)
    standard = chosen * scale[None, :] - middle[None, :]
    du = tl.load(slope + out).to(tl.float32) * _mish_slope(standard * gain + shift)
    return a, b, c, d, which, standard, du


@triton.jit
def _put(
    place,
    du,
    value,
    steep,
    level,
    tilt,
):
    """Store the slope with respect to x at some rows."""
    tl.store(place, (du * steep - level - value * tilt).to(place.dtype.element_ty))


@triton.jit
def norm_mish_slope(
    x,
    slope,
    affine,
    winner,
    mean,
    rstd,
    dx,
    d_affine,
    owner,
    stride,
    d_stride,
    HW: constexpr,
    W: constexpr,
    C: constexpr,
    GROUP: constexpr,
    POOL: constexpr,
    CB: constexpr,
    ROWS: constexpr,
):
    """Compute the slope with respect to x, and each sample's part of the affine slopes,
    [sample, (scale, shift)].
    """
    sample = (tl.program_id(0) // (C // CB)).to(tl.int64)
    client = tl.load(owner + sample)
    if client >= 0:
        channel = tl.program_id(0) % (C // CB) * CB + tl.arange(0, CB)
        row = tl.arange(0, ROWS)
        rows: constexpr = HW // 4 if POOL else HW
        x += sample * (HW * C)
        dx += sample * (HW * C)
        slope += sample * (rows * C)
        winner += sample * (rows * C)
        affine += client.to(tl.int64) * stride
        own = tl.load(affine + channel)
        scale = tl.load(rstd + sample * C + channel)
        middle = tl.load(mean + sample * C + channel) * scale
        gain, shift = own[None, :], tl.load(affine + C + channel)[None, :]
        to_gain = tl.zeros((ROWS, CB), dtype=tl.float32)
        to_shift, a, b, c, d, du = to_gain, to_gain, to_gain, to_gain, to_gain, to_gain
        which = tl.zeros((ROWS, CB), dtype=tl.int32)
        for h in range(0, rows, ROWS):
            a, b, c, d, which, standard, du = _du(
                x,
                slope,
                winner,
                h + row,
                channel,
                scale,
                middle,
                gain,
                shift,
                W,
                C,
                POOL,
            )
            to_shift += du
            to_gain += du * standard
        for_gain, for_shift = tl.sum(to_gain, 0), tl.sum(to_shift, 0)
        tl.store(d_affine + sample * d_stride + channel, for_gain)
        tl.store(d_affine + sample * d_stride + C + channel, for_shift)
        # dx = (du * gain - level - standard * tilt) * scale, with standard = x * scale
        # - middle
        tilt = _group_mean(for_gain * own, HW, CB, GROUP) * scale
        level = _group_mean(for_shift * own, HW, CB, GROUP) * scale - middle * tilt
        level = level[None, :]
        tilt = (tilt * scale)[None, :]
        steep = gain * scale[None, :]
        for h in range(0, rows, ROWS):
            if rows > ROWS:  # otherwise they are still in registers
                a, b, c, d, which, _, du = _du(
                    x,
                    slope,
                    winner,
                    h + row,
                    channel,
                    scale,
                    middle,
                    gain,
                    shift,
                    W,
                    C,
                    POOL,
                )
            place = _places(h + row, channel, W, C, POOL)
            if POOL:
                for corner in tl.static_range(4):
                    value = (a, b, c, d)[corner]
                    won = tl.where(which == corner, du, 0.0)
                    at = dx + place + (corner // 2 * W + corner % 2) * C
                    _put(at, won, value, steep, level, tilt)
            else:
                _put(dx + place, du, a, steep, level, tilt)
