"""Hand-written kernels against the next simpler way: a round of local training, judged
on 10,000 images.

    python benchmarks/next_simpler.py [--device cuda] [--repeats 5] [--images 10000]
    [--case lenet …] [--out FILE] [--commit ID]

A kernel of our own stays where a round by it, judging included, is at least twice as
fast as by the next simpler way.

- cpu, one thread, one LeNet run (loops.py says what a round is): `compiled`; im2col and
  BLAS with plain numba (im2col.py); `flat` with gradients and answers by torch.compile;
  `flat` as it is.
- cuda, ten runs of ten clients: ResNet-9 in bfloat16 with 20 images a client, LeNet in
  float32 with ragged buffers. `triton`; `streams` or `batched`; vmap with
  torch.compile, recorded as CUDA graphs; grouped convolutions, written out, with
  torch.compile and its CUDA graphs.

Each way is tried by itself: it prints its times, or why it has none. On the CPU the
time is the processor's, in one thread. `cold_s` is what three rounds take before
anything is measured, compilers included.
"""

import argparse
import copy
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from machine import RESULTS, rounded, say, write
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import conv2d, cross_entropy, group_norm

from headgate.learning.architectures import Residual
from headgate.simulation.executors import choose
from headgate.simulation.nets import Evaluator


class Way(NamedTuple):
    """How to do it; both give what is to be compared, or nothing."""

    train: Callable[[], Any]
    judge: Callable[[], Any]


# one LeNet run on the CPU


def by_executor(
    work: Any, name: str, images: Tensor, labels: Tensor, own: Any = None
) -> Way:
    executor = own or choose(work.task, work.training, name)
    judge = Evaluator(work.task, images, labels, executor)
    return Way(
        lambda: executor.advance(
            work.theta,
            work.packed,
            work.weights,
            work.training,
            range(len(work.theta)),
            1,
        )[0],
        lambda: judge(work.theta),
    )


def im2col(work: Any, images: Tensor, labels: Tensor) -> Way:
    from im2col import Im2col

    from headgate.simulation.executors.gram import one_thread

    ours, theta, weights = Im2col(work.task), work.theta.numpy(), work.weights.numpy()
    train = one_thread()(
        lambda: torch.from_numpy(ours.round(theta, work.packed, weights, work.training))
    )
    return Way(train, one_thread()(lambda: ours.logits(theta, images.numpy())))


def compiled_loop(work: Any, images: Tensor, labels: Tensor) -> Way:
    """Client by client: the loss is compiled once for any number of samples, and so is
    its gradient.
    """
    model, flat, training = (
        copy.deepcopy(work.task.model),
        work.task.flat,
        work.training,
    )

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, parameters, (x,)), y)

    fast = torch.compile(loss, dynamic=True)

    def step(vector: Tensor, x: Tensor, y: Tensor) -> Tensor:
        parameters = {
            name: view.detach().requires_grad_()
            for name, view in flat.views(vector).items()
        }
        change = torch.autograd.grad(fast(parameters, x, y), list(parameters.values()))
        return vector - training.lr * torch.cat([each.reshape(-1) for each in change])

    answer = torch.compile(
        lambda vector, x: functional_call(model, flat.views(vector), (x,)),
        dynamic=False,
    )
    offsets, clients = work.packed.offsets.tolist(), work.weights.shape[1]

    def train() -> Tensor:
        after, pixels = work.theta.clone(), work.task.normalised(work.packed.images)
        for segment, share in enumerate(work.weights.reshape(-1).tolist()):
            own, run = slice(offsets[segment], offsets[segment + 1]), segment // clients
            if own.stop > own.start:
                local = work.theta[run]
                for _ in range(training.steps):
                    local = step(local, pixels[own], work.packed.labels[own])
                after[run] += share * (local - work.theta[run])
        return after

    def judge() -> list[Tensor]:
        with torch.no_grad():
            pieces = torch.split(images, 1_000)
            return [
                torch.cat(
                    [answer(vector, work.task.normalised(some)) for some in pieces]
                )
                for vector in work.theta
            ]

    return Way(train, judge)


def cpu_cases(images: int) -> dict[str, dict[str, Callable[[], Way]]]:
    import loops

    torch.set_num_threads(1)
    work, random = loops.make("lenet", 1), torch.Generator().manual_seed(0)
    pictures = torch.randint(
        0, 256, (images, *loops.SHAPE), dtype=torch.uint8, generator=random
    )
    given = pictures, torch.randint(0, loops.CLASSES, (images,), generator=random)
    return {
        "lenet": {
            "compiled": partial(by_executor, work, "compiled", *given),
            "im2col and BLAS": partial(im2col, work, *given),
            "torch.compile": partial(compiled_loop, work, *given),
            "flat": partial(by_executor, work, "flat", *given),
        }
    }


