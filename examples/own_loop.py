"""Your own training loop, in which headgate decides: plain PyTorch federated averaging
over ten clients with small buffers.

headgate needs to know what each client can hold, what may be spent a round, and each
round's price. It answers with a purchase for each client, which holds the latest of
its samples and trains on these. The accounts and the model are in a folder: killed at
any moment, the same command goes on. Run it: python examples/own_loop.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy
except ImportError:
    sys.exit(
        "this example trains with PyTorch, which is not installed: pip install"
        " 'headgate[sim]'"
    )

from headgate import Books, System
from headgate.control.policies import Headgate
from headgate.learning.datasets import load_dataset


def local_steps(model, images, labels):
    """The model that a client makes of the server's, after ten gradient steps on what
    it holds.
    """
    own = nn.Linear(64, 10)
    own.load_state_dict(model.state_dict())
    optimiser = torch.optim.SGD(own.parameters(), lr=0.5)
    for _ in range(10):
        optimiser.zero_grad()
        cross_entropy(own(images), labels).backward()
        optimiser.step()
    return own.state_dict()


def numbers(images):
    """Pixels as a linear model likes them, from -1 to 1."""
    return torch.tensor(images.reshape(-1, 64) / 127.5 - 1).float()


def main(rounds=40, clients=10, folder=None):
    torch.manual_seed(0)
    torch.set_num_threads(
        1
    )  # the model is so small that a second thread only gets in the way
    data = load_dataset("digits")
    images, labels = numbers(data.train_images), torch.tensor(data.train_labels)
    streams = np.array_split(
        np.random.default_rng(0).permutation(len(labels)), clients
    )  # each client's samples, as they come
    system = System(
        buffer=np.resize([8, 9, 10, 11, 12], clients), budget=55.0, horizon=rounds
    )
    folder = Path(folder or tempfile.mkdtemp())
    with Books(folder, system, Headgate()) as books:
        model, saved = nn.Linear(64, 10), folder / f"model-{books.ledger.t}.pt"
        if saved.exists():
            model.load_state_dict(torch.load(saved, weights_only=True))
        for price in np.random.default_rng(1).uniform(1, 10, rounds)[books.ledger.t :]:
            purchases = books.begin(price)  # on disk, before anybody buys
            windows = [
                np.array(purchase.held(purchase.last), dtype=int)
                for purchase in purchases
            ]
            held = [
                stream[own % len(stream)]
                for stream, own in zip(streams, windows, strict=True)
            ]
            updates = [
                (len(own), local_steps(model, images[own], labels[own]))
                for own in held
                if len(own)
            ]
            total = sum(n for n, _ in updates)
            if updates:
                model.load_state_dict(
                    {
                        key: sum(n / total * update[key] for n, update in updates)
                        for key in updates[0][1]
                    }
                )
            torch.save(model.state_dict(), folder / f"model-{books.ledger.t + 1}.pt")
            books.settle()  # everybody did as ordered: the samples are paid for
        spent = float(books.audit().spent)
    accuracy = (
        (
            model(numbers(data.test_images)).argmax(dim=1)
            == torch.tensor(data.test_labels)
        )
        .float()
        .mean()
    )
    return float(accuracy), spent, system.budget * rounds


if __name__ == "__main__":
    print(
        "accuracy {:.3f}, spent {:.2f} of {:.0f}".format(
            *main(folder=sys.argv[1] if sys.argv[1:] else None)
        )
    )
