"""What it costs to judge LeNets on 10,000 images: torch, model by model, and the
compiled kernels.

    python benchmarks/judging.py [--quick] [--repeats 5] [--out FILE]

Two models that have learnt for a round, images as of MNIST (made up), one thread and
two. Both ways take turns in one process. Said of the compiled kernels is how many
answers differ from those of float64.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from machine import RESULTS, gemm_peak, ratios, rounded, seconds, target, way, write

RUNS, IMAGES, FASTER = 2, 10_000, 3
FLOPS = 833_040
"""of a LeNet's answer"""


def measure(threads: int, repeats: int, images_: int) -> dict[str, Any]:
    import loops
    import torch

    from headgate.simulation.executors import choose
    from headgate.simulation.nets import Evaluator

    torch.set_num_threads(threads)
    work, random = loops.make("lenet", RUNS), torch.Generator().manual_seed(0)
    executor = choose(work.task, work.training, "compiled")
    theta, _ = executor.advance(
        work.theta, work.packed, work.weights, work.training, range(RUNS), 1
    )
    images = torch.randint(
        0, 256, (images_, *loops.SHAPE), dtype=torch.uint8, generator=random
    )
    labels = torch.randint(0, loops.CLASSES, (images_,), generator=random)
    ways = {
        "torch": Evaluator(work.task, images, labels),
        "compiled": Evaluator(work.task, images, labels, executor),
    }
    for judge in ways.values():
        judge(theta)
    times: dict[str, list[float]] = {name: [] for name in ways}
    peaks = []
    for _ in range(repeats):
        peaks.append(gemm_peak())
        for name, judge in ways.items():
            times[name].append(seconds(partial(judge, theta)))
    entries = [way(name, own) for name, own in times.items()]
    for entry in entries:
        entry["ms_a_run"], entry["ratio_to"] = (
            rounded(entry["median_ms"] / RUNS),
            ratios(entries, entry, ["torch"]),
        )
        entry["share_of_peak"] = rounded(
            1e3
            * FLOPS
            * RUNS
            * images_
            / entry["median_ms"]
            / sorted(peaks)[repeats // 2]
        )
    changed = int(
        (executor.logits(theta, images).argmax(dim=-1) != exactly(theta, images)).sum()
    )
    entries[1]["note"] = (
        f"{changed} of {RUNS * images_:,} answers are not those of float64"
    )
    title = (
        f"{RUNS} LeNets judged on {images_:,} images, {threads}"
        f" thread{'s' if threads > 1 else ''}"
    )
    for entry in entries:
        told = (
            f"{entry['median_ms']:9.1f} ms   x torch {entry['ratio_to']['torch']:.3g}  "
            f" of peak {entry['share_of_peak']:.1%}"
        )
        print(
            f"{title}: {entry['way']:10} {told}   {entry.get('note', '')}", flush=True
        )
    return {
        "name": f"judging/{threads}",
        "title": title,
        "columns": ["ms_a_run"],
        "ways": entries,
    }


def exactly(theta: Any, images: Any) -> Any:
    """What the models answer in float64."""
    import loops
    import torch
    from torch.func import functional_call

    from headgate.simulation.executors.types import Task

    task = Task(
        loops.module("lenet").double(),
        loops.SHAPE,
        loops.CLASSES,
        (loops.MEAN,),
        (loops.STD,),
        torch.float64,
    )
    with torch.no_grad():
        said = [
            functional_call(
                task.model, task.flat.views(each.double()), (task.normalised(images),)
            )
            for each in theta
        ]
    return torch.stack(said).argmax(dim=-1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="once, 1,000 images; nothing is written without --out",
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="where to leave the results as JSON")
    given = parser.parse_args()
    repeats, images = (1, 1_000) if given.quick else (given.repeats, IMAGES)
    cases = [measure(threads, repeats, images) for threads in (1, 2)]
    targets = [
        target(
            f"{each['title']}: times as fast as torch",
            FASTER,
            each["ways"][1]["ratio_to"]["torch"],
        )
        for each in cases
    ]
    if out := given.out or (None if given.quick else RESULTS / "judging.json"):
        write(
            out, "judging", {"repeats": repeats}, cases, [] if given.quick else targets
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
