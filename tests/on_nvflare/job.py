"""A job of six rounds and three clients, as NVFlare's simulator plays it.

python job.py FOLDER EXPORTED       writes the job to EXPORTED; what it keeps lies in FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner

from headgate.nvflare import AdmissionController

SITES = ["site-1", "site-2", "site-3"]
SYSTEM = {"buffer": [8, 9, 10], "budget": 20.0, "horizon": 6, "currency": "EUR"}
PRICES = [1.5, 2.25, 0.75, 1.0, 1.25, 0.5]
AWAY, SLOW = 2, 5


class Scenario(AdmissionController):
    def load_model(self):
        return FLModel(params={"w": np.zeros(3, np.float32)})

    def price(self, t):
        self.timeout = 3 if t == SLOW else 120
        return super().price(t)

    def present(self, t):
        return [name for name in super().present(t) if (name, t) != ("site-3", AWAY)]


def main(folder, exported):
    job = FedJob(name="scenario", min_clients=3)
    job.to_server(Scenario(f"{folder}/server", SITES, SYSTEM, prices=PRICES))
    script = str(Path(__file__).with_name("client.py"))
    for site in SITES:
        job.to(ScriptRunner(script=script, script_args=f"{folder} {site}", framework=FrameworkType.NUMPY), site)
    job.export_job(exported)
    (server,) = Path(exported).rglob("config_fed_server.json")
    often = {"server": {"task_request_interval": 0.2}}  # seconds after which clients ask for the next task
    server.write_text(json.dumps(json.loads(server.read_text()) | often))


if __name__ == "__main__":
    main(*sys.argv[1:])
