"""What a round of local training costs: executors against the way it is usually
written.

    python benchmarks/executors.py [--quick] [--repeats 7] [--case logistic/1 mlp/10
    lenet/1@2 …] [--out FILE]

A case is model/runs, and @threads where it is not one thread; loops.py says what a
round is. Each case has a process of its own, with that many threads for all libraries
in it. All ways take turns there; medians of the repeats, each of which is the mean of
as many rounds as fit into 50 ms. Memory is the most that a process holds which takes
one way only.

"of peak" is the share of the speed of a 1024x1024x1024 matrix product, measured in the
same process, at which a way does its arithmetic. The Gram form does about a fifth of
the arithmetic of the others, and on the CPU always in one thread. For nets the share is
nominal: all multiplications of the usual algorithm are counted, while `compiled` leaves
out those of slopes at pixels that the pooling did not choose; "really" counts only what
it does. "of floor" is the share of the time that the Gram form's arithmetic would take
at that speed, and reading images and models once at the speed of a copy.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import (
    RESULTS,
    bandwidth,
    gemm_peak,
    peak_memory_mib,
    ratios,
    rounded,
    say,
    seconds,
    target,
    way,
    write,
)

CASES = ("logistic/1", "logistic/40", "decayed/10", "mlp/10", "lenet/1", "lenet/1@2")
MODELS = {
    "logistic": "logistic regression",
    "decayed": "logistic regression with weight decay",
    "mlp": "784-200-10 with ReLU",
    "lenet": "LeNet",
}
LOOPS = ("research style", "lean loop")
EXECUTORS = ("reference", "flat", "compiled", "batched", "gram")
ONLY = {"gram": "logistic"}
"""The model that an executor takes, where it does not take all."""
SLOW = {"research style": 2, "lean loop": 4, "reference": 2}
"""Of many runs, how many are timed; the time is scaled up, as these ways take one run
after the other.
"""


def ways_of(model: str) -> list[str]:
    return [name for name in (*LOOPS, *EXECUTORS) if ONLY.get(name, model) == model]


def split(case: str) -> tuple[str, int, int]:
    """(model, runs, threads) of model/runs@threads."""
    model, _, rest = case.partition("/")
    runs, _, threads = rest.partition("@")
    return model, int(runs), int(threads or 1)


# in the process of one case


def prepared(case: str, name: str) -> tuple[Any, Any, Any]:
    """All the work of the case, the part of it that a way does, and how it does it."""
    import loops

    model, runs, _ = split(case)
    work = loops.make(model, runs)
    part = work.part(min(runs, SLOW.get(name, runs)))
    own: dict[str, Any] = {
        "research style": loops.research_style,
        "lean loop": loops.lean_loop,
        "gram": loops.gram,
    }
    make = own.get(name) or loops.executor(name)
    return work, part, make(part)


def measure(case: str, repeats: int) -> dict[str, Any]:
    import torch

    model, runs, threads = split(case)
    torch.set_num_threads(threads)
    names = ways_of(model)
    ready = {name: prepared(case, name) for name in names}
    results = {}
    for name in names:  # also warms up
        say(f"{case}: {name}")
        results[name] = torch.as_tensor(ready[name][2]())
    times: dict[str, list[float]] = {name: [] for name in names}
    peaks, speeds = [], []
    for repeat in range(repeats):
        say(f"{case}: {repeat + 1} of {repeats}")
        peaks.append(gemm_peak())
        speeds.append(bandwidth())
        for name in names:
            work, part, do = ready[name]
            times[name].append(seconds(do) * runs / part.runs)
    peak, speed = sorted(peaks)[repeats // 2], sorted(speeds)[repeats // 2]
    judged, ways = results["reference"], []
    for name in names:
        work, part, _ = ready[name]
        entry = way(name, times[name])
        flops = work.gram_flops() if name == "gram" else work.flops()
        entry["share_of_peak"] = rounded(1e3 * flops / entry["median_ms"] / peak)
        if work.flops(name) < work.flops():
            entry["really_of_peak"] = rounded(
                1e3 * work.flops(name) / entry["median_ms"] / peak
            )
        if name == "gram":
            entry["share_of_floor"] = rounded(
                1e3 * (flops / peak + work.least_bytes() / speed) / entry["median_ms"]
            )
        least = min(len(results[name]), len(judged))
        update = judged[:least] - work.theta[:least]
        if name != "reference":
            entry["off"] = rounded(
                float((results[name][:least] - judged[:least]).norm() / update.norm())
            )
        if part.runs < runs:
            entry["note"] = f"timed on {part.runs} runs and scaled up"
        ways.append(entry)
    for entry in ways:
        entry["ms_a_run"] = rounded(entry["median_ms"] / runs)
        entry["ratio_to"] = ratios(ways, entry, LOOPS)
    settings = {
        "samples": len(work.packed.labels),
        "peak_gflops": rounded(peak / 1e9),
        "copy_gb_per_s": rounded(speed / 1e9),
    }
    title = (
        f"{MODELS[model]}, {runs} run{'s together' if runs > 1 else ''}, {threads}"
        f" thread{'s' if threads > 1 else ''}"
    )
    columns = [
        "ms_a_run",
        *(["really_of_peak"] if any("really_of_peak" in each for each in ways) else []),
    ]
    return {
        "name": case,
        "title": title,
        "settings": settings,
        "columns": columns,
        "ways": ways,
    }


def memory(case: str, name: str) -> float:
    """The most that this process holds with one way alone."""
    import torch

    torch.set_num_threads(split(case)[2])
    _, _, do = prepared(case, name)
    for _ in range(3):
        do()
    return rounded(peak_memory_mib())


# beside it


def child(case: str, *words: str) -> Any:
    """What this script says about a case in a process of its own."""
    threads = str(split(case)[2])
    limits = {
        f"{library}_NUM_THREADS": threads
        for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")
    }
    command = [sys.executable, __file__, "--only", case, *words]
    done = subprocess.run(
        command,
        env={**os.environ, **limits},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def table(case: dict[str, Any]) -> None:
    told = case["settings"]
    print(
        "\n"
        f"{case['title']}, {told['samples']} samples; GEMM peak"
        f" {told['peak_gflops']:.1f} GFLOP/s, copy {told['copy_gb_per_s']:.1f} GB/s"
    )
    heads = (
        "ms a round",
        "least",
        "most",
        "ms a run",
        "x research",
        "x lean",
        "of peak",
        "of floor",
        "MiB",
        "off",
    )
    print(" " * 18 + "".join(f"{head:>11}" for head in heads))
    for each in case["ways"]:
        floor = (
            f"{each['share_of_floor']:11.1%}" if "share_of_floor" in each else " " * 11
        )
        print(
            f"{each['way'] + (' *' if 'note' in each else ''):18}"
            + "".join(
                f"{each[key]:11.2f}"
                for key in ("median_ms", "min_ms", "max_ms", "ms_a_run")
            )
            + "".join(f"{each['ratio_to'][loop]:11.1f}" for loop in LOOPS)
            + f"{each['share_of_peak']:11.1%}{floor}{each['peak_memory_mib']:11.0f}"
            + f"{each.get('off', 0.0):11.1e}"
            + (
                f"   really {each['really_of_peak']:.1%} of peak"
                if "really_of_peak" in each
                else ""
            )
        )
    for note in sorted(
        {f"* {each['way']}: {each['note']}" for each in case["ways"] if "note" in each}
    ):
        print(note)


def targets(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the project asks of the CPU, for the cases that were measured."""
    found = {
        (case["name"], each["way"]): each for case in cases for each in case["ways"]
    }
    rows = []
    for case, runs, required, most in (
        ("logistic/1", "1 run", 150, 0.7),
        ("logistic/40", "40 runs together", 300, 0.45),
    ):
        if gram := found.get((case, "gram")):
            text = (
                f"logistic regression on one thread, {runs}: times as fast as the"
                " research-style loop"
            )
            rows.append(target(text, required, gram["ratio_to"]["research style"]))
            text = (
                f"logistic regression on one thread, {runs}: milliseconds a round"
                " and run"
            )
            rows.append(target(text, most, gram["ms_a_run"], "ms", at_most=True))
    if gram := found.get(("logistic/1", "gram")):
        text = "logistic regression, 1 run: share of the Gram form's floor"
        rows.append(target(text, 15, 100 * gram["share_of_floor"], "%"))
    for case, threads in (("lenet/1", "one thread"), ("lenet/1@2", "two threads")):
        if compiled := found.get((case, "compiled")):
            text = f"LeNet, {threads} each: times as fast as the research-style loop"
            rows.append(target(text, 12, compiled["ratio_to"]["research style"]))
            rows.append(
                target(
                    f"LeNet, {threads}: nominal share of the GEMM peak",
                    60,
                    100 * compiled["share_of_peak"],
                    "%",
                )
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three repeats")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--case",
        nargs="*",
        default=list(CASES),
        help="model/runs or model/runs@threads",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="where to leave the results as JSON; a quick run leaves none without it",
    )
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    given = parser.parse_args()
    repeats = 3 if given.quick else given.repeats
    if given.only:
        print(
            json.dumps(
                memory(given.only, given.memory)
                if given.memory
                else measure(given.only, repeats)
            )
        )
        return
    print("off: distance from the reference (float64), relative to the update")
    cases = []
    for name in given.case:
        case = child(name, "--repeats", str(repeats))
        for each in case["ways"]:
            say(f"{name}: memory of {each['way']}")
            each["peak_memory_mib"] = child(name, "--memory", each["way"])
        table(case)
        cases.append(case)
    if out := given.out or (None if given.quick else RESULTS / "executors.json"):
        write(out, "executors", {"repeats": repeats}, cases, targets(cases))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
