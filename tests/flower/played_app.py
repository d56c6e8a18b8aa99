"""Plays the app in a folder on Flower's simulation engine, with the settings of its pyproject.toml.

    python played_app.py FOLDER OUT

Not a test itself: the engine wants a process of its own.
"""

import os
import sys
import tomllib
import warnings
from pathlib import Path

from flwr.app import Context
from flwr.clientapp import ClientApp

from headgate.flower.quiet import ENVIRONMENT


def with_settings(config):
    """The app's client, with the settings that the engine does not read when it is called from Python."""
    made = ClientApp()

    def call(message, context):
        from quickstart.client_app import app

        own = Context(context.run_id, context.node_id, context.node_config, context.state, config)
        return app(message, own)

    for register in (made.train(), made.evaluate(), made.query("identity"), made.query("end")):
        register(call)
    return made


def main(folder: Path, out: str, clients: int = 4) -> None:
    os.environ |= {**ENVIRONMENT, "HEADGATE_KEEP": "true", "HEADGATE_STORE": f"{out}-stores"}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])  # for workers
    sys.path.insert(0, str(folder))

    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation
    from quickstart.server_app import app

    config = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"]["config"] | {"out": out}
    server = ServerApp()

    @server.main()
    def serve(grid, context):
        app(grid, Context(context.run_id, context.node_id, context.node_config, context.state, config))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a slower way to start it
        run_simulation(
            server,
            with_settings(config),
            num_supernodes=clients,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}},
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
