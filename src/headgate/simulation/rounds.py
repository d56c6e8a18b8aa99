"""The parts of a round: what is prepared before the models are trained, the losses that
clients report, and its table rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import HALF, Bools, Floats, Ints, Ledger, Losses, Orders
from headgate.learning.drift import Judgement
from headgate.learning.purchases import PurchaseTable
from headgate.simulation.learner import RoundSamples
from headgate.theory.bound import learning_error
from headgate.theory.reuse import effective_sample_size

if TYPE_CHECKING:
    from headgate.simulation.engine import Simulation

FEW = 1_000
"""the largest number of clients for which each client's images are stored, and its
samples recorded in the clients table
"""


@dataclass(frozen=True)
class Round:
    """The results of a round, as rows of the tables."""

    t: int
    metrics: list[dict[str, Any]]
    clients: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Prepared:
    """The part of a round that does not depend on its models: what is admitted, and
    which clients train on which samples.
    """

    t: int
    price: Floats
    before: Mapping[str, Ledger]
    orders: Mapping[str, Orders]
    after: Mapping[str, Ledger]
    batch: RoundSamples
    clients: Ints
    """the numbers of the clients that train, (R, clients that train)"""
    runs: Ints
    """the run of each sample that is trained on, (samples,)"""
    samples: Ints
    """the number of each sample that is trained on, among the samples of the run's
    seed, (samples,)
    """
    new: Bools
    """whether each sample, or its label if labels arrive late, arrived in this round,
    (samples,)
    """
    known: Mapping[str, PurchaseTable | None]
    """the origin of the samples held before the round, by policy; None if it follows
    from their order
    """
    purchases: Mapping[str, PurchaseTable | None]
    """the origin of the samples held after the round, by policy; None if it follows
    from their order
    """


def heard_losses(of: "Simulation", now: Prepared, answer: Any) -> dict[str, Losses]:
    """Return the losses of the samples of the runs `of.heard`, by policy; `answer` is
    the result of `Learner.losses`.
    """
    sizes, seeds = np.diff(now.batch.offsets).reshape(now.clients.shape), len(of.seeds)
    new = now.new[
        np.repeat(np.isin(np.arange(len(sizes)), of.heard), sizes.sum(axis=1))
    ]
    clients = of.experiment.system.clients
    heard = mean_losses(
        of.learner.read(answer), new, sizes[of.heard], now.clients[of.heard], clients
    )
    firsts = range(0, len(of.heard), seeds)
    return {
        of.names[of.heard[first] // seeds]: heard.of_runs(slice(first, first + seeds))
        for first in firsts
    }


def mean_losses(
    losses: Floats, new: NDArray[np.bool_], sizes: Ints, clients: Ints, many: int
) -> Losses:
    """Return mean losses per client, (R, many), of samples that are sorted by client:
    `sizes` (R, C) for `clients` (R, C).

    Sums are in float64 and in the order of the samples. A mean that is not finite, for
    example after divergence, becomes NaN.

    >>> new, sizes, clients = np.array([True, False, False]), np.array([[1, 2]]), np.array([[0, 2]])
    >>> heard = mean_losses(np.array([1.0, 3.0, 5.0]), new, sizes, clients, 3)
    >>> heard.new.tolist(), heard.held.tolist()
    ([[1.0, nan, nan]], [[nan, nan, 4.0]])
    """
    segments = np.repeat(np.arange(sizes.size), sizes.ravel())
    runs = np.arange(len(sizes))[:, None]

    def mean(chosen: NDArray[np.bool_], of: NDArray[Any] = losses) -> Floats:
        own = segments[chosen]
        with np.errstate(invalid="ignore"):  # 0/0 where there are no samples
            means = np.bincount(own, of[chosen], sizes.size) / np.bincount(
                own, minlength=sizes.size
            )
        found = np.full((len(sizes), many), np.nan)
        # rounding may make a mean slightly negative
        found[runs, clients] = np.where(
            np.isfinite(means), np.maximum(means, 0.0), np.nan
        ).reshape(sizes.shape)
        return found

    return Losses(
        mean(new),
        mean(~new),
        mean(new, np.where(np.isfinite(losses), losses < HALF, np.nan)),
    )


# rows of the tables


def metric_rows(
    of: "Simulation", now: Prepared, train_loss: Floats, found: Judgement
) -> list[dict[str, Any]]:
    """Return one row per run. n counts the samples that all clients hold; N, n_eff and
    the bound use those trained on.
    """
    before, after = (
        [ledgers[name] for name in of.names] for ledgers in (now.before, now.after)
    )
    N, n_eff = of.uses.distinct, effective_sample_size(of.uses.total, of.uses.squares)
    trained = np.diff(now.batch.offsets[:: now.batch.weights.shape[1]])
    bound = learning_error(
        trained, N, np.where(N > 0, n_eff / np.maximum(N, 1), 1.0), of.experiment.bound
    )
    held = np.concatenate([ledger.held for ledger in after])
    ever = [
        np.concatenate([ledger.ever for ledger in ledgers])
        for ledgers in (before, after)
    ]
    spent = [
        np.concatenate([ledger.spent for ledger in ledgers])
        for ledgers in (before, after)
    ]
    prices = [now.orders[name].price for name in of.names]
    buffer = of.experiment.system.buffer
    columns = {
        "policy": [name for name in of.names for _ in of.seeds],
        "seed": of.run_seeds,
        "t": [now.t] * len(of.run_seeds),
        "test_accuracy": found.accuracy.tolist(),
        "test_loss": found.loss.tolist(),
        "validation_accuracy": (
            found.validation.tolist()
            if of.experiment.data.validation
            else [None] * len(of.run_seeds)
        ),
        "train_loss": train_loss.tolist(),
        "n": held.tolist(),
        "N": N.tolist(),
        "n_eff": n_eff.tolist(),
        "admitted": (ever[1] - ever[0]).tolist(),
        "price": (
            np.concatenate(
                [own if own.ndim == 1 else own.mean(axis=-1) for own in prices]
            ).tolist()
        ),
        "spend": (spent[1] - spent[0]).tolist(),
        "debt": np.concatenate([ledger.debt for ledger in before]).tolist(),
        "bound": bound.tolist(),
        "excess": (
            np.concatenate(
                [(ledger.occupancy - buffer).max(axis=-1) for ledger in after]
            ).tolist()
        ),
    }
    columns |= of.world.columns(now.t, of.experiment.system.weight, found.by_concept)
    columns |= _look_columns(of, now) if of.looking else {}
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def _look_columns(of: "Simulation", now: Prepared) -> dict[str, list[Any]]:
    """Return, for each run, how many samples clients looked at in the round and what
    this cost; None if they do not look.
    """
    looked, paid = list[int | None](), list[float | None]()
    for name, source in of.sources.items():
        known, now_known = now.known[name], now.purchases[name]
        before, after = now.before[name].looks, now.after[name].looks
        if source.looks and known is not None and now_known is not None:
            looked += (
                (source.looking(now.before[name]) * (now_known.looked - known.looked))
                .sum(axis=-1)
                .tolist()
            )
            paid += (
                [0.0] * len(of.seeds)
                if before is None or after is None
                else (after - before).tolist()
            )
        else:
            looked, paid = (
                looked + [None] * len(of.seeds),
                paid + [None] * len(of.seeds),
            )
    return {"looked": looked, "looks": paid}


def client_rows(
    of: "Simulation", now: Prepared, heard: Mapping[str, Losses]
) -> list[dict[str, Any]]:
    """Return one row per run with what each client admitted and holds, was paid if
    prices differ between clients, and reported of its losses if they were computed;
    return no rows if there are more than FEW clients."""
    if of.experiment.system.clients > FEW:
        return []
    rows = []
    for name in of.names:
        orders, after = now.orders[name], now.after[name]
        admitted, held = after.admitted - now.before[name].admitted, after.occupancy
        paid = orders.paid(admitted) if orders.price.ndim == 2 else None
        for r, seed in enumerate(of.seeds):
            row = {
                "policy": name,
                "seed": int(seed),
                "t": now.t,
                "admitted": admitted[r].tolist(),
                "held": held[r].tolist(),
            }
            row["paid"] = None if paid is None else paid[r].tolist()
            if name in heard:
                row |= {
                    f"{which}_loss": getattr(heard[name], which)[r].tolist()
                    for which in ("new", "held")
                }
            rows.append(row)
    return rows
