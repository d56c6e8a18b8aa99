"""Where the time of one run goes, from the start of its process to the end: `headgate
run mnist`, one policy, one seed.

    python benchmarks/phases.py [--quick] [--repeats 3] [--case logistic lenet] [--out
    FILE]

100 rounds of logistic regression or 20 of LeNet, each evaluated, in one process. The
phases do not overlap: what one does within another is its own.

- import: all import statements, wherever they stand
- data: reading and unpacking the data set
- compile: numba's functions, compiled or taken from its cache, which the first run that
  is not counted has filled
- control: what is admitted, by whom, and which samples that are
- train, evaluate: of all rounds
- record: rows, checkpoints, tables, summary and report
- rest: the interpreter's own start and end, the command line, and all else

Beside it the logistic run without a clock in it, that of digits, and what others start
with: `python -c "import torch"`. All take turns. Python's own byte code is there for
all of them, as after any installation. MNIST is read from $HEADGATE_DATA.
"""

import argparse
import builtins
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from children import Done, run
from machine import RESULTS, rounded, say, target, way, write

MODELS = {"logistic": "logistic regression", "lenet": "LeNet"}
LR = {"logistic": 0.5, "lenet": 0.1}
ROUNDS = {"logistic": 100, "lenet": 20}
PHASES = ("import", "data", "compile", "control", "train", "evaluate", "record", "rest")


def words(recipe: str, *own: str) -> list[str]:
    """What the command line is given."""
    return [
        "run",
        recipe,
        "--seeds=1",
        "--policies=headgate",
        "--processes=1",
        "--device=cpu",
        "--progress=none",
        *own,
    ]


def own(model: str, few: bool) -> list[str]:
    return [
        f"--set=model.kind={model}",
        f"--set=training.lr={LR[model]}",
        f"--rounds={5 if few else ROUNDS[model]}",
    ]


# in the process that is looked at


class Clock:
    """Seconds by phase; the time of an inner phase is not that of the outer one."""

    def __init__(self) -> None:
        self.spent, self._open, self._since = (
            dict.fromkeys(PHASES, 0.0),
            ["rest"],
            time.perf_counter(),
        )

    def turn(self) -> None:
        now = time.perf_counter()
        self.spent[self._open[-1]] += now - self._since
        self._since = now

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            self.turn()
            self._open.append(phase)
            try:
                return function(*args, **kwargs)
            finally:
                self.turn()
                self._open.pop()

        return within

    def watch(self, phase: str, owner: Any, *names: str) -> None:
        for name in names:
            setattr(owner, name, self.timed(phase, getattr(owner, name)))


def looked_at(name: str, words: list[str]) -> dict[str, float]:
    """The command line in this process."""
    clock = Clock()
    clock.watch("import", builtins, "__import__")
    clock.watch("import", importlib, "import_module")
    from headgate.cli import commands, learning
    from headgate.records.owner import OwnedRun
    from headgate.records.writer import RunWriter
    from headgate.simulation import engine, workers
    from headgate.simulation.executors.executor import Executor

    if name == "lenet":
        from numba.core.dispatcher import Dispatcher

        from headgate.simulation.nets import Evaluator as Judge

        clock.watch("compile", Dispatcher, "_compile_for_args")
    else:
        from headgate.simulation.linear import Judged as Judge
    clock.watch("data", workers.Datasets, "of")
    clock.watch("control", engine.Simulation, "_prepare")
    clock.watch("train", Executor, "advance")
    clock.watch("evaluate", Judge, "__call__")
    clock.watch("record", RunWriter, "append", "checkpoint", "state")
    clock.watch("record", OwnedRun, "begin", "finish")
    clock.watch("record", learning, "show_and_conclude")
    commands.app(words, standalone_mode=False)
    clock.turn()
    return clock.spent


# beside it


def measure(models: list[str], few: bool, repeats: int) -> list[dict[str, Any]]:
    sides = {
        "import torch": ["-c", "import torch"],
        "headgate run digits": ["-m", "headgate.cli", *words("digits")],
        "headgate run mnist": [
            "-m",
            "headgate.cli",
            *words("mnist", *own("logistic", few)),
        ],
    }
    for model in models:
        sides[model] = [__file__, "--only", model, *words("mnist", *own(model, few))]
    done: dict[str, list[Done]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as byte_code:
        env = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": byte_code}
        for repeat in range(repeats + 1):
            for side, given in sides.items():
                with tempfile.TemporaryDirectory() as folder:
                    out = [] if side == "import torch" else ["--out", f"{folder}/run"]
                    done[side].append(
                        run([sys.executable, *given, *out], env, timeout=3600)
                    )
                say(f"{side}, {repeat} of {repeats}: {done[side][-1].seconds:.2f} s")
    counted = {side: each[1:] for side, each in done.items()}  # the first fills caches
    title = "runs of logistic regression beside what others start with"
    ways = [_whole(side, each) for side, each in counted.items() if side not in models]
    cases: list[dict[str, Any]] = [
        {"name": "phases/start", "title": title, "ways": ways}
    ]
    for model in models:
        title = (
            f"{MODELS[model]}, 1 run of {5 if few else ROUNDS[model]} rounds: where the"
            " time goes"
        )
        cases.append(
            {
                "name": f"phases/{model}",
                "title": title,
                "columns": ["share_%"],
                "ways": _phases(counted[model]),
            }
        )
    return cases


def _phases(done: list[Done]) -> list[dict[str, Any]]:
    """Those of a process that was looked at; the rest is all that is no other phase."""
    told = [json.loads(each.output.splitlines()[-1]) for each in done]
    for each, spent in zip(done, told, strict=True):
        spent["rest"] = each.seconds - sum(
            spent[phase] for phase in PHASES if phase != "rest"
        )
    ways = [
        *(way(phase, [spent[phase] for spent in told]) for phase in PHASES),
        _whole("all of it", done),
    ]
    return [
        {**each, "share_%": rounded(100 * each["median_ms"] / ways[-1]["median_ms"])}
        for each in ways
    ]


def _whole(name: str, done: list[Done]) -> dict[str, Any]:
    memory = rounded(max(each.peak_memory_mib for each in done))
    return way(name, [each.seconds for each in done], peak_memory_mib=memory)


def targets(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the project asks of whole commands."""
    seconds = {each["way"]: each["median_ms"] / 1e3 for each in cases[0]["ways"]}
    asked = {
        "headgate run mnist": (
            "one logistic run of 100 rounds on MNIST, at most import torch + 0.5 s",
            0.5,
        ),
        "headgate run digits": ("one run of digits, at most import torch", 0.0),
    }
    return [
        target(
            f"{text}: seconds",
            rounded(seconds["import torch"] + more),
            seconds[name],
            "s",
            at_most=True,
        )
        for name, (text, more) in asked.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="five rounds, once; nothing is written without --out",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--out", type=Path, help="where to leave the results as JSON")
    given = parser.parse_args()
    repeats = 1 if given.quick else given.repeats
    cases = measure(given.case, given.quick, repeats)
    for case in cases:
        print(f"\n{case['title']}")
        for each in case["ways"]:
            print(f"  {each['way']:42}{each['median_ms'] / 1e3:8.2f} s")
    if out := given.out or (None if given.quick else RESULTS / "phases.json"):
        write(
            out,
            "phases",
            {"repeats": repeats},
            cases,
            [] if given.quick else targets(cases),
        )


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["--only"]:
            print(json.dumps(looked_at(sys.argv[2], sys.argv[3:])))
        else:
            main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
