"""The messages between server and client: frozen values that are sent as records of
numbers and text.

Every field is checked on arrival, because a message may come from another version or
from an attacker; the bounds are in `headgate.limits`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar, get_type_hints

from headgate.books.border import checked
from headgate.errors import DataError
from headgate.escaping import shown
from headgate.limits import LINE

RECORD = "headgate"
"""name of headgate's record in a message, besides the arrays and metrics"""
NONCE = "headgate-nonce"
"""name of the record with a random number, so that only the receiver of a message knows
the message's id
"""
NEW_LOSS, HELD_LOSS, NEW_RIGHT = "new_loss", "held_loss", "new_right"
"""metrics of a reply if the order asks for losses"""
NO_LIMIT = 0
SETTINGS = 10_000
"""the most characters of an order's settings and choice"""
MAY_BE_MISSING = ("losses", "choice", "late", "erased")
"""fields that are not sent while they are false, empty or 0"""
T = TypeVar("T")


@dataclass(
    frozen=True,
    slots=True,
)
class Order:
    """The order of a round: admit until you have ever admitted `last` samples, then
    train. A repeat admits nothing twice.
    """

    experiment: str
    round: int
    client: int
    known: int
    """samples that the client has ever admitted, as far as the server knows"""
    last: int
    kept_from: int
    """number of the first admission that is not too old to be held"""
    limit: int
    """the most samples that the client may hold, the oldest are dropped first;
    NO_LIMIT: only age decides
    """
    acknowledged: int
    """last round up to which the server has the answers to all orders"""
    train: bool
    """whether the client trains in this round; False: it only admits"""
    rule: str = "window"
    """name of the retention rule in recipes, or "window" if the oldest samples are
    dropped
    """
    settings: str = "{}"
    """settings of the retention rule, as JSON"""
    seed: int = 0
    """seed of the run, for rules that draw at random"""
    losses: bool = False
    """whether the server asks for the losses of the samples before training"""
    choice: str = ""
    """buying rule, window and number of samples to keep, as JSON; empty: buy the next
    samples
    """
    late: int = 0
    """rounds from the admission of a sample until its label is available"""

    def __post_init__(self) -> None:
        if self.last < self.known:
            raise DataError(
                f"order.last = {self.last}: less than order.known = {self.known}"
            )


@dataclass(
    frozen=True,
    slots=True,
)
class Receipt:
    """A client's answer: what it did on this order and on the earlier ones that are
    still open.
    """

    experiment: str
    round: int
    client: int
    rounds: tuple[int, ...]
    admitted: tuple[int, ...]
    """samples admitted in each of these rounds"""
    position: int
    """samples ever admitted"""
    occupancy: int
    """samples held"""
    n: int
    """held samples that have a label; the client trained on them if `trained`"""
    trained: bool
    lost: int
    """samples that were admitted into an earlier store, which no longer exists"""
    distinct: int
    """distinct samples ever trained on; `uses` is the sum of their use counts,
    `squares` that of the squared counts
    """
    uses: int
    squares: int
    note: str
    """reason why the client admitted less than it was ordered to; empty: it admitted
    all
    """
    withdrawn: int = 0
    """samples that the client should hold now but that were erased; 0 if an earlier
    store no longer exists
    """
    erased: int = 0
    """samples ever erased at the client, including those that it would have dropped
    since
    """

    def __post_init__(self) -> None:
        if len(self.rounds) != len(self.admitted):
            raise DataError(
                f"receipt.admitted has {len(self.admitted)} entries for"
                f" {len(self.rounds)} rounds"
            )
        ascending = all(before < after for before, after in pairwise((0, *self.rounds)))
        if not ascending or self.rounds[-1:] != (
            self.round,
        ):  # an answer includes the round of its order
            wanted = f"must ascend up to round {self.round}, and end with it"
            raise DataError(f"receipt.rounds = {shown(list(self.rounds))}: {wanted}")
        own = self.position - self.lost  # samples ever admitted to this store
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
            (
                "uses ** 2",
                "distinct x receipt.squares",
                self.uses**2,
                self.distinct * self.squares,
            ),
        ):
            if value > most:
                raise DataError(
                    f"receipt.{less} = {value}: more than receipt.{more} = {most}"
                )


@dataclass(frozen=True)
class Ahead:
    """A client's answer to an order that it refuses because it has done a later order,
    or another order of this round.

    A server with an up-to-date ledger does not send such an order.
    """

    experiment: str
    round: int
    client: int
    newest: int
    """last round of which the client has done an order"""


@dataclass(frozen=True)
class Ended:
    """The message that the run is over and that the client may delete its samples."""

    experiment: str


@dataclass(frozen=True)
class Identity:
    """The statement of a node which client it is."""

    client: int


def to_wire(value: Order | Receipt | Ahead | Ended | Identity) -> dict[str, Any]:
    """Return the fields as a record of Flower can hold them."""
    entries = ((name, getattr(value, name)) for name in _FIELDS[type(value)])
    return {
        name: list(entry) if isinstance(entry, tuple) else entry
        for name, entry in entries
        if entry or name not in MAY_BE_MISSING
    }


def from_wire(kind: type[T], record: Mapping[str, Any]) -> T:
    """Return the value in a record; raise DataError with the name of a field that is
    wrong.

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
        most = SETTINGS if key in ("settings", "choice") else LINE
        values[key] = checked(f"{name}.{key}", hint, record[key], most)
    return kind(**values)


_FIELDS: dict[type, dict[str, Any]] = {
    kind: get_type_hints(kind) for kind in (Order, Receipt, Ahead, Ended, Identity)
}
"""fields of each message, name → type; computed once, because a round may have
thousands of messages
"""
