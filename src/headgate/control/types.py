"""The nouns of control: system, view, request, orders, report and ledger.

The first axis of every array is R (runs, one for each seed); the last is M (clients) if
the array has a value per client. Counts are int64 and money is float64, so neither the
batch of a run nor the order of summation can change a decision.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.control.charges import checked_quantum, costs
from headgate.control.checks import (
    optional,
    positive,
    text,
    whole_number,
    whole_numbers,
)
from headgate.control.delays import Pipeline
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
NORMALISED = 1e-9
"""largest difference to 1 of the sum of weights that are left as they are"""


class Amended(NamedTuple):
    """The effect of all amendments on a system.

    Parameters
    ----------
    money : float
        Money approved for all rounds up to the horizon; with an open end, up to round
        `since`.
    since : int
        The last round before the latest amendment; with an open end, every round after
        it adds its budget.
    left : tuple of int, default ()
        Numbers of the clients that have left.
    suspended : bool, default False
        Whether purchases are suspended.
    """

    money: float
    since: int
    left: tuple[int, ...] = ()
    suspended: bool = False


@dataclass(
    frozen=True,
    eq=False,
    init=False,
)
class System:
    """The given terms of a run: buffers, budget, horizon and weights.

    Parameters
    ----------
    buffer : array_like of int, or mapping of str to int
        Places of each client, B_m, (M,); in a mapping, by the name of the client.
    budget : float
        Budget per round, C.
    horizon : int, optional
        Number of rounds, T; left out: the end is open.
    weight : array_like of float, optional
        Weight of each client, α_m, (M,), normalised to a sum of 1; left out: equal
        weights.
    currency : str, default ""
        Symbol printed beside amounts of money, for example "$"; it has no other effect.
    quantum : float, optional
        Smallest amount of money on an invoice, for example 0.01: what an order costs is
        rounded to it, and half of it is kept back for each order, so that the budget
        holds; left out: nothing is rounded.
    names : sequence of str, optional
        Names of the clients, if `buffer` has none.
    amended : Amended, optional
        Effect of the amendments so far, set only by `Controller.amend`; None: no
        amendments.

    Raises
    ------
    SettingError
        If a value is not possible; the message names the setting and the value.

    Examples
    --------
    >>> system = System([8, 9, 10], budget=20.0, horizon=100, currency="$")
    >>> system.clients, system.all_places, system.money(100)
    (3, 27, 2000.0)
    >>> System({"clinic-a": 200, "clinic-b": 150}, budget=20.0).names
    ('clinic-a', 'clinic-b')
    """

    buffer: Ints
    budget: float
    horizon: int | None
    weight: Floats
    currency: str
    quantum: float | None
    names: tuple[str, ...] | None = field(kw_only=True)
    amended: Amended | None = field(kw_only=True)

    def __init__(
        self,
        buffer: ArrayLike | Mapping[str, int],
        budget: float,
        horizon: int | None = None,
        weight: ArrayLike | None = None,
        currency: str = "",
        quantum: float | None = None,
        *,
        names: Sequence[str] | None = None,
        amended: Amended | None = None,
    ) -> None:
        if isinstance(buffer, Mapping):
            names, buffer = list(buffer), list(buffer.values())
        places = _checked_buffer(buffer)
        positive("system.budget", budget)
        checked = {
            "buffer": places,
            "budget": float(budget),
            "horizon": optional(whole_number, "horizon", horizon, 1),
            "weight": _checked_weight(weight, places.size),
            "currency": text("system.currency", currency, 8),
            "quantum": None if quantum is None else checked_quantum(quantum),
            "names": _checked_names(names, places.size),
            "amended": amended,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def clients(self) -> int:
        """The number of clients, M."""
        return int(self.buffer.size)

    def named(self, client: int) -> int | str:
        """Return the name of a client, or its number if the system has no names.

        Parameters
        ----------
        client : int
            Number of the client.

        Returns
        -------
        int or str
            The name or the number.
        """
        return client if self.names is None else self.names[client]

    def ending(self, last: int) -> "System":
        """Return the system with the same money in all, for rounds up to `last`.

        Parameters
        ----------
        last : int
            The last round in which anything can be ordered.

        Returns
        -------
        System
            The system; itself if its end is open or not later.
        """
        if self.horizon is None or last >= self.horizon:
            return self
        money = self.money(self.horizon)
        own = copy(self)
        since = 0 if self.amended is None else self.amended.since
        budget = self.budget * (self.horizon - since) / max(last - since, 1)
        terms = Amended(0.0, 0) if self.amended is None else self.amended
        changed = {
            "horizon": last,
            "budget": budget,
            "amended": terms._replace(money=money),
        }
        for name, value in changed.items():
            object.__setattr__(own, name, value)
        return own

    @property
    def rounding(self) -> float:
        """The most that rounding may add to the cost of a round's orders."""
        return 0.0 if self.quantum is None else self.quantum / 2 * self.clients

    @cached_property
    def all_places(self) -> int:
        """The places of all clients together, B̄ = Σ B_m."""
        return int(self.buffer.sum())

    def within(self, places: ArrayLike) -> "System":
        """Return a copy of the system whose buffers have at most these places.

        Parameters
        ----------
        places : array_like of int
            The most places of each client, (M,); 0 is allowed.

        Returns
        -------
        System
            The copy.
        """
        own = copy(self)
        own.__dict__.pop("all_places", None)
        object.__setattr__(own, "buffer", np.minimum(self.buffer, places))
        return own

    def money(self, t: int, overdraft: float = 0.0) -> float:
        """Return the most money that may be spent in rounds 1 to t.

        Parameters
        ----------
        t : int
            The round.
        overdraft : float, default 0.0
            The number of rounds' budgets that may be spent in advance; it counts only
            with an open end.

        Returns
        -------
        float
            With a horizon, C·T for every t, or the total approved by amendments; with
            an open end, C·t.
        """
        approved, since = 0.0, 0
        if self.amended is not None:
            approved, since = self.amended.money, self.amended.since
        if self.horizon is None:
            return approved + self.budget * (t + overdraft - since)
        if self.amended is None:
            return self.budget * self.horizon
        return approved


