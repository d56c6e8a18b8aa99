"""The replay of real purchases: what headgate, or a recipe's policy, would have bought
at the same prices.
"""

import io
import math
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from rich.console import RenderableType

from headgate.analysis.display import Displayed, StackedTable
from headgate.analysis.formatting import counted, money_in, number, percent
from headgate.control.controller import Controller
from headgate.control.policies import Headgate
from headgate.control.retention import KStep
from headgate.control.types import Bools, Floats, Ints, Report, System
from headgate.errors import DataError, SettingError
from headgate.escaping import one_line, shown
from headgate.experiment import Experiment, load
from headgate.limits import NUMBER, PURCHASES, SAMPLES
from headgate.reading import read_text
from headgate.registry import checked


@dataclass(frozen=True, eq=False)
class Purchases:
    """The prices that were offered and the samples that were bought in T rounds by M
    clients.
    """

    times: tuple[str, ...]
    """the time of each round, as the file writes it"""
    price: Floats
    """the price of one sample, (T, M); NaN if a client has no row in a round and so no
    offer
    """
    bought: Ints
    """the number of samples bought, (T, M)"""

    @cached_property
    def offered(self) -> Bools:
        return ~np.isnan(self.price)

    @cached_property
    def filled_prices(self) -> Floats:
        """The prices, (T, M); a missing one is the client's last price, or the round's
        mean if there was none before.
        """
        prices = self.price.copy()
        for t in range(1, len(prices)):
            prices[t] = np.where(self.offered[t], prices[t], prices[t - 1])
        return np.where(
            np.isnan(prices), np.nanmean(self.price, axis=-1, keepdims=True), prices
        )

    def paid(self, bought: Ints) -> Floats:
        """Return the cost per round, (T,), of `bought` samples, (T, M), at these
        prices.
        """
        return np.asarray(
            (np.where(self.offered, self.price, 0.0) * bought).sum(axis=-1)
        )


class PurchaseRow(BaseModel):
    """A line of a file of purchases."""

    model_config = ConfigDict(allow_inf_nan=False)

    time: Annotated[float | datetime, Field(union_mode="left_to_right")]
    price: Annotated[float, Field(ge=0, le=NUMBER)]
    samples: Annotated[int, Field(ge=0, le=SAMPLES)]
    client: str = ""


def read_purchases(path: Path) -> Purchases:
    """Read a CSV file with the columns time, price, samples (or bought) and optionally
    client; return it in order of time.
    """
    try:
        table = pl.read_csv(io.StringIO(read_text(path)), infer_schema=False)
        header = [name.strip().lower() for name in table.columns]
        table.columns = [
            "samples" if name == "bought" and "samples" not in header else name
            for name in header
        ]
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{path}: cannot be read as CSV ({one_line(error, 200)})"
        ) from None
    for column in ("time", "price", "samples"):
        if column not in table.columns:
            raise DataError(
                f'{path}: no column "{column}"; its header names'
                f" {shown(', '.join(header), 300)}"
            )
    if table.height > PURCHASES:
        raise DataError(f"{path}: more than {PURCHASES:,} purchases")
    found: dict[tuple[float | datetime, str], tuple[str, float, int]] = {}
    try:
        for line, cells in enumerate(table.iter_rows(named=True), 2):
            if known := {
                name: text.strip() for name, text in cells.items() if text is not None
            }:
                row = checked(PurchaseRow, known, f"{path}: line {line}")
                if (row.time, row.client) in found:
                    raise DataError(
                        f"{path}: line {line}: time = {shown(known['time'])}: comes"
                        " twice for the same client"
                    )
                found[row.time, row.client] = known["time"], row.price, row.samples
        times = sorted({when for when, _ in found})
    except SettingError as error:
        raise DataError(str(error)) from None
    except TypeError:  # times of different kinds cannot be sorted
        raise DataError(
            f"{path}: times must be all numbers, all dates, or all dates with a time"
            " zone"
        ) from None
    clients = sorted({client for _, client in found})
    if not found:
        raise DataError(f"{path}: holds no purchases")
    if len(times) * len(clients) > PURCHASES:
        raise DataError(
            f"{path}: {len(times):,} times and {len(clients):,} clients; at most"
            f" {PURCHASES:,} of both multiplied"
        )
    rounds = [
        [found.get((when, client), ("", math.nan, 0)) for client in clients]
        for when in times
    ]
    texts = tuple(max(text for text, _, _ in row) for row in rounds)
    made = Purchases(
        texts,
        *(np.array([[cell[i] for cell in row] for row in rounds]) for i in (1, 2)),
    )
    if not 1 / NUMBER <= (paid := float(made.paid(made.bought).sum())) <= NUMBER:
        raise DataError(
            f"{path}: {paid:g} was paid in all; must be more than nothing and at most"
            f" {NUMBER:g}"
        )
    return made


