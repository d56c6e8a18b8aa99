# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""The convolutions of `triton_kernels` with factors that Hopper's copy engine reads as boxes of tensors: without computing
addresses, and with zeros beyond an image's edge. They are for images of which a tile has whole rows.

The images are the right factor, because only that one can be a box of several dimensions.
"""

import triton
import triton.language as tl

from headgate.kernels.triton_kernels import _descend, _seen


@triton.jit
def convolve(
    x, w, y, added, tile_client, tile_start, offsets,
    H: tl.constexpr, W: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr, TAPS: tl.constexpr,
    BACKWARD: tl.constexpr, ADD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Compute y = x * w with w [client, tap, CI, CO]; BACKWARD: with w [client, tap, CO, CI] reversed; ADD: plus `added`."""
    columns: tl.constexpr = CO // BN
    pieces: tl.constexpr = CI // BK
    tile = tl.program_id(0) // columns
    client = tl.load(tile_client + tile)
    if client >= 0:
        start = tl.load(tile_start + tile)
        first = (tl.program_id(0) % columns) * BN
        total = tl.zeros((BN, BM), dtype=tl.float32)
        for k in range(TAPS * pieces):
            tap = k // pieces
            channel = (k % pieces) * BK
            a = _box(x, start, channel, tap, H, W, TAPS, BM, BK)
            if BACKWARD:
                b = tl.reshape(w.load([client, (TAPS - 1 - tap) * CO + first, channel]), (BN, BK))
            else:
                b = tl.reshape(w.load([client, tap * CI + channel, first]), (BK, BN)).T
            total = tl.dot(b, a.T, total)
        total = total.T
        row = tl.arange(0, BM)
        inside = start + row < tl.load(offsets + client + 1) * (H * W)
        y += start.to(tl.int64) * CO
        place = row[:, None] * CO + first + tl.arange(0, BN)[None, :]
        if ADD:
            added += start.to(tl.int64) * CO
            total += tl.load(added + place, mask=inside[:, None], other=0.0).to(tl.float32)
        tl.store(y + place, total.to(y.dtype.element_ty), mask=inside[:, None])


@triton.jit
def descend_convolution(
    box, slope_box, x, slope, master, velocity, low, offsets, stride, low_stride, lr, momentum, decay,
    H: tl.constexpr, W: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr, TAPS: tl.constexpr,
    MOMENTUM: tl.constexpr, LOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Take a gradient step with the weights [client, tap, CI, CO]; the gradient is x times the slope of the output."""
    rows: tl.constexpr = CI // BM
    columns: tl.constexpr = CO // BN
    tile = tl.program_id(0)
    client = tl.program_id(1)
    begin = tl.load(offsets + client) * (H * W)
    end = tl.load(offsets + client + 1) * (H * W)
    if end > begin:
        tap = tile // (rows * columns)
        inward = (tile // columns) % rows * BM
        outward = tile % columns * BN
        total = tl.zeros((BN, BM), dtype=tl.float32)
        whole = begin + (end - begin) // BK * BK
        for p in range(begin, whole, BK):
            a = _box(box, p, inward, tap, H, W, TAPS, BK, BM)
            total = tl.dot(slope_box.load([p, outward]).T, a, total)
        inward = inward + tl.arange(0, BM)
        outward = outward + tl.arange(0, BN)
        if (H * W) % BK != 0:  # noqa: SIM102  known when the kernel is compiled; what follows is not
            if whole < end:
                last = whole + tl.arange(0, BK)
                seen, shift = _seen(last, last < end, tap, H, W, TAPS)
                from_x = x + (last + shift).to(tl.int64)[:, None] * CI + inward[None, :]
                from_slope = slope + last.to(tl.int64)[:, None] * CO + outward[None, :]
                b = tl.load(from_slope, mask=(last < end)[:, None], other=0.0)
                total = tl.dot(b.T, tl.load(from_x, mask=seen[:, None], other=0.0), total)
        place = (tap * CI + inward[:, None]) * CO + outward[None, :]
        wide = client.to(tl.int64) * stride + place
        value = _descend(master + wide, velocity + wide, total.T, None, lr, momentum, decay, MOMENTUM)
        if LOW:
            tl.store(low + client.to(tl.int64) * low_stride + place, value.to(low.dtype.element_ty))


@triton.jit
def _box(
    x, start, channel, tap, H: tl.constexpr, W: tl.constexpr, TAPS: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr
):
    """Return ROWS positions from `start` on, shifted by a tap, (ROWS, CHANNELS)."""
    sample = start // (H * W)
    down = start % (H * W) // W
    right = 0
    if TAPS == 9:
        down += tap // 3 - 1
        right += tap % 3 - 1
    return tl.reshape(x.load([sample, down, right, channel]), (ROWS, CHANNELS))
