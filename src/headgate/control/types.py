"""The data of control: what is given, what a server knows, what a policy asks for, orders and reports.

Every array leads with R (runs, one for each seed) and ends with M (clients) where it has clients. Counts are int64 and money
is float64, so neither the batch a run is in nor the order of summation can change a decision.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive, whole_numbers
from headgate.control.scores import ScoresAt
from headgate.errors import LedgerError, SettingError, require
from headgate.escaping import shown
from headgate.limits import SAMPLES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Born = NDArray[np.int8 | np.int16 | np.int32]
"""rounds, in a type that holds them"""
Arrays = Mapping[str, NDArray[Any]]
"""Explicit state: named arrays, never changed in place."""


class Amended(NamedTuple):
    """What amendments have made of a system that was opened with other terms."""

    money: float
    """money approved for all rounds up to the horizon; with an open end, up to round `since`"""
    since: int
    """the last round before the latest amendment; with an open end, the budget comes in from the next one on"""
    left: tuple[int, ...] = ()
    """clients that have left"""
    suspended: bool = False
    """whether nothing is bought for now"""


@dataclass(frozen=True, eq=False)
class System:
    """What is given: buffers B_m, the budget C per round, the horizon T (None: open-ended), weights α_m."""

    buffer: Ints
    budget: float
    horizon: int | None = None
    weight: Floats = field(default=None)  # type: ignore[arg-type]  # filled in below: equal weights
    currency: str = ""
    """what money is counted in, as in "$": printed beside amounts, and nothing else"""
    amended: Amended | None = field(default=None, kw_only=True)
    """set by `Controller.amend` alone"""

    def __post_init__(self) -> None:
        buffer = whole_numbers("system.buffers", self.buffer, SAMPLES)
        require(buffer.ndim == 1, "system.buffers", buffer.tolist(), "a list, one number for each client")
        if buffer.size == 0:
            raise SettingError("system.buffers = []: at least one client is needed")
        for m in np.flatnonzero(buffer < 1)[:1]:
            raise SettingError(f"system.buffers[{m}] = {buffer[m]}: every client needs room for at least one sample")
        positive("system.budget", self.budget)
        require(self.horizon is None or self.horizon >= 1, "horizon", self.horizon, "at least one round, or open")
        weight = np.full(buffer.size, 1.0 / buffer.size) if self.weight is None else np.array(self.weight, dtype=np.float64)
        if weight.shape != buffer.shape:
            raise SettingError(f"system.weights has {weight.size} entries for {buffer.size} clients")
        if not np.all(np.isfinite(weight)) or np.any(weight < 0) or weight.sum() <= 0:
            raise SettingError("system.weights: must be finite, zero or more, and not all zero")
        if abs(weight.sum() - 1) > 1e-9:  # what was normalised once keeps its bits
            weight = weight / weight.sum()
        if len(self.currency) > 8 or not self.currency.isprintable():
            raise SettingError(f'system.currency = "{shown(self.currency)}": must be at most 8 characters that can be printed')
        for array in (buffer, weight):
            array.setflags(write=False)
        object.__setattr__(self, "buffer", buffer)
        object.__setattr__(self, "weight", weight)

    @property
    def clients(self) -> int:
        return int(self.buffer.size)

    def within(self, places: Ints) -> "System":
        """Return the same system with no more than these places, (M,), which may be 0."""
        own = copy(self)
        own.__dict__.pop("memory", None)
        object.__setattr__(own, "buffer", np.minimum(self.buffer, places))
        return own

    def money(self, t: int, overdraft: float = 0.0) -> float:
        """Return the most that may be spent up to round t; after an amendment, what has been approved in all.

        Parameters
        ----------
        t : int
            With a horizon the money is C·T at any time, with an open end C·t.
        overdraft : float
            Rounds' budgets that may be spent in advance where the end is open.
        """
        before, since = (0.0, 0) if self.amended is None else self.amended[:2]
        if self.horizon is None:
            return before + self.budget * (t + overdraft - since)
        return self.budget * self.horizon if self.amended is None else before

    @cached_property
    def memory(self) -> int:
        """B̄ = Σ B_m."""
        return int(self.buffer.sum())


class Terms(NamedTuple):
    """What a ledger was opened for. With other terms, money spent before would count against another budget."""

    policy: str
    """the name of its class"""
    runs: int
    clients: int
    budget: float
    horizon: int | None
    buffers: str
    """places of all clients, and a checksum of the list"""

    def check(self, asked: Self, what: str) -> None:
        """Refuse a controller of other terms, naming the first that differs."""
        for name, own, other in zip(self._fields, self, asked, strict=True):
            if own != other:
                raise LedgerError(f"{what} was opened with {name} = {own}, this controller has {other}")


HALF = float(np.log(2))
"""the loss of a sample to whose class the model gives ½"""


class Losses(NamedTuple):
    """What clients' samples lost in a round, on average, under the model that the server sent: before any local step.

    Not a number where there are no such samples, or no report.
    """

    new: Floats
    """of those that the client admitted in this round and trains on, (R, M)"""
    held: Floats
    """of those that it held before, (R, M)"""
    right: Floats | None = None
    """share of the new samples to whose class the model gave more than ½, (R, M); for a selection that listens"""

    @property
    def arrays(self) -> list[Floats]:
        """Those that are not None."""
        return [each for each in self if each is not None]

    def of_runs(self, rows: slice | Ints) -> "Losses":
        """The same of some of the runs."""
        return Losses(*(each[rows] for each in self.arrays))


class View(NamedTuple):
    """All that a server may know when it decides round t."""

    t: int
    price: Floats
    """c(t), (R,); (R, M) where each client has a price of its own"""
    debt: Floats
    """Z(t), (R,)"""
    spent: Floats
    """money spent in rounds 1..t−1, (R,)"""
    kept: Ints
    """samples still in memory before anything is admitted, n(t) − Λ(t), (R,)"""
    distinct: Ints
    """N(t−1): samples ever trained on, (R,)"""
    kept_by_client: Ints
    """(R, M)"""
    system: System
    unused: Ints
    """samples that were admitted and dropped before anybody trained on them, (R,)"""
    losses: Losses | None = None
    """of round t−1, for a policy that listens; None: there were none, as in round 1 or in a rehearsal, which learns nothing"""
    lot: int = 1
    """samples are bought in multiples of this number; the places in `system` are whole lots then"""
    money: float = np.inf
    """the most that may have been spent after this round, beside what the budget allows"""

    @property
    def admitted(self) -> Ints:
        """Samples ever admitted, used or not: what was bought, (R,)."""
        return np.asarray(self.distinct + self.unused)

    def one_price(self) -> Floats:
        """The one price per run, for policies that know of no other."""
        if self.price.ndim != 1:
            others = "which headgate, alert, resolving, threshold and below can use"
            raise SettingError(f"needs one price per round; it was given one per client, {others}")
        return self.price

    def of_first_run(self) -> "View":
        """The same of run 0 alone."""
        losses = None if self.losses is None else self.losses.of_runs(slice(1))
        own: list[Any] = [each[:1] if isinstance(each, np.ndarray) else each for each in self]
        return View(*own)._replace(losses=losses)

    def room(self) -> Ints:
        """Free places per client, [B_m − kept_m]^+, (R, M)."""
        return np.asarray(np.maximum(self.system.buffer - self.kept_by_client, 0))


class AdmissionRequest(NamedTuple):
    """What a policy wants in a round. The total is real and is made whole, with its remainder carried."""

    total: Floats
    """Λ(t), (R,), shared among the clients by the policy's shares"""
    room: Ints | None = None
    """no client may be given more of the total than this, (R, M)"""
    given: Ints | None = None
    """whole samples per client on top of the total, (R, M)"""
    free: Ints | None = None
    """the same, but not paid for, (R, M)"""


