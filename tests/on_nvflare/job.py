"""Jobs as NVFlare's simulator plays them: six rounds and three clients, or forty rounds
in which everything changes.

    python job.py FOLDER EXPORTED Scenario|Changing
        writes the job to EXPORTED; what it keeps lies in FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner

from headgate.books.statement import amend, opened, statement
from headgate.control import Amendment
from headgate.nvflare import AdmissionController

PRICES = [1.5, 2.25, 0.75, 1.0, 1.25, 0.5]
AWAY = 2
SLOW = (5, 17, 34)
"""rounds in which a client is late, as in client.py"""
CHANGES = {
    10: Amendment(join=7),
    15: Amendment(money=400.25),
    20: Amendment(leave=1),
    25: Amendment(adjust=-2.75),
    30: Amendment(money=-300.5),
}
"""after so many rounds"""


class Scenario(AdmissionController):
    def load_model(self):
        return FLModel(params={"w": np.zeros(3, np.float32)})

    def price(self, t):
        self.timeout = 3 if t in SLOW else 120
        return super().price(t)

    def present(self, t):
        return [name for name in super().present(t) if (name, t) != ("site-3", AWAY)]


class Changing(Scenario):
    """One client joins, one leaves, one is away half of the time; money is added, taken
    back and refunded.
    """

    def present(self, t):
        with opened(self.folder) as store:
            found = statement(store)
        change, why = CHANGES.get(t - 1), f"after {t - 1}"
        if change and why not in {each.why for each in found.amendments}:
            dear = next(
                ((line.round, line.client) for line in found.lines if line.charged > 3),
                None,
            )
            amend(
                self.folder, change, "the tests", why, dear if change.adjust else None
            )
        away = np.random.default_rng([7, t]).random() < 0.5
        return [name for name in super().present(t) if name != "site-4" or not away]


def made(kind, folder):
    if kind == "Scenario":
        system = {"buffer": [8, 9, 10], "budget": 20.0, "horizon": 6, "currency": "EUR"}
        return Scenario(
            f"{folder}/server", [f"site-{m}" for m in (1, 2, 3)], system, prices=PRICES
        )
    system = {
        "buffer": [8, 9, 10, 11, 12],
        "budget": 40.0,
        "horizon": 40,
        "currency": "EUR",
    }
    prices = np.random.default_rng(7).uniform(1, 10, 40).round(2).tolist()
    return Changing(
        f"{folder}/server", [f"site-{m}" for m in range(1, 7)], system, prices=prices
    )


def main(folder, exported, kind):
    controller = made(kind, folder)
    job = FedJob(name="scenario", min_clients=len(controller.sites))
    job.to_server(controller)
    script = str(Path(__file__).with_name("client.py"))
    for site in controller.sites:
        job.to(
            ScriptRunner(
                script=script,
                script_args=f"{folder} {site}",
                framework=FrameworkType.NUMPY,
            ),
            site,
        )
    job.export_job(exported)
    (server,) = Path(exported).rglob("config_fed_server.json")
    often = {
        "server": {"task_request_interval": 0.2}
    }  # seconds after which clients ask for the next task
    server.write_text(json.dumps(json.loads(server.read_text()) | often))


if __name__ == "__main__":
    main(*sys.argv[1:])
