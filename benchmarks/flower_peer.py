"""The work of same_work.py in Flower's simulation engine, with as little around it as
Flower allows.

    python benchmarks/flower_peer.py MODEL ROUNDS RESULT.npz [lean|usual]

Needs flwr[simulation]; benchmarks/peers.py starts it in its own environment. Every core
has one worker with one thread. The model travels as one array, the server averages by
number of samples (FedAvg), and nothing is evaluated. A worker makes the data once. A
client's round is

- lean: a loop over tensors normalised beforehand, in a model that the worker keeps
- usual: a new model, an SGD object, and a DataLoader that reads and normalises image by
  image, as in Flower's templates
"""

import copy
import os
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

# Nothing is to be reported to anybody. Workers inherit it.
os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    ),
}

import numpy as np
import same_work
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

client_app = ClientApp()


@cache
def worker(name: str) -> tuple[Any, ...]:
    """What a worker makes once: a model, normalised images for the lean style, images
    one by one for the usual, labels.
    """
    import loops
    import torch

    torch.set_num_threads(1)
    pool = same_work.images()
    pixels, labels = torch.from_numpy(pool.pixels), torch.from_numpy(pool.labels)
    model = loops.build_model(
        loops.MODEL.kinds[name](), same_work.SHAPE, same_work.CLASSES
    )
    normalised = pixels.float().div_(255).sub_(same_work.MEAN).div_(same_work.STD)
    return model, normalised, loops.Images(pixels, labels), labels


@client_app.train()
def train(message: Message, context: Context) -> Message:
    import torch
    from torch.nn.functional import cross_entropy
    from torch.nn.utils import parameters_to_vector, vector_to_parameters
    from torch.utils.data import DataLoader, Subset

    config = message.content["config"]
    name, lean = str(config["model"]), config["style"] == "lean"
    model, normalised, one_by_one, labels = worker(name)
    rows = same_work.rows(
        int(config["server-round"]), int(context.node_config["partition-id"])
    )
    if lean:
        own = torch.from_numpy(rows)
        batches: Any = [(normalised[own], labels[own])]
    else:
        model = copy.deepcopy(model)
        batches = DataLoader(
            Subset(one_by_one, rows.tolist()), batch_size=len(rows), shuffle=True
        )
    vector_to_parameters(
        torch.from_numpy(message.content["arrays"]["model"].numpy().copy()),
        model.parameters(),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=same_work.LR[name])
    for _ in range(same_work.STEPS):
        for x, y in batches:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    after = parameters_to_vector(model.parameters()).detach().numpy()
    reply = RecordDict(
        {"arrays": _model(after), "metrics": MetricRecord({"num-examples": len(rows)})}
    )
    return Message(content=reply, reply_to=message)


def _model(vector: np.ndarray) -> ArrayRecord:
    return ArrayRecord({"model": Array(vector)})


class Timed(FedAvg):
    """FedAvg that notes when each round ended, and the model after the first."""

    def __init__(self) -> None:
        nodes = same_work.CLIENTS
        super().__init__(
            fraction_evaluate=0.0,
            min_train_nodes=nodes,
            min_evaluate_nodes=0,
            min_available_nodes=nodes,
        )
        self.ends: list[float] = []
        self.first: Any = None

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        replies = list(replies)
        failed = [reply for reply in replies if reply.has_error()]
        if failed or len(replies) < same_work.CLIENTS:
            raise RuntimeError(
                f"round {server_round}: {len(replies)} replies, {len(failed)} of them"
                " errors"
            )
        result = super().aggregate_train(server_round, replies)
        self.ends.append(time.time())
        self.first = (
            self.first if self.first is not None else result[0]["model"].numpy()
        )
        return result


def main(name: str, rounds: int, result: str, style: str) -> None:
    from flower_peer import client_app  # under its own name, so that workers find it

    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = Timed()
        began = time.time()
        final = strategy.start(
            grid,
            initial_arrays=_model(same_work.start(name)),
            num_rounds=rounds,
            train_config=ConfigRecord({"model": name, "style": style}),
        )
        final_model = final.arrays["model"].numpy()
        np.savez(
            result,
            model=final_model,
            first=strategy.first,
            began=began,
            ends=strategy.ends,
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a slower way to start it
        run_simulation(
            server_app,
            client_app,
            num_supernodes=same_work.CLIENTS,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        sys.argv[3],
        sys.argv[4] if len(sys.argv) > 4 else "lean",
    )
