"""The replay of real purchases: what headgate would have bought at the same prices."""

import io
import math
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from rich.console import RenderableType

from headgate.analysis.display import Displayed, StackedTable
from headgate.analysis.formatting import CURRENCY, counted, money_in, number, percent
from headgate.books.addresses import Address, Place, place_of
from headgate.books.statement import exported, opened, statement
from headgate.control.controller import Controller
from headgate.control.policies import Headgate
from headgate.control.retention import KStep
from headgate.control.types import Bools, Floats, Ints, Report, System
from headgate.errors import DataError, SettingError
from headgate.escaping import one_line, shown
from headgate.experiment import Experiment, load
from headgate.limits import NUMBER, PURCHASES, SAMPLES
from headgate.reading import csv_text, read_bytes
from headgate.registry import checked


@dataclass(
    frozen=True,
    eq=False,
)
class Purchases:
    """The prices that were offered and the samples that M clients bought in T rounds.

    Parameters
    ----------
    times : tuple of str
        The time of each round, as the file writes it.
    price : array
        The price of one sample, (T, M); NaN if a client has no row in a round and so no
        offer.
    bought : array
        The number of samples bought, (T, M).
    currency : str, default ""
        The currency, if the file has it.
    """

    times: tuple[str, ...]
    price: Floats
    bought: Ints
    currency: str = ""

    @cached_property
    def offered(self) -> Bools:
        """Whether each client had an offer in each round, (T, M)."""
        return ~np.isnan(self.price)

    @cached_property
    def mean_price(self) -> Floats:
        """The mean price that was offered in each round, (T,)."""
        return np.asarray(np.nanmean(self.price, axis=-1))

    @cached_property
    def filled_prices(self) -> Floats:
        """The prices, (T, M), without gaps.

        A missing price is the client's last one, or the round's mean if there was none.
        """
        prices = self.price.copy()
        for t in range(1, len(prices)):
            prices[t] = np.where(self.offered[t], prices[t], prices[t - 1])
        return np.where(np.isnan(prices), self.mean_price[:, None], prices)

    def paid(self, bought: Ints) -> Floats:
        """Return the cost of `bought` samples, (T, M), in each round, (T,)."""
        offers = np.where(self.offered, self.price, 0.0)
        return np.asarray((offers * bought).sum(axis=-1))


Offer = tuple[float | datetime, str]
"""the time of a round and the client's name"""
Purchase = tuple[str, float, int]
"""the time as the file writes it, the price and the samples"""


class PurchaseRow(BaseModel):
    """A line of a file of purchases."""

    model_config = ConfigDict(allow_inf_nan=False)

    time: Annotated[float | datetime, Field(union_mode="left_to_right")]
    price: Annotated[
        float,
        Field(
            ge=0,
            le=NUMBER,
        ),
    ]
    samples: Annotated[
        int,
        Field(
            ge=0,
            le=SAMPLES,
        ),
    ]
    client: str = ""


def read_purchases(path: Place) -> Purchases:
    """Read purchases from a CSV file or from a ledger, and return them in order of
    time.

    Parameters
    ----------
    path : Path or Address
        The file, with the columns time, price, samples (or bought) and perhaps client,
        or as `headgate ledger export` writes it; or where a ledger is.

    Returns
    -------
    Purchases
        One round for each time.

    Raises
    ------
    DataError
        If the file cannot be read or contains an invalid value.
    """
    table = _read_table(path)
    try:
        found = _checked_rows(path, table)
    except SettingError as error:
        raise DataError(str(error)) from None
    if not found:
        raise DataError(f"{path}: holds no purchases")

    try:
        times = sorted({time for time, _ in found})
    except TypeError:  # times of different kinds cannot be sorted
        raise DataError(
            f"{path}: times must be all numbers, all dates, or all dates with a time"
            " zone"
        ) from None
    clients = sorted({client for _, client in found})
    if len(times) * len(clients) > PURCHASES:
        raise DataError(
            f"{path}: {len(times):,} times and {len(clients):,} clients; at most"
            f" {PURCHASES:,} of both multiplied"
        )

    purchases = replace(_grid(found, times, clients), currency=_currency(table))
    paid = float(purchases.paid(purchases.bought).sum())
    if not 1 / NUMBER <= paid <= NUMBER:
        raise DataError(
            f"{path}: {paid:g} was paid in all; must be more than nothing and at most"
            f" {NUMBER:g}"
        )
    return purchases


