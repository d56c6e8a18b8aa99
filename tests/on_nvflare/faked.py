"""A controller whose clients are functions in this process: no server, no network, no
waiting.
"""

from types import SimpleNamespace

import numpy as np
from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal
from nvflare.app_common.abstract.fl_model import FLModel

from headgate.nvflare import AdmissionController, Admissions

SITES = ["site-1", "site-2", "site-3"]
SYSTEM = {"buffer": [8, 9, 10], "budget": 20.0, "horizon": 6}
PRICES = [1.5, 2.25, 0.75, 1.0, 1.25, 0.5]
STARTS = {"w": np.zeros(3, np.float32)}


class Killed(Exception):
    """The end of the server's process."""


class Client:
    """It admits what it is told to, and adds one to every number of the model, or sends
    what `lie` makes of the model.
    """

    def __init__(self, folder, lie=None, kind="FULL"):
        self.admissions, self.lie, self.kind = Admissions(folder), lie, kind
        self.rounds = []

    def __call__(self, model):
        self.admissions.admit(model)
        self.rounds.append(model.current_round)
        params = {name: own + own.dtype.type(1) for name, own in model.params.items()}
        if self.lie is not None:
            params = self.lie(model)
        return FLModel(
            params=params, params_type=self.kind, meta=self.admissions.report
        )


class Faked(AdmissionController):
    def __init__(self, folder, clients=None, starts=STARTS, killed=None, **given):
        super().__init__(
            **{
                "folder": f"{folder}/server",
                "sites": SITES,
                "system": SYSTEM,
                "prices": PRICES,
                **given,
            }
        )
        self.clients = clients or {site: Client(folder / site) for site in SITES}
        self.starts, self.killed, self.said = starts, killed, []
        self.abort_signal, self.fl_ctx = Signal(), FLContext()
        self.engine = SimpleNamespace(
            get_clients=lambda: [SimpleNamespace(name=site) for site in self.clients]
        )

    def load_model(self):
        return FLModel(params=self.starts)

    def send_model(self, data, targets, timeout, callback):
        if self.killed == self.current_round:
            raise Killed
        callback(self.clients[targets[0]](data))

    def get_num_standing_tasks(self):
        return 0

    def warning(self, msg):
        self.said.append(msg)

    def info(self, msg):
        pass

    def event(self, event_type):
        pass

    def fire_event_with_data(self, event_type, fl_ctx, key, data):
        pass
