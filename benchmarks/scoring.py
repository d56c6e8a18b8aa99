"""What it costs to look at samples: rounds of MNIST under retention rules that ask the
model, beside rules that do not.

    python benchmarks/scoring.py [--quick] [--repeats 5] [--case logistic lenet] [--out
    FILE]

The recipe mnist with the policy headgate, four seeds in one batch, on the CPU by one
thread. All rules buy the same samples in the same rounds. They take turns, some rounds
at a time; the first turn, which compiles and fills caches, does not count. Nothing is
evaluated: that would hide what looking costs. `scored` is how many samples a round
looks at in the mean, and `share_%` which part of the round's time that takes, in the
learner alone. MNIST is read from $HEADGATE_DATA.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from machine import RESULTS, ratios, rounded, say, target, way, write

from headgate.experiment import load
from headgate.learning.datasets import Dataset
from headgate.simulation.engine import Simulation

MODELS = {"logistic": "logistic regression", "lenet": "LeNet"}
LR = {"logistic": 0.5, "lenet": 0.1}
RULES = {
    "fifo": "fifo",
    "reservoir": "reservoir",
    "cbrs": "studies.zoo.cbrs:CBRS",
    "gss": "studies.zoo.gss:GSS",
}
RULES |= {
    "balancer": "studies.zoo.fedbalancer:FedBalancer",
    "ode": "studies.zoo.ode:ODE",
}
SEEDS, ROUNDS, FEW = 4, 10, 3
"""runs in a batch; rounds of a turn, and with --quick"""
MOST = 1.5
"""a LeNet study with gradients may cost so many times as much"""


class Turns:
    """One rule's simulation, played some rounds at a time."""

    def __init__(
        self, model: str, rule: str, rounds: int, dataset: Dataset | None
    ) -> None:
        settings = [
            f"model.kind={model}",
            f"training.lr={LR[model]}",
            f"run.rounds={rounds}",
            f"run.seeds={SEEDS}",
        ]
        settings += [f"training.evaluate_every={rounds}", 'run.policies=["headgate"]']
        experiment = load(
            "mnist",
            [*settings, f"policies.headgate={{kind='headgate', rule='{RULES[rule]}'}}"],
        )
        self.dataset = experiment.data.load() if dataset is None else dataset
        self.simulation = Simulation(experiment, self.dataset, "cpu")
        self.times: list[float] = []
        self.looked: list[float] = []
        self.samples, self.seconds = 0, 0.0
        learner = self.simulation.learner
        scores = learner.scores

        def watched(models: Any, asked: Any, runs: Any, rows: Any) -> Any:
            began = time.perf_counter()
            found = scores(models, asked, runs, rows)
            self.samples, self.seconds = (
                self.samples + len(rows),
                self.seconds + time.perf_counter() - began,
            )
            return found

        learner.scores = watched

    def play(self, rounds: int) -> None:
        before, began = self.seconds, time.perf_counter()
        with self.simulation.learner.one_thread():
            for _ in range(rounds):
                self.simulation.step()
        self.times.append((time.perf_counter() - began) / rounds)
        self.looked.append((self.seconds - before) / rounds)

    def told(self, rule: str) -> dict[str, Any]:
        share = 100 * sum(self.looked[1:]) / sum(self.times[1:])
        return way(
            rule,
            self.times[1:],
            scored=rounded(self.samples / self.simulation.t),
            **{"share_%": rounded(share)},
        )


def measure(
    model: str, rounds: int, repeats: int, dataset: Dataset | None
) -> tuple[dict[str, Any], Dataset]:
    sides: dict[str, Turns] = {}
    for rule in RULES:
        sides[rule] = Turns(
            model, rule, rounds * (repeats + 1) + 1, dataset
        )  # the last round, which is evaluated, is not played
        dataset = sides[rule].dataset
    for repeat in range(repeats + 1):
        for rule, side in sides.items():
            side.play(rounds)
            say(
                f"{model}, {rule}, {repeat} of {repeats}: {1e3 * side.times[-1]:.1f} ms"
                " a round"
            )
    ways = [side.told(rule) for rule, side in sides.items()]
    for each in ways:
        each["ratio_to"] = ratios(ways, each, ["fifo"])
    title = (
        f"{MODELS[model]}, a round of {SEEDS} runs without evaluation, by retention"
        " rule"
    )
    assert dataset is not None
    return {
        "name": f"scoring/{model}",
        "title": title,
        "columns": ["scored", "share_%"],
        "ways": ways,
    }, dataset


def targets(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the project asks for."""
    found = []
    for case in (case for case in cases if case["name"] == "scoring/lenet"):
        middle = {each["way"]: each["median_ms"] for each in case["ways"]}
        for rule in ("gss", "ode"):
            text = (
                f"a round of LeNet under {rule}, which asks for gradients: times that"
                " of fifo"
            )
            found.append(
                target(text, MOST, middle[rule] / middle["fifo"], at_most=True)
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few rounds, once; nothing is written without --out",
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--case", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--out", type=Path, help="where to leave the results as JSON")
    given = parser.parse_args()
    repeats, rounds = (1, FEW) if given.quick else (given.repeats, ROUNDS)
    cases, dataset = [], None
    for model in given.case:
        case, dataset = measure(model, rounds, repeats, dataset)
        cases.append(case)
        print(f"\n{case['title']}")
        for each in case["ways"]:
            print(
                f"  {each['way']:12}{each['median_ms']:9.1f} ms {each['scored']:8.1f}"
                f" scored, {each['share_%']:.1f} %"
            )
    if out := given.out or (None if given.quick else RESULTS / "scoring.json"):
        settings = {"repeats": repeats, "rounds": rounds, "seeds": SEEDS}
        write(out, "scoring", settings, cases, [] if given.quick else targets(cases))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