@dataclass(frozen=True, eq=False)
class Orders:
    """Round t: client m admits up to last−1 of its stream and holds last−first samples. Saying it twice admits nothing twice.

    Under a retention rule by age or order it trains on the samples first..last−1.
    """

    t: int
    price: Floats
    asked: Floats
    """the real Λ(t) after all limits, without what was given on top, (R,)"""
    admitted: Ints
    """new samples per client, λ_m(t), (R, M)"""
    free: Ints | None
    """how many of them are not paid for, (R, M)"""
    first: Ints
    last: Ints
    carry: Floats
    credit: Ints
    memory: Arrays

    def bought(self, admitted: Ints) -> Ints:
        """How many of these admissions are paid for, (R, M). Free samples are counted first."""
        return admitted if self.free is None else np.maximum(admitted - self.free, 0)

    def charge(self, admitted: Ints) -> Floats:
        """What these admissions cost, (R,)."""
        paid = self.bought(admitted)
        if self.price.ndim == 1:
            return np.asarray(self.price * paid.sum(axis=-1))
        return np.asarray((self.price * paid).sum(axis=-1))

    def paid(self, admitted: Ints) -> Floats:
        """The same client by client, (R, M)."""
        return np.asarray((self.price if self.price.ndim == 2 else self.price[:, None]) * self.bought(admitted))