def _read_table(path: Place) -> pl.DataFrame:
    """Return the purchases as a table of texts with the columns that are needed."""
    if isinstance(path, Address) or path.is_dir() or path.suffix == ".sqlite":
        with opened(path) as store:
            text = exported(statement(store), "csv").decode()
    else:
        text = csv_text(path, read_bytes(path))
    try:
        table = pl.read_csv(io.StringIO(text), infer_schema=False)
        header = [name.strip().lower() for name in table.columns]
        table.columns = header
        if {"round", "delivered", "free", "currency"} <= set(header):
            table = _of_export(table)
            header = table.columns
        if "samples" not in header:
            header = ["samples" if name == "bought" else name for name in header]
        table.columns = header
    except pl.exceptions.PolarsError as error:
        why = one_line(error, 200)
        raise DataError(f"{path}: cannot be read as CSV ({why})") from None

    for column in ("time", "price", "samples"):
        if column not in header:
            named = shown(", ".join(header), 300)
            raise DataError(f'{path}: no column "{column}"; its header names {named}')
    if table.height > PURCHASES:
        raise DataError(f"{path}: more than {PURCHASES:,} purchases")
    return table


def _currency(table: pl.DataFrame) -> str:
    """Return the currency that all purchases have; empty if there is none."""
    if "currency" not in table.columns:
        return ""
    known = table["currency"].drop_nulls().unique().to_list()
    return shown(known[0], CURRENCY) if len(known) == 1 else ""


def _of_export(table: pl.DataFrame) -> pl.DataFrame:
    """Return an export of a ledger as purchases, with its rounds as times.

    If all clients always had one price, they are one buyer: a client without an order
    had an offer too.
    """
    counts = pl.col("delivered", "free").str.to_integer()
    table = table.with_columns(counts).select(
        pl.col("round").alias("time"),
        pl.col("price", "client", "currency"),
        (pl.col("delivered") - pl.col("free")).alias("samples"),
    )
    rounds = table.group_by("time", maintain_order=True)
    if rounds.agg(pl.col("price").n_unique())["price"].max() == 1:
        table = rounds.agg(pl.col("price", "currency").first(), pl.col("samples").sum())
    return table.with_columns(pl.col("samples").cast(pl.String))


def _checked_rows(path: Place, table: pl.DataFrame) -> dict[Offer, Purchase]:
    """Return the purchase of each client at each time; empty lines are left out."""
    found: dict[Offer, Purchase] = {}
    for line, cells in enumerate(table.iter_rows(named=True), 2):
        texts = {name: text.strip() for name, text in cells.items() if text is not None}
        if not texts:
            continue
        row = checked(PurchaseRow, texts, f"{path}: line {line}")
        offer = row.time, row.client
        if offer in found:
            raise DataError(
                f"{path}: line {line}: time = {shown(texts['time'])}: comes twice for"
                " the same client"
            )
        found[offer] = texts["time"], row.price, row.samples
    return found


def _grid(
    found: dict[Offer, Purchase],
    times: list[Any],
    clients: list[str],
) -> Purchases:
    """Return the purchases as arrays with a row for each time."""
    nothing = ("", math.nan, 0)
    rounds = [[found.get((t, client), nothing) for client in clients] for t in times]
    return Purchases(
        times=tuple(max(text for text, _, _ in row) for row in rounds),
        price=np.array([[price for _, price, _ in row] for row in rounds]),
        bought=np.array([[samples for _, _, samples in row] for row in rounds]),
    )


LINES = 20
"""the most lines of the table that is shown"""
PRECISION = 1e-3
"""how precisely the least budget for as many samples is found, as a share of the money
paid"""
EQUAL = 1e-9
"""the relative difference below which two sums of money count as equal"""
NOTE = (
    "headgate saw each price in its round and no later one, and bought at most {most}"
    " samples a round and client (capacity). The budget for as many is the least that"
    " suffices, found afterwards. Samples and money are compared, not accuracy: a"
    " sample that is bought later is in use for a shorter time."
)


@dataclass(frozen=True)
class Total:
    """The samples that were bought in all rounds together, and the money paid."""

    samples: int
    paid: float


