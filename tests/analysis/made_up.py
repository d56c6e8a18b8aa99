"""Runs made up from curves, so that rules can be tried on numbers one can see through,
and what a terminal shows of them.
"""

import io

import numpy as np
from rich.console import Console

from headgate.analysis.runs import Runs

BUFFERS = np.array([4, 6])
BUDGET = 10.0


def outcome(
    policy,
    curves,
    spend=BUDGET,
    held=(1.0,),
    batch="written",
    seeds=None,
    every=1,
    lost=(),
    price=1.0,
):
    """`curves` (seeds, evaluations) of accuracy; `held` are shares of the buffers,
    repeated over the rounds; `lost` are places of seeds that diverged, whose curves are
    left out; `price` is that of every round."""
    curves = np.atleast_2d(np.asarray(curves, dtype=np.float64))
    S, E = curves.shape
    T = E * every
    shares = np.resize(np.asarray(held, dtype=np.float64), T)
    occupancy = np.broadcast_to(
        np.rint(shares[:, None] * BUFFERS).astype(np.int64), (S, T, 2)
    )
    accuracy = np.full((S, T), np.nan)
    accuracy[:, every - 1 :: every] = curves
    gone = np.isin(np.arange(S), lost)
    accuracy[gone] = np.nan
    price = np.broadcast_to(np.asarray(price, dtype=np.float64), (S, T))
    return Runs(
        folder=batch,
        policy=policy,
        budget=BUDGET,
        buffers=BUFFERS,
        rounds=T,
        seeds=tuple(range(S)) if seeds is None else tuple(seeds),
        lost=gone,
        reached=np.full(S, T),
        values={
            **dict.fromkeys(
                ("debt", "n_eff", "bound", "train_loss", "test_loss", "admitted"),
                np.zeros((S, T)),
            ),
            "test_accuracy": accuracy,
            "price": price,
            "spend": spend * price,
            "n": occupancy.sum(axis=-1).astype(np.float64),
            "excess": (occupancy - BUFFERS).max(axis=-1).astype(np.float64),
            "N": np.full((S, T), 100.0),
        },
        held=occupancy,
    )


def ramp(first, rounds=20, top=0.9, seeds=4, spread=0.0):
    """Curves that rise in a straight line to 80 % in round `first` and on to `top`;
    seeds lie `spread` apart.
    """
    t = np.arange(1, rounds + 1)
    base = np.minimum(0.8 * t / first, top)
    return np.clip(base + spread * np.linspace(-1, 1, seeds)[:, None], 0, 1)


def printed(*things, width=80):
    """The lines of a terminal of this width."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    for thing in things:
        console.print(thing)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]
