"""What the benchmarks of Flower's server share: the experiment, the model, and a grid
of clients in the same process.
"""

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np

FEATURES, CLASSES = 64, 10
"""of logistic regression on 8x8 digits: 650 numbers"""
FIRST_NODE = 1000
"""the node of client 0"""


def quiet_flower() -> None:
    """Before anything of Flower is imported."""
    from headgate.flower import ENVIRONMENT

    os.environ |= dict(ENVIRONMENT)
    logging.getLogger("flwr").disabled = True


def experiment(clients: int, rounds: int, **more: Any) -> Any:
    """Policy headgate, one seed; `more` are sections of the recipe."""
    from headgate.experiment import build

    recipe = {
        "system": {
            "buffers": [20, 30, 50],
            "clients": clients,
            "budget": 10.0 * clients,
        },
        "prices": {"kind": "uniform", "low": 1.0, "high": 10.0},
        "run": {"rounds": rounds, "seeds": 1, "policies": ["headgate"]},
        **more,
    }
    return build("benchmark", recipe, Path())


def zeros() -> dict[str, Any]:
    return {
        "weight": np.zeros((CLASSES, FEATURES), np.float32),
        "bias": np.zeros(CLASSES, np.float32),
    }


def grid_of(clients: int) -> Any:
    """A class of grids with these clients; who derives from it answers in
    `send_and_receive`.
    """
    from flwr.serverapp import Grid
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = (
        1,
        1,
        1,
    )  # messages want to know who sends them

    class InProcess(Grid):
        def set_run(self, run: Any) -> None: ...

        @property
        def run(self) -> Any:
            return None

        def create_message(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        def push_messages(self, messages: Any) -> Any:
            raise NotImplementedError

        def pull_messages(self, message_ids: Any) -> Any:
            raise NotImplementedError

        def get_node_ids(self) -> list[int]:
            return list(range(FIRST_NODE, FIRST_NODE + clients))

    return InProcess