@dataclass(
    frozen=True,
    eq=False,
    repr=False,
)
class ReplayResult(Displayed):
    """The result of `replay`: real purchases, and those of headgate at their prices.

    Parameters
    ----------
    purchases : Purchases
        The real purchases.
    capacity : array
        The most samples that each client can buy in a round, (M,).
    for_as_much : array
        The samples that headgate buys in each round for as much money as was paid, (T,
        M).
    for_as_many : array or None
        The samples that headgate buys with the least budget for as many samples, (T,
        M); None if the capacity prevents that.
    cheapest : float or None
        The least cost of as many samples if all prices had been known beforehand; None
        if the capacity prevents that.
    currency : str
        The currency of the money, for display.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "purchases.csv"
    >>> file.write_text("time,price,samples\\n1,4.0,10\\n2,2.0,10\\n")
    37
    >>> found = replay(file, capacity=20)
    >>> found.frame.height
    2
    """

    purchases: Purchases
    capacity: Ints
    for_as_much: Ints
    for_as_many: Ints | None
    cheapest: float | None
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
        """The totals of headgate for as many samples, if the capacity allows them."""
        return None if self.for_as_many is None else self._total(self.for_as_many)

    def _total(self, bought: Ints) -> Total:
        return Total(int(bought.sum()), float(self.purchases.paid(bought).sum()))

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per round: the mean price offered, samples and money.

        They are the real ones, and those of headgate's two replays.
        """
        own = self.purchases
        columns: dict[str, Any] = {"time": list(own.times), "price": own.mean_price}
        replays = {
            "": own.bought,
            "as_much_": self.for_as_much,
            "as_many_": self.for_as_many,
        }
        for prefix, bought in replays.items():
            columns[f"{prefix}bought"] = columns[f"{prefix}paid"] = None
            if bought is not None:
                columns[f"{prefix}bought"] = bought.sum(axis=-1)
                columns[f"{prefix}paid"] = own.paid(bought)
        return pl.DataFrame(columns)

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers that `headgate replay --format json` prints."""
        return {
            "you": self.you,
            "as_much": self.as_much,
            "as_many": self.as_many,
            "cheapest": self.cheapest,
            "capacity": self.capacity.tolist(),
            "sentence": self.sentence,
            "rounds": self.frame.to_dicts(),
        }

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        you, many, much = self.you, self.as_many, self.as_much
        times, price = self.purchases.times, self.purchases.price
        text = (
            f"You paid {self._money(you.paid)} for {counted(you.samples, 'sample')}"
            f" from {times[0]} to {times[-1]}."
        )
        if np.nanmin(price) == np.nanmax(price):
            return f"{text} The price never changed, so there was nothing to save."
        if many is None or self.cheapest is None:
            return (
                f"{text} headgate would have bought {much.samples:,} for"
                f" {self._money(much.paid)}; this capacity does not allow as many."
            )

        text += (
            f" headgate would have paid {self._money(many.paid)}"
            f" ({percent(many.paid / you.paid)}) for as many, or bought"
            f" {much.samples:,} for as much; the cheapest possible was"
            f" {self._money(self.cheapest)}."
        )
        if self.cheapest >= you.paid * (1 - EQUAL):
            return (
                f"{text} With this capacity there was nothing to save; a larger one may"
                " be stated."
            )
        if many.paid > you.paid * (1 + EQUAL):
            return f"{text} Your own purchases were cheaper."
        return text

    def _money(self, value: float) -> str:
        return money_in(self.currency, value)

    def render(self) -> list[RenderableType]:
        """Return the sentence, a table of the rounds, and what it leaves out.

        Returns
        -------
        list
            Texts and a table, for `headgate.analysis.display.show`.
        """
        kind, compared = "as_many", "as many samples"
        if self.for_as_many is None:
            kind, compared = "as_much", "as much money"
        rounds_a_line = math.ceil(self.frame.height / LINES)
        spent = pl.col("paid", f"{kind}_paid")
        lines = (
            self.frame.group_by(
                pl.int_range(pl.len()) // rounds_a_line, maintain_order=True
            )
            .agg(
                pl.col("time").last(),
                pl.col("price").mean(),
                pl.col("bought", f"{kind}_bought").sum(),
                spent.sum(),
            )
            .drop("literal")
            .with_columns(spent.cum_sum())
        )
        header = [
            "until" if rounds_a_line > 1 else "time",
            "price",
            "you\nbought",
            "headgate\nbought",
            "you\npaid",
            "headgate\npaid",
        ]
        size = counted(rounds_a_line, "round")
        title = f"for {compared}, {size} a line; paid: so far"
        note = NOTE.format(most=f"{self.capacity.max():,}")
        return [f"{self.sentence}\n", StackedTable(title, header, _cells(lines)), note]


