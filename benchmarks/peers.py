"""headgate beside other simulators: Flower, pfl-research, and FLUTE's published
numbers.

    python benchmarks/peers.py [--quick] [--case flower/logistic flower/lenet pfl/1
    pfl/2 flute] [--out FILE]

`make bench-peers` runs it in an environment that has them (benchmarks/peers.txt).

- flower/MODEL: 100 rounds of the work in same_work.py, each side in a fresh process,
  time from its start to its end. Flower has a worker for each core, headgate its
  default. Flower's clients are written twice, see flower_peer.py.
- pfl/THREADS: a central iteration of pfl's own CIFAR-10 benchmark, see pfl_peer.py.
- flute: FLUTE's LR-MNIST configuration in headgate, see flute_peer.py, beside what
  FLUTE's authors published.
"""

import argparse
import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pfl_peer
import same_work
from children import Done, run
from machine import RESULTS, ratios, rounded, say, target, way, write

from headgate.flower import ENVIRONMENT

HERE = Path(__file__).resolve().parent
CASES = ("flower/logistic", "flower/lenet", "pfl/1", "pfl/2", "flute")
MODELS = {"logistic": "logistic regression", "lenet": "LeNet"}
TOGETHER = {"logistic": 40, "lenet": 10}
"""runs that headgate does at once: the policies and seeds of a study"""
REQUIRED = {
    ("logistic", 1): (60, None),
    ("logistic", 40): (150, 150),
    ("lenet", 1): (20, 20),
    ("lenet", 10): (30, 20),
}
"""times as fast as Flower, with its usual client and with a lean one; None: nothing is
asked
"""
PUBLISHED = {"FLUTE, GPUs": 95.0, "FLUTE, CPU": 200.0, "Flower 1.0, CPU": 1814.0}
"""seconds, from the benchmarks in FLUTE's README; other machines, years ago"""


def python(
    script: str, *words: object, threads: int | None = None, timeout: float = 3600
) -> Done:
    """A script of this folder in a fresh process."""
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA") if threads else ()
    limits = {f"{library}_NUM_THREADS": str(threads) for library in names}
    return run([sys.executable, str(HERE / script), *map(str, words)], limits, timeout)


# Flower


def flower(model: str, rounds: int, repeats: int) -> dict[str, Any]:
    """Whole runs, start-up included; in milliseconds a run like all the rest."""
    many = TOGETHER[model]
    sides: dict[str, tuple[Any, ...]] = {
        "Flower, usual client": ("flower_peer.py", "usual"),
        "Flower, lean client": ("flower_peer.py", "lean"),
        "headgate": ("headgate_peer.py", 1),
        f"headgate, each of {many} runs together": ("headgate_peer.py", many),
    }
    done: dict[str, list[Done]] = {name: [] for name in sides}
    left: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats):
            for name, (script, word) in sides.items():
                result = Path(folder) / "result.npz"
                done[name].append(python(script, model, rounds, result, word))
                with np.load(result) as arrays:
                    left[name] = dict(arrays)
                say(
                    f"flower/{model}, {repeat + 1} of {repeats}: {name}"
                    f" {done[name][-1].seconds:.1f} s"
                )
    start, ours = same_work.start(model), left["headgate"]
    ways = []
    for name in sides:
        runs = many if "together" in name else 1
        ends, began = left[name]["ends"], done[name][-1].began
        entry = way(name, [each.seconds / runs for each in done[name]])
        entry["start_s"] = rounded(left[name]["began"] - began)
        entry["first_round_s"] = rounded(ends[0] - left[name]["began"])
        entry["ms_a_later_round"] = rounded(
            1e3 * float(np.median(np.diff(ends))) / runs
        )
        entry["peak_memory_mib"] = rounded(
            max(each.peak_memory_mib for each in done[name])
        )
        if name.startswith("Flower"):
            for key, after in (("off", "first"), ("off_at_the_end", "model")):
                update = np.linalg.norm(ours[after] - start)
                entry[key] = rounded(
                    float(np.linalg.norm(left[name][after] - ours[after]) / update)
                )
        ways.append(entry)
    for entry in ways:
        entry["ratio_to"] = ratios(
            ways, entry, [name for name in sides if name.startswith("Flower")]
        )
    return {
        "name": f"flower/{model}",
        "title": (
            f"{MODELS[model]}, {rounds} rounds in a fresh process, start-up included"
        ),
        "settings": {"rounds": rounds, "flwr": version("flwr"), "ray": version("ray")},
        "columns": ["start_s", "first_round_s", "ms_a_later_round", "off_at_the_end"],
        "ways": ways,
    }


