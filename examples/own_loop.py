"""Your own training loop, in which headgate decides: plain PyTorch federated averaging over ten clients with small buffers.

headgate needs to know what each client can hold, what may be spent a round, and each round's price. It answers with a
window of each client's stream: train on the samples first..last-1. Run it: python examples/own_loop.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from headgate import Controller, System
from headgate.control.policies import Headgate

ROUNDS, CLIENTS = 40, 10
images, labels = (torch.tensor(x) for x in load_digits(return_X_y=True))
images = (images.float() / 8 - 1)[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
test, streams = slice(0, 360), np.array_split(np.arange(360, len(labels)), CLIENTS)  # each client's samples, as they come

system = System(buffer=np.array([8, 9, 10, 11, 12] * 2), budget=55.0, horizon=ROUNDS)
controller = Controller(system, Headgate())
ledger = controller.open()
model = nn.Linear(64, 10)
prices = np.random.default_rng(0).uniform(1, 10, ROUNDS)

for price in prices:
    orders = controller.decide(ledger, price)  # pure: nothing has happened yet
    updates, weights = [], []
    for m in range(CLIENTS):
        own = streams[m][np.arange(orders.first[0, m], orders.last[0, m]) % len(streams[m])]
        if not len(own):
            continue
        local = nn.Linear(64, 10)
        local.load_state_dict(model.state_dict())
        step = torch.optim.SGD(local.parameters(), lr=0.5)
        for _ in range(10):
            step.zero_grad()
            cross_entropy(local(images[own]), labels[own]).backward()
            step.step()
        updates.append(local.state_dict())
        weights.append(len(own))
    if updates:
        share = torch.tensor(weights) / sum(weights)
        model.load_state_dict({k: sum(w * u[k] for w, u in zip(share, updates, strict=True)) for k in updates[0]})
    ledger = controller.post(ledger, orders)  # the only way time advances: the samples are paid for

accuracy = (model(images[test]).argmax(dim=1) == labels[test]).float().mean()
print(f"accuracy {accuracy:.3f}, spent {ledger.spent[0]:.2f} of {system.budget * ROUNDS:.0f}")
print(f"client by client {ledger.occupancy[0].tolist()} of {system.buffer.tolist()} places are full")
