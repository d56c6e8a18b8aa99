"""
Your own training loop
======================

How to let headgate decide inside an existing loop: three calls, no recipe, no run
folder.

You keep your model, your optimiser and your way of sending things around. In each round
headgate returns which samples of its stream each client holds, and keeps the accounts.
"""

import tempfile
from pathlib import Path

import numpy as np
from pictures import line, panels, spread  # pictures.py is on the page Tutorials

from headgate import Controller, Report, System
from headgate.control.files import load_ledger, save_ledger
from headgate.control.policies import Constant, Headgate
from headgate.learning.datasets import load_dataset

# %% What is given -------------
#
# Ten clients with small buffers, 55 to spend in each of 60 rounds, and digits as data.
# A client's stream is the order in which its samples arrive.

rounds, clients = 60, 10
system = System(
    buffer=np.resize([8, 9, 10, 11, 12], clients), budget=55.0, horizon=rounds
)
data = load_dataset("digits")
pixels = data.train_images.reshape(-1, 64) / 127.5 - 1
test = data.test_images.reshape(-1, 64) / 127.5 - 1
streams = np.array_split(np.random.default_rng(0).permutation(len(pixels)), clients)
prices = np.random.default_rng(1).uniform(1, 10, rounds)

# %% The loop --------
#
# ``decide`` is pure: call it as often as you like. ``post`` is the only way time
# advances, and the only way money is spent. Between the two is your training; here
# softmax regression in plain numpy, averaged by how much each client holds.


def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def local_steps(model, x, y):
    own = model.copy()
    for _ in range(10):
        error = softmax(x @ own)
        error[np.arange(len(y)), y] -= 1
        own -= 0.5 * x.T @ error / len(y)
    return own


def train(policy):
    controller = Controller(system, policy)
    ledger, model, accuracy = controller.open(), np.zeros((64, 10)), []
    for price in prices:
        orders = controller.decide(ledger, price)
        updates, weights = [], []
        for stream, first, last in zip(
            streams, orders.first[0], orders.last[0], strict=True
        ):
            held = stream[np.arange(first, last) % len(stream)]
            if len(held):
                updates.append(
                    local_steps(model, pixels[held], data.train_labels[held])
                )
                weights.append(len(held))
        if updates:
            model = np.average(updates, axis=0, weights=weights)
        ledger = controller.post(ledger, orders)
        accuracy.append(
            100 * np.mean((test @ model).argmax(axis=1) == data.test_labels)
        )
    return np.maximum.accumulate(accuracy), ledger


figure, (axes,) = panels("Best test accuracy so far (%)", width=6.5, height=3.4)
for name, policy in {
    "constant": Constant(K=10, rate=10.0),
    "headgate": Headgate(),
}.items():
    accuracy, ledger = train(policy)
    print(
        f"{name}: {accuracy[-1]:.1f} %, spent {ledger.spent[0]:.0f} of"
        f" {system.budget * rounds:.0f}"
    )
    line(axes, np.arange(1, rounds + 1), accuracy, name)
axes.set(xlabel="round", xlim=(0, 70), ylim=(50, None))
spread(axes)

# %% Clients that do something else ------------------------------
#
# An absent client has admitted nothing. Report that, and it is neither charged nor owed
# later.

controller = Controller(system, Headgate())
ledger = controller.open()
orders = controller.decide(ledger, 4.0)
reported = orders.admitted.copy()
reported[0, 3] = 0  # client 3 did not answer
after = controller.post(ledger, orders, Report(reported))
print(
    "ordered", orders.admitted[0], "charged for", after.admitted[0], "=", after.spent[0]
)

# %% Keep the ledger ---------------
#
# A ledger is the complete state of control. Write it to a file when you checkpoint your
# model; a ledger that is read back gives the same orders in every later round.

path = Path(tempfile.mkdtemp()) / "ledger.npz"
save_ledger(after, path)
again = load_ledger(path, controller)
same = np.array_equal(
    controller.decide(again, 2.0).admitted, controller.decide(after, 2.0).admitted
)
print("the same orders:", same)

# %% In a job of NVFlare -------------------
#
# ``headgate.nvflare`` is such a loop for NVFlare, with accounts that survive a kill:
# :doc:`/reference/commands` shows it.