class Report(NamedTuple):
    """What clients really did, where it is not what they were ordered to do, and what their samples lost."""

    admitted: Ints
    """(R, M), at most what was ordered"""
    late: Ints | None = None
    """samples admitted on orders of earlier rounds that are only now known of, (R, M)"""
    late_charge: Floats | None = None
    """what they cost at the prices of the rounds in which they were ordered, (R,)"""
    losses: Losses | None = None
    """kept for a policy that listens"""


class Contents(NamedTuple):
    """What is known of the samples in the clients' memories, beside how many they are.

    Window rules (K-step, first in first out) need `recent` and `born`; rules that choose need the others. What a rule
    does not need is empty or None.
    """

    recent: tuple[Ints, ...] = ()
    """samples ever admitted after each of the last K rounds, (R, M); that of round t is in slot t mod K"""
    born: Born | None = None
    """the round in which the sample in each place was admitted, (R, M, B)"""
    places: Ints | None = None
    """the stream positions in memory, ascending, −1 where a place is empty, (R, M, B)"""
    labels: NDArray[np.int32] | None = None
    """their classes, (R, M, B)"""


@dataclass(frozen=True, eq=False)
class Ledger:
    """A run's whole memory after round t: what was spent, admitted and used, and what policy and clients hold."""

    t: int
    debt: Floats
    """Z(t+1)"""
    spent: Floats
    admitted: Ints
    """samples ever admitted per client: the end of its window, (R, M)"""
    dropped: Ints
    """samples ever dropped per client: the beginning of its window, where it is one, (R, M)"""
    unused: Ints
    """samples that were admitted, and paid for, but dropped before anybody trained on them, (R,)"""
    uses: Ints
    """ΣA_i"""
    squared_uses: Ints
    """ΣA_i²"""
    uses_in_memory: Ints
    """ΣA_i over the samples in memory"""
    carry: Floats
    """what rounding still owes to the total, in samples, (R,)"""
    credit: Ints
    """what rounding still owes to each client, in samples times the sum of shares, (R, M)"""
    contents: Contents
    memory: Arrays
    """the policy's own"""
    terms: Terms
    """what it was opened for"""
    losses: Losses | None = None
    """of round t, where the policy or its selection listens"""
    looks: Floats | None = None
    """of what was spent, what was for looks, (R,); None: looks are free"""

    @cached_property
    def occupancy(self) -> Ints:
        """n_m(t), (R, M)."""
        return self.admitted - self.dropped

    @cached_property
    def ever(self) -> Ints:
        """Samples ever admitted by all clients, (R,)."""
        return np.asarray(self.admitted.sum(axis=-1))

    @cached_property
    def held(self) -> Ints:
        """n(t), (R,)."""
        return np.asarray(self.ever - self.dropped.sum(axis=-1))

    @property
    def distinct(self) -> Ints:
        """N(t): samples ever trained on, (R,)."""
        return np.asarray(self.ever - self.unused)

    @property
    def places(self) -> Ints | None:
        """The stream positions in memory, as in `Contents`; None: they are dropped..admitted−1."""
        return self.contents.places

    def of_runs(self, rows: slice | Ints) -> "Ledger":
        """The same of some of the runs; one may be taken more than once."""

        def some(value: Any) -> Any:
            return tuple(map(some, value)) if isinstance(value, tuple) else None if value is None else value[rows]

        held = {name: some(getattr(self, name)) for name in LEDGER_ARRAYS}
        memory = {name: array[rows] for name, array in self.memory.items()}
        losses = None if self.losses is None else self.losses.of_runs(rows)
        contents, looks = Contents(*map(some, self.contents)), some(self.looks)
        terms = self.terms._replace(runs=len(held["debt"]))
        return Ledger(t=self.t, contents=contents, memory=memory, terms=terms, losses=losses, looks=looks, **held)


LEDGER_ARRAYS = tuple(
    own.name for own in fields(Ledger) if own.name not in ("t", "contents", "memory", "terms", "losses", "looks")
)
"""its fields that are one array each"""
Labels = Callable[[Ints, Ints, Ints], Ints]
"""(runs, clients, positions) → the class of each sample"""


class Streams(NamedTuple):
    """Whose streams they are: for rules that draw lots, look at classes or at what a model says of samples."""

    seeds: Ints
    """(R,)"""
    labels: Labels | None = None
    """None: the classes are not known"""
    scores: ScoresAt | None = None
    """None: there is no model to ask, as in a plan"""
