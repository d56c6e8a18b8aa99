"""Whether what is written down as LLVM instructions is worth it: each inner loop of LeNet beside the same in plain numba.

    python benchmarks/vectors.py [--quick] [--repeats 9] [--widths 4 8 16] [--out FILE]

First each function of `executors/vectors.py` by itself, beside its plain form in `plain_vectors.py`, which numba may compile
with all the liberties of fast arithmetic: on shapes of LeNet's, everything in the first-level cache. Then a round of training
(loops.py) and answers for 1,000 images, with one function plain at a time and the kernels compiled anew. One thread, by its
own clock; all ways take turns in one process, medians of the repeats. A function stays written down where it is
1.3 times as fast by itself. Last the same round and answers with vectors of other widths than `executors/processor.py` finds
right for this machine: each in a process of its own, which take turns. Run it on ARM and on x86.
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from machine import RESULTS, ratios, target, way, write

WORTH = 1.3
IMAGES = 1_000
COUNT = 1_000
"""calls in a row"""
NAMES = ("multiply", "add_scaled", "spread_scaled", "dots", "outer", "largest")
WIDTHS = (4, 8, 16)
"""float32 in a vector of 128, 256 and 512 bits"""


def calls() -> dict[str, str]:
    """As the kernels of LeNet call them: convolutions, their slopes, and the first linear layer of ten samples."""
    from headgate.kernels.compiled_shapes import LANES, LONG, LONG_WIDE, WIDE, Grid, Window

    tile = Window(5, 2, True, Grid(1, 28, 28, 2), Grid(6, 14, 14)).tile
    block = f"{tile.lanes}, {tile.places}, {tile.vectors}, {tile.terms % LANES}, 5, {tile.terms // LANES}"
    wide = tile.vectors * tile.lanes
    return {
        "multiply": f"multiply({block}, x, 0, {tile.together}, 32, y, 0, {wide}, y, 0, out, 0, {6 * tile.together})",
        "add_scaled": f"add_scaled(5, {32 // LANES}, x, places, 64, y, 84, out, 0, 32)",
        "spread_scaled": f"spread_scaled(5, {32 // LANES}, x, places, 64, y, 0, 32, out, 84)",
        "dots": f"dots({LONG}, {WIDE}, {400 // LONG}, x, 0, 400, y, 0, 400, x, 0, out, 0, 128)",
        "outer": f"outer({LONG}, {LONG_WIDE}, 10, x, 0, 128, y, 0, 400, out, 0, 400)",
        "largest": f"largest(2, {-(-6 // LANES)}, 1, x, 0, 168, 6, out, 0, chosen, 0)",
    }


def kernels_with(plain: str | None) -> ModuleType:
    """The kernels, one function of theirs plain."""
    from headgate.kernels import kernel_calls, kernels

    made = ModuleType(kernels.__name__)
    made.__file__ = kernels.__file__
    source = Path(str(kernels.__file__)).read_text("utf-8")
    if plain is not None:
        start = "# activations\n"
        assert start in source
        source = source.replace(start, f"from plain_vectors import {plain}\n\n\n{start}")
    kept, kernel_calls.keep = kernel_calls.keep, lambda dispatcher, sources: dispatcher  # plain ones are not kept on disk
    try:
        exec(compile(source, str(made.__file__), "exec"), made.__dict__)
    finally:
        kernel_calls.keep = kept
    return made


def calling(module: Any, name: str) -> Callable[[], object]:
    """The function by itself, many times."""
    import numpy as np
    from numba import njit

    rng, space = np.random.default_rng(0), {name: getattr(module, name)}
    given = "x, y, out, places, chosen"
    exec(f"def many({given}):\n    for _ in range({COUNT}):\n        {calls()[name]}\n", space)
    x, y = (rng.random(8_000, np.float32) for _ in range(2))
    arrays = x, y, np.zeros(8_000, np.float32), rng.integers(0, 800, 64), np.zeros(8_000, np.uint16)
    made = njit(space["many"])
    return lambda: made(*arrays)


def working(plain: str | None) -> Callable[[], Any]:
    """A round, and some answers."""
    import loops
    import torch

    from headgate.kernels.compiled import Compiled

    work = loops.make("lenet", 1)
    executor = Compiled(work.task)
    executor.kernels = kernels_with(plain)
    images = torch.randint(0, 256, (IMAGES, *loops.SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    def do() -> Any:
        after, _ = executor.advance(work.theta, work.packed, work.weights, loops.TRAINING, range(1), 1)
        return after, executor.logits(work.theta, images)

    return do


def timed(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds, each way in turn."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats):
        for name, do in ways.items():
            began = time.thread_time_ns()
            do()
            times[name].append((time.thread_time_ns() - began) / 1e9)
    return times


def by_themselves(names: list[str], repeats: int) -> list[dict[str, Any]]:
    import plain_vectors

    from headgate.kernels import vectors

    cases = []
    for name in names:
        ways = {each: calling(module, name) for each, module in (("LLVM", vectors), ("plain numba", plain_vectors))}
        for do in ways.values():
            do()  # compiles
        cases.append(case(name, f"{name}, {COUNT} times", timed(ways, 10 * repeats), "plain numba"))
    return cases


def whole(names: list[str], repeats: int) -> dict[str, Any]:
    import torch

    ways = {"all LLVM": working(None), **{f"{name} plain": working(name) for name in names}}
    ours, *others = (do() for do in ways.values())  # also compiles
    for theirs in others:
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    return case("round", f"a round of LeNet and answers for {IMAGES} images", timed(ways, repeats), "all LLVM")


def widths(some: list[int], repeats: int) -> dict[str, Any]:
    """Each in processes of its own, as kernels are compiled for one width; no more than seconds comes back."""
    import json
    import subprocess
    import sys

    own = {f"{32 * lanes} bits": [sys.executable, __file__, "--width", str(lanes)] for lanes in some}
    times: dict[str, list[float]] = {name: [] for name in own}
    for _ in range(repeats):
        for name, command in own.items():
            told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            times[name].append(json.loads(told))
    return case("width", f"a round of LeNet and answers for {IMAGES} images, by the width of vectors", times, next(iter(own)))


def at_width(lanes: int) -> float:
    """Seconds of the fastest of some, with vectors of up to this width; 512 bits only in blocks that fill them."""
    from headgate.kernels import processor

    found = processor.vector_registers()
    processor.vector_registers = lambda: (min(lanes, 8), lanes, found[2])
    do = working(None)
    do()
    return min(timed({"own": do}, 9)["own"])


def case(name: str, title: str, times: dict[str, list[float]], against: str) -> dict[str, Any]:
    print(title)
    ways = [way(each, own) for each, own in times.items()]
    for entry in ways:
        entry["ratio_to"] = ratios(ways, entry, [against])
        print(f"    {entry['way']:22} {entry['median_ms']:9.3f} ms   x {against} {entry['ratio_to'][against]:.3g}", flush=True)
    return {"name": name, "title": title, "ways": ways}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three repeats; nothing is written without --out")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", nargs="*", default=list(NAMES), choices=NAMES, help="some of the functions")
    parser.add_argument("--widths", nargs="*", type=int, default=list(WIDTHS), choices=WIDTHS, help="numbers in a vector")
    parser.add_argument("--width", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="where to leave the results as JSON")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    if given.width:
        print(at_width(given.width))
        return
    repeats = 3 if given.quick else given.repeats
    alone = by_themselves(given.only, repeats)
    cases = [*alone, whole(given.only, repeats), *([widths(given.widths, repeats)] if given.widths else [])]
    targets = [
        target(f"{each['name']}: times as fast as plain numba", WORTH, each["ways"][0]["ratio_to"]["plain numba"])
        for each in alone
    ]
    if out := given.out or (None if given.quick else RESULTS / f"vectors_{platform.machine()}.json"):
        write(out, "vectors", {"repeats": repeats}, cases, targets)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