# ten runs on a GPU


def compiled_vmap(work: Any, images: Tensor, labels: Tensor) -> Way:
    """The executor `batched`, whose gradients torch.compile makes; it records its steps
    as CUDA graphs itself.
    """
    from headgate.simulation.executors.batched import Batched

    task = copy.copy(work.task)
    coarse = task.bfloat16
    object.__setattr__(task, "bfloat16", False)
    ours = Batched(task)

    def loss(
        parameters: dict[str, Tensor], x: Tensor, y: Tensor, share: Tensor
    ) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=coarse):
            logits = functional_call(ours.model, parameters, (x,))
        return (cross_entropy(logits.float(), y, reduction="none") * share).sum()

    ours.gradients = torch.compile(vmap(grad_and_value(loss)), dynamic=False)
    return Way(
        by_executor(work, "batched", images, labels, ours).train,
        grouped_judge(work, images),
    )


def grouped(
    module: nn.Module,
    parameters: dict[str, Tensor],
    x: Tensor,
    clients: int,
    prefix: str = "",
) -> Tensor:
    """A module for many clients: x is (n, clients·channels, H, W) and each parameter
    has clients in front.
    """
    own = {
        name: parameters[prefix + name]
        for name, _ in module.named_parameters(recurse=False)
    }
    if isinstance(module, nn.Sequential):
        for name, part in module.named_children():
            x = grouped(part, parameters, x, clients, f"{prefix}{name}.")
        return x
    if isinstance(module, Residual):
        return x + grouped(module.f, parameters, x, clients, f"{prefix}f.")
    if isinstance(module, nn.Conv2d):
        bias = own["bias"].flatten().to(x.dtype) if "bias" in own else None
        return conv2d(
            x,
            own["weight"].flatten(0, 1).to(x.dtype),
            bias,
            padding=module.padding,
            groups=clients,
        )
    if isinstance(module, nn.GroupNorm):
        return group_norm(
            x,
            clients * module.num_groups,
            own["weight"].flatten(),
            own["bias"].flatten(),
            module.eps,
        ).to(x.dtype)
    if isinstance(module, nn.Flatten):
        return x.reshape(len(x), clients, -1).transpose(0, 1)
    if isinstance(module, nn.Linear):
        return torch.baddbmm(
            own["bias"][:, None].to(x.dtype),
            x,
            own["weight"].transpose(1, 2).to(x.dtype),
        )
    return module(x)


