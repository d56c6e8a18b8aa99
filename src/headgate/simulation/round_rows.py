"""What a round did, as rows for the record: one a run with numbers of the whole, one a run with numbers of each client."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.control.types import Floats, Losses
from headgate.learning.judgement import Judgement
from headgate.simulation.rounds import Prepared
from headgate.theory.bound import learning_error
from headgate.theory.reuse import effective_sample_size

if TYPE_CHECKING:
    from headgate.simulation.engine import Simulation

FEW = 1_000
"""clients of whom each is written down: the images it owns, and in the record what it admits and holds"""


def metric_rows(of: "Simulation", now: Prepared, train_loss: Floats, found: Judgement) -> list[dict[str, Any]]:
    """One row a run. n is what all clients hold; N, n_eff and the bound are of what was trained on."""
    before, after = ([ledgers[name] for name in of.names] for ledgers in (now.before, now.after))
    N, n_eff = of.uses.distinct, effective_sample_size(of.uses.total, of.uses.squares)
    trained = np.diff(now.batch.offsets[:: now.batch.weights.shape[1]])
    bound = learning_error(trained, N, np.where(N > 0, n_eff / np.maximum(N, 1), 1.0), of.experiment.bound)
    held = np.concatenate([ledger.held for ledger in after])
    ever = [np.concatenate([ledger.ever for ledger in ledgers]) for ledgers in (before, after)]
    spent = [np.concatenate([ledger.spent for ledger in ledgers]) for ledgers in (before, after)]
    prices = [now.orders[name].price for name in of.names]
    buffer = of.experiment.system.buffer
    columns = {
        "policy": [name for name in of.names for _ in of.seeds],
        "seed": of.run_seeds,
        "t": [now.t] * len(of.run_seeds),
        "test_accuracy": found.accuracy.tolist(),
        "test_loss": found.loss.tolist(),
        "validation_accuracy": found.validation.tolist() if of.experiment.data.validation else [None] * len(of.run_seeds),
        "train_loss": train_loss.tolist(),
        "n": held.tolist(),
        "N": N.tolist(),
        "n_eff": n_eff.tolist(),
        "admitted": (ever[1] - ever[0]).tolist(),
        "price": np.concatenate([own if own.ndim == 1 else own.mean(axis=-1) for own in prices]).tolist(),
        "spend": (spent[1] - spent[0]).tolist(),
        "debt": np.concatenate([ledger.debt for ledger in before]).tolist(),
        "bound": bound.tolist(),
        "excess": np.concatenate([(ledger.occupancy - buffer).max(axis=-1) for ledger in after]).tolist(),
    }
    columns |= of.world.columns(now.t, of.experiment.system.weight, found.by_concept)
    columns |= _look_columns(of, now) if of.looking else {}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _look_columns(of: "Simulation", now: Prepared) -> dict[str, list[Any]]:
    """Samples that clients looked at in the round, and what they paid for that, of each run; None where they do not look."""
    looked, paid = list[int | None](), list[float | None]()
    for name, source in of.sources.items():
        known, now_known = now.known[name], now.purchases[name]
        before, after = now.before[name].looks, now.after[name].looks
        if source.looks and known is not None and now_known is not None:
            looked += (now_known.looked - known.looked).sum(axis=-1).tolist()
            paid += [0.0] * len(of.seeds) if before is None or after is None else (after - before).tolist()
        else:
            looked, paid = looked + [None] * len(of.seeds), paid + [None] * len(of.seeds)
    return {"looked": looked, "looks": paid}


def client_rows(of: "Simulation", now: Prepared, told: Mapping[str, Losses]) -> list[dict[str, Any]]:
    """What each client admitted and holds, was paid where prices differ, and told of its losses where it was asked;
    nothing where there are too many clients."""
    if of.experiment.system.clients > FEW:
        return []
    rows = []
    for name in of.names:
        before, after, paid = now.before[name], now.after[name], now.paid[name]
        admitted, held = after.admitted - before.admitted, after.occupancy
        for r, seed in enumerate(of.seeds):
            row = {
                "policy": name,
                "seed": int(seed),
                "t": now.t,
                "admitted": admitted[r].tolist(),
                "held": held[r].tolist(),
            }
            row["paid"] = None if paid is None else paid[r].tolist()
            if name in told:
                row |= {f"{which}_loss": each[r].tolist() for which, each in told[name]._asdict().items()}
            rows.append(row)
    return rows
