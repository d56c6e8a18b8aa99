"""Which tile is fastest for each convolution of ResNet-9 in the packed kernels, on the GPU of this machine.

    python benchmarks/tune_packed.py [--size 32] [--runs 10] [--samples 20] [--processes 12]

Prints what `packed_tiles.TUNED` takes, and the time of a whole step for several shapes of the normalisation. Candidates are
compiled beforehand by several processes, which need no GPU.
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from headgate.learning.local import LocalTraining
from headgate.learning.models import ResNet9
from headgate.learning.networks import build_model
from headgate.simulation.executors import packed_steps
from headgate.simulation.executors.packed_net import Block, read_blocks
from headgate.simulation.executors.packed_steps import Room, Workspace
from headgate.simulation.executors.packed_tiles import TUNED, Kind, Tile, count_tiles, power_in, tiles
from headgate.simulation.executors.types import Task

CLIENTS = 10
TRAINING = LocalTraining(lr=5e-3, steps=10)
# rows, columns, deep, warps, stages
SHAPES = [(128, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 3), (128, 256, 64, 8, 3), (256, 128, 64, 8, 3),
          (64, 128, 64, 4, 4), (64, 256, 64, 8, 4), (128, 64, 64, 4, 4), (64, 64, 64, 4, 4), (128, 128, 32, 8, 4)]  # fmt: skip
DESCENTS = [(128, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 3), (128, 128, 128, 8, 2), (64, 128, 64, 4, 4),
            (64, 128, 128, 4, 3), (64, 64, 64, 4, 4), (64, 256, 64, 8, 3), (128, 256, 64, 8, 3),
            (64, 64, 128, 4, 3)]  # fmt: skip
NORMS = [(64, 64, 32, 4), (64, 64, 16, 4), (64, 32, 16, 4), (64, 64, 32, 8), (32, 128, 32, 4), (64, 128, 32, 8),
         (128, 32, 8, 4)]  # fmt: skip


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
    for kind, i, tile in work:
        block = net.blocks[i]
        TUNED[kind, block.inward, block.outward] = tile
        space.tile_tables.setdefault((block.positions, tile.rows), torch.zeros(2, 16, dtype=torch.int32))
        try:
            launch(space, room, kind, i)
        except Exception as error:
            print("not compiled:", kind, tile, str(error)[:80])


def milliseconds(function: Callable[[], None], repeats: int = 5) -> float:
    function()
    best = float("inf")
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end))
    return best


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
    space.spread(0.02 * torch.randn(given.runs, net.size, device="cuda"), np.arange(clients) // CLIENTS, False)
    print("TUNED = {")
    for key, (i, every) in found.items():
        (kind, inward, outward), positions, times = key, net.blocks[i].positions, {}
        for tile in every:
            TUNED[key] = tile
            each = (positions, tile.rows)
            table = tiles(offsets, *each, count_tiles(*room, *each)).astype(np.int32)
            space.tile_tables[each] = torch.from_numpy(table).cuda()
            try:
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
    space.spread(0.02 * torch.randn(given.runs, net.size, device="cuda"), np.arange(clients) // CLIENTS, False)
    for norm in NORMS:
        packed_steps.NORM = norm
        forward = milliseconds(lambda: space.forward(room, TRAINING))
        backward = milliseconds(lambda: space.backward(room, TRAINING))
        print(f"NORM = {norm}: forward {forward:.3f} ms, backward {backward:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
