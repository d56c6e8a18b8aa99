"""Plays apps on Flower's simulation engine. Not a test itself: the engine wants a process of its own.

python simulated.py recipe FOLDER RECIPE SETTING...     `RUNS` one after the other with the same clients, in FOLDER/NAME
python simulated.py app FOLDER OUT                      the quickstart app in FOLDER, with the settings of its pyproject.toml
"""

import os
import sys
import tomllib
import warnings
from pathlib import Path

from headgate.flower import ENVIRONMENT

# before Flower is imported; workers inherit it, and none is started that nobody needs
os.environ |= {**ENVIRONMENT, "HEADGATE_KEEP": "true", "RAY_prestart_worker_first_driver": "0"}

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

RUNS = {"own": ['run.policies=["steps"]'], "headgate": ['run.policies=["headgate"]']}


def play(serve, client, clients):
    from flwr.simulation import run_simulation

    server = ServerApp()
    server.main()(serve)
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a slower way to start it
        run_simulation(server, client, num_supernodes=clients, backend_config=resources)


def recipe(folder, recipe, *settings):
    from headgate.flower import AdmissionStrategy, Discipline, recipe_client
    from headgate.flower.recipe import task_of

    clients = task_of(recipe, settings).experiment.system.clients

    def serve(grid, context):
        for name, more in RUNS.items():
            task = task_of(recipe, (*settings, *more))
            strategy = AdmissionStrategy(task.experiment, Path(folder) / name, discipline=Discipline(quorum=clients))
            strategy.start(grid, task.start(), evaluate_fn=task.evaluate)
            strategy.close()

    play(serve, recipe_client(recipe, settings, store=Path(folder) / "stores"), clients)
    (Path(folder) / "done").touch()


def app(folder, out):
    os.environ["HEADGATE_STORE"] = f"{out}-stores"
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])  # for workers
    sys.path.insert(0, folder)
    settings = tomllib.loads((Path(folder) / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"]["config"]
    made = ClientApp()

    def configured(context):
        """With the settings that the engine does not read when it is called from Python."""
        return Context(context.run_id, context.node_id, context.node_config, context.state, settings | {"out": out})

    def call(message, context):
        from quickstart.client_app import app

        return app(message, configured(context))

    def serve(grid, context):
        from quickstart.server_app import app

        app(grid, configured(context))

    for register in (made.train(), made.evaluate(), made.query("identity"), made.query("end")):
        register(call)
    play(serve, made, 4)


if __name__ == "__main__":
    {"recipe": recipe, "app": app}[sys.argv[1]](*sys.argv[2:])
