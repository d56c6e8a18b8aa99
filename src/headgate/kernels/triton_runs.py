# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Triton kernels that bring the models of the runs to their clients, and back as averages."""

import triton
import triton.language as tl


@triton.jit
def spread(
    start, master, velocity, low, run_of, size, low_size, MOMENTUM: tl.constexpr, LOW: tl.constexpr, BLOCK: tl.constexpr
):
    """Every client starts from its run's model, at rest."""
    client = tl.program_id(1)
    run = tl.load(run_of + client)
    if run >= 0:
        column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(start + run.to(tl.int64) * size + column, mask=column < size, other=0.0)
        wide = client.to(tl.int64) * size + column
        tl.store(master + wide, value, mask=column < size)
        if MOMENTUM:
            tl.store(velocity + wide, tl.zeros((BLOCK,), dtype=tl.float32), mask=column < size)
        if LOW:
            own = low + client.to(tl.int64) * low_size + column
            tl.store(own, value.to(low.dtype.element_ty), mask=column < low_size)


@triton.jit
def average(start, master, shares, run_offsets, after, size, BLOCK: tl.constexpr):
    """Each run's model plus its clients' moves times their shares; one of share 0 adds nothing, not even a nan."""
    run = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide = run.to(tl.int64) * size + column
    before = tl.load(start + wide, mask=column < size, other=0.0)
    moved = before
    first = tl.load(run_offsets + run)
    shares += first
    local = master + first.to(tl.int64) * size + column
    for _ in range(first, tl.load(run_offsets + run + 1)):
        share = tl.load(shares)
        move = tl.load(local, mask=column < size, other=0.0) - before
        moved = tl.where(share != 0, moved + share * move, moved)
        shares += 1
        local += size
    tl.store(after + wide, moved, mask=column < size)


@triton.jit
def mean_losses(losses, offsets, run_offsets, means, BLOCK: tl.constexpr):
    """The mean over all samples of each run; 0/0 is nan."""
    run = tl.program_id(0)
    first = tl.load(offsets + tl.load(run_offsets + run))
    last = tl.load(offsets + tl.load(run_offsets + run + 1))
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for s in range(first, last, BLOCK):
        sample = s + tl.arange(0, BLOCK)
        total += tl.load(losses + sample, mask=sample < last, other=0.0)
    tl.store(means + run, tl.sum(total, 0) / (last - first).to(tl.float32))
