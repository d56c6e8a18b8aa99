"""The data types of control: the system, the server's view, a policy's request, orders,
reports and the ledger.

The first axis of every array is R (runs, one for each seed); the last is M (clients) if
the array has a value per client. Counts are int64 and money is float64, so neither the
batch of a run nor the order of summation can change a decision.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import (
    optional,
    positive,
    text,
    whole_number,
    whole_numbers,
)
from headgate.control.scores import ScoresAt
from headgate.errors import LedgerError, SettingError, require
from headgate.limits import SAMPLES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Born = NDArray[np.int8 | np.int16 | np.int32]
"""numbers of rounds, in an integer type that is wide enough for them"""
Arrays = Mapping[str, NDArray[Any]]
"""state as named arrays, which are never changed in place"""


class Amended(NamedTuple):
    """The effect of all amendments on a system: approved money, clients that have left,
    and suspension.
    """

    money: float
    """money approved for all rounds up to the horizon; with an open end, up to round
    `since`
    """
    since: int
    """the last round before the latest amendment; with an open end, every round after
    it adds its budget
    """
    left: tuple[int, ...] = ()
    """numbers of the clients that have left"""
    suspended: bool = False
    """whether purchases are suspended"""


@dataclass(frozen=True, eq=False)
class System:
    """The given system: buffers B_m, the budget C per round, the horizon T (None: open
    end) and weights α_m.
    """

    buffer: Ints
    budget: float
    horizon: int | None = None
    # filled in below: equal weights
    weight: Floats = field(default=None)  # type: ignore[arg-type]
    currency: str = ""
    """symbol printed beside amounts of money, for example "$"; it has no other effect
    """
    amended: Amended | None = field(default=None, kw_only=True)
    """effect of the amendments so far, set only by `Controller.amend`; None: no
    amendments
    """

    def __post_init__(self) -> None:
        buffer = whole_numbers("system.buffers", self.buffer, SAMPLES)
        require(
            buffer.ndim == 1,
            "system.buffers",
            buffer.tolist(),
            "a list, one number for each client",
        )
        if buffer.size == 0:
            raise SettingError("system.buffers = []: at least one client is needed")
        for m in np.flatnonzero(buffer < 1)[:1]:
            raise SettingError(
                f"system.buffers[{m}] = {buffer[m]}: every client needs room for at"
                " least one sample"
            )
        positive("system.budget", self.budget)
        horizon = optional(whole_number, "horizon", self.horizon, 1)
        weight = (
            np.full(buffer.size, 1.0 / buffer.size)
            if self.weight is None
            else np.array(self.weight, dtype=np.float64)
        )
        if weight.shape != buffer.shape:
            raise SettingError(
                f"system.weights has {weight.size} entries for {buffer.size} clients"
            )
        if not np.all(np.isfinite(weight)) or np.any(weight < 0) or weight.sum() <= 0:
            raise SettingError(
                "system.weights: must be finite, zero or more, and not all zero"
            )
        if (
            abs(weight.sum() - 1) > 1e-9
        ):  # weights that are already normalised keep their bits
            weight = weight / weight.sum()
        for array in (buffer, weight):
            array.setflags(write=False)
        text("system.currency", self.currency, 8)
        own = {
            "buffer": buffer,
            "budget": float(self.budget),
            "horizon": horizon,
            "weight": weight,
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def clients(self) -> int:
        return int(self.buffer.size)

    def within(self, places: Ints) -> "System":
        """Return a copy of the system whose buffers have at most these places, (M,); 0
        is allowed.
        """
        own = copy(self)
        own.__dict__.pop("memory", None)
        object.__setattr__(own, "buffer", np.minimum(self.buffer, places))
        return own

    def money(self, t: int, overdraft: float = 0.0) -> float:
        """Return the most money that may be spent in rounds 1 to t.

        Parameters
        ----------
        t : int
            The round. With a horizon the result is C·T for every t, or the total
            approved by amendments; with an open end, C·t.
        overdraft : float
            The number of rounds' budgets that may be spent in advance; it counts only
            with an open end.
        """
        before, since = (0.0, 0) if self.amended is None else self.amended[:2]
        if self.horizon is None:
            return before + self.budget * (t + overdraft - since)
        return self.budget * self.horizon if self.amended is None else before

    @cached_property
    def memory(self) -> int:
        """The places of all clients together, B̄ = Σ B_m."""
        return int(self.buffer.sum())


class Terms(NamedTuple):
    """The terms that a ledger was opened with. Under other terms, past spend would
    count against another budget.
    """

    policy: str
    """name of the policy's class"""
    runs: int
    clients: int
    budget: float
    horizon: int | None
    buffers: str
    """places of all clients together and a checksum of their list, as text"""

    def check(self, asked: Self, what: str) -> None:
        """Raise LedgerError if the terms `asked` differ from these. The message names
        the first difference.
        """
        for name, own, other in zip(self._fields, self, asked, strict=True):
            if own != other:
                raise LedgerError(
                    f"{what} was opened with {name} = {own}, this controller has"
                    f" {other}"
                )


