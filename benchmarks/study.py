"""How long the paper's whole MNIST study takes: `headgate run mnist`, six policies (the released one among them), ten seeds.

    python benchmarks/study.py [--quick] [--case logistic lenet] [--out FILE]

Logistic regression is evaluated every round, LeNet every fifth; 100 rounds, on all cores, start-up, evaluation, records and
report included. LeNet is trained with lr 0.1: at the paper's 0.5 it breaks down, and a run that has costs little. Before that
one round is run that is not counted, so that byte code and compiled kernels are there, as on any machine that has run it
once. MNIST is read from $HEADGATE_DATA.
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
POLICIES = "oracle,acdpp,dpp,constant,hybrid,released"


def study(model: str, rounds: int, seeds: int, repeats: int) -> dict[str, Any]:
    settings = {"model.name": model, "training.lr": LR[model], "training.evaluate_every": EVERY[model]}
    words = [f"--set={key}={value}" for key, value in settings.items()]
    words += [f"--policies={POLICIES}", "--progress=none", "--device=cpu"]
    done = []
    for repeat in range(repeats + 1):
        with tempfile.TemporaryDirectory() as folder:
            size = [f"--rounds={rounds if repeat else 1}", f"--seeds={seeds if repeat else 1}", "--out", f"{folder}/run"]
            command = [sys.executable, "-m", "headgate.cli", "run", "mnist", *words, *size]
            done.append(run(command, {"PYTHONDONTWRITEBYTECODE": ""}, timeout=7200))
        say(f"study/{model}, {repeat} of {repeats}: {done[-1].seconds:.1f} s, {done[-1].peak_memory_mib:.0f} MiB")
    del done[0]
    memory = rounded(max(each.peak_memory_mib for each in done))
    return {
        "name": f"study/{model}",
        "title": f"the paper's MNIST study with {model}: 6 policies, {seeds} seeds, {rounds} rounds",
        "settings": {"evaluate_every": EVERY[model], "lr": LR[model]},
        "ways": [way("headgate run mnist", [each.seconds for each in done], peak_memory_mib=memory)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed and five rounds, once; nothing is written without --out")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--case", nargs="*", default=list(EVERY), choices=list(EVERY))
    parser.add_argument("--out", type=Path, help="where to leave the results as JSON")
    given = parser.parse_args()
    rounds, seeds, repeats = (5, 1, 1) if given.quick else (100, 10, given.repeats)
    cases = [study(model, rounds, seeds, repeats) for model in given.case]
    targets = []
    for model, case in zip(given.case, cases, strict=True):
        seconds = case["ways"][0]["median_ms"] / 1e3
        print(f"{case['title']}: {seconds:.1f} s")
        targets.append(target(f"{case['title']}, on two cores: seconds", MOST_SECONDS[model], seconds, "s", at_most=True))
    if out := given.out or (None if given.quick else RESULTS / "study.json"):
        write(out, "study", {"repeats": repeats}, cases, [] if given.quick else targets)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
