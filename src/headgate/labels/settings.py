"""The settings of a gate: one TOML file, checked when it is read."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from headgate.control.checks import amount, optional, positive, whole_number
from headgate.control.checks import path as checked_path
from headgate.control.policy import AdmissionPolicy
from headgate.control.types import System
from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.labels.nouns import Queue
from headgate.labels.prices import check_price
from headgate.labels.queues import KINDS
from headgate.limits import ROUNDS, SAMPLES
from headgate.reading import read_toml
from headgate.registry import Search, Slot, fill

QUEUE = Slot("queue", Queue, KINDS)
UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
SPAN = re.compile(r"(\d{1,6}) (second|minute|hour|day|week)s?")
NAME = re.compile(r"\w[\w.-]{0,63}")
"""a name of a client, which is also that of a folder"""


@dataclass(frozen=True)
class ClientSettings:
    """A client: a team with unlabelled samples of its own.

    Parameters
    ----------
    samples : str
        CSV or JSONL file of the unlabelled samples, relative to the gate's file; rows
        may be appended at any time.
    places : int
        The most labelled samples that it holds. Later ones replace the oldest.
    weight : float, default 1.0
        Its weight beside the other clients.
    """

    samples: str = field(metadata={"path": True})
    places: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        whole_number("places", self.places, 1, SAMPLES)
        positive("weight", self.weight)
        if Path(self.samples).suffix not in (".csv", ".jsonl"):
            raise SettingError(
                f"samples = {shown(self.samples)}: must end in .csv or .jsonl"
            )


@dataclass(frozen=True)
class MoneySettings:
    """The money.

    Parameters
    ----------
    budget : float
        Money approved for each round; what is not spent stays for later ones.
    rounds : int, optional
        Number of rounds; left out: the end is open.
    currency : str, default ""
        Symbol beside amounts of money.
    quantum : float, optional
        Smallest amount on an invoice, such as 0.01.
    """

    budget: float
    rounds: int | None = None
    currency: str = ""
    quantum: float | None = None

    def __post_init__(self) -> None:
        positive("budget", self.budget)
        optional(whole_number, "rounds", self.rounds, 1, ROUNDS)


@dataclass(frozen=True)
class OrderSettings:
    """Limits of the orders.

    Parameters
    ----------
    under_way : int, optional
        The most samples that may be under way at each client; left out: no limit.
    in_all : int, optional
        The most samples that a round orders from all clients.
    lot : int, default 1
        Number of which every order is a multiple.
    expires : int, optional
        Number of rounds after which what has no label is cancelled and withdrawn; left
        out: never.
    """

    under_way: int | None = None
    in_all: int | None = None
    lot: int = 1
    expires: int | None = None

    def __post_init__(self) -> None:
        optional(whole_number, "under_way", self.under_way, 0, SAMPLES)
        optional(whole_number, "in_all", self.in_all, 0)
        whole_number("lot", self.lot, 1, SAMPLES)
        optional(whole_number, "expires", self.expires, 0, ROUNDS)


@dataclass(frozen=True)
class Schedule:
    """When the gate does what.

    Parameters
    ----------
    every : str, default "1 day"
        Length of a round, as in "6 hours". Rounds begin on whole multiples of it in
        UTC, with "1 day" one on each date. Missed rounds are not made up for.
    poll : str, default "5 minutes"
        Time between two looks at the queue.
    """

    every: str = "1 day"
    poll: str = "5 minutes"

    def __post_init__(self) -> None:
        span("every", self.every)
        span("poll", self.poll)

    @property
    def round_seconds(self) -> int:
        """Length of a round in seconds."""
        return span("every", self.every)

    @property
    def poll_seconds(self) -> int:
        """Seconds between two looks at the queue."""
        return span("poll", self.poll)


@dataclass(frozen=True)
class GateSettings:
    """All settings of a gate.

    Parameters
    ----------
    clients : dict of str to dict
        The clients by name; each has the settings of `ClientSettings`.
    money : MoneySettings
        The money.
    price : float or dict
        Price of a label: a number, or where it comes from.
    queue : Queue
        Where people label.
    policy : AdmissionPolicy
        What decides how many samples are bought.
    accounts, labelled : str
        Folders of the accounts and of the labelled samples.
    seed : int, default 0
        Seed of policies that choose at random.
    schedule, orders
        When the gate does what, and the limits of the orders.
    """

    clients: dict[str, Any]
    money: MoneySettings
    price: Any
    queue: Queue
    policy: AdmissionPolicy
    accounts: str = field(metadata={"path": True})
    labelled: str = field(metadata={"path": True})
    seed: int = 0
    schedule: Schedule = field(default_factory=Schedule)
    orders: OrderSettings = field(default_factory=OrderSettings)

    def system(self, names: Collection[str]) -> System:
        """Return the terms of the accounts of these clients."""
        own = {name: self.clients[name] for name in names}
        return System(
            {name: client.places for name, client in own.items()},
            self.money.budget,
            self.money.rounds,
            [client.weight for client in own.values()],
            self.money.currency,
            self.money.quantum,
        )


USUAL = {"policy": "headgate", "accounts": "accounts", "labelled": "labelled"}


def load(file: Path) -> tuple[GateSettings, Search]:
    """Return the settings in a gate's file, and where the modules are that it names.

    Parameters
    ----------
    file : Path
        The file. Paths in it are relative to its folder.

    Raises
    ------
    SettingError, DataError
        If a setting is not what it must be; the message names it and its value.
    """
    if file.is_dir():
        raise DataError(f"{file}: is a folder; name the gate's file, as gate.toml")
    raw, search = {**USUAL, **read_toml(file)}, Search(file.resolve().parent)
    settings: GateSettings = fill(GateSettings, raw, "gate", search)
    clients = {
        _checked_name(name): fill(ClientSettings, own, f"clients.{name}", search)
        for name, own in settings.clients.items()
    }
    if not clients:
        raise SettingError("clients: at least one is needed, as [clients.team]")
    settings.clients.update(clients)
    settings.system(clients)  # refuses what cannot be
    check_price(settings.price, search)
    return settings, search


def accounts_of(file: Path) -> Path:
    """Return the folder of a gate's accounts, without the check of all settings."""
    stated = read_toml(file).get("accounts", USUAL["accounts"])
    return file.resolve().parent / checked_path("accounts", stated)


def _checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise SettingError(
            f"clients.{shown(name)}: must be letters, digits, dots and dashes, because"
            " folders have this name"
        )
    return name


def span(name: str, stated: object) -> int:
    """Return a length of time in seconds.

    >>> span("every", "6 hours")
    21600
    """
    found = SPAN.fullmatch(stated) if isinstance(stated, str) else None
    if found is None:
        raise SettingError(
            f'{name} = {shown(stated)}: must be a length of time, as "6 hours" or "1'
            ' day"'
        )
    seconds = int(found[1]) * UNITS[found[2]]
    longest = timedelta(days=366).total_seconds()
    return int(amount(name, seconds, 1, longest))