def flower_targets(case: dict[str, Any]) -> list[dict[str, Any]]:
    model = case["name"].partition("/")[2]
    rows = []
    for each in case["ways"]:
        if each["way"].startswith("headgate"):
            asked = REQUIRED[model, TOGETHER[model] if "together" in each["way"] else 1]
            for (peer, ratio), required in zip(
                each["ratio_to"].items(), asked, strict=True
            ):
                text = (
                    f"{MODELS[model]}, 100 rounds with start-up, {each['way']}: times"
                    f" as fast as {peer}"
                )
                rows += [target(text, required, ratio)] if required else []
    return rows


# pfl


def pfl(threads: int, cohort: int, iterations: int) -> dict[str, Any]:
    words = ("--threads", threads, "--cohort", cohort, "--iterations", iterations)
    say(f"pfl/{threads}: {iterations} iterations of {cohort} users")
    case: dict[str, Any] = json.loads(
        python("pfl_peer.py", *words, threads=threads).output
    )
    case["settings"]["pfl"] = version("pfl")
    return case


# FLUTE


def flute(rounds: int, repeats: int) -> dict[str, Any]:
    done = []
    for repeat in range(repeats):
        done.append(python("flute_peer.py", rounds))
        say(f"flute, {repeat + 1} of {repeats}: {done[-1].seconds:.1f} s")
    told = json.loads(done[-1].output)
    memory = rounded(max(each.peak_memory_mib for each in done))
    ours = way("headgate", [each.seconds for each in done], peak_memory_mib=memory)
    ways = [ours]
    if rounds == 100:
        ways += [
            way(name, [seconds], note="published, another machine")
            for name, seconds in PUBLISHED.items()
        ]
    ours["ratio_to"] = ratios(ways, ours, PUBLISHED)
    settings = {
        "data": told["data"],
        "samples_a_round": told["samples_a_round"],
        "executor": told["executor"],
    }
    if told["data"] == "mnist" and told["accuracy"]:
        settings["test_accuracy"] = told["accuracy"][-1]
    title = (
        f"FLUTE's LR-MNIST configuration, {rounds} rounds in a fresh process, start-up"
        " and evaluation included"
    )
    return {"name": "flute", "title": title, "settings": settings, "ways": ways}


# all of it


def table(case: dict[str, Any]) -> None:
    print(
        "\n"
        f"{case['title']};"
        f" {', '.join(f'{key} {value}' for key, value in case['settings'].items())}"
    )
    for each in case["ways"]:
        seconds = " ".join(
            f"{each[key] / 1e3:10.3f}" for key in ("median_ms", "min_ms", "max_ms")
        )
        told = [
            f"{ratio:.1f} x {peer}"
            for peer, ratio in each.get("ratio_to", {}).items()
            if peer != each["way"]
        ]
        more = [
            f"{key} {each[key]}"
            for key in (*case.get("columns", ()), "peak_memory_mib", "off")
            if key in each
        ]
        print(
            f"  {each['way']:38}{seconds} s   {'; '.join([*told, *more])}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="once each, with a tenth of the rounds and users",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument(
        "--out",
        type=Path,
        help="where to leave the results as JSON; a quick run leaves none without it",
    )
    given = parser.parse_args()
    rounds, repeats, cohort, iterations = (
        (10, 1, 5, 3) if given.quick else (100, given.repeats, 50, 5)
    )
    cases, targets = [], []
    with tempfile.TemporaryDirectory() as home:
        # Flower reports to nobody, and writes into nobody's home
        os.environ |= {**ENVIRONMENT, "FLWR_HOME": home}
        for name in given.case:
            kind, _, word = name.partition("/")
            if kind == "flower":
                case = flower(word, rounds, repeats)
                targets += flower_targets(case)
            elif kind == "pfl":
                case = pfl(int(word), cohort, iterations)
                targets += pfl_peer.targets([case])
            else:
                case = flute(rounds, repeats)
            table(case)
            cases.append(case)
    if out := given.out or (None if given.quick else RESULTS / "peers.json"):
        write(
            out,
            "peers",
            {"repeats": repeats, "rounds": rounds},
            cases,
            [] if given.quick else targets,
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
