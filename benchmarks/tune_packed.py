"""Which tile is fastest for each convolution of ResNet-9 in the packed kernels, on the GPU of this machine.

    python benchmarks/tune_packed.py [--size 32] [--runs 10] [--samples 20] [--processes 12]

Prints what `packed_tiles.TUNED` takes, with the runners-up, and where the time of a whole step goes, kernel by kernel. A tile
that changes a bit of the result is marked. Candidates are compiled beforehand by several processes, which need no GPU.
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from headgate.kernels.packed_tiles import TUNED, Kind, Tile, count_tiles, power_in, tiles
from headgate.kernels.residual_net import Block, read_blocks
from headgate.kernels.residual_steps import Room, Workspace
from headgate.learning.local import LocalTraining
from headgate.learning.models import ResNet9
from headgate.learning.networks import build_model
from headgate.simulation.executors.types import Task

CLIENTS = 10
TRAINING = LocalTraining(lr=5e-3, steps=10)
# rows, columns, deep, warps, stages
SHAPES = [(128, 128, 64, 8, 3), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3),
          (256, 128, 64, 8, 4), (64, 128, 64, 4, 4), (64, 256, 64, 8, 4), (128, 64, 64, 4, 4), (64, 64, 64, 4, 4),
          (256, 64, 64, 4, 4)]  # fmt: skip
DESCENTS = [(128, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 3), (128, 256, 64, 8, 3), (64, 128, 64, 4, 3),
            (64, 128, 64, 4, 4), (64, 128, 128, 4, 3), (64, 64, 64, 4, 4), (64, 64, 64, 4, 6),
            (32, 64, 128, 4, 5)]  # fmt: skip


def candidates(kind: Kind, block: Block) -> Iterator[Tile]:
    """Those that divide what they must, each once."""
    seen = set()
    for rows, columns, deep, warps, stages in DESCENTS if kind == "descend" else SHAPES:
        if kind == "descend":
            tile = Tile(power_in(block.inward, rows), power_in(block.outward, columns), deep, warps, stages)
        else:
            made, summed = (block.outward, block.inward) if kind == "forward" else (block.inward, block.outward)
            tile = Tile(rows, power_in(made, columns), power_in(summed, deep), warps, stages)
        if tile not in seen:
            seen.add(tile)
            yield tile


def jobs(blocks: tuple[Block, ...]) -> dict[tuple[Kind, int, int], tuple[int, list[Tile]]]:
    """For each distinct convolution the place of a block and its candidates."""
    found = {}
    for i, block in enumerate(blocks):
        kinds: tuple[Kind, ...] = ("forward", "backward", "descend") if i else ("forward", "descend")
        for kind in kinds:
            found.setdefault((kind, block.inward, block.outward), (i, list(candidates(kind, block))))
    return found


def launch(space: Workspace, room: Room, kind: Kind, i: int) -> None:
    block = space.net.blocks[i]
    if kind == "descend":
        space._descend_convolution(room, i, (TRAINING.lr, 0.0, 0.0), False)
    elif kind == "forward":
        space._convolve(room, kind, block, space.inputs[i], space.raw[i], None)
    else:
        space._convolve(room, kind, block, space.raw_slope, space.slopes[0], None)


def task_for(size: int) -> Task:
    shape, half = (3, size, size), (0.5,) * 3
    return Task(build_model(ResNet9(), shape, 10), shape, 10, half, half, bfloat16=True)


class NoDriver:
    """Says what to compile for where there is no GPU."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compile_some(given: tuple[int, list[tuple[Kind, int, Tile]]]) -> None:
    size, work = given
    driver.set_active(NoDriver())
    JITFunction.__getitem__ = lambda self, grid: lambda *args, **options: self.warmup(*args, grid=grid, **options)
    net, room = read_blocks(task_for(size)), Room(16, 16)
    space = Workspace(net, room, False, torch.bfloat16, torch.device("cpu"))
    space.boxes = True
    for kind, i, tile in work:
        block = net.blocks[i]
        TUNED[kind, block.inward, block.outward] = tile
        space.tile_tables.setdefault((block.positions, tile.rows), torch.zeros(2, 16, dtype=torch.int32))
        try:
            launch(space, room, kind, i)
        except Exception as error:
            print("not compiled:", kind, tile, str(error)[:80])