def _checked_buffer(buffer: ArrayLike) -> Ints:
    """Return the places of each client as an array that cannot be changed."""
    places = whole_numbers("system.buffers", buffer, SAMPLES)
    listed = places.tolist()
    wanted = "a list, one number for each client"
    require(places.ndim == 1, "system.buffers", listed, wanted)
    if places.size == 0:
        raise SettingError("system.buffers = []: at least one client is needed")
    for m in np.flatnonzero(places < 1)[:1]:
        raise SettingError(
            f"system.buffers[{m}] = {places[m]}: every client needs room for at"
            " least one sample"
        )
    places.setflags(write=False)
    return places


def _checked_names(
    names: Sequence[str] | None,
    clients: int,
) -> tuple[str, ...] | None:
    """Return the names of the clients, of which no two are the same."""
    if names is None:
        return None
    own = tuple(text(f"system.names[{m}]", name, 100) for m, name in enumerate(names))
    for name in own:
        if not name or not name.isprintable() or name != name.strip():
            raise SettingError(
                f"system.names = {own}: a name is one line of printable characters"
            )
    if len(own) != clients or len(set(own)) != clients:
        raise SettingError(
            f"system.names = {own}: must be a name of its own for each of {clients}"
            " clients"
        )
    return own


def _checked_weight(weight: ArrayLike | None, clients: int) -> Floats:
    """Return weights with a sum of 1 as an array that cannot be changed."""
    if weight is None:
        own = np.full(clients, 1.0 / clients)
    else:
        own = np.array(weight, dtype=np.float64)
    if own.shape != (clients,):
        raise SettingError(
            f"system.weights has {own.size} entries for {clients} clients"
        )
    if not np.all(np.isfinite(own)) or np.any(own < 0) or own.sum() <= 0:
        raise SettingError(
            "system.weights: must be finite, zero or more, and not all zero"
        )
    # Weights that are already normalised keep their bits.
    if abs(own.sum() - 1) > NORMALISED:
        own = own / own.sum()
    own.setflags(write=False)
    return own


