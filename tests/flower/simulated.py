"""Plays recipes on Flower's simulation engine, one after the other with the same clients.

    python simulated.py FOLDER RECIPE SETTING...

Each of `RUNS` is left in FOLDER/NAME, the clients' memories in FOLDER/stores. Not a test itself: the engine wants a process
of its own.
"""

import json
import os
import sys
import warnings
from pathlib import Path

from headgate.flower.quiet import ENVIRONMENT

RUNS = {
    "own": [],
    "headgate": ['run.policies=["headgate"]'],
    "acdpp": ['run.policies=["acdpp"]'],
    "reservoir": ['run.policies=["headgate"]', "policies.headgate.kind=headgate", "policies.headgate.rule=reservoir"],
}


def main(folder: Path, recipe: str, settings: list[str]) -> None:
    os.environ |= {**ENVIRONMENT, "HEADGATE_KEEP": "true"}  # before Flower is imported; workers inherit it

    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation

    from headgate.flower import AdmissionStrategy, Discipline, recipe_client
    from headgate.flower.recipe import task_of

    server = ServerApp()
    clients = task_of(recipe, tuple(settings)).experiment.system.clients

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        for name, more in RUNS.items():
            task = task_of(recipe, (*settings, *more))
            strategy = AdmissionStrategy(task.experiment, folder / name, discipline=Discipline(quorum=clients))
            strategy.start(grid, task.start(), evaluate_fn=task.evaluate)
            strategy.close()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a slower way to start it
        run_simulation(
            server,
            recipe_client(recipe, settings, store=folder / "stores"),
            num_supernodes=clients,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}},
        )
    (folder / "done.json").write_text(json.dumps(list(RUNS)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