def _cells(rounds: pl.DataFrame) -> list[list[str]]:
    return [
        [cell if isinstance(cell, str) else number(cell) for cell in row]
        for row in rounds.iter_rows()
    ]


def replay(
    file: str | Path,
    capacity: int | None = None,
    currency: str = "",
) -> ReplayResult:
    """Compare real purchases with those of headgate at the same prices.

    Parameters
    ----------
    file : str or pathlib.Path
        A CSV file with the columns `time` (numbers or ISO dates), `price` (of one
        sample), `samples` (or `bought`) and optionally `client`. Rows with the same
        time form one round; a client without a row in a round has no offer in it. Or
        the folder or the address in PostgreSQL of `headgate.Books`, the folder of a run
        on Flower, or what `headgate ledger export` wrote of it; its rounds are the
        times.
    capacity : int, optional
        The most samples that each client can buy in a round. By default the most that
        it bought in any round.
    currency : str
        The currency of the money, for display; left out: that of the file.

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
    ...     rows = ["time,price,samples", "1,4,10", "2,2,0", "3,1,0", "4,5,10"]
    ...     print(*rows, sep="\\n", file=file, flush=True)
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
    made = read_purchases(place_of("file", file))
    if capacity is None:
        made = _of_buyers(made)
        most = made.bought.max(axis=0)
    else:
        most = np.full(made.bought.shape[1], capacity)

    wanted = int(made.bought.sum())
    paid = float(made.paid(made.bought).sum())
    cheapest = _cheapest(made, most, wanted)
    for_as_much = _bought(made, most, paid)
    for_as_many = None
    if cheapest is not None:
        for_as_many = _as_many(made, most, wanted, paid, for_as_much, cheapest)
    unit = currency or made.currency
    return ReplayResult(made, most, for_as_much, for_as_many, cheapest, unit)


def _of_buyers(made: Purchases) -> Purchases:
    """Return the purchases of clients that bought, in rounds with an offer to them."""
    some = made.bought.any(axis=0)
    rounds = np.flatnonzero(made.offered[:, some].any(axis=-1))
    times = tuple(made.times[t] for t in rounds)
    kept = np.ix_(rounds, some)
    return replace(
        made,
        times=times,
        price=made.price[kept],
        bought=made.bought[kept],
    )


def decide_at(
    made: Purchases,
    controller: Controller,
    one_price: bool = False,
) -> tuple[Ints, Floats]:
    """Return what a policy buys at the prices of one round after the other.

    Parameters
    ----------
    made : Purchases
        The prices. For a client without an offer the policy gets `filled_prices`, and
        its orders to that client are not bought.
    controller : Controller
        The controller of one run.
    one_price : bool
        Whether the policy gets a single price for all clients, or one for each.

    Returns
    -------
    bought : array
        The samples, (T, M).
    spent : array
        The spend up to each round, (T,).
    """
    ledger, bought, spent = controller.open(), [], []
    for price, offered in zip(made.filled_prices, made.offered, strict=True):
        orders = controller.decide(ledger, price if one_price else price[None])
        bought.append(np.where(offered, orders.admitted, 0))
        ledger = controller.post(ledger, orders, Report(bought[-1]))
        spent.append(float(ledger.spent[0]))
    return np.concatenate(bought), np.array(spent)


def _bought(
    made: Purchases,
    capacity: Ints,
    budget: float,
) -> Ints:
    """Return what headgate buys, (T, M), with `budget` for all rounds together."""
    rounds = len(made.times)
    system = System(capacity, budget / rounds, rounds)
    policy = Headgate(
        fill=0.0,
        rule=KStep(1),
    )
    bought, _ = decide_at(made, Controller(system, policy))
    return bought


def _as_many(
    made: Purchases,
    capacity: Ints,
    wanted: int,
    paid: float,
    bought: Ints,
    least: float,
) -> Ints:
    """Return what headgate buys, (T, M), with the least budget for `wanted` samples.

    The budget is found by bisection. `bought` is what headgate buys for the money
    `paid`, and no budget below `least` suffices. If `paid` does not suffice, the upper
    end is a budget per round that pays the full capacity in the dearest round, so that
    all offers are bought.
    """
    if bought.sum() >= wanted:
        below, above, found = least, paid, bought
    else:
        dearest = float((made.filled_prices * capacity).sum(axis=-1).max())
        below, above = max(least, paid), len(made.times) * min(dearest, NUMBER)
        found = _bought(made, capacity, above)

    while above - below > PRECISION * paid:
        middle = (below + above) / 2
        tried = _bought(made, capacity, middle)
        if tried.sum() >= wanted:
            above, found = middle, tried
        else:
            below = middle
    return found


def _cheapest(
    made: Purchases,
    capacity: Ints,
    wanted: int,
) -> float | None:
    """Return the cost of `wanted` samples from the cheapest offers, if there are any.

    It is None if the offers hold fewer samples.
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


