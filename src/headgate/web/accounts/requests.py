"""What a request to accounts may hold, with an example of each. What it means is
checked by `headgate.Books`, whose arguments these are.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from headgate.books.nouns import Client, Delivery
from headgate.control.types import System
from headgate.limits import NUMBER, ROUNDS, SAMPLES
from headgate.web.accounts.tokens import NAME

CLIENTS = 10_000
"""the most clients of accounts"""
DELIVERIES = 50_000
"""the most deliveries, or keys, in one request"""
TEXT = 200
Line = Annotated[str, Field(max_length=TEXT)]
Money = Annotated[float, Field(strict=True, ge=-NUMBER, le=NUMBER)]
Price = Annotated[float, Field(strict=True, ge=0, le=NUMBER)]
Count = Annotated[StrictInt, Field(ge=0, le=SAMPLES)]
Places = Annotated[StrictInt, Field(ge=1, le=SAMPLES)]
RoundNumber = Annotated[StrictInt, Field(ge=1, le=ROUNDS)]
ClientName = StrictInt | Line
AccountName = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]


ONE_EACH = Field(max_length=CLIENTS)
Prices = (
    Price | Annotated[list[Price], ONE_EACH] | Annotated[dict[Line, Price], ONE_EACH]
)
Counts = (
    Count | Annotated[list[Count], ONE_EACH] | Annotated[dict[Line, Count], ONE_EACH]
)
Buffers = Annotated[list[Places], ONE_EACH] | Annotated[dict[Line, Places], ONE_EACH]
Weights = Annotated[list[float], ONE_EACH]
Present = Annotated[list[StrictBool], ONE_EACH] | Annotated[list[ClientName], ONE_EACH]
Refused = Annotated[dict[Line, Line], ONE_EACH]


def _shown(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        json_schema_extra={"examples": [example]},
    )


class NewSystem(BaseModel):
    """Buffers, budget and horizon, as in `headgate.System`."""

    model_config = _shown(
        {"buffer": {"clinic-a": 200, "clinic-b": 150}, "budget": 20.0, "horizon": 100}
    )

    buffer: Buffers
    """places of each client, or of each client by its name"""
    budget: Annotated[float, Field(strict=True, gt=0, le=NUMBER)]
    horizon: RoundNumber | None = None
    weight: Weights | None = None
    currency: Annotated[str, Field(max_length=8)] = ""
    quantum: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None

    def made(self) -> System:
        """Return the system."""
        return System(**self.model_dump())


class NewAccount(BaseModel):
    """Accounts that begin."""

    model_config = _shown(
        {
            "name": "clinic",
            "system": {"buffer": [8, 9, 10], "budget": 20.0, "horizon": 100},
            "policy": {"kind": "headgate"},
        }
    )

    name: AccountName
    system: NewSystem
    policy: dict[Line, Any] = Field({"kind": "headgate"}, max_length=50)
    """a policy as in a recipe: its kind and settings"""
    seed: Annotated[StrictInt, Field(ge=0, le=2**62)] = 0
    offences: Annotated[StrictInt, Field(ge=1, le=10**6)] | None = None


class NewRound(BaseModel):
    """The arguments of `Books.begin`."""

    model_config = _shown({"price": 3.0, "under_way": 40, "expires": 5})

    price: Prices
    """price of a sample: one number, or one for each client"""
    present: Present | None = None
    most: Counts | None = None
    in_all: Annotated[StrictInt, Field(ge=0, le=10**13)] | None = None
    lot: Places = 1
    when: Line | None = None
    """ISO date of the round, or date and time; left out: now"""
    under_way: Counts | None = None
    expires: Annotated[StrictInt, Field(ge=0, le=ROUNDS)] | timedelta | None = None
    """number of rounds, or a duration as in P3D"""


class NewDelivery(BaseModel):
    """The fields of `headgate.Delivery`."""

    model_config = _shown({"delivered": 2, "keys": ["photo-17", "photo-18"]})

    delivered: Count = 0
    keys: list[Line] = Field([], max_length=DELIVERIES)
    cancelled: Count = 0
    rejected: dict[Line, Line] = Field({}, max_length=DELIVERIES)
    round: RoundNumber | None = None
    erased: Count = 0

    def made(self) -> Delivery:
        """Return the delivery."""
        return Delivery(
            self.delivered,
            self.keys,
            self.cancelled,
            self.rejected,
            self.round,
            self.erased,
        )


Deliveries = Annotated[list[Count | NewDelivery], Field(max_length=1_000)]
Reports = Annotated[dict[Line, Count | NewDelivery | Deliveries], ONE_EACH]


class NewSettlement(BaseModel):
    """The reports of a round, as for `Books.settle`."""

    model_config = _shown({"reports": {"0": 8, "2": {"delivered": 7, "cancelled": 1}}})

    reports: Reports | None = None
    """what arrived from each client; left out: all that was ordered"""
    refused: Refused = {}
    """reason why the answer of each of these clients is rejected"""


class Arrival(BaseModel):
    """Deliveries on orders of any rounds, each with its round."""

    model_config = _shown(
        {"reports": {"0": {"delivered": 1, "keys": ["w"], "round": 2}}}
    )

    reports: Reports
    key: Line | None = None
    """name of the reports; the same ones with the same name count once"""


class Check(BaseModel):
    """A report that is only checked."""

    model_config = _shown({"client": 0, "report": 8})

    client: ClientName
    report: Count | NewDelivery | Deliveries


class Signed(BaseModel):
    """What people do, with the reason."""

    why: Line = ""
    key: Line | None = None
    """name, as the number of an invoice; with the same name it counts once"""


class NewTerms(Signed):
    """The fields of `headgate.Amendment`: what changes from the next round on."""

    model_config = _shown({"money": 500.0, "why": "second order of the board"})

    money: Money = 0.0
    budget: Annotated[float, Field(strict=True, gt=0, le=NUMBER)] | None = None
    horizon: RoundNumber | Annotated[str, Field(pattern="^open$")] | None = None
    month: Price | None = None
    join: Places | None = None
    name: Annotated[str, Field(max_length=100)] | None = None
    weight: Annotated[float, Field(strict=True, gt=0, le=NUMBER)] | None = None
    leave: ClientName | None = None
    suspend: StrictBool | None = None

    def changes(self) -> dict[str, Any]:
        """Return what changes, by name."""
        return self.model_dump(exclude={"why", "key"}, exclude_unset=True)


class Adjustment(Signed):
    """An invoice, or a refund."""

    model_config = _shown({"round": 7, "client": 2, "amount": -4.5, "why": "returned"})

    round: RoundNumber
    client: ClientName
    amount: Money
    """amount of the invoice less the amount charged; below 0: a refund"""


class Outlook(BaseModel):
    """What a forecast is made for."""

    model_config = _shown(
        {"prices": {"kind": "uniform", "low": 1.0, "high": 10.0}, "rounds": 20}
    )

    prices: dict[Line, Any] = Field(max_length=20)
    """prices as in a recipe: kind and settings"""
    rounds: Annotated[StrictInt, Field(ge=1, le=5_000)] | None = None
    """rounds to forecast; left out: up to the horizon"""


# what they are for Books


def client_of(system: System, client: Client) -> Client:
    """Return a client as `Books` names it: numbers are text as keys of JSON."""
    if isinstance(client, str) and system.names is None and client.isdecimal():
        return int(client)
    return client


def by_client(system: System, value: Any) -> Any:
    """Return values by client; all others as they are."""
    if not isinstance(value, Mapping):
        return value
    return {client_of(system, client): each for client, each in value.items()}


def delivered(value: int | NewDelivery | list[int | NewDelivery]) -> Any:
    """Return a report as `Books` takes it."""
    if isinstance(value, list):
        return [delivered(each) for each in value]
    return value.made() if isinstance(value, NewDelivery) else value


def reported(system: System, reports: Mapping[str, Any] | None) -> Any:
    """Return reports as `Books.settle` takes them."""
    if reports is None:
        return None
    return by_client(
        system, {client: delivered(each) for client, each in reports.items()}
    )
