"""The messages between server and client: frozen values that travel as records of numbers and text.

Every field is checked on arrival: a message may come from another version, or from anyone. Numbers are finite and at most
`LARGEST`, text is printable and at most `TEXT` characters, lists have at most `LISTED` entries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar, get_type_hints

from headgate.errors import DataError
from headgate.escaping import shown

RECORD = "headgate"
"""the name of our record beside the arrays and metrics of a message"""
NONCE = "headgate-nonce"
"""the record of a question that nobody but its receiver has seen"""
NEW_LOSS, HELD_LOSS, NEW_RIGHT = "new_loss", "held_loss", "new_right"
"""metrics of a reply, where the order asks for them"""
NO_LIMIT = 0
LARGEST = 2**53
"""larger numbers are refused"""
TEXT = 200
"""the longest text; an order's settings and choice may have `SETTINGS` characters"""
SETTINGS = 10_000
MAY_BE_MISSING = ("losses", "choice", "late", "erased")
"""fields of a message that say nothing where they are false, empty or 0, and are not sent then"""
LISTED = 2**16
"""rounds that one answer may tell of"""
T = TypeVar("T")


@dataclass(frozen=True)
class Order:
    """Round t: admit until you have ever admitted `last` samples, and train. Saying it twice admits nothing twice."""

    experiment: str
    round: int
    client: int
    known: int
    """samples the server knows this client has ever admitted"""
    last: int
    kept_from: int
    """what lies before this place of the client's admissions is too old"""
    limit: int
    """the most samples it may hold, oldest first to go; NO_LIMIT: age alone decides"""
    acknowledged: int
    """the server has the answers to all orders up to this round"""
    train: bool
    """False: only admit; this round's cohort trains without this client"""
    rule: str = "window"
    """the retention rule by its name in recipes, or "window" where the oldest leave"""
    settings: str = "{}"
    """those of the rule, as JSON"""
    seed: int = 0
    """rules that draw lots draw by the run's seed"""
    losses: bool = False
    """whether the server asks what samples lose before the training"""
    choice: str = ""
    """which samples to buy, as JSON; empty: the next ones"""
    late: int = 0
    """rounds after which the label of a sample is there"""

    def __post_init__(self) -> None:
        if self.last < self.known:
            raise DataError(f"order.last = {self.last}: less than order.known = {self.known}")


@dataclass(frozen=True)
class Receipt:
    """A client's answer: what it did on this order and on the outstanding ones before it."""

    experiment: str
    round: int
    client: int
    rounds: tuple[int, ...]
    admitted: tuple[int, ...]
    """in each of these rounds"""
    position: int
    """samples ever admitted"""
    occupancy: int
    """samples held"""
    n: int
    """those of them that have a label, and were trained on where `trained`"""
    trained: bool
    lost: int
    """samples that were admitted into an earlier store that is gone"""
    distinct: int
    """different samples ever trained on, and the sums of their use counts and of the squares of these"""
    uses: int
    squares: int
    note: str
    """why it admitted less than it was ordered to; empty where it admitted all"""
    withdrawn: int = 0
    """samples that it was to hold now and that were erased here; 0 where a store is gone"""
    erased: int = 0
    """samples that were ever erased here, also counting those that it would have dropped since"""

    def __post_init__(self) -> None:
        if len(self.rounds) != len(self.admitted):
            raise DataError(f"receipt.admitted has {len(self.admitted)} entries for {len(self.rounds)} rounds")
        ascending = all(before < after for before, after in pairwise((0, *self.rounds)))
        if not ascending or self.rounds[-1:] != (self.round,):  # an answer names at least the order that it answers
            wanted = f"must ascend up to round {self.round}, and end with it"
            raise DataError(f"receipt.rounds = {shown(list(self.rounds))}: {wanted}")
        own = self.position - self.lost  # samples that this store has ever held
        for less, more, value, most in (
            ("n", "occupancy", self.n, self.occupancy),
            ("lost", "position", self.lost, self.position),
            ("occupancy", "position - receipt.lost", self.occupancy, own),
            ("withdrawn", "position - receipt.lost", self.withdrawn, own),
            ("erased", "position - receipt.lost", self.erased, own),
            ("distinct", "position - receipt.lost", self.distinct, own),
            ("distinct", "uses", self.distinct, self.uses),
            ("uses", "position x receipt.round", self.uses, own * self.round),
            ("uses", "squares", self.uses, self.squares),
            ("squares", "uses ** 2", self.squares, self.uses**2),
            ("uses ** 2", "distinct x receipt.squares", self.uses**2, self.distinct * self.squares),
        ):
            if value > most:
                raise DataError(f"receipt.{less} = {value}: more than receipt.{more} = {most}")


@dataclass(frozen=True)
class Ahead:
    """A client's answer to an order that it did not do: it has done one of a later round, or another one of this round.

    A server whose ledger is up to date gives no such order.
    """

    experiment: str
    round: int
    client: int
    newest: int
    """the last round of which it has done an order"""


@dataclass(frozen=True)
class Ended:
    """The run is over: its samples may go."""

    experiment: str


@dataclass(frozen=True)
class Identity:
    """Which client a node is."""

    client: int


def to_wire(value: Order | Receipt | Ahead | Ended | Identity) -> dict[str, Any]:
    """The fields as a record of Flower holds them."""
    entries = ((name, getattr(value, name)) for name in _FIELDS[type(value)])
    return {
        name: list(entry) if isinstance(entry, tuple) else entry
        for name, entry in entries
        if entry or name not in MAY_BE_MISSING
    }


def from_wire(kind: type[T], record: Mapping[str, Any]) -> T:
    """The value in a record; refused with the name of the field that is wrong.

    >>> from_wire(Identity, {"client": 3})
    Identity(client=3)
    """
    known, name = _FIELDS[kind], kind.__name__.lower()
    for key in record:
        if key not in known:
            raise DataError(f"{name}.{key}: not a field of this version")
    values = {}
    for key, hint in known.items():
        if key not in record:
            if key in MAY_BE_MISSING:
                continue
            raise DataError(f"{name}.{key}: is missing")
        values[key] = checked(f"{name}.{key}", hint, record[key])
    return kind(**values)


_FIELDS: dict[type, dict[str, Any]] = {kind: get_type_hints(kind) for kind in (Order, Receipt, Ahead, Ended, Identity)}
"""name → type of every field, in their order; worked out once, for thousands of messages a round"""


def checked(name: str, hint: Any, value: Any) -> Any:
    """A stranger's value, which must be of that type and within bounds; refused with its name."""
    if hint == tuple[int, ...]:
        if not isinstance(value, list) or len(value) > LISTED:
            raise DataError(f"{name} = {shown(value)}: must be a list of whole numbers, at most {LISTED}")
        return tuple(checked(name, int, entry) for entry in value)
    if hint is int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
            raise DataError(f"{name} = {shown(value)}: must be a whole number, 0 or more")
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
            raise DataError(f"{name} = {shown(value)}: must be a finite number, at most {LARGEST}")
    elif not isinstance(value, hint):
        raise DataError(f"{name} = {shown(value)}: must be {'true or false' if hint is bool else 'text'}")
    elif hint is str:
        most = SETTINGS if name in ("order.settings", "order.choice") else TEXT
        if len(value) > most or not value.isprintable():
            raise DataError(f"{name} = {shown(value)}: must be one line of at most {most} printable characters")
    return value