HALF = float(np.log(2))
"""cross-entropy loss of a sample whose class has a predicted probability of ½"""


class Losses(NamedTuple):
    """The mean losses of the clients' samples in a round, under the model that the
    server sent, before any local step.

    A value is NaN if there are no such samples or no report.
    """

    new: Floats
    """mean loss of the samples that the client admitted in this round and trains on,
    (R, M)
    """
    held: Floats
    """mean loss of the samples that the client held before this round, (R, M)"""
    right: Floats | None = None
    """share of new samples whose class has a predicted probability above ½, (R, M);
    used only by a selection that listens
    """

    @property
    def arrays(self) -> list[Floats]:
        """The fields that are not None."""
        return [each for each in self if each is not None]

    def of_runs(self, rows: slice | Ints) -> "Losses":
        """Return the losses of the runs `rows` alone."""
        return Losses(*(each[rows] for each in self.arrays))


class View(NamedTuple):
    """Everything that a server may know when it decides round t."""

    t: int
    price: Floats
    """price of a sample in this round, c(t), (R,); (R, M) if each client has its own
    price
    """
    debt: Floats
    """cost debt Z(t), (R,)"""
    spent: Floats
    """money spent in rounds 1..t−1, (R,)"""
    kept: Ints
    """samples still in memory before anything is admitted, n(t) − Λ(t), (R,)"""
    distinct: Ints
    """distinct samples trained on so far, N(t−1), (R,)"""
    kept_by_client: Ints
    """samples of each client still in memory before anything is admitted, (R, M)"""
    system: System
    unused: Ints
    """samples that were admitted but dropped before any training, (R,)"""
    losses: Losses | None = None
    """losses of round t−1, for a policy that listens; None: no losses are known, as in
    round 1 or in a rehearsal
    """
    lot: int = 1
    """number of samples in a lot: samples are bought in whole lots, and the places in
    `system` are multiples of it
    """
    money: float = np.inf
    """the most money that may be spent in rounds 1..t, a limit in addition to the
    budget
    """

    @property
    def admitted(self) -> Ints:
        """The samples ever admitted, whether trained on or not, (R,)."""
        return np.asarray(self.distinct + self.unused)

    def one_price(self) -> Floats:
        """Return the price of each run, (R,), or raise SettingError if each client has
        its own price.
        """
        if self.price.ndim != 1:
            others = "which headgate, alert, resolving, threshold and below can use"
            raise SettingError(
                f"needs one price per round; it was given one per client, {others}"
            )
        return self.price

    def of_first_run(self) -> "View":
        """Return the view of run 0 alone."""
        losses = None if self.losses is None else self.losses.of_runs(slice(1))
        own: list[Any] = [
            each[:1] if isinstance(each, np.ndarray) else each for each in self
        ]
        return View(*own)._replace(losses=losses)

    def room(self) -> Ints:
        """Return the free places of each client, [B_m − kept_m]^+, (R, M)."""
        return np.asarray(np.maximum(self.system.buffer - self.kept_by_client, 0))


