"""The gate in the shadow of a pipeline: it decides beside it, round by round, and buys nothing."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import RenderableType

from headgate.analysis.display import Displayed, StackedTable
from headgate.analysis.formatting import counted, money_in, number
from headgate.analysis.replay import LINES, decide_at, read_purchases
from headgate.control.controller import Controller
from headgate.errors import DataError, SettingError
from headgate.experiment import Experiment, load


@dataclass(frozen=True, eq=False, repr=False)
class ShadowResult(Displayed):
    """What a recipe's policy would have bought in each round of a pipeline."""

    frame: pl.DataFrame
    """one row per round: time, price (mean of those offered), bought and paid by the pipeline, ordered and cost of the gate,
    and left: the money that the gate may still spend"""
    policy: str
    currency: str = ""

    @property
    def sentence(self) -> str:
        """The answer in plain words."""
        sums = self.frame.sum().row(0, named=True)
        paid, cost, left = (money_in(self.currency, each) for each in (sums["paid"], sums["cost"], self.frame["left"][-1]))
        return (
            f"In {counted(self.frame.height, 'round')} you bought {counted(sums['bought'], 'sample')} for {paid}; "
            f"{self.policy} would have bought {sums['ordered']:,} for {cost}, and would have {left} left. It bought nothing."
        )

    def render(self) -> list[RenderableType]:
        """Return the sentence and the newest rounds."""
        last = self.frame.tail(LINES)
        cells = [[str(cell) if isinstance(cell, str | int) else number(cell) for cell in row] for row in last.iter_rows()]
        return [f"{self.sentence}\n", StackedTable(f"the last {counted(last.height, 'round')}", last.columns, cells)]


def shadow(file: str | Path, experiment: Experiment | str, currency: str = "") -> ShadowResult:
    """Decide as a recipe says at the prices of a pipeline, without buying anything.

    A round is decided by its own price and those before it. So a file that grows by a line each round may be given again:
    earlier decisions stay the same, and the last row is what the gate would do now.

    Parameters
    ----------
    file
        A CSV file as that of `replay`: `time`, `price`, `samples` (bought by the pipeline) and perhaps `client`, in which
        case there is one name for each client of the recipe, in the order of the alphabet.
    experiment
        A recipe with one policy, or its name: buffers, budget and rounds count, prices do not.
    currency
        What the money is counted in, for display.

    Returns
    -------
    ShadowResult
        `frame` with one row per round, and `sentence`.

    Raises
    ------
    DataError
        Where the file cannot be read, has other clients than the recipe, or more rounds.
    SettingError
        Where the recipe has more than one policy.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w+", suffix=".csv") as file:
    ...     print("time,price,samples\\n1,9,10\\n2,2,10\\n3,1,10", file=file, flush=True)
    ...     answer = shadow(file.name, load("digits", ['run.policies=["headgate"]']))
    >>> answer.frame["ordered"].to_list()
    [17, 17, 53]
    """
    given = load(experiment) if isinstance(experiment, str) else experiment
    if len(given.policies) != 1:
        raise SettingError(f"run.policies = {list(given.policies)}: a shadow has one policy")
    ((name, policy),) = given.policies.items()
    made, clients = read_purchases(Path(file)), given.system.clients
    if made.price.shape[1] not in (1, clients):
        raise DataError(f"{file}: has {made.price.shape[1]} clients, the recipe has system.clients = {clients}")
    if len(made.times) > given.rounds:
        raise DataError(f"{file}: has {len(made.times)} rounds, the recipe has run.rounds = {given.rounds}")
    controller = Controller(given.system, policy, 1, given.seeds[:1])
    ordered, spent = decide_at(made, controller, one_price=made.price.shape[1] == 1)
    own = {"time": list(made.times), "price": np.nanmean(made.price, axis=-1), "bought": made.bought.sum(axis=-1)}
    left = given.system.budget * given.rounds - spent
    gate = {"ordered": ordered.sum(axis=-1), "cost": np.diff(spent, prepend=0.0), "left": left}
    return ShadowResult(pl.DataFrame({**own, "paid": made.paid(made.bought), **gate}), name, currency)