class Terms(NamedTuple):
    """The terms that a ledger was opened with.

    Under other terms, past spend would count against another budget.

    Parameters
    ----------
    policy : str
        Name of the policy's class.
    runs : int
        Number of runs.
    clients : int
        Number of clients.
    budget : float
        Budget per round.
    horizon : int or None
        Number of rounds; None: the end is open.
    buffers : str
        Places of all clients together and a checksum of their list, as text.
    """

    policy: str
    runs: int
    clients: int
    budget: float
    horizon: int | None
    buffers: str

    def check(self, asked: Self, what: str) -> None:
        """Raise LedgerError if the terms `asked` differ from these.

        The message names the first difference; `what` is what was opened.
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
    """The mean losses of the clients' samples in a round.

    They are losses under the model that the server sent, before any local step. A value
    is NaN if there are no such samples or no report.

    Parameters
    ----------
    new : array of float
        Mean loss of the samples that the client admitted in this round and trains on,
        (R, M).
    held : array of float
        Mean loss of the samples that the client held before this round, (R, M).
    right : array of float, optional
        Share of new samples whose class has a predicted probability above ½, (R, M);
        used only by a selection that listens.

    Examples
    --------
    >>> losses = Losses(new=np.array([[2.5, 0.4]]), held=np.array([[0.3, 0.2]]))
    >>> bool(losses.new.max() > 1)
    True
    """

    new: Floats
    held: Floats
    right: Floats | None = None

    @property
    def arrays(self) -> list[Floats]:
        """The fields that are not None."""
        return [each for each in self if each is not None]

    def of_runs(self, rows: slice | Ints) -> "Losses":
        """Return the losses of some runs alone.

        Parameters
        ----------
        rows : slice or array of int
            The numbers of the runs.

        Returns
        -------
        Losses
            The losses of these runs.
        """
        return Losses(*(each[rows] for each in self.arrays))


class View(NamedTuple):
    """Everything that a server may know when it decides round t.

    Parameters
    ----------
    t : int
        The round.
    price : array of float
        Price of a sample in this round, c(t), (R,); (R, M) if each client has its own
        price.
    debt : array of float
        Cost debt Z(t), (R,).
    spent : array of float
        Money spent in rounds 1..t−1, (R,).
    kept : array of int
        Samples still in the buffers before anything is admitted, n(t) − Λ(t), (R,).
    distinct : array of int
        Distinct samples trained on so far, N(t−1), (R,).
    kept_by_client : array of int
        Samples of each client still in the buffers before anything is admitted, (R, M).
    system : System
        The system, whose buffers have only the places that can be filled.
    unused : array of int
        Samples that were admitted but dropped before any training, (R,).
    losses : Losses, optional
        Losses of round t−1, for a policy that listens; None: no losses are known, as in
        round 1 or in a rehearsal.
    lot : int, default 1
        Number of samples in a lot: samples are bought in whole lots, and the places in
        `system` are multiples of it.
    money : float, default np.inf
        The most money that may be spent in rounds 1..t, a limit in addition to the
        budget.
    under_way : int or array of int, default 0
        Samples that were ordered and may still arrive, in each run. Their price is in
        `spent`.

    Examples
    --------
    >>> from headgate.control import AdmissionPolicy, Controller
    >>> class Shown(AdmissionPolicy):
    ...     def admit(self, view, memory):
    ...         print(view.t, view.price, view.spent)
    ...         return AdmissionRequest(np.zeros(1)), memory
    >>> controller = Controller(System([8], budget=20.0, horizon=100), Shown())
    >>> _ = controller.decide(controller.open(), 3.0)
    1 [3.] [0.]
    """

    t: int
    price: Floats
    debt: Floats
    spent: Floats
    kept: Ints
    distinct: Ints
    kept_by_client: Ints
    system: System
    unused: Ints
    losses: Losses | None = None
    lot: int = 1
    money: float = np.inf
    under_way: int | Ints = 0

    @property
    def admitted(self) -> Ints:
        """The samples ever admitted, whether trained on or not, and those under way,
        (R,).
        """
        return self.distinct + self.unused + self.under_way

    def one_price(self) -> Floats:
        """Return the price of each run.

        Returns
        -------
        array
            The price of each run, (R,).

        Raises
        ------
        SettingError
            If each client has its own price.
        """
        if self.price.ndim != 1:
            raise SettingError(
                "needs one price per round; it was given one per client, which"
                " headgate, alert, threshold and below can use"
            )
        return self.price

    def of_first_run(self) -> "View":
        """Return the view of run 0 alone.

        Returns
        -------
        View
            The view, with R = 1.
        """
        first: dict[str, Any] = {
            name: value[:1]
            for name, value in self._asdict().items()
            if isinstance(value, np.ndarray)
        }
        losses = None if self.losses is None else self.losses.of_runs(slice(1))
        return self._replace(
            **first,
            losses=losses,
        )

    def room(self) -> Ints:
        """Return the free places of each client.

        Returns
        -------
        array of int
            The free places, [B_m − kept_m]^+, (R, M).
        """
        return np.asarray(np.maximum(self.system.buffer - self.kept_by_client, 0))


class AdmissionRequest(NamedTuple):
    """What a policy wants to admit in a round.

    The controller rounds the total, a real number, and carries the remainder.

    Parameters
    ----------
    total : array of float
        Samples to admit in all, Λ(t), (R,), divided among the clients by the policy's
        shares.
    room : array of int, optional
        The most samples of the total that each client may be given, (R, M); None: no
        limit.
    given : array of int, optional
        Whole samples per client in addition to the total, (R, M).
    free : array of int, optional
        Whole samples per client in addition to the total that are not paid for, (R, M).

    Examples
    --------
    >>> AdmissionRequest(np.array([12.5])).total  # samples of all clients, for each run
    array([12.5])
    """

    total: Floats
    room: Ints | None = None
    given: Ints | None = None
    free: Ints | None = None


@dataclass(
    frozen=True,
    eq=False,
)
class Orders:
    """The orders of round t.

    Client m admits its stream up to position last−1 and then holds last−first samples.
    Carrying out the orders twice admits nothing twice. Under a window rule the client
    trains on the samples first..last−1.

    Parameters
    ----------
    t : int
        The round.
    price : array of float
        Price of a sample, (R,), or (R, M) if each client has its own price.
    asked : array of float
        Λ(t) after all limits, before rounding and without the samples in addition to
        the total, (R,).
    admitted : array of int
        New samples per client, λ_m(t), (R, M).
    free : array of int or None
        New samples per client that are not paid for, (R, M); None: all are paid for.
    first : array of int
        Beginning of each client's window, (R, M).
    last : array of int
        End of each client's window, (R, M).
    carry : array of float
        Remainder of the total after rounding, in samples, (R,).
    credit : array of int
        Remainder of each client's entitlement after rounding, (R, M).
    memory : dict of str to array
        Arrays that the policy and its selection remember.
    quantum : float, optional
        The quantum to which the cost of each client's order is rounded.

    Examples
    --------
    >>> from headgate.control import Controller
    >>> from headgate.control.policies import Headgate
    >>> controller = Controller(System([8, 9], budget=20.0, horizon=10), Headgate())
    >>> orders = controller.decide(controller.open(), 2.0)
    >>> orders.admitted.tolist(), orders.charge(orders.admitted).tolist()
    ([[8, 9]], [34.0])
    """

    t: int
    price: Floats
    asked: Floats
    admitted: Ints
    free: Ints | None
    first: Ints
    last: Ints
    carry: Floats
    credit: Ints
    memory: Arrays
    quantum: float | None = None

    def bought(self, admitted: Ints) -> Ints:
        """Return how many of the samples `admitted` are paid for.

        Parameters
        ----------
        admitted : array of int
            The samples that each client admitted, (R, M). Free ones are counted first.

        Returns
        -------
        array of int
            The samples that are paid for, (R, M).
        """
        if self.free is None:
            return admitted
        return np.asarray(np.maximum(admitted - self.free, 0))

    def charge(self, admitted: Ints) -> Floats:
        """Return what the samples `admitted` cost per run.

        Parameters
        ----------
        admitted : array of int
            The samples that each client admitted, (R, M).

        Returns
        -------
        array
            The cost, (R,).
        """
        if self.quantum is not None:
            return np.asarray(self.paid(admitted).sum(axis=-1))
        paid = self.bought(admitted)
        if self.price.ndim == 1:
            return np.asarray(self.price * paid.sum(axis=-1))
        return np.asarray((self.price * paid).sum(axis=-1))

    def paid(self, admitted: Ints) -> Floats:
        """Return what the samples `admitted` cost per client.

        Parameters
        ----------
        admitted : array of int
            The samples that each client admitted, (R, M).

        Returns
        -------
        array
            The cost, (R, M).
        """
        price = self.price if self.price.ndim == 2 else self.price[:, None]
        return costs(price, self.bought(admitted), self.quantum)


def together(parts: Sequence[Orders], which: Ints) -> Orders:
    """Return the orders in which run r has those of `parts[which[r]]`."""
    first = parts[0]
    if len(parts) == 1:
        return first
    nothing = np.zeros_like(first.admitted)
    parts = [
        each if each.free is not None else replace(each, free=nothing) for each in parts
    ]

    def mixed(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.stack(arrays)[which, np.arange(which.size)]

    def own(name: str) -> list[Any]:
        return [getattr(each, name) for each in parts]

    names = ("price", "asked", "admitted", "free", "first", "last", "carry", "credit")
    memory = {
        name: mixed([each[name] for each in own("memory")]) for name in first.memory
    }
    arrays: dict[str, Any] = {name: mixed(own(name)) for name in names}
    return replace(first, memory=memory, **arrays)


class Report(NamedTuple):
    """What clients admitted, if it differs from their orders, and their losses.

    Parameters
    ----------
    admitted : array of int
        Samples that each client admitted, (R, M), at most as many as ordered.
    late : array of int, optional
        Samples admitted on orders of earlier rounds that no earlier report contained,
        (R, M).
    late_charge : array of float, optional
        Cost of the late samples at the prices of the rounds in which they were ordered,
        (R,).
    losses : Losses, optional
        Losses of the round, kept only if the policy or its selection listens.

    Examples
    --------
    >>> Report(np.array([[2, 0, 3]])).admitted.sum()
    np.int64(5)
    """

    admitted: Ints
    late: Ints | None = None
    late_charge: Floats | None = None
    losses: Losses | None = None


class Contents(NamedTuple):
    """What the server knows about the samples in the clients' buffers.

    Window rules (K-step, first in first out) need `recent` and `born`; rules that
    choose need `born` and `places`, and `labels` if they look at classes. A field that
    a rule does not need is empty or None.

    Parameters
    ----------
    recent : tuple of array of int, default ()
        Samples ever admitted, (R, M), at the end of each of the last K rounds; slot t
        mod K holds those of round t.
    born : array of int, optional
        The round in which the sample in each place was admitted, (R, M, B).
    places : array of int, optional
        Stream positions of the samples in the buffer, ascending, −1 for an empty place,
        (R, M, B).
    labels : array, optional
        Classes of the samples in the buffer, (R, M, B).
    """

    recent: tuple[Ints, ...] = ()
    born: Born | None = None
    places: Ints | None = None
    labels: NDArray[np.int32] | None = None

    def of_runs(self, rows: slice | Ints) -> "Contents":
        """Return what is known of the samples of the runs `rows` alone."""
        recent, *by_place = self
        some: list[Any] = [None if each is None else each[rows] for each in by_place]
        return Contents(tuple(each[rows] for each in recent), *some)


@dataclass(
    frozen=True,
    eq=False,
)
class Ledger:
    """The whole state of all runs after round t.

    Parameters
    ----------
    t : int
        The last round.
    debt : array of float
        Cost debt for the next round, Z(t+1), (R,).
    spent : array of float
        Money spent, (R,).
    admitted : array of int
        Samples that each client has ever admitted, which is the end of its window, (R,
        M).
    dropped : array of int
        Samples that each client has ever dropped, (R, M); under a window rule, the
        beginning of its window.
    unused : array of int
        Samples that were admitted and paid for but dropped before any training, (R,).
    uses : array of int
        Sum of the use counts of all samples, ΣA_i, (R,).
    squared_uses : array of int
        Sum of the squared use counts of all samples, ΣA_i², (R,).
    uses_in_memory : array of int
        Sum of the use counts of the samples in the buffers, (R,).
    carry : array of float
        Remainder of the total after rounding, in samples, (R,).
    credit : array of int
        Remainder of each client's entitlement after rounding, in samples times the sum
        of the shares, (R, M).
    contents : Contents
        What the server knows about the samples in the clients' buffers.
    memory : dict of str to array
        Arrays that the policy and its selection remember.
    terms : Terms
        Terms that the ledger was opened with.
    losses : Losses, optional
        Losses of round t; None if they were not reported or neither the policy nor its
        selection listens.
    looks : array of float, optional
        Money spent on looks, which is part of `spent`, (R,); None: looks are free.
    pipeline : Pipeline, optional
        The samples under way; None: what is ordered is there at once.

    Examples
    --------
    >>> from headgate.control import Controller
    >>> from headgate.control.policies import Headgate
    >>> controller = Controller(System([8, 9], budget=20.0, horizon=10), Headgate())
    >>> ledger = controller.open()
    >>> orders = controller.decide(ledger, 2.0)
    >>> ledger = controller.post(ledger, orders)
    >>> ledger.t, ledger.spent.tolist(), ledger.held.tolist()
    (1, [34.0], [17])
    """

    t: int
    debt: Floats
    spent: Floats
    admitted: Ints
    dropped: Ints
    unused: Ints
    uses: Ints
    squared_uses: Ints
    uses_in_memory: Ints
    carry: Floats
    credit: Ints
    contents: Contents
    memory: Arrays
    terms: Terms
    losses: Losses | None = None
    looks: Floats | None = None
    pipeline: Pipeline | None = None

    @property
    def ordered(self) -> Ints:
        """The samples that each client has ever been ordered, under way or admitted,
        (R, M).
        """
        if self.pipeline is None:
            return self.admitted
        return np.asarray(self.admitted + self.pipeline.by_client)

    @property
    def committed(self) -> Floats:
        """The money spent, and the price of what is under way, (R,)."""
        return self.spent if self.pipeline is None else self.pipeline.committed

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
        return self.ever - self.unused

    @property
    def places(self) -> Ints | None:
        """The stream positions of the samples in the buffers, as in `Contents`.

        None means that the positions are dropped..admitted−1.
        """
        return self.contents.places

    def of_runs(self, rows: slice | Ints) -> "Ledger":
        """Return the ledger of some runs alone.

        Parameters
        ----------
        rows : slice or array of int
            The numbers of the runs; a run may be taken more than once.

        Returns
        -------
        Ledger
            The ledger of these runs.
        """
        own = {name: getattr(self, name)[rows] for name in LEDGER_ARRAYS}
        memory = {name: array[rows] for name, array in self.memory.items()}
        return Ledger(
            t=self.t,
            contents=self.contents.of_runs(rows),
            memory=memory,
            terms=self.terms._replace(runs=len(own["debt"])),
            losses=None if self.losses is None else self.losses.of_runs(rows),
            looks=None if self.looks is None else self.looks[rows],
            pipeline=None if self.pipeline is None else self.pipeline.of_runs(rows),
            **own,
        )


OTHER_STATE = ("t", "contents", "memory", "terms", "losses", "looks", "pipeline")
LEDGER_ARRAYS = tuple(own.name for own in fields(Ledger) if own.name not in OTHER_STATE)
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

    Examples
    --------
    >>> view = SampleView(labels=lambda clients, positions: positions % 10)
    >>> view.scores is None
    True
    """

    labels: Labels | None = None
    scores: ScoresAt | None = None


UNSEEN = SampleView()
"""samples of which neither classes nor scores are known"""
