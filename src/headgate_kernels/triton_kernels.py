# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Triton kernels for nets of 3x3 convolution, GroupNorm and Mish that train many
clients at a time without padding.

Images are rows of [sample, y, x, channel], the samples of a client are adjacent, and
each client has its own parameters. The samples of client c begin at `offsets[c]`. A
convolution is a matrix product whose left factor is never stored: a tile of output
positions belongs to one client (`tile_client`, -1 for none), and a tap of the kernel is
a shift of its rows. The kernel that sums the gradient of a weight also takes the
gradient step, so it must run after all kernels that read the weights. Sums have a fixed
order, so results repeat to the bit, and the results of a client do not depend on the
other clients.
"""

import triton
import triton.language as tl
from triton.language import constexpr


@triton.jit
def _box(
    x,
    start,
    channel,
    tap,
    H: constexpr,
    W: constexpr,
    TAPS: constexpr,
    ROWS: constexpr,
    CHANNELS: constexpr,
):
    """Return ROWS positions from `start` on, shifted by a tap, (ROWS, CHANNELS); beyond
    an image they are 0.
    """
    sample = start // (H * W)
    down = start % (H * W) // W
    right = 0
    if TAPS == 9:
        down += tap // 3 - 1
        right += tap % 3 - 1
    return tl.reshape(x.load([sample, down, right, channel]), (ROWS, CHANNELS))


@triton.jit
def convolve(
    x,
    w,
    y,
    added,
    tile_client,
    tile_start,
    offsets,
    H: constexpr,
    W: constexpr,
    CI: constexpr,
    CO: constexpr,
    TAPS: constexpr,
    BACKWARD: constexpr,
    ADD: constexpr,
    BM: constexpr,
    BN: constexpr,
    BK: constexpr,
    PRECISION: constexpr,
):
    """Compute y = x * w with w [client, tap, CI, CO]; BACKWARD: with w [client, tap,
    CO, CI] reversed; ADD: plus `added`.
    """
    columns: constexpr = CO // BN
    pieces: constexpr = CI // BK
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
                reversed_tap = (TAPS - 1 - tap) * CO + first
                b = tl.reshape(w.load([client, reversed_tap, channel]), (BN, BK))
            else:
                b = tl.reshape(w.load([client, tap * CI + channel, first]), (BK, BN)).T
            total = tl.dot(b, a.T, total, input_precision=PRECISION)
        total = total.T
        row = tl.arange(0, BM)
        inside = start + row < tl.load(offsets + client + 1) * (H * W)
        y += start.to(tl.int64) * CO
        place = row[:, None] * CO + first + tl.arange(0, BN)[None, :]
        if ADD:
            added += start.to(tl.int64) * CO
            more = tl.load(
                added + place,
                mask=inside[:, None],
                other=0.0,
            )
            total += more.to(tl.float32)
        tl.store(y + place, total.to(y.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _descend(
    theta,
    velocity,
    place,
    gradient,
    mask,
    lr,
    momentum,
    decay,
    MOMENTUM: constexpr,
):
    """Take one step of torch.optim.SGD and return the new parameters."""
    value = tl.load(theta + place, mask=mask)
    change = gradient + decay * value
    if MOMENTUM:
        change += momentum * tl.load(velocity + place, mask=mask)
        tl.store(velocity + place, change, mask=mask)
    value -= lr * change
    tl.store(theta + place, value, mask=mask)
    return value


@triton.jit
def descend_convolution(
    x,
    slope,
    master,
    velocity,
    low,
    offsets,
    stride,
    low_stride,
    lr,
    momentum,
    decay,
    H: constexpr,
    W: constexpr,
    CI: constexpr,
    CO: constexpr,
    TAPS: constexpr,
    MOMENTUM: constexpr,
    LOW: constexpr,
    BM: constexpr,
    BN: constexpr,
    BK: constexpr,
    PRECISION: constexpr,
):
    """Take a gradient step with the weights [client, tap, CI, CO]; the gradient is x
    times the slope of the output.
    """
    rows: constexpr = CI // BM
    columns: constexpr = CO // BN
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
            a = _box(x, p, inward, tap, H, W, TAPS, BK, BM)
            b = slope.load([p, outward])
            total = tl.dot(b.T, a, total, input_precision=PRECISION)
        # known when the kernel is compiled; what follows is not
        if (H * W) % BK != 0:  # noqa: SIM102
            if whole < end:  # the rest of the box belongs to another client
                own = (whole + tl.arange(0, BK) < end)[:, None]
                a = tl.where(own, _box(x, whole, inward, tap, H, W, TAPS, BK, BM), 0.0)
                b = tl.where(own, slope.load([whole, outward]), 0.0)
                total = tl.dot(b.T, a, total, input_precision=PRECISION)
        inward = inward + tl.arange(0, BM)
        outward = outward + tl.arange(0, BN)
        place = (tap * CI + inward[:, None]) * CO + outward[None, :]
        wide = client.to(tl.int64) * stride + place
        value = _descend(
            master, velocity, wide, total.T, None, lr, momentum, decay, MOMENTUM
        )
        if LOW:
            low += client.to(tl.int64) * low_stride
            tl.store(low + place, value.to(low.dtype.element_ty))


@triton.jit
def average_positions(
    x,
    owner,
    features,
    HW: constexpr,
    C: constexpr,
    CB: constexpr,
    BH: constexpr,
):
    """Compute the average [sample, C] over all positions of x [sample, HW, C]."""
    sample = tl.program_id(0).to(tl.int64)
    if tl.load(owner + sample) >= 0:
        for c in range(0, C, CB):
            channel = c + tl.arange(0, CB)
            total = tl.zeros((CB,), dtype=tl.float32)
            for h in range(0, HW, BH):
                row = x + sample * (HW * C) + (h + tl.arange(0, BH))[:, None] * C
                value = tl.load(row + channel[None, :])
                total += tl.sum(value.to(tl.float32), 0)
            tl.store(features + sample * C + channel, total / HW)


@triton.jit
def average(
    start,
    master,
    shares,
    run_offsets,
    after,
    size,
    BLOCK: constexpr,
):
    """Add to each run's model its clients' changes times their shares; a share of 0
    adds nothing, not even a nan.
    """
    run = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide = run.to(tl.int64) * size + column
    before = tl.load(
        start + wide,
        mask=column < size,
        other=0.0,
    )
    moved = before
    first = tl.load(run_offsets + run)
    shares += first
    local = master + first.to(tl.int64) * size + column
    for _ in range(first, tl.load(run_offsets + run + 1)):
        share = tl.load(shares)
        move = (
            tl.load(
                local,
                mask=column < size,
                other=0.0,
            )
            - before
        )
        moved = tl.where(share != 0, moved + share * move, moved)
        shares += 1
        local += size
    tl.store(after + wide, moved, mask=column < size)


@triton.jit
def mean_losses(
    losses,
    offsets,
    run_offsets,
    means,
    BLOCK: constexpr,
):
    """Compute the mean over all samples of each run; nan where there are none."""
    run = tl.program_id(0)
    first = tl.load(offsets + tl.load(run_offsets + run))
    last = tl.load(offsets + tl.load(run_offsets + run + 1))
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for s in range(first, last, BLOCK):
        sample = s + tl.arange(0, BLOCK)
        total += tl.load(
            losses + sample,
            mask=sample < last,
            other=0.0,
        )
    tl.store(means + run, tl.sum(total, 0) / (last - first).to(tl.float32))