class AdmissionRequest(NamedTuple):
    """What a policy wants to admit in a round. The controller rounds the total, a real
    number, and carries the remainder.
    """

    total: Floats
    """samples to admit in all, Λ(t), (R,), divided among the clients by the policy's
    shares
    """
    room: Ints | None = None
    """the most samples of the total that each client may be given, (R, M); None: no
    limit
    """
    given: Ints | None = None
    """whole samples per client in addition to the total, (R, M)"""
    free: Ints | None = None
    """whole samples per client in addition to the total that are not paid for, (R, M)
    """


@dataclass(frozen=True, eq=False)
class Orders:
    """The orders of round t: client m admits its stream up to position last−1 and then
    holds last−first samples.

    Carrying out the orders twice admits nothing twice. Under a window rule the client
    trains on the samples first..last−1.
    """

    t: int
    price: Floats
    asked: Floats
    """Λ(t) after all limits, before rounding and without the samples in addition to the
    total, (R,)
    """
    admitted: Ints
    """new samples per client, λ_m(t), (R, M)"""
    free: Ints | None
    """new samples per client that are not paid for, (R, M); None: all are paid for"""
    first: Ints
    last: Ints
    carry: Floats
    credit: Ints
    memory: Arrays

    def bought(self, admitted: Ints) -> Ints:
        """Return how many of the samples `admitted` are paid for, (R, M). Free samples
        are counted first.
        """
        return admitted if self.free is None else np.maximum(admitted - self.free, 0)

    def charge(self, admitted: Ints) -> Floats:
        """Return what the samples `admitted` cost per run, (R,)."""
        paid = self.bought(admitted)
        if self.price.ndim == 1:
            return np.asarray(self.price * paid.sum(axis=-1))
        return np.asarray((self.price * paid).sum(axis=-1))

    def paid(self, admitted: Ints) -> Floats:
        """Return what the samples `admitted` cost per client, (R, M)."""
        return np.asarray(
            (self.price if self.price.ndim == 2 else self.price[:, None])
            * self.bought(admitted)
        )


class Report(NamedTuple):
    """What clients admitted, if it differs from their orders, and the losses of their
    samples.
    """

    admitted: Ints
    """samples that each client admitted, (R, M), at most as many as ordered"""
    late: Ints | None = None
    """samples admitted on orders of earlier rounds that no earlier report contained,
    (R, M)
    """
    late_charge: Floats | None = None
    """cost of the late samples at the prices of the rounds in which they were ordered,
    (R,)
    """
    losses: Losses | None = None
    """losses of the round, kept only if the policy or its selection listens"""


class Contents(NamedTuple):
    """What the server knows about the samples in the clients' memories, in addition to
    their number.

    Window rules (K-step, first in first out) need `recent` and `born`; rules that
    choose need `born` and `places`, and `labels` if they look at classes. A field that
    a rule does not need is empty or None.
    """

    recent: tuple[Ints, ...] = ()
    """samples ever admitted, (R, M), at the end of each of the last K rounds; slot t
    mod K holds those of round t
    """
    born: Born | None = None
    """the round in which the sample in each place was admitted, (R, M, B)"""
    places: Ints | None = None
    """stream positions of the samples in memory, ascending, −1 for an empty place, (R,
    M, B)
    """
    labels: NDArray[np.int32] | None = None
    """classes of the samples in memory, (R, M, B)"""