def grouped_convolutions(work: Any, images: Tensor, labels: Tensor) -> Way:
    """All clients as the groups of one net; shorter buffers are filled up, and what
    fills up does not count.
    """
    task, training, offsets = work.task, work.training, work.packed.offsets
    clients, sizes = work.weights.shape[1], offsets[1:] - offsets[:-1]
    busy = sizes.nonzero()[0]
    most = int(sizes.max())
    rows = torch.tensor(
        [[offsets[m] + min(i, sizes[m] - 1) for m in busy] for i in range(most)],
        device=task.device,
    )
    share = torch.tensor(
        [[(i < sizes[m]) / sizes[m] for m in busy] for i in range(most)],
        device=task.device,
    ).float()
    run = torch.as_tensor(busy // clients, device=task.device)
    names, many = list(task.flat.shapes), len(busy)

    def loss(parameters: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
        logits = grouped(task.model, dict(zip(names, parameters, strict=True)), x, many)
        each = cross_entropy(
            logits.float().flatten(0, 1), y.T.flatten(), reduction="none"
        )
        return (each.view(many, -1).T * share).sum()

    fast = torch.compile(loss, mode="reduce-overhead", dynamic=False)

    def train() -> Tensor:
        pixels = task.normalised(work.packed.images[rows.flatten()]).view(
            most, -1, *task.shape[1:]
        )
        x = pixels.to(task.arithmetic, memory_format=torch.channels_last)
        y, start = work.packed.labels[rows], work.theta[run]
        local = [
            each.clone().requires_grad_() for each in task.flat.views(start).values()
        ]
        for _ in range(training.steps):
            torch.compiler.cudagraph_mark_step_begin()
            change = torch.autograd.grad(fast(local, x, y), local)
            with torch.no_grad():
                torch._foreach_sub_(local, change, alpha=training.lr)
        moves = torch.cat([each.detach().flatten(1) for each in local], dim=1) - start
        weights = work.weights.flatten()[torch.as_tensor(busy, device=task.device)]
        return work.theta.clone().index_add_(0, run, weights[:, None] * moves)

    return Way(train, grouped_judge(work, images))


def grouped_judge(
    work: Any, images: Tensor, together: int = 500
) -> Callable[[], Tensor]:
    """All models as the groups of one net, on some images at a time, compiled and
    recorded.
    """
    task, runs = work.task, len(work.theta)

    def answer(parameters: dict[str, Tensor], pixels: Tensor) -> Tensor:
        x = (
            task.normalised(pixels)
            .repeat(1, runs, 1, 1)
            .to(task.arithmetic, memory_format=torch.channels_last)
        )
        return grouped(task.model, parameters, x, runs)

    fast = torch.compile(answer, mode="reduce-overhead", dynamic=False)

    def judge() -> Tensor:
        with torch.no_grad():
            views = task.flat.views(work.theta)
            made = []
            for some in torch.split(images, together):
                torch.compiler.cudagraph_mark_step_begin()
                made.append(fast(views, some).clone())
            return torch.cat(made, dim=1)

    return judge


def cuda_cases(images: int) -> dict[str, dict[str, Callable[[], Way]]]:
    import gpu

    torch.backends.cudnn.allow_tf32 = False
    made = {}
    for model, coarse, simple in (
        ("resnet9", True, "streams"),
        ("lenet", False, "batched"),
    ):
        work = gpu.make(model, 10, bfloat16=coarse)
        pictures = torch.randint(
            0, 256, (images, *gpu.SHAPES[model]), dtype=torch.uint8, device=gpu.DEVICE
        )
        given = pictures, torch.randint(0, gpu.CLASSES, (images,), device=gpu.DEVICE)
        made[model] = {
            "triton": partial(by_executor, work, "triton", *given),
            simple: partial(by_executor, work, simple, *given),
            "vmap, torch.compile, CUDA graphs": partial(compiled_vmap, work, *given),
            "grouped convolutions, torch.compile, CUDA graphs": partial(
                grouped_convolutions, work, *given
            ),
        }
    return made


# measuring


def measure(
    name: str, make: Callable[[], Way], repeats: int, device: str
) -> dict[str, Any]:
    """The times of a way, or its error."""
    began, wait = (
        time.perf_counter(),
        torch.cuda.synchronize if device == "cuda" else lambda: None,
    )
    clock = time.perf_counter if device == "cuda" else time.process_time

    def timed(do: Callable[[], Any]) -> list[float]:
        times = []
        for _ in range(repeats):
            start = clock()
            do()
            wait()
            times.append(clock() - start)
        return times

    try:
        way = make()
        for _ in range(3):
            way.train()
            way.judge()
        wait()
        cold = time.perf_counter() - began
        trained, judged = timed(way.train), timed(way.judge)
    except Exception as error:
        # a compiler may fail in any way, and the others are still to be measured
        say(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
        return {
            "way": name,
            "note": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
        }
    whole = [one + other for one, other in zip(trained, judged, strict=True)]
    entry = {"way": name} | {
        key: rounded(1e3 * value)
        for key, value in {
            "median_ms": median(whole),
            "min_ms": min(whole),
            "max_ms": max(whole),
            "train_ms": median(trained),
            "judge_ms": median(judged),
        }.items()
    }
    entry["cold_s"] = rounded(cold)
    return entry


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--case", nargs="*", help="resnet9, lenet; all if left out")
    parser.add_argument("--out", type=Path, help="where to leave the results as JSON")
    parser.add_argument("--commit", help="what was measured, on machines without git")
    given = parser.parse_args()
    cases = []
    for case, ways in (cuda_cases if given.device == "cuda" else cpu_cases)(
        given.images
    ).items():
        if given.case and case not in given.case:
            continue
        entries = list[dict[str, Any]]()
        for name, make in ways.items():
            entry = measure(name, make, given.repeats, given.device)
            entries.append(entry)
            if "median_ms" in entry and "median_ms" in entries[0]:
                entry["ratio_to"] = {
                    entries[0]["way"]: rounded(
                        entries[0]["median_ms"] / entry["median_ms"]
                    )
                }
            print(f"{case}: {entry}", flush=True)
        cases.append(
            {
                "name": case,
                "columns": ["train_ms", "judge_ms", "cold_s"],
                "ways": entries,
            }
        )
    machine = {"gpu": torch.cuda.get_device_name()} if given.device == "cuda" else {}
    out = given.out or RESULTS / f"next_simpler_{given.device}.json"
    settings = {"repeats": given.repeats, "images": given.images}
    write(out, "next_simpler", settings, cases, known_commit=given.commit, **machine)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
