"""Plays on Flower's simulation engine. Not a test itself: the engine wants a process of
its own, and takes its time to start.

python simulated.py FOLDER APP RECIPE SETTING...

With the same clients one after the other: the recipe into FOLDER/recipe, then the
quickstart app in the folder APP, with the settings of its pyproject.toml, into
FOLDER/app.
"""

import gc
import os
import sys
import tomllib
import warnings
from pathlib import Path

from headgate.flower import ENVIRONMENT

# before Flower is imported; workers inherit it, and none is started that nobody needs
os.environ |= {
    **ENVIRONMENT,
    "HEADGATE_KEEP": "true",
    "RAY_prestart_worker_first_driver": "0",
}

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

OWN = 'run.policies=["steps"]'
"""of the recipe: a policy of one's own"""


def main(folder, path, recipe, *settings):
    folder, server, client = Path(folder), ServerApp(), ClientApp()
    told = tomllib.loads((Path(path) / "pyproject.toml").read_text("utf-8"))["tool"][
        "flwr"
    ]["app"]["config"]
    os.environ["HEADGATE_STORE"] = str(folder / "app-stores")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [path, os.environ.get("PYTHONPATH", "")]
    )  # for workers
    sys.path.insert(0, path)

    def configured(context):
        """With the settings that the engine does not read when it is called from
        Python.
        """
        own = told | {"out": str(folder / "app")}
        return Context(
            context.run_id, context.node_id, context.node_config, context.state, own
        )

    def call(message, context):
        gc.freeze()  # Flower looks for garbage at every array, among all modules
        if (folder / "recipe is over").exists():
            from quickstart.client_app import app

            return app(message, configured(context))
        from headgate.flower import recipe_client

        return recipe_client(recipe, settings, store=folder / "stores")(
            message, context
        )

    @server.main()
    def serve(grid, context):
        from quickstart.server_app import app

        from headgate.flower import AdmissionStrategy, Discipline
        from headgate.flower.recipe import task_of

        task = task_of(recipe, (*settings, OWN))
        quorum = Discipline(quorum=task.experiment.system.clients)
        strategy = AdmissionStrategy(
            task.experiment, folder / "recipe", discipline=quorum
        )
        strategy.start(grid, task.start(), evaluate_fn=task.evaluate)
        strategy.close()
        (folder / "recipe is over").touch()
        app(grid, configured(context))

    from flwr.simulation import run_simulation

    for register in (
        client.train(),
        client.evaluate(),
        client.query("identity"),
        client.query("end"),
    ):
        register(call)
    resources = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": 2, "include_dashboard": False},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a slower way to start it
        run_simulation(server, client, num_supernodes=4, backend_config=resources)


if __name__ == "__main__":
    main(*sys.argv[1:])
