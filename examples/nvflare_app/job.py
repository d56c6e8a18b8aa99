"""Handwritten digits on NVFlare, in which headgate decides what each of three clients
buys; client.py is a client's script.

    python examples/nvflare_app/job.py FOLDER

plays it in NVFlare's simulator. Accounts, model and the clients' counts lie in FOLDER:
kill it at any moment, start it again, and it goes on where it was. `job.export_job` in
place of `job.simulator_run` writes the job for a deployment.
"""

import sys
from pathlib import Path

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner

from headgate.nvflare import AdmissionController

SITES = ["site-1", "site-2", "site-3"]


class Digits(AdmissionController):
    """The first model and each day's price; both could come from elsewhere."""

    def load_model(self):
        return FLModel(params={"w": np.zeros((10, 65), np.float32)})

    def price(self, t):
        return np.random.default_rng([1, t]).uniform(1, 10)


def main(folder, rounds=8):
    folder = Path(folder).resolve()
    system = {
        "buffer": [20, 20, 20],
        "budget": 60.0,
        "horizon": rounds,
        "currency": "EUR",
    }
    job = FedJob(name="digits", min_clients=len(SITES))
    job.to_server(Digits(f"{folder}/server", SITES, system, timeout=60))
    script = str(Path(__file__).with_name("client.py"))
    for site in SITES:
        job.to(
            ScriptRunner(
                script=script,
                script_args=f"{folder} {site}",
                framework=FrameworkType.NUMPY,
            ),
            site,
        )
    return job.simulator_run(f"{folder}/workspace")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