@dataclass(frozen=True, eq=False)
class Ledger:
    """The whole state of all runs after round t: money spent, samples admitted and
    used, memories of policy and clients.
    """

    t: int
    debt: Floats
    """cost debt for the next round, Z(t+1), (R,)"""
    spent: Floats
    admitted: Ints
    """samples that each client has ever admitted, which is the end of its window, (R,
    M)
    """
    dropped: Ints
    """samples that each client has ever dropped, (R, M); under a window rule, the
    beginning of its window
    """
    unused: Ints
    """samples that were admitted and paid for but dropped before any training, (R,)"""
    uses: Ints
    """sum of the use counts of all samples, ΣA_i, (R,)"""
    squared_uses: Ints
    """sum of the squared use counts of all samples, ΣA_i², (R,)"""
    uses_in_memory: Ints
    """sum of the use counts of the samples in memory, (R,)"""
    carry: Floats
    """remainder of the total after rounding, in samples, (R,)"""
    credit: Ints
    """remainder of each client's entitlement after rounding, in samples times the sum
    of the shares, (R, M)
    """
    contents: Contents
    memory: Arrays
    """arrays that the policy and its selection remember"""
    terms: Terms
    """terms that the ledger was opened with"""
    losses: Losses | None = None
    """losses of round t; None if they were not reported or neither the policy nor its
    selection listens
    """
    looks: Floats | None = None
    """money spent on looks, which is part of `spent`, (R,); None: looks are free"""

    @cached_property
    def occupancy(self) -> Ints:
        """The samples that each client holds, n_m(t), (R, M)."""
        return self.admitted - self.dropped

    @cached_property
    def ever(self) -> Ints:
        """The samples that all clients together have ever admitted, (R,)."""
        return np.asarray(self.admitted.sum(axis=-1))

    @cached_property
    def held(self) -> Ints:
        """The samples that all clients together hold, n(t), (R,)."""
        return np.asarray(self.ever - self.dropped.sum(axis=-1))

    @property
    def distinct(self) -> Ints:
        """The distinct samples trained on so far, N(t), (R,)."""
        return np.asarray(self.ever - self.unused)

    @property
    def places(self) -> Ints | None:
        """The stream positions of the samples in memory, as in `Contents`; None: the
        positions are dropped..admitted−1.
        """
        return self.contents.places

    def of_runs(self, rows: slice | Ints) -> "Ledger":
        """Return the ledger of the runs `rows` alone; a run may be taken more than
        once.
        """

        def some(value: Any) -> Any:
            return (
                tuple(map(some, value))
                if isinstance(value, tuple)
                else None
                if value is None
                else value[rows]
            )

        held = {name: some(getattr(self, name)) for name in LEDGER_ARRAYS}
        memory = {name: array[rows] for name, array in self.memory.items()}
        losses = None if self.losses is None else self.losses.of_runs(rows)
        contents, looks = Contents(*map(some, self.contents)), some(self.looks)
        terms = self.terms._replace(runs=len(held["debt"]))
        return Ledger(
            t=self.t,
            contents=contents,
            memory=memory,
            terms=terms,
            losses=losses,
            looks=looks,
            **held,
        )


LEDGER_ARRAYS = tuple(
    own.name
    for own in fields(Ledger)
    if own.name not in ("t", "contents", "memory", "terms", "losses", "looks")
)
"""names of the ledger's fields that hold one array each"""
Labels = Callable[[Ints, Ints, Ints], Ints]
"""function that returns the class of each sample, given (runs, clients, positions)"""


class SampleView(NamedTuple):
    """What retention rules may know of the samples themselves when a round is posted.

    Parameters
    ----------
    labels : callable, optional
        Function of (runs, clients, positions) that returns the class of each sample.
        Without it all samples count as one class.
    scores : callable, optional
        Function of (runs, clients, positions, names of scores) that returns a model's
        scores of each sample. Without it there is no model, as in a plan.
    """

    labels: Labels | None = None
    scores: ScoresAt | None = None


UNSEEN = SampleView()
"""samples of which neither classes nor scores are known"""