LINES = 20
"""the most lines of the table that is shown"""
NEAR = 1e-3
"""the precision of the least budget for as many samples, as a share of the money paid
"""
ROUNDING = 1e-9
"""the relative difference below which two sums of money count as equal"""
NOTE = (
    "headgate saw each price in its round and no later one, and bought at most {most}"
    " samples a round and client (capacity). The budget for as many is the least that"
    " suffices, found afterwards. Samples and money are compared, not accuracy: a"
    " sample that is bought later is in use for a shorter time."
)


@dataclass(frozen=True)
class Total:
    """The samples that were bought in all rounds together, and the money paid for
    them.
    """

    samples: int
    paid: float


@dataclass(frozen=True, eq=False, repr=False)
class ReplayResult(Displayed):
    """The result of `replay`: real purchases, and what headgate would have bought at
    their prices.
    """

    purchases: Purchases
    capacity: Ints
    """the most samples that each client can buy in a round, (M,)"""
    for_as_much: Ints
    """the samples that headgate buys in each round for as much money as was paid, (T,
    M)
    """
    for_as_many: Ints | None
    """the samples that headgate buys with the least budget for as many samples, (T, M);
    None if the capacity prevents that
    """
    cheapest: float | None
    """the least cost of as many samples if all prices had been known beforehand; None
    if the capacity prevents that
    """
    currency: str = ""

    @cached_property
    def you(self) -> Total:
        """The totals of the real purchases."""
        return self._total(self.purchases.bought)

    @cached_property
    def as_much(self) -> Total:
        """The totals of headgate for as much money."""
        return self._total(self.for_as_much)

    @cached_property
    def as_many(self) -> Total | None:
        """The totals of headgate for as many samples; None if the capacity prevents
        that.
        """
        return None if self.for_as_many is None else self._total(self.for_as_many)

    def _total(self, bought: Ints) -> Total:
        return Total(int(bought.sum()), float(self.purchases.paid(bought).sum()))

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per round: the mean price offered, then samples and money, real ones
        and those of headgate's two replays.
        """
        own = self.purchases
        columns: dict[str, Any] = {
            "time": list(own.times),
            "price": np.nanmean(own.price, axis=-1),
        }
        for prefix, bought in (
            ("", own.bought),
            ("as_much_", self.for_as_much),
            ("as_many_", self.for_as_many),
        ):
            columns[f"{prefix}bought"] = None if bought is None else bought.sum(axis=-1)
            columns[f"{prefix}paid"] = None if bought is None else own.paid(bought)
        return pl.DataFrame(columns)

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers that `headgate replay --format json` prints."""
        totals = {
            "you": self.you,
            "as_much": self.as_much,
            "as_many": self.as_many,
            "cheapest": self.cheapest,
        }
        return {
            **totals,
            "capacity": self.capacity.tolist(),
            "sentence": self.sentence,
            "rounds": self.frame.to_dicts(),
        }

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        you, many, much, times = (
            self.you,
            self.as_many,
            self.as_much,
            self.purchases.times,
        )
        paid = (
            f"You paid {self._money(you.paid)} for {counted(you.samples, 'sample')}"
            f" from {times[0]} to {times[-1]}."
        )
        if np.nanmin(self.purchases.price) == np.nanmax(self.purchases.price):
            return f"{paid} The price never changed, so there was nothing to save."
        if many is None or self.cheapest is None:
            text = (
                f"headgate would have bought {much.samples:,} for"
                f" {self._money(much.paid)}"
            )
            return f"{paid} {text}; this capacity does not allow as many."
        text = (
            f"{paid} headgate would have paid {self._money(many.paid)}"
            f" ({percent(many.paid / you.paid)}) for as many, or bought"
            f" {much.samples:,} for as much; the cheapest possible was"
            f" {self._money(self.cheapest)}."
        )
        if self.cheapest >= you.paid * (1 - ROUNDING):
            return (
                f"{text} With this capacity there was nothing to save; a larger one may"
                " be stated."
            )
        return (
            f"{text} Your own purchases were cheaper."
            if many.paid > you.paid * (1 + ROUNDING)
            else text
        )

    def _money(self, value: float) -> str:
        return money_in(self.currency, value)

    def render(self) -> list[RenderableType]:
        size = -(-self.frame.height // LINES)
        kind, shown_for = (
            ("as_much", "as much money")
            if self.for_as_many is None
            else ("as_many", "as many samples")
        )
        lines = self.frame.group_by(
            pl.int_range(pl.len()) // size, maintain_order=True
        ).agg(
            pl.col("time").last(),
            pl.col("price").mean(),
            pl.col("bought", f"{kind}_bought", "paid", f"{kind}_paid").sum(),
        )
        lines = lines.drop("literal").with_columns(
            pl.col("paid", f"{kind}_paid").cum_sum()
        )
        header = [
            "until" if size > 1 else "time",
            "price",
            "you\nbought",
            "headgate\nbought",
            "you\npaid",
            "headgate\npaid",
        ]
        title = f"for {shown_for}, {counted(size, 'round')} a line; paid: so far"
        note = NOTE.format(most=f"{self.capacity.max():,}")
        return [f"{self.sentence}\n", StackedTable(title, header, _cells(lines)), note]


def _cells(rounds: pl.DataFrame) -> list[list[str]]:
    return [
        [cell if isinstance(cell, str) else number(cell) for cell in row]
        for row in rounds.iter_rows()
    ]


def replay(
    file: str | Path, capacity: int | None = None, currency: str = ""
) -> ReplayResult:
    """Compare purchases that were made with those that headgate would have made at the
    same prices.

    Parameters
    ----------
    file
        A CSV file with the columns `time` (numbers or ISO dates), `price` (of one
        sample), `samples` (or `bought`) and optionally `client`. Rows with the same
        time form one round; a client without a row in a round has no offer in it.
    capacity
        The most samples that each client can buy in a round. By default the most that
        it bought in any round.
    currency
        The currency of the money, for display.

    Returns
    -------
    ReplayResult
        The totals, and `frame` with one row per round.

    Raises
    ------
    DataError
        If the file cannot be read or contains an invalid value.
    SettingError
        If the capacity is not a whole number above 0.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w+", suffix=".csv") as file:
    ...     print("time,price,samples\\n1,4,10\\n2,2,0\\n3,1,0\\n4,5,10", file=file, flush=True)
    ...     answer = replay(file.name, currency="$")
    >>> answer.you, answer.as_much, answer.cheapest
    (Total(samples=20, paid=90.0), Total(samples=33, paid=90.0), 30.0)
    """
    if capacity is not None and not (
        isinstance(capacity, int) and 1 <= capacity <= SAMPLES
    ):
        raise SettingError(
            f"capacity = {shown(capacity)}: must be a whole number from 1 to"
            f" {SAMPLES:,}"
        )
    made = read_purchases(Path(file))
    most = made.bought.max(axis=0)
    if (
        capacity is None
    ):  # leave out clients that never bought, and rounds without an offer to the others
        some = most > 0
        rounds = np.flatnonzero(made.offered[:, some].any(axis=-1))
        times, kept = tuple(made.times[t] for t in rounds), np.ix_(rounds, some)
        made, most = Purchases(times, made.price[kept], made.bought[kept]), most[some]
    else:
        most = np.full_like(most, capacity)
    wanted, paid = int(made.bought.sum()), float(made.paid(made.bought).sum())
    cheapest, bought = _cheapest(made, most, wanted), _bought(made, most, paid)
    as_many = (
        None
        if cheapest is None
        else _as_many(made, most, wanted, paid, bought, cheapest)
    )
    return ReplayResult(made, most, bought, as_many, cheapest, currency)


def decide_at(
    made: Purchases, controller: Controller, one_price: bool = False
) -> tuple[Ints, Floats]:
    """Return what a policy buys, (T, M), and its spend up to each round, (T,), at the
    prices of one round after the other.

    With `one_price` it gets a single price for all clients, else one for each. For a
    client without an offer it gets `filled_prices`, and its orders to that client are
    not bought.
    """
    ledger, bought, spent = controller.open(), [], []
    for price, offered in zip(made.filled_prices, made.offered, strict=True):
        orders = controller.decide(ledger, price if one_price else price[None])
        bought.append(np.where(offered, orders.admitted, 0))
        ledger = controller.post(ledger, orders, Report(bought[-1]))
        spent.append(float(ledger.spent[0]))
    return np.concatenate(bought), np.array(spent)


def _bought(made: Purchases, capacity: Ints, budget: float) -> Ints:
    """Return what headgate buys, (T, M), with `budget` for all rounds together."""
    rounds = len(made.times)
    return decide_at(
        made,
        Controller(
            System(capacity, budget / rounds, rounds), Headgate(fill=0.0, rule=KStep(1))
        ),
    )[0]


def _as_many(
    made: Purchases,
    capacity: Ints,
    wanted: int,
    paid: float,
    bought: Ints,
    least: float,
) -> Ints:
    """Return what headgate buys, (T, M), with the least budget found for at least
    `wanted` samples, by bisection.

    `bought` is what it buys for the money `paid`, and no budget below `least` suffices.
    The upper end is a budget per round that pays the full capacity in the dearest
    round, so that all offers are bought.
    """
    most = len(made.times) * min(
        float((made.filled_prices * capacity).sum(axis=-1).max()), NUMBER
    )
    below, above = (least, paid) if bought.sum() >= wanted else (max(least, paid), most)
    found = bought if above == paid else _bought(made, capacity, most)
    while above - below > NEAR * paid:
        middle = (below + above) / 2
        tried = _bought(made, capacity, middle)
        if tried.sum() >= wanted:
            above, found = middle, tried
        else:
            below = middle
    return found


def _cheapest(made: Purchases, capacity: Ints, wanted: int) -> float | None:
    """Return the cost of `wanted` samples from the cheapest offers; None if the offers
    hold fewer.
    """
    places = np.broadcast_to(capacity, made.price.shape)[made.offered]
    prices = made.price[made.offered]
    order = np.argsort(prices, kind="stable")
    places, prices = places[order], prices[order]
    before = np.cumsum(places) - places
    if before[-1] + places[-1] < wanted:
        return None
    return float((prices * np.clip(wanted - before, 0, places)).sum())


# shadow mode: the policy decides beside a pipeline, round by round, and buys nothing


@dataclass(frozen=True, eq=False, repr=False)
class ShadowResult(Displayed):
    """The result of `shadow`: what a recipe's policy would have bought in each round of
    a pipeline.
    """

    frame: pl.DataFrame
    """one row per round: `time`, `price` (mean of the offers), `bought` and `paid` of
    the pipeline, `ordered` and `cost` of the policy, and `left`, the money that the
    policy may still spend"""
    policy: str
    currency: str = ""

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        sums = self.frame.sum().row(0, named=True)
        paid, cost, left = (
            money_in(self.currency, each)
            for each in (sums["paid"], sums["cost"], self.frame["left"][-1])
        )
        return (
            f"In {counted(self.frame.height, 'round')} you bought"
            f" {counted(sums['bought'], 'sample')} for {paid}; {self.policy} would have"
            f" bought {sums['ordered']:,} for {cost}, and would have {left} left. It"
            " bought nothing."
        )

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers that `headgate replay --shadow RECIPE --format json` prints."""
        return {"sentence": self.sentence, "rounds": self.frame.to_dicts()}

    def render(self) -> list[RenderableType]:
        """Return the sentence and a table of the latest rounds."""
        last = self.frame.tail(LINES)
        return [
            f"{self.sentence}\n",
            StackedTable(
                f"the last {counted(last.height, 'round')}", last.columns, _cells(last)
            ),
        ]


def shadow(
    file: str | Path, experiment: Experiment | str, currency: str = ""
) -> ShadowResult:
    """Return what a recipe's policy would buy at the prices of a pipeline, without
    buying anything.

    A decision depends on the price of its round and the prices before it. So a file
    that grows by a line each round can be passed again: earlier decisions stay the
    same, and the last row is the decision for the newest round.

    Parameters
    ----------
    file
        A CSV file as for `replay`: `time`, `price`, `samples` (bought by the pipeline)
        and optionally `client`. Its names, in alphabetical order, are then the clients
        of the recipe.
    experiment
        A recipe with one policy, or its name. Its buffers, budget and rounds are used;
        its prices are not.
    currency
        The currency of the money, for display.

    Returns
    -------
    ShadowResult
        `frame` with one row per round, and `sentence`.

    Raises
    ------
    DataError
        If the file cannot be read, or has more rounds or other clients than the recipe.
    SettingError
        If the recipe has more than one policy.

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
        raise SettingError(
            f"run.policies = {list(given.policies)}: a shadow has one policy"
        )
    ((name, policy),) = given.policies.items()
    made, clients = read_purchases(Path(file)), given.system.clients
    if made.price.shape[1] not in (1, clients):
        raise DataError(
            f"{file}: has {made.price.shape[1]} clients, the recipe has system.clients"
            f" = {clients}"
        )
    if len(made.times) > given.rounds:
        raise DataError(
            f"{file}: has {len(made.times)} rounds, the recipe has run.rounds ="
            f" {given.rounds}"
        )
    controller = Controller(given.system, policy, 1, given.seeds[:1])
    ordered, spent = decide_at(made, controller, one_price=made.price.shape[1] == 1)
    own = {
        "time": list(made.times),
        "price": np.nanmean(made.price, axis=-1),
        "bought": made.bought.sum(axis=-1),
    }
    left = given.system.budget * given.rounds - spent
    gate = {
        "ordered": ordered.sum(axis=-1),
        "cost": np.diff(spent, prepend=0.0),
        "left": left,
    }
    return ShadowResult(
        pl.DataFrame({**own, "paid": made.paid(made.bought), **gate}), name, currency
    )
