# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Triton kernels for nets of 3x3 convolution, GroupNorm and Mish that learn many clients at a time without padding.

Images are rows of [sample, y, x, channel], the samples of a client follow each other, and each client has its own
parameters. `offsets[c]` says where client c's samples begin. Convolutions are matrix products whose left side is never
written down: a tile of output positions belongs to one client (`tile_client`, -1 for none), and a tap of the kernel is
a shift of its rows. The gradient of a weight is used up where it is made: the kernel that sums it does the descent, so
it must run after whatever else reads the weights. Sums go in a fixed order, so results repeat to the bit, and
no number of a client depends on the clients beside it.
"""

import triton
import triton.language as tl


@triton.jit
def _seen(position, inside, tap, H: tl.constexpr, W: tl.constexpr, TAPS: tl.constexpr):
    """(which rows lie inside the image after a tap's shift, the shift)."""
    shift = 0
    if TAPS == 9:
        down = tap // 3 - 1
        right = tap % 3 - 1
        y = (position // W) % H + down
        x = position % W + right
        inside = inside & (y >= 0) & (y < H) & (x >= 0) & (x < W)
        shift = down * W + right
    return inside, shift


@triton.jit
def convolve(
    x, w, y, added, tile_client, tile_start, offsets, w_stride,
    H: tl.constexpr, W: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr, TAPS: tl.constexpr,
    BACKWARD: tl.constexpr, ADD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """y = x * w with w [client, tap, CI, CO]; BACKWARD: with w [client, tap, CO, CI] turned round. ADD: + `added`."""
    columns: tl.constexpr = CO // BN
    pieces: tl.constexpr = CI // BK
    tile = tl.program_id(0) // columns
    client = tl.load(tile_client + tile)
    if client >= 0:
        start = tl.load(tile_start + tile)
        row = tl.arange(0, BM)
        column = (tl.program_id(0) % columns) * BN + tl.arange(0, BN)
        deep = tl.arange(0, BK)
        inside = start + row < tl.load(offsets + client + 1) * (H * W)
        x += start.to(tl.int64) * CI
        y += start.to(tl.int64) * CO
        w += client.to(tl.int64) * w_stride
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(TAPS * pieces):
            tap = k // pieces
            channel = (k % pieces) * BK + deep
            seen, shift = _seen(start + row, inside, tap, H, W, TAPS)
            a = tl.load(x + (row + shift)[:, None] * CI + channel[None, :], mask=seen[:, None], other=0.0)
            if BACKWARD:
                b = tl.load(w + (TAPS - 1 - tap) * (CI * CO) + column[None, :] * CI + channel[:, None])
            else:
                b = tl.load(w + tap * (CI * CO) + channel[:, None] * CO + column[None, :])
            total = tl.dot(a, b, total, input_precision=PRECISION)
        place = row[:, None] * CO + column[None, :]
        if ADD:
            added += start.to(tl.int64) * CO
            total += tl.load(added + place, mask=inside[:, None], other=0.0).to(tl.float32)
        tl.store(y + place, total.to(y.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _descend(place, velocity, gradient, mask, lr, momentum, decay, MOMENTUM: tl.constexpr):
    """One step of torch.optim.SGD; what the parameters become."""
    value = tl.load(place, mask=mask)
    change = gradient + decay * value
    if MOMENTUM:
        change += momentum * tl.load(velocity, mask=mask)
        tl.store(velocity, change, mask=mask)
    value -= lr * change
    tl.store(place, value, mask=mask)
    return value


@triton.jit
def descend_convolution(
    x, slope, master, velocity, low, offsets, stride, low_stride, lr, momentum, decay,
    H: tl.constexpr, W: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr, TAPS: tl.constexpr,
    MOMENTUM: tl.constexpr, LOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Weights [client, tap, CI, CO] go down their gradient, of which x and the slope of the output are the factors."""
    rows: tl.constexpr = CI // BM
    columns: tl.constexpr = CO // BN
    tile = tl.program_id(0)
    client = tl.program_id(1)
    first = tl.load(offsets + client)
    positions = (tl.load(offsets + client + 1) - first) * (H * W)
    if positions > 0:
        tap = tile // (rows * columns)
        inward = (tile // columns) % rows * BM + tl.arange(0, BM)
        outward = tile % columns * BN + tl.arange(0, BN)
        x += first.to(tl.int64) * (H * W * CI)
        slope += first.to(tl.int64) * (H * W * CO)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        step = tl.arange(0, BK)
        for p in range(0, positions, BK):
            inside = p + step < positions
            seen, shift = _seen(p + step, inside, tap, H, W, TAPS)
            a = tl.load(x + (step + shift)[:, None] * CI + inward[None, :], mask=seen[:, None], other=0.0)
            b = tl.load(slope + step[:, None] * CO + outward[None, :], mask=inside[:, None], other=0.0)
            total = tl.dot(tl.trans(a), b, total, input_precision=PRECISION)
            x += BK * CI
            slope += BK * CO
        place = (tap * CI + inward[:, None]) * CO + outward[None, :]
        wide = client.to(tl.int64) * stride + place
        value = _descend(master + wide, velocity + wide, total, None, lr, momentum, decay, MOMENTUM)
        if LOW:
            tl.store(low + client.to(tl.int64) * low_stride + place, value.to(low.dtype.element_ty))


# GroupNorm and Mish


@triton.jit
def _mish(u):
    """(mish(u), its slope): with e = exp(u), tanh(log(1 + e)) = n / (n + 2) for n = e(e + 2)."""
    e = tl.exp(tl.minimum(u, 20.0))
    n = e * (e + 2.0)
    r = 1.0 / (n + 2.0)
    return u * n * r, n * r + 4.0 * u * e * (1.0 + e) * r * r


@triton.jit
def _group_sum(values, CB: tl.constexpr, GROUP: tl.constexpr):
    """For each channel the sum over the channels of its group."""
    sums = tl.sum(tl.reshape(values, (CB // GROUP, GROUP)), 1)
    return tl.reshape(tl.broadcast_to(sums[:, None], (CB // GROUP, GROUP)), (CB,))


@triton.jit
def _corner(window, corner, W: tl.constexpr):
    """The row of a corner of a 2x2 window."""
    return (2 * (window // (W // 2)) + corner // 2) * W + 2 * (window % (W // 2)) + corner % 2


@triton.jit
def norm_mish(
    x, affine, added, y, winner, mean, rstd, owner, stride, eps,
    HW: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, POOL: tl.constexpr, ADD: tl.constexpr,
    CB: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """y = Mish(GroupNorm(x)) + `added`, or its 2x2 max-pool with the winning corners. mean, rstd: [sample, C]."""
    sample = tl.program_id(0).to(tl.int64)
    client = tl.load(owner + sample)
    if client >= 0:
        channel = tl.program_id(1) * CB + tl.arange(0, CB)
        x += sample * (HW * C)
        total = tl.zeros((CB,), dtype=tl.float32)
        squares = tl.zeros((CB,), dtype=tl.float32)
        for h in range(0, HW, BH):
            value = tl.load(x + (h + tl.arange(0, BH))[:, None] * C + channel[None, :]).to(tl.float32)
            total += tl.sum(value, 0)
            squares += tl.sum(value * value, 0)
        middle = _group_sum(total, CB, GROUP) / (HW * GROUP)
        spread = tl.maximum(_group_sum(squares, CB, GROUP) / (HW * GROUP) - middle * middle, 0.0)
        scale = 1.0 / tl.sqrt(spread + eps)
        tl.store(mean + sample * C + channel, middle)
        tl.store(rstd + sample * C + channel, scale)
        affine += client.to(tl.int64) * stride
        slant = tl.load(affine + channel) * scale
        shift = tl.load(affine + C + channel) - middle * slant
        if POOL:
            y += sample * (HW // 4 * C)
            winner += sample * (HW // 4 * C)
            for h in range(0, HW // 4, BW):
                window = h + tl.arange(0, BW)
                value = tl.load(x + _corner(window, 0, W)[:, None] * C + channel[None, :]).to(tl.float32)
                best, _ = _mish(value * slant[None, :] + shift[None, :])
                which = tl.zeros((BW, CB), dtype=tl.int32)
                for corner in tl.static_range(1, 4):
                    value = tl.load(x + _corner(window, corner, W)[:, None] * C + channel[None, :]).to(tl.float32)
                    rival, _ = _mish(value * slant[None, :] + shift[None, :])
                    which = tl.where(rival > best, corner, which)
                    best = tl.maximum(best, rival)
                place = window[:, None] * C + channel[None, :]
                tl.store(y + place, best.to(y.dtype.element_ty))
                tl.store(winner + place, which.to(tl.uint8))
        else:
            y += sample * (HW * C)
            if ADD:
                added += sample * (HW * C)
            for h in range(0, HW, BH):
                place = (h + tl.arange(0, BH))[:, None] * C + channel[None, :]
                made, _ = _mish(tl.load(x + place).to(tl.float32) * slant[None, :] + shift[None, :])
                if ADD:
                    made += tl.load(added + place).to(tl.float32)
                tl.store(y + place, made.to(y.dtype.element_ty))


@triton.jit
def norm_mish_slope(
    x, slope, affine, winner, mean, rstd, dx, d_affine, owner, stride, d_stride,
    HW: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, POOL: tl.constexpr,
    CB: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """The slope with respect to x, and each sample's part of that of the affine parameters, [sample, (scale, shift)]."""
    sample = tl.program_id(0).to(tl.int64)
    client = tl.load(owner + sample)
    if client >= 0:
        channel = tl.program_id(1) * CB + tl.arange(0, CB)
        x += sample * (HW * C)
        dx += sample * (HW * C)
        middle = tl.load(mean + sample * C + channel)[None, :]
        scale = tl.load(rstd + sample * C + channel)[None, :]
        affine += client.to(tl.int64) * stride
        gain = tl.load(affine + channel)[None, :]
        shift = tl.load(affine + C + channel)[None, :]
        to_gain = tl.zeros((CB,), dtype=tl.float32)
        to_shift = tl.zeros((CB,), dtype=tl.float32)
        rows: tl.constexpr = HW // 4 if POOL else HW
        block: tl.constexpr = BW if POOL else BH
        slope += sample * (rows * C)
        winner += sample * (rows * C)
        for h in range(0, rows, block):
            row = h + tl.arange(0, block)
            place = row[:, None] * C + channel[None, :]
            seen = place
            if POOL:
                seen = _corner(row[:, None], tl.load(winner + place).to(tl.int32), W) * C + channel[None, :]
            standard = (tl.load(x + seen).to(tl.float32) - middle) * scale
            _, steep = _mish(standard * gain + shift)
            du = tl.load(slope + place).to(tl.float32) * steep
            to_shift += tl.sum(du, 0)
            to_gain += tl.sum(du * standard, 0)
        d_affine += sample * d_stride
        tl.store(d_affine + channel, to_gain)
        tl.store(d_affine + C + channel, to_shift)
        own = tl.load(affine + channel)
        level = (_group_sum(to_shift * own, CB, GROUP) / (HW * GROUP))[None, :]
        tilt = (_group_sum(to_gain * own, CB, GROUP) / (HW * GROUP))[None, :]
        if POOL:
            for h in range(0, HW // 4, BW):
                window = h + tl.arange(0, BW)
                place = window[:, None] * C + channel[None, :]
                which = tl.load(winner + place).to(tl.int32)
                chosen = _corner(window[:, None], which, W) * C + channel[None, :]
                standard = (tl.load(x + chosen).to(tl.float32) - middle) * scale
                _, steep = _mish(standard * gain + shift)
                du = tl.load(slope + place).to(tl.float32) * steep * gain
                for corner in tl.static_range(4):
                    there = _corner(window, corner, W)[:, None] * C + channel[None, :]
                    standard = (tl.load(x + there).to(tl.float32) - middle) * scale
                    made = (tl.where(which == corner, du, 0.0) - level - standard * tilt) * scale
                    tl.store(dx + there, made.to(dx.dtype.element_ty))
        else:
            for h in range(0, HW, BH):
                place = (h + tl.arange(0, BH))[:, None] * C + channel[None, :]
                standard = (tl.load(x + place).to(tl.float32) - middle) * scale
                _, steep = _mish(standard * gain + shift)
                du = tl.load(slope + place).to(tl.float32) * steep
                tl.store(dx + place, ((du * gain - level - standard * tilt) * scale).to(dx.dtype.element_ty))


@triton.jit
def descend_affine(
    d_affine, master, velocity, offsets, stride, lr, momentum, decay,
    SIZE: tl.constexpr, MOMENTUM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All clients' affine parameters, SIZE of them side by side, go down the sum of their samples' parts."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    client = tl.program_id(1)
    first = tl.load(offsets + client)
    last = tl.load(offsets + client + 1)
    if last > first:
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        part = d_affine + first.to(tl.int64) * SIZE + column
        for _ in range(first, last):
            total += tl.load(part, mask=column < SIZE, other=0.0)
            part += SIZE
        wide = client.to(tl.int64) * stride + column
        _descend(master + wide, velocity + wide, total, column < SIZE, lr, momentum, decay, MOMENTUM)


# average pool, linear layer and cross-entropy


@triton.jit
def head(
    x, weight, labels, offsets, owner, features, logits, losses, dx, stride,
    HW: tl.constexpr, C: tl.constexpr, K: tl.constexpr, LEARN: tl.constexpr,
    KP: tl.constexpr, CB: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    """Logits [sample, K] of a linear layer [client, (K, C) then K] on the average over positions.

    LEARN: also the losses, the slope with respect to x, and in the place of the logits that with respect to them.
    """
    sample = tl.program_id(0).to(tl.int64)
    client = tl.load(owner + sample)
    if client >= 0:
        k = tl.arange(0, KP)
        x += sample * (HW * C)
        features += sample * C
        weight += client.to(tl.int64) * stride
        made = tl.load(weight + K * C + k, mask=k < K, other=float("-inf"))
        for c in range(0, C, CB):
            channel = c + tl.arange(0, CB)
            total = tl.zeros((CB,), dtype=tl.float32)
            for h in range(0, HW, BH):
                value = tl.load(x + (h + tl.arange(0, BH))[:, None] * C + channel[None, :])
                total += tl.sum(value.to(tl.float32), 0)
            total /= HW
            tl.store(features + channel, total)
            w = tl.load(weight + k[:, None] * C + channel[None, :], mask=(k < K)[:, None], other=0.0)
            made += tl.sum(w * total[None, :], 1)
        if LEARN:
            label = tl.load(labels + sample)
            samples = (tl.load(offsets + client + 1) - tl.load(offsets + client)).to(tl.float32)
            made -= tl.max(made, 0)
            raised = tl.exp(made)
            whole = tl.sum(raised, 0)
            tl.store(losses + sample, tl.log(whole) - tl.sum(tl.where(k == label, made, 0.0), 0))
            made = (raised / whole - tl.where(k == label, 1.0, 0.0)) / samples
            dx += sample * (HW * C)
            for c in range(0, C, CB):
                channel = c + tl.arange(0, CB)
                w = tl.load(weight + k[:, None] * C + channel[None, :], mask=(k < K)[:, None], other=0.0)
                part = (tl.sum(w * made[:, None], 0) / HW).to(dx.dtype.element_ty)
                for h in range(0, HW, BH):
                    place = (h + tl.arange(0, BH))[:, None] * C + channel[None, :]
                    tl.store(dx + place, tl.broadcast_to(part[None, :], (BH, CB)))
        tl.store(logits + sample * K + k, made, mask=k < K)


@triton.jit
def descend_head(
    features, slope, master, velocity, offsets, stride, lr, momentum, decay,
    C: tl.constexpr, K: tl.constexpr, MOMENTUM: tl.constexpr, KP: tl.constexpr, CB: tl.constexpr,
):  # fmt: skip
    """The linear layer goes down its gradient, the sum of slope × feature; the first block sees to the bias."""
    channel = tl.program_id(0) * CB + tl.arange(0, CB)
    client = tl.program_id(1)
    first = tl.load(offsets + client)
    last = tl.load(offsets + client + 1)
    if last > first:
        k = tl.arange(0, KP)
        total = tl.zeros((KP, CB), dtype=tl.float32)
        alone = tl.zeros((KP,), dtype=tl.float32)
        slope += first.to(tl.int64) * K
        features += first.to(tl.int64) * C
        for _ in range(first, last):
            steep = tl.load(slope + k, mask=k < K, other=0.0)
            total += steep[:, None] * tl.load(features + channel)[None, :]
            alone += steep
            slope += K
            features += C
        wide = client.to(tl.int64) * stride + k[:, None] * C + channel[None, :]
        _descend(master + wide, velocity + wide, total, (k < K)[:, None], lr, momentum, decay, MOMENTUM)
        if tl.program_id(0) == 0:
            bias = client.to(tl.int64) * stride + K * C + k
            _descend(master + bias, velocity + bias, alone, k < K, lr, momentum, decay, MOMENTUM)
