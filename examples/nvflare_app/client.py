"""A client's script: it buys what it is told to, holds a window of its stream, and
trains softmax regression on it.
"""

import sys
from pathlib import Path

import numpy as np
import nvflare.client as flare

from headgate.learning.datasets import load_dataset
from headgate.nvflare import Admissions


def train(w, images, labels):
    """The model after ten gradient steps."""
    for _ in range(10):
        scores = images @ w.T
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(len(labels)), labels] -= 1
        w = w - 0.5 * shares.T @ images / max(len(labels), 1)
    return w.astype(np.float32)


def main(folder, site):
    data = load_dataset("digits")
    images = np.column_stack(
        [data.train_images.reshape(-1, 64) / 255, np.ones(len(data.train_labels))]
    )
    stream = np.array_split(np.random.default_rng(0).permutation(len(images)), 3)[
        int(site[-1]) - 1
    ]
    flare.init()
    admissions = Admissions(Path(folder) / site)
    while flare.is_running():
        if (model := flare.receive()) is None:
            break
        held = admissions.admit(
            model, most=8 if site == "site-2" else None
        )  # its annotator labels at most eight a day
        own = stream[np.array(held, dtype=int) % len(stream)]
        w = train(model.params["w"], images[own], data.train_labels[own])
        flare.send(flare.FLModel(params={"w": w}, meta=admissions.report))


if __name__ == "__main__":
    main(*sys.argv[1:])