def milliseconds(function: Callable[[], None], calls: int = 10) -> float:
    """Of one call among several in a graph."""
    function()
    torch.cuda.synchronize()
    graph, best = torch.cuda.CUDAGraph(), float("inf")
    with torch.cuda.graph(graph):
        for _ in range(calls):
            function()
    for _ in range(3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / calls)
    return best


def made(space: Workspace, kind: Kind, i: int) -> torch.Tensor:
    """What a launch has made."""
    block = space.net.blocks[i]
    if kind == "descend":
        return space.master[:, block.weights : block.weights + block.taps * block.inward * block.outward].clone()
    return (space.raw[i] if kind == "forward" else space.slopes[0]).clone()


def by_kernel(space: Workspace, room: Room) -> None:
    """Where the time of a step goes."""

    def step() -> None:
        space.forward(room, TRAINING)
        space.backward(room, TRAINING)

    print(f"a step: {milliseconds(step):.3f} ms")
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    for each in sorted(profiler.key_averages(), key=lambda each: -each.device_time_total):
        print(f"    {each.device_time_total / 1e3:8.3f} ms {each.count:4} times {each.key[:60]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=20, help="of each client")
    parser.add_argument("--processes", type=int, default=12)
    given = parser.parse_args()
    begin = time.perf_counter()
    task = task_for(given.size)
    found = jobs(read_blocks(task).blocks)
    flat = [(key[0], i, tile) for key, (i, every) in found.items() for tile in every]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        pool.map(compile_some, [(given.size, flat[n :: given.processes]) for n in range(given.processes)])
    print(f"{len(flat)} candidates compiled in {time.perf_counter() - begin:.0f} s", flush=True)

    net = read_blocks(task)
    clients = given.runs * CLIENTS
    room = Room(clients * given.samples, clients)
    space = Workspace(net, room, False, torch.bfloat16, torch.device("cuda"))
    offsets = np.arange(clients + 1) * given.samples
    space.set_tables(offsets)
    space.labels.zero_()
    for array in (*space.inputs, *space.raw, *space.slopes, space.raw_slope):
        array.normal_()
    start = 0.02 * torch.randn(given.runs, net.size, device="cuda")
    print("TUNED = {")
    for key, (i, every) in found.items():
        (kind, inward, outward), positions, times, first = key, net.blocks[i].positions, {}, None
        for tile in every:
            TUNED[key] = tile
            each = (positions, tile.rows)
            table = tiles(offsets, *each, count_tiles(*room, *each)).astype(np.int32)
            space.tile_tables[each] = torch.from_numpy(table).cuda()
            space.spread(start, np.arange(clients) // CLIENTS, False)
            try:
                launch(space, room, kind, i)
                found_here = made(space, kind, i)
                first = found_here if first is None else first
                if not torch.equal(first, found_here):
                    print(f"    # {key} {tuple(tile)}: other bits")
                times[tile] = milliseconds(lambda kind=kind, i=i: launch(space, room, kind, i))
            except Exception as error:  # too much shared memory, say
                print(f"    # {key} {tuple(tile)}: {str(error)[:60]}")
        TUNED[key] = min(times, key=times.__getitem__)
        flops = 2 * room.samples * positions * net.blocks[i].taps * inward * outward
        listed = " ".join(
            f"{tuple(tile)}:{flops / value / 1e9:.0f}" for tile, value in sorted(times.items(), key=lambda x: x[1])[:4]
        )
        print(f"    {key}: Tile{tuple(TUNED[key])},  # {times[TUNED[key]]:.3f} ms, TFLOP/s {listed}", flush=True)
    print("}")

    space = Workspace(net, room, False, torch.bfloat16, torch.device("cuda"))
    space.set_tables(offsets)
    space.labels.zero_()
    space.inputs[0].normal_()
    space.spread(start, np.arange(clients) // CLIENTS, False)
    by_kernel(space, room)


if __name__ == "__main__":
    main()
