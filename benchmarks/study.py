"""How long the paper's whole MNIST study takes: `headgate run mnist`, six policies (the
released one among them), ten seeds.

    python benchmarks/study.py [--quick] [--case logistic lenet] [--out FILE]
    python benchmarks/study.py --device cuda [--repeats 3] [--out FILE]

Logistic regression is evaluated every round, LeNet every fifth; 100 rounds, on all
cores, start-up, evaluation, records and report included. LeNet is trained with lr 0.1:
at the paper's 0.5 it breaks down, and a run that has costs little. Before that one
round is run that is not counted, so that byte code and compiled kernels are there, as
on any machine that has run it once. MNIST is read from $HEADGATE_DATA. On a GPU: LeNet,
four policies, evaluated every round.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from children import run
from machine import RESULTS, rounded, say, target, way, write

EVERY = {"logistic": 1, "lenet": 5}
LR = {"logistic": 0.5, "lenet": 0.1}
MOST_SECONDS = {"logistic": 20, "lenet": 300}
POLICIES = {
    "cpu": "oracle,acdpp,dpp,constant,hybrid,released",
    "cuda": "oracle,acdpp,dpp,constant",
}
MOST_SECONDS_ON_GPU = 12


def study(
    model: str, device: str, rounds: int, seeds: int, repeats: int
) -> dict[str, Any]:
    every = EVERY[model] if device == "cpu" else 1
    settings = {
        "model.kind": model,
        "training.lr": LR[model],
        "training.evaluate_every": every,
        "policies.released.kind": "studies.zoo.released:Released",
    }
    words = [f"--set={key}={value}" for key, value in settings.items()]
    words += [f"--policies={POLICIES[device]}", "--progress=none", f"--device={device}"]
    done = []
    for repeat in range(repeats + 1):
        with tempfile.TemporaryDirectory() as folder:
            size = [
                f"--rounds={rounds if repeat else 1}",
                f"--seeds={seeds if repeat else 1}",
                "--out",
                f"{folder}/run",
            ]
            command = [
                sys.executable,
                "-m",
                "headgate.cli",
                "run",
                "mnist",
                *words,
                *size,
            ]
            done.append(run(command, {"PYTHONDONTWRITEBYTECODE": ""}, timeout=7200))
        say(
            f"study/{model}, {repeat} of {repeats}: {done[-1].seconds:.1f} s,"
            f" {done[-1].peak_memory_mib:.0f} MiB"
        )
    del done[0]
    memory = rounded(max(each.peak_memory_mib for each in done))
    policies = len(POLICIES[device].split(","))
    return {
        "name": f"study/{model}",
        "title": (
            f"the paper's MNIST study with {model}: {policies} policies, {seeds} seeds,"
            f" {rounds} rounds"
        ),
        "settings": {"evaluate_every": every, "lr": LR[model]},
        "ways": [
            way(
                "headgate run mnist",
                [each.seconds for each in done],
                peak_memory_mib=memory,
            )
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one seed and five rounds, once; nothing is written without --out",
    )
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument(
        "--case", nargs="*", choices=list(EVERY), help="default: both, on a GPU LeNet"
    )
    parser.add_argument("--device", default="cpu", choices=list(POLICIES))
    parser.add_argument("--out", type=Path, help="where to leave the results as JSON")
    given = parser.parse_args()
    rounds, seeds, repeats = (5, 1, 1) if given.quick else (100, 10, given.repeats)
    on_gpu = given.device == "cuda"
    models = given.case or (["lenet"] if on_gpu else list(EVERY))
    cases = [study(model, given.device, rounds, seeds, repeats) for model in models]
    targets = []
    for model, case in zip(models, cases, strict=True):
        seconds = case["ways"][0]["median_ms"] / 1e3
        print(f"{case['title']}: {seconds:.1f} s")
        most, where = (
            (MOST_SECONDS_ON_GPU, "on a GPU")
            if on_gpu
            else (MOST_SECONDS[model], "on two cores")
        )
        targets.append(
            target(
                f"{case['title']}, {where}: seconds", most, seconds, "s", at_most=True
            )
        )
    name = "study_gpu" if on_gpu else "study"
    if out := given.out or (None if given.quick else RESULTS / f"{name}.json"):
        more = {"device": _gpu()} if on_gpu else {}
        write(
            out,
            name,
            {"repeats": repeats},
            cases,
            [] if given.quick else targets,
            **more,
        )


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
