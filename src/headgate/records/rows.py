"""The rows of a round in the tables of metrics and clients. The simulator and Flower
build them here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Floats, Ints, Ledger, Losses, Orders
from headgate.theory.bound import BoundConstants, learning_error
from headgate.theory.reuse import effective_sample_size

FEW = 1_000
"""the largest number of clients of which each is recorded in the table of clients"""
Row = dict[str, Any]
Column = Sequence[Any]


@dataclass(
    frozen=True,
    eq=False,
)
class PlayedRound:
    """A round of the runs of one policy.

    Parameters
    ----------
    policy : str
        The name of the policy.
    seeds : sequence of int
        The seed of each run, (R,).
    orders : Orders
        What the clients were told to admit, and the price.
    before, after : Ledger
        The ledger before and after the round.
    """

    policy: str
    seeds: Sequence[int]
    orders: Orders
    before: Ledger
    after: Ledger

    @property
    def admitted(self) -> Ints:
        """The samples that each client admitted in the round, (R, M)."""
        return self.after.admitted - self.before.admitted

    @property
    def mean_price(self) -> Floats:
        """The price of the round, on average over the clients, (R,)."""
        price = self.orders.price
        return price if price.ndim == 1 else price.mean(axis=-1)

    @property
    def paid_for_looks(self) -> list[float]:
        """What the looks of the round cost, (R,)."""
        before, after = self.before.looks, self.after.looks
        if before is None or after is None:
            return [0.0] * len(self.seeds)
        paid: list[float] = (after - before).tolist()
        return paid


class Usage(NamedTuple):
    """The use of samples in training.

    Parameters
    ----------
    trained : array
        How many samples each run trained on in the round, (R,).
    distinct : array
        How many different samples it has trained on so far, N, (R,).
    total, squares : array
        The sum of their use counts and of the squares of these, (R,).
    """

    trained: Ints
    distinct: Ints
    total: Ints
    squares: Ints


def metric_rows(
    rounds: Sequence[PlayedRound],
    measured: Mapping[str, Column],
    usage: Usage,
    buffer: Ints,
    bound: BoundConstants,
    held: Ints | None = None,
    more: Mapping[str, Column] | None = None,
) -> list[Row]:
    """Return the row of each run in the table of metrics.

    Parameters
    ----------
    rounds : sequence of PlayedRound
        The round of each policy. The runs of the first policy come first.
    measured : mapping
        The columns with accuracies and losses, one value for each run.
    usage : Usage
        The samples of which N, n_eff and the bound are computed.
    buffer : array
        The places of each client, B_m, (M,).
    bound : BoundConstants
        The constants of the bound.
    held : array, optional
        How many samples the clients of each run hold, if the ledger does not say, (R,).
    more : mapping, optional
        Columns that follow, one value for each run.

    Returns
    -------
    list of dict
        One row for each run.
    """

    def of_each(value: Callable[[PlayedRound], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([value(each) for each in rounds])

    if held is None:
        held = of_each(lambda each: each.after.held)
    N, n_eff = usage.distinct, effective_sample_size(usage.total, usage.squares)
    uniformity = np.where(N > 0, n_eff / np.maximum(N, 1), 1.0)
    error = learning_error(usage.trained, N, uniformity, bound)
    admitted = of_each(lambda each: each.after.ever - each.before.ever)
    spend = of_each(lambda each: each.after.spent - each.before.spent)
    excess = of_each(lambda each: (each.after.occupancy - buffer).max(axis=-1))
    columns: dict[str, Column] = {
        "policy": [each.policy for each in rounds for _ in each.seeds],
        "seed": [seed for each in rounds for seed in each.seeds],
        "t": list(repeat(rounds[0].after.t, len(N))),
        **measured,
        "n": held.tolist(),
        "N": N.tolist(),
        "n_eff": n_eff.tolist(),
        "admitted": admitted.tolist(),
        "price": of_each(lambda each: each.mean_price).tolist(),
        "spend": spend.tolist(),
        "debt": of_each(lambda each: each.before.debt).tolist(),
        "bound": error.tolist(),
        "excess": excess.tolist(),
        **(more or {}),
    }
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def client_rows(
    now: PlayedRound,
    held: Ints | None = None,
    paid: Floats | None = None,
    losses: Losses | None = None,
) -> list[Row]:
    """Return the row of each run of a policy in the table of clients; none if there are
    more than FEW clients.

    Parameters
    ----------
    now : PlayedRound
        The round of the policy.
    held : array, optional
        How many samples each client holds, if the ledger does not say, (R, M).
    paid : array, optional
        What each client was paid, if the orders do not say, (R, M). It is recorded if
        clients have prices of their own.
    losses : Losses, optional
        The losses that clients reported.

    Returns
    -------
    list of dict
        One row for each run.
    """
    if now.after.admitted.shape[-1] > FEW:
        return []
    admitted = now.admitted
    held = now.after.occupancy if held is None else held
    if now.orders.price.ndim == 1:
        paid = None
    elif paid is None:
        pipeline = now.after.pipeline
        paid = now.orders.paid(admitted) if pipeline is None else pipeline.paid
    rows = []
    for r, seed in enumerate(now.seeds):
        row: Row = {
            "policy": now.policy,
            "seed": seed,
            "t": now.after.t,
            "admitted": admitted[r].tolist(),
            "held": held[r].tolist(),
            "paid": None if paid is None else paid[r].tolist(),
        }
        if losses is not None:
            row["new_loss"] = losses.new[r].tolist()
            row["held_loss"] = losses.held[r].tolist()
        rows.append(row)
    return rows


def with_none_for_nan(row: Row) -> Row:
    """Return a row with None for each number that is not finite, as JSON needs it.

    >>> with_none_for_nan({"n": 2, "new_loss": [0.5, float("nan")]})
    {'n': 2, 'new_loss': [0.5, None]}
    """

    def finite(value: Any) -> Any:
        if isinstance(value, list):
            return [finite(each) for each in value]
        if isinstance(value, float) and not np.isfinite(value):
            return None
        return value

    return {name: finite(value) for name, value in row.items()}