@dataclass(
    frozen=True,
    eq=False,
    repr=False,
)
class ShadowResult(Displayed):
    """The result of `shadow`: what a recipe's policy would have bought in each round.

    Parameters
    ----------
    frame : polars.DataFrame
        One row per round: `time`, `price` (mean of the offers), `bought` and `paid` of
        the pipeline, `ordered` and `cost` of the policy, and `left`, the money that the
        policy may still spend.
    policy : str
        The name of the policy.
    currency : str
        The currency of the money, for display.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "purchases.csv"
    >>> file.write_text("time,price,samples\\n1,4.0,10\\n2,2.0,10\\n")
    37
    >>> recipe = load("digits", ['run.policies=["headgate"]'])
    >>> shadow(file, recipe).frame.height
    2
    """

    frame: pl.DataFrame
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
        """Return the sentence and a table of the latest rounds.

        Returns
        -------
        list
            A text and a table, for `headgate.analysis.display.show`.
        """
        last = self.frame.tail(LINES)
        title = f"the last {counted(last.height, 'round')}"
        return [f"{self.sentence}\n", StackedTable(title, last.columns, _cells(last))]


def shadow(
    file: str | Path,
    experiment: Experiment | str,
    currency: str = "",
) -> ShadowResult:
    """Return what a recipe's policy would buy at the prices of a pipeline.

    Nothing is bought. A decision depends on the price of its round and the prices
    before it. So a file that grows by a line each round can be passed again: earlier
    decisions stay the same, and the last row is the decision for the newest round.

    Parameters
    ----------
    file : str or pathlib.Path
        A CSV file as for `replay`: `time`, `price`, `samples` (bought by the pipeline)
        and optionally `client`. Its names, in alphabetical order, are then the clients
        of the recipe.
    experiment : Experiment or str
        A recipe with one policy, or its name. Its buffers, budget and rounds are used;
        its prices are not.
    currency : str
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
    ...     rows = ["time,price,samples", "1,9,10", "2,2,10", "3,1,10"]
    ...     print(*rows, sep="\\n", file=file, flush=True)
    ...     recipe = load("digits", ['run.policies=["headgate"]'])
    ...     answer = shadow(file.name, recipe)
    >>> answer.frame["ordered"].to_list()
    [8, 19, 56]
    """
    given = load(experiment) if isinstance(experiment, str) else experiment
    if len(given.policies) != 1:
        raise SettingError(
            f"run.policies = {list(given.policies)}: a shadow has one policy"
        )
    ((name, policy),) = given.policies.items()
    made = read_purchases(place_of("file", file))
    rounds, clients = made.price.shape
    if clients not in (1, given.system.clients):
        raise DataError(
            f"{file}: has {clients} clients, the recipe has system.clients ="
            f" {given.system.clients}"
        )
    if rounds > given.rounds:
        raise DataError(
            f"{file}: has {rounds} rounds, the recipe has run.rounds = {given.rounds}"
        )

    controller = Controller(given.system, policy, 1, given.seeds[:1])
    ordered, spent = decide_at(made, controller, one_price=clients == 1)
    columns = {
        "time": list(made.times),
        "price": made.mean_price,
        "bought": made.bought.sum(axis=-1),
        "paid": made.paid(made.bought),
        "ordered": ordered.sum(axis=-1),
        "cost": np.diff(spent, prepend=0.0),
        "left": given.system.budget * given.rounds - spent,
    }
    return ShadowResult(pl.DataFrame(columns), name, currency)
