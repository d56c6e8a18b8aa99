"""What Flower costs: the same recipe in the in-process simulator, on Flower's simulation engine and deployed.

    python benchmarks/flower_overhead.py [--rounds 12] [--deployed 6] [--out FILE]

Digits, logistic regression, policy headgate, one seed; ten clients beside the simulation engine (Ray, one worker for each
core), four beside a deployment on the loopback interface (TLS, node authentication, four SuperNodes, a client process
started for every message). All sides admit the same samples and learn the same model. A round ends when its row is in the
run folder; the first one, which includes starting up, stands beside the others and not among them. On one machine the
client processes share its cores, which they would not on machines of their own; the load average of the last five minutes
says what else the machine was doing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from machine import RESULTS, ratios, rounded, say, way, write

from headgate.experiment import Experiment, load
from headgate.flower import ENVIRONMENT
from headgate.flower.app.write import OURS, OWN, package_name, write_app
from headgate.flower.deploy.deployment import Loopback

FEW, MANY = 4, 10
SIMULATOR, SIMULATION, DEPLOYMENT = "headgate's simulator", "Flower's simulation engine", "Flower's deployment engine"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12, help="in the simulator and on the simulation engine")
    parser.add_argument("--deployed", type=int, default=6, help="rounds of a deployment")
    parser.add_argument("--out", type=Path, default=RESULTS / "flower_overhead.json")
    parser.add_argument("--play", nargs=3, metavar=("SIDE", "RECIPE", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        play(given.play[0], given.play[1], Path(given.play[2]))
        return
    cases = [simulated(given.rounds), deployed(given.rounds, given.deployed), without_torch(given.deployed)]
    write(given.out, "flower_overhead", {"model": "logistic", "data": "digits", "policy": "headgate"}, cases)


# the sides


class Times:
    """When each round was seen to be over."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.ends: list[float] = []

    def look(self, out: Path) -> None:
        done = json.loads((out / "state.json").read_text())["round"] if (out / "state.json").exists() else 0
        while len(self.ends) < done:
            self.ends.append(time.perf_counter())

    @property
    def first(self) -> float:
        return self.ends[0] - self.began

    @property
    def later(self) -> list[float]:
        return [after - before for before, after in pairwise(self.ends)]


def simulated(rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        recipe = app_of(Path(folder) / "app", rounds, None)
        sides = {side: in_a_child(side, recipe, Path(folder) / side) for side in (SIMULATOR, SIMULATION)}
    return case("simulation", f"{MANY} clients on Flower's simulation engine", sides, ray=version("ray"))


def deployed(rounds: int, fewer: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        sides = {SIMULATOR: in_a_child(SIMULATOR, app_of(Path(folder) / "many", rounds, FEW), Path(folder) / "simulator")}
        app_of(Path(folder) / "app", fewer, FEW)
        sides[DEPLOYMENT] = on_loopback(Path(folder))
    return case("deployment", f"{FEW} clients deployed", sides)


def without_torch(rounds: int) -> dict[str, Any]:
    """Other work, so nothing stands beside it: what is left when client processes import numpy alone."""
    with tempfile.TemporaryDirectory() as folder:
        app_of(Path(folder) / "app", rounds, FEW, OWN)
        sides = {DEPLOYMENT: on_loopback(Path(folder))}
    return case("deployment/numpy", f"{FEW} clients deployed, with a task of their own in numpy", sides)


def app_of(folder: Path, rounds: int, clients: int | None, training: str = OURS) -> Path:
    write_app(folder, "digits", [f"run.rounds={rounds}"], "headgate", clients, training)
    return folder / package_name(folder.name) / "recipe.toml"


def on_loopback(folder: Path) -> Times:
    times = Times()

    def hear(line: str) -> None:
        say(line)
        times.look(folder / "out")

    with Loopback(folder / "deployment", FEW, hear) as running:
        running.bring_up()
        running.run(folder / "app", folder / "out")
    return times


def in_a_child(side: str, recipe: Path, folder: Path) -> Times:
    """A side in a process of its own, whose run folder is watched from here."""
    env = {**os.environ, **ENVIRONMENT, "FLWR_HOME": str(folder.with_name("home"))}
    with folder.with_name(f"{folder.name}.log").open("w+") as log:
        times = Times()
        child = subprocess.Popen([sys.executable, __file__, "--play", side, recipe, folder], env=env, stdout=log, stderr=log)
        while child.poll() is None:
            times.look(folder / "out")
            time.sleep(0.0005)
        times.look(folder / "out")
        if (folder / "ends.json").exists():
            times.ends = json.loads((folder / "ends.json").read_text())
        if child.returncode != 0:
            log.seek(0)
            raise SystemExit(log.read())
    say(f"{side}: {len(times.ends)} rounds")
    return times


def play(side: str, recipe: str, folder: Path) -> None:
    """What the child does."""
    if side == SIMULATOR:
        folder.mkdir()
        (folder / "ends.json").write_text(json.dumps(in_the_simulator(load(recipe))))
        return
    import warnings

    from flwr.simulation import run_simulation

    from headgate.flower import recipe_client, recipe_server

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a slower way to start it
        run_simulation(
            recipe_server(recipe, folder=folder / "out"),
            recipe_client(recipe, store=folder / "store"),
            num_supernodes=MANY,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )


def in_the_simulator(experiment: Experiment) -> list[float]:
    """When each round was over, on the clock of the machine: control, training of all clients, evaluation."""
    from headgate.learning.datasets import load_dataset
    from headgate.simulation.engine import Simulation

    engine, ends = Simulation(experiment, load_dataset(experiment.data.kind), "cpu"), []
    for _ in range(experiment.rounds):
        engine.step()
        ends.append(time.perf_counter())
    return ends


def case(name: str, title: str, sides: Mapping[str, Times], **versions: str) -> dict[str, Any]:
    ways = [way(side, times.later, first_round_s=rounded(times.first)) for side, times in sides.items()]
    ways[0]["ratio_to"] = ratios(ways, ways[0], list(sides)[1:])
    return {
        "name": name,
        "title": f"{title}, a round",
        "settings": {"flwr": version("flwr"), **versions, "load_average": round(os.getloadavg()[1], 1)},
        "columns": ["first_round_s"],
        "ways": ways,
    }


if __name__ == "__main__":
    main()
