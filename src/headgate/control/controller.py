"""The server of Algorithm 1.

`decide` changes nothing; only `post` advances to the next round.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from headgate.control.amendments import Amendment, amended, carried_over
from headgate.control.apportion import apportion, whole_total
from headgate.control.buffers import Buffers
from headgate.control.delays import Delays, Pipeline
from headgate.control.policy import AdmissionPolicy, check_is_policy
from headgate.control.supply import EVERYTHING, Supply
from headgate.control.types import (
    UNSEEN,
    AdmissionRequest,
    Arrays,
    Bools,
    Floats,
    Ints,
    Ledger,
    Losses,
    Orders,
    Report,
    SampleView,
    System,
    Terms,
    View,
    together,
)
from headgate.errors import LedgerError, SettingError, require
from headgate.escaping import shown
from headgate.theory.labels import paper
from headgate.theory.reuse import count_uses

MOST_ADMITTED = 2**52
"""the most samples in a round, times the sum of the shares, for which a client's credit
is an exact whole number
"""


@paper("eq:Z-update")
def debt_update(
    debt: ArrayLike,
    spend: ArrayLike,
    budget: ArrayLike,
) -> Floats:
    """Return Z(t+1) = [Z(t) + C_t − C]^+, the cost debt after a round with spend C_t.

    >>> debt_update([0.0, 10.0], [30.0, 70.0], 55.0).tolist()
    [0.0, 25.0]
    """
    return np.asarray(
        np.maximum(np.asarray(debt) + np.asarray(spend) - np.asarray(budget), 0.0)
    )


@paper("alg:acdpp", "eq:lambda-def")
class Controller:
    """Control one policy over independent runs of the same system.

    Parameters
    ----------
    system : System
        The system of all runs.
    policy : AdmissionPolicy
        The policy.
    runs : int, default 1
        The number of runs, R.
    seeds : array_like of int, optional
        The seed of each run, (R,), for retention and selection rules that draw at
        random. By default 0 to R − 1.
    looks : float, default 0.0
        The part of each label's price that pays for looking at samples before the
        purchase; the ledger records it separately.
    delays : Delays, optional
        How many rounds samples take to arrive, for a simulation: the ledger then holds
        what is under way. Left out: what is ordered arrives as it is reported.

    Raises
    ------
    SettingError
        If the policy does not fit the system.

    Examples
    --------
    >>> from headgate.control.policies import Headgate
    >>> system = System([8, 9, 10], budget=20.0, horizon=100)
    >>> controller = Controller(system, Headgate())
    >>> ledger = controller.open()
    >>> orders = controller.decide(ledger, 3.0)
    >>> orders.admitted.tolist(), float(controller.post(ledger, orders).spent[0])
    ([[8, 9, 9]], 78.0)
    """

    def __init__(
        self,
        system: System,
        policy: AdmissionPolicy,
        runs: int = 1,
        seeds: ArrayLike | None = None,
        *,
        looks: float = 0.0,
        delays: Delays | None = None,
    ) -> None:
        check_is_policy(policy)
        require(runs >= 1, "runs", runs, "at least 1")
        self.system = system
        self.policy = policy
        self.runs = runs
        self.looks = looks
        self.delays = delays
        seeds = _checked_seeds(seeds, runs)
        self.shares = _checked_shares(policy.shares(system), system.clients)
        self._whole = int(self.shares.sum())
        self.terms = _terms(system, policy, runs)
        if not callable(policy.retention):
            raise SettingError(
                f"{type(policy).__name__}.retention: must be a method, retention(self,"
                " system)"
            )
        self.buffers = Buffers(policy.retention(system), system, runs, seeds)

    def open(self) -> Ledger:
        """Return the ledger before round 1, with Z(1) = 0 and nothing admitted.

        Returns
        -------
        Ledger
            The ledger.
        """
        money = np.zeros(self.runs)
        counts = np.zeros(self.runs, dtype=np.int64)
        by_client = np.zeros((self.runs, self.system.clients), dtype=np.int64)
        where = f"{type(self.policy).__name__}.start"
        memory = _checked_memory(where, self.policy.start(self.system, self.runs))
        if self.policy.selection is not None:
            memory = {**memory, **self.policy.selection.start(self.runs)}
        return Ledger(
            t=0,
            debt=money,
            spent=money,
            admitted=by_client,
            dropped=by_client,
            unused=counts,
            uses=counts,
            squared_uses=counts,
            uses_in_memory=counts,
            carry=money,
            credit=by_client,
            contents=self.buffers.open(),
            memory=memory,
            terms=self.terms,
            looks=money if self.looks else None,
            pipeline=self._empty_pipeline(),
        )

    def _empty_pipeline(self) -> Pipeline | None:
        if self.delays is None:
            return None
        return Pipeline.empty(self.delays, self.runs, self.system.clients)

    def decide(
        self,
        ledger: Ledger,
        price: ArrayLike,
        reserved: ArrayLike | None = None,
        supply: Supply = EVERYTHING,
        *,
        present: ArrayLike | None = None,
        most: ArrayLike | None = None,
        under_way: int | Ints = 0,
        delay: int = 0,
    ) -> Orders:
        """Return the orders of the next round. This method changes nothing.

        If the ledger holds what is under way, `reserved`, `under_way` and `delay` are
        those of the ledger.

        Parameters
        ----------
        ledger : Ledger
            The ledger after the previous round.
        price : array_like
            The price of a sample: one number, one for each run, (R,), or one for each
            run and client, (R, M).
        reserved : array_like, optional
            The most that unanswered orders of earlier rounds may cost, (R,); the policy
            treats it as spent. If answers may come late, it must include
            `purse.kept_back`.
        supply : Supply, optional
            The clients that are present and the samples that can be bought in this
            round. The policy sees only the places that can be filled, so the samples of
            an absent client go to the others.
        present, most : array_like, optional
            Values that replace the fields of `supply` with the same names.
        under_way : int or array of int, default 0
            Samples of earlier orders that may still arrive. They count as bought.
        delay : int, default 0
            Rounds that a sample takes to arrive. Nothing is ordered that comes after
            the horizon, so all money is for the rounds before.

        Returns
        -------
        Orders
            What each client must admit and which samples it must hold.
        """
        self._check_terms(ledger)
        prices = self._checked_price(price, ledger.t + 1)
        if present is not None or most is not None:
            supply = supply._replace(
                present=present,
                most=most,
            )
        pipeline = ledger.pipeline
        if self.delays is None or pipeline is None:
            return self._decided(ledger, prices, reserved, supply, under_way, delay)
        known = np.zeros(self.runs, dtype=np.int64)
        if self.system.horizon is not None:
            known = pipeline.delay(self.delays)
        # The runs have learned different delays. Each gets the orders for its own.
        parts = [
            self._decided(ledger, prices, None, supply, pipeline.under_way, each)
            for each in np.unique(known).tolist()
        ]
        return together(parts, np.unique(known, return_inverse=True)[1])

    def _decided(
        self,
        ledger: Ledger,
        prices: Floats,
        reserved: ArrayLike | None,
        supply: Supply,
        under_way: int | Ints,
        delay: int,
    ) -> Orders:
        """Return the orders of the next round under one delay."""
        t = ledger.t + 1
        places = supply.places(self.system, self.buffers.limit, t)
        kept_from = self.buffers.kept_from(ledger, t)
        of_policy, of_selection = self._memories(ledger)
        system = self._due(delay)
        nothing_fits = places is not None and not places.any()
        if nothing_fits or (system.horizon or t) < t <= (self.system.horizon or t):
            return self._no_orders(ledger, prices, kept_from, of_selection)

        view = self._view(ledger, prices, reserved, supply, places, kept_from)
        if delay or np.any(under_way):
            view = view._replace(
                system=system if places is None else system.within(places),
                under_way=under_way,
            )
        request, memory = self._asked(view, of_policy)
        self._check_one_run(view, of_policy)
        whole = self._whole_samples(request, ledger, places, supply.lot)

        first, last = kept_from, ledger.admitted
        if whole.admitted.any():
            last = ledger.admitted + whole.admitted
            first = self.buffers.first(kept_from, last)
        return Orders(
            t=t,
            price=self._paid(ledger, prices),
            asked=whole.asked,
            admitted=whole.admitted,
            free=whole.free,
            first=first,
            last=last,
            carry=whole.carry,
            credit=whole.credit,
            memory={**memory, **of_selection},
            quantum=self.system.quantum,
        )

    def _due(self, delay: int) -> System:
        """Return the system for the rounds in which what is ordered still comes."""
        if not delay or self.system.horizon is None:
            return self.system
        return self.system.ending(max(self.system.horizon - delay, 0))

    def why(
        self,
        ledger: Ledger,
        orders: Orders,
        reserved: ArrayLike | None = None,
        supply: Supply = EVERYTHING,
    ) -> str:
        """Return in words why the first run bought what it bought.

        Parameters
        ----------
        ledger : Ledger
            The ledger that the orders were decided on.
        orders : Orders
            What `decide` returned.
        reserved, supply
            As for `decide`.

        Returns
        -------
        str
            The price, the limit of the policy if it has one, and the samples.

        Examples
        --------
        >>> from headgate.control.policies import Threshold
        >>> system = System([8, 9, 10], budget=20.0, horizon=100)
        >>> controller = Controller(system, Threshold(limit=4.0, fill=0.0))
        >>> ledger = controller.open()
        >>> controller.why(ledger, controller.decide(ledger, 3.0))
        'price 3, below the limit of 4; 27 samples'
        """
        low, high = orders.price[:1].min(), orders.price[:1].max()
        text = f"price {low:.3g}" if low == high else f"prices {low:.3g} to {high:.3g}"
        bought = int(orders.admitted[0].sum())
        samples = f"{bought:,} samples" if bought else "nothing bought"
        places = supply.places(self.system, self.buffers.limit, orders.t)
        if places is not None and not places.any():
            return f"{text}; {samples}, nobody could be asked"
        fill = getattr(self.policy, "money_to_fill", None)
        if orders.t == 1 and fill is not None and (most := fill(self.system)):
            return f"{text}; round 1 fills the buffers for up to {most:g}; {samples}"
        kept_from = self.buffers.kept_from(ledger, orders.t)
        view = self._view(ledger, orders.price, reserved, supply, places, kept_from)
        limit = self.policy.price_limit(view, orders.memory)
        if limit is None:
            return f"{text}; {samples}"
        beside = _beside(low, high, float(limit[0]), bought)
        if bought and low > limit[0]:
            beside += f", {self.policy.above_limit}"
        return f"{text}, {beside}; {samples}"

    def _memories(self, ledger: Ledger) -> tuple[Arrays, Arrays]:
        """Return the ledger's memory as that of the policy and that of its selection.

        The memory of the selection is that after the ledger's last round.
        """
        if self.policy.selection is None:
            return dict(ledger.memory), {}
        of_selection = self.policy.selection.heard(ledger)
        of_policy = {
            name: array
            for name, array in ledger.memory.items()
            if name not in of_selection
        }
        return of_policy, of_selection

    def _no_orders(
        self,
        ledger: Ledger,
        price: Floats,
        kept_from: Ints,
        of_selection: Arrays,
    ) -> Orders:
        """Return the orders of a round in which nothing can be bought.

        The policy is not asked, so its memory stays as it is.
        """
        return Orders(
            t=ledger.t + 1,
            price=price,
            asked=np.zeros(self.runs),
            admitted=np.zeros_like(ledger.credit),
            free=None,
            first=kept_from,
            last=ledger.admitted,
            carry=ledger.carry,
            credit=ledger.credit,
            memory={**ledger.memory, **of_selection},
            quantum=self.system.quantum,
        )

    def _view(
        self,
        ledger: Ledger,
        price: Floats,
        reserved: ArrayLike | None,
        supply: Supply,
        places: Ints | None,
        kept_from: Ints,
    ) -> View:
        """Return what the policy may know when it decides the next round."""
        kept_by_client = ledger.admitted - kept_from
        system = self.system if places is None else self.system.within(places)
        spent = ledger.committed
        if reserved is not None:
            spent = spent + np.asarray(reserved, dtype=np.float64)
        if system.rounding:
            spent = spent + system.rounding
        return View(
            t=ledger.t + 1,
            price=price,
            debt=ledger.debt,
            spent=spent,
            kept=kept_by_client.sum(axis=-1),
            distinct=ledger.distinct,
            kept_by_client=kept_by_client,
            system=system,
            unused=ledger.unused,
            losses=ledger.losses,
            lot=supply.lot,
            money=supply.money,
        )

    def _check_one_run(self, view: View, memory: Arrays) -> None:
        """Ask the policy for run 0 alone, where that reveals a wrong shape."""
        if self._first_run is not None:
            first = {name: array[:1] for name, array in memory.items()}
            self._first_run._asked(view.of_first_run(), first)

    @cached_property
    def _first_run(self) -> "Controller | None":
        """A controller of run 0 alone, if there are as many runs as clients.

        Its different shapes reveal a policy that returns a number for each client
        instead of each run.
        """
        if self.runs == 1 or self.runs != self.system.clients:
            return None
        return Controller(self.system, self.policy, 1, self.buffers.seeds[:1])

    def _whole_samples(
        self,
        request: AdmissionRequest,
        ledger: Ledger,
        places: Ints | None,
        lot: int,
    ) -> "_WholeSamples":
        """Divide a request, a real number of samples, into whole lots for clients."""
        limit, shares = self.buffers.limit, self.shares
        if places is not None:
            request = _supplied(request, places, lot)
            limit = places
            shares = np.where(places > 0, self.shares, 0)
        room = _smaller(request.room, limit, ledger.credit.shape)
        fits = None
        if room is not None:
            fits = np.where(shares > 0, room, 0).sum(axis=-1)
        total, carry, asked = whole_total(request.total, ledger.carry, fits, lot)

        # A lot is divided as one sample of a client with a share `lot` times as large.
        lots_of_room = None if room is None else room // lot
        lots, credit = apportion(
            total // lot, ledger.credit, shares * lot, lots_of_room, self._whole * lot
        )
        admitted = lots * lot
        for extra in (request.given, request.free):
            if extra is not None:
                admitted = admitted + extra
        return _WholeSamples(asked, admitted, request.free, carry, credit)

    def _paid(self, ledger: Ledger, price: Floats) -> Floats:
        """Return the price without the looks of clients that do not look.

        The policy decides by the full price, so what it learns about prices does not
        depend on who looks, and it never overspends.
        """
        if not self.looks:
            return price
        looking = self._looking(ledger)
        if looking.all():
            return price
        saved = np.where(looking, 0.0, self.looks)
        if price.ndim == 2:
            return price - saved
        if (saved == saved[:, :1]).all():
            return price - saved[:, 0]
        return price[:, None] - saved

    def _looking(self, ledger: Ledger) -> Bools:
        """Return which clients look in the next round, (R, M)."""
        rule = self.policy.selection
        if rule is None:
            return np.ones(ledger.admitted.shape, dtype=bool)
        return rule.looking(ledger)

    def amend(
        self, ledger: Ledger, amendment: Amendment
    ) -> "tuple[Controller, Ledger]":
        """Return a controller and a ledger under amended terms.

        Parameters
        ----------
        ledger : Ledger
            The ledger after the last settled round.
        amendment : Amendment
            The change: money, horizon, clients or a corrected invoice.

        Returns
        -------
        controller, ledger : tuple of Controller and Ledger
            Both replace the previous ones in the rounds that follow.
        """
        self._check_terms(ledger)
        system = amended(self.system, amendment, ledger.t, float(ledger.spent.mean()))
        after = Controller(
            system,
            self.policy,
            self.runs,
            self.buffers.seeds,
            looks=self.looks,
            delays=self.delays,
        )
        if amendment.leave is not None:
            ledger = self._without(ledger, amendment.leave)
        return after, carried_over(ledger, amendment, after.open(), after.terms)

    def _without(self, ledger: Ledger, client: int) -> Ledger:
        """Return the ledger without the samples of a client."""
        contents, uses = self.buffers.erased(ledger, client)
        dropped = ledger.dropped.copy()
        dropped[:, client] = ledger.admitted[:, client]
        in_memory = ledger.uses_in_memory - uses
        return replace(
            ledger,
            contents=contents,
            dropped=dropped,
            uses_in_memory=in_memory,
        )

    def post(
        self,
        ledger: Ledger,
        orders: Orders,
        report: Report | None = None,
        samples: SampleView = UNSEEN,
    ) -> Ledger:
        """Return the ledger after the round.

        Parameters
        ----------
        ledger : Ledger
            The ledger that the orders were decided on.
        orders : Orders
            What `decide` returned.
        report : Report, optional
            What clients admitted, or took under way if the ledger holds that; if
            omitted, all clients followed their orders.
            Samples that were not admitted are neither charged nor owed later. Late
            samples count from this round on, because the server did not know of them
            before.
        samples : SampleView, optional
            Classes and scores of the samples, for retention rules that need them.

        Returns
        -------
        Ledger
            The ledger after the round of the orders.

        Raises
        ------
        LedgerError
            If the orders or the report do not fit the ledger; nothing was posted.
        """
        self._check_terms(ledger)
        if orders.t != ledger.t + 1:
            raise LedgerError(
                f"orders are for round {orders.t}, the ledger stands at round"
                f" {ledger.t}; nothing was posted"
            )
        pipeline = None
        if self.delays is not None and ledger.pipeline is not None:
            report, pipeline = self._arrived(self.delays, ledger, orders, report)
        done = self._done(ledger, orders, report)
        spent = ledger.spent + done.charge
        if pipeline is not None:
            spent = pipeline.spent(spent)
        contents, unused, uses_gone = self.buffers.settle(
            ledger, orders.t, done.first, done.last, samples
        )
        n = done.last.sum(axis=-1) - done.first.sum(axis=-1)
        in_memory = ledger.uses_in_memory - uses_gone + n
        uses, squared = count_uses(ledger.uses, ledger.squared_uses, in_memory, n)
        return Ledger(
            t=orders.t,
            debt=debt_update(ledger.debt, done.charge, self.system.budget),
            spent=spent,
            admitted=done.last,
            dropped=done.first,
            unused=ledger.unused + unused,
            uses=uses,
            squared_uses=squared,
            uses_in_memory=in_memory,
            carry=orders.carry,
            credit=orders.credit,
            contents=contents,
            memory=orders.memory,
            terms=ledger.terms,
            losses=None if report is None else self._losses(report, orders),
            looks=self._spent_on_looks(ledger, done.bought),
            pipeline=pipeline,
        )

    def _arrived(
        self,
        delays: Delays,
        ledger: Ledger,
        orders: Orders,
        report: Report | None,
    ) -> tuple[Report, Pipeline]:
        """Return what arrived in the round, and what is under way after it."""
        assert ledger.pipeline is not None
        taken = orders.admitted if report is None else _reported(report, orders)
        drawn = delays.counted(self.buffers.seeds, ledger.ordered, taken)
        paid = [
            orders.paid(so_far)
            for so_far in np.moveaxis(np.cumsum(drawn, axis=-1), -1, 0)
        ]
        charges = np.diff(np.stack(paid, axis=-1), prepend=0.0)
        pipeline = ledger.pipeline.after(delays, drawn, charges, orders.charge(taken))
        at_once = np.zeros_like(taken)
        if delays.rounds[0] == 0:
            at_once = drawn[..., 0]
        found = Report(
            admitted=at_once,
            late=ledger.pipeline.coming[..., 0],
            late_charge=ledger.pipeline.owed[..., 0].sum(axis=-1),
            losses=None if report is None else report.losses,
        )
        return found, pipeline

    def _done(
        self,
        ledger: Ledger,
        orders: Orders,
        report: Report | None,
    ) -> "_Done":
        """Return what the clients did, from their report or else from the orders."""
        if report is None:
            bought, charge = (
                orders.bought(orders.admitted),
                orders.charge(orders.admitted),
            )
            return _Done(orders.first, orders.last, bought, charge)

        admitted = _reported(report, orders)
        last = ledger.admitted + admitted
        bought, charge = orders.bought(admitted), orders.charge(admitted)
        if report.late is not None or report.late_charge is not None:
            late, late_charge = self._late(report, orders)
            last = last + late
            bought = bought + late
            charge = charge + late_charge
        first = self.buffers.first(self.buffers.kept_from(ledger, orders.t), last)
        return _Done(first, last, bought, charge)

    def _late(self, report: Report, orders: Orders) -> tuple[Ints, Floats]:
        """Return the late samples and their charge, or raise LedgerError."""
        together = report.late is not None and report.late_charge is not None
        _need(together, orders, "late samples and their charge belong together")
        late, charge = np.asarray(report.late), np.asarray(report.late_charge)
        _need(
            late.shape == orders.admitted.shape
            and late.dtype.kind == "i"
            and bool((late >= 0).all()),
            orders,
            "late samples must be whole numbers from 0 on, one per run and client",
        )
        _need(
            charge.shape == (self.runs,) and _no_less_than_zero(charge),
            orders,
            f"late samples for {charge.tolist()}; must be finite and 0 or more",
        )
        return late, charge

    def _spent_on_looks(self, ledger: Ledger, labels: Ints) -> Floats | None:
        """Return the money spent on looks so far.

        `labels` are the labels bought in this round, (R, M).
        """
        if ledger.looks is None:
            return None
        looked = np.where(self._looking(ledger), labels, 0).sum(axis=-1)
        return np.asarray(ledger.looks + self.looks * looked)

    def _check_terms(self, ledger: Ledger) -> None:
        if ledger.terms is not self.terms:
            ledger.terms.check(self.terms, "ledger")

    def _asked(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        """Return the policy's request and memory, or raise SettingError.

        The shapes and values of both must be valid.
        """
        name = type(self.policy).__name__
        where = f"round {view.t}: {name}"
        try:
            answer = self.policy.admit(view, memory)
        except SettingError as error:
            raise SettingError(f"{where}: {error}") from None
        except Exception as error:
            error.add_note(
                f"in round {view.t}, in {name}.admit: arrays of view and memory hold"
                f" all {self.runs} runs"
            )
            raise
        is_pair = isinstance(answer, tuple) and len(answer) == 2
        if not is_pair or not isinstance(answer[0], AdmissionRequest):
            raise SettingError(
                f"{where}.admit must return an AdmissionRequest and the"
                f" memory, returned {_kinds(answer)}"
            )
        request, after = answer
        request = self._checked_request(where, request)
        return request, _checked_memory(where, after, memory)

    def _checked_request(
        self, where: str, request: AdmissionRequest
    ) -> AdmissionRequest:
        """Return the request with its total as floats, or raise SettingError."""
        total = np.asarray(request.total, dtype=np.float64)
        if total.shape != (self.runs,):
            raise SettingError(
                f"{where} asked for an array of {total.shape}; needs one"
                " total for each run"
            )
        if not _no_less_than_zero(total):
            raise SettingError(
                f"{where} asked for {shown(total.tolist())} samples;"
                " must be finite, 0 or more"
            )
        shape = (self.runs, self.system.clients)
        for name in ("room", "given", "free"):
            array = getattr(request, name)
            if array is not None and np.shape(array) != shape:
                raise SettingError(
                    f"{where} asked with `{name}` of shape {np.shape(array)}; needs one"
                    f" number for each of {self.runs} runs and {self.system.clients}"
                    " clients"
                )

        most = MOST_ADMITTED / max(self._whole, 1)
        extra = 0
        for array in (request.given, request.free):
            if array is not None:
                extra += int(array.max(initial=0)) * self.system.clients
        if (total > most).any() or extra > MOST_ADMITTED:
            raise SettingError(
                f"{where} asked for {max(total.max(), extra):g} samples;"
                f" at most {most:,.0f}"
            )
        return request._replace(total=total)

    def _checked_price(self, price: ArrayLike, t: int) -> Floats:
        """Return the price for each run, or for each run and client.

        SettingError is raised if it is not possible.
        """
        prices = np.asarray(price, dtype=np.float64)
        if prices.ndim == 0:
            prices = np.full(self.runs, prices)
        if prices.shape not in ((self.runs,), (self.runs, self.system.clients)):
            raise SettingError(
                f"round {t}: prices of shape {prices.shape}; needs one, one for each of"
                f" {self.runs} runs, or one for each run and each of"
                f" {self.system.clients} clients"
            )
        fine = (prices >= 0) & (prices < np.inf)
        if not fine.all():
            raise SettingError(
                f"round {t}: a price of {prices[~fine][0]}; prices must be finite and"
                " zero or more"
            )
        return prices

    def _losses(self, report: Report, orders: Orders) -> Losses | None:
        """Return the losses of the report that are kept, or raise LedgerError."""
        losses = self.kept(report.losses)
        if losses is None:
            return None
        for array in losses.arrays:
            missing = np.isnan(array)
            possible = missing | ((array >= 0) & (array < np.inf))
            _need(
                array.shape == orders.admitted.shape and bool(possible.all()),
                orders,
                "losses must be one for each run and client, finite and 0 or more, or"
                " not a number",
            )
        return losses

    def kept(self, losses: Losses | None) -> Losses | None:
        """Return the reported losses that the policy and its selection use.

        Parameters
        ----------
        losses : Losses or None
            The reported losses.

        Returns
        -------
        Losses or None
            Those that are used; None if neither the policy nor its selection listens.
        """
        if losses is None or not self.policy.hears:
            return None
        rule = self.policy.selection
        if rule is not None and rule.listens:
            used = losses.arrays
        else:
            used = [losses.new, losses.held]
        return Losses(*(np.asarray(each, dtype=np.float64) for each in used))


def _beside(
    low: float,
    high: float,
    limit: float,
    bought: int,
) -> str:
    """Return how prices compare with a limit, and a remark if nothing was bought below
    it.
    """
    if limit == np.inf:
        return "the money pays for any price so far"
    if low < limit:
        text = f"below the limit of {limit:.3g}"
        if high > limit:
            text = f"limit {limit:.3g}"
        return text if bought else f"{text}, but no money or room is left"
    if low == limit:
        return f"at the limit of {limit:.3g}"
    return f"above the limit of {limit:.3g}"


class _WholeSamples(NamedTuple):
    """A request in whole samples, and what rounding leaves to the next round.

    `asked` is the request after all limits and before rounding, (R,); `admitted` are
    the new samples of each client, of which `free` are not paid for, (R, M); `carry`
    and `credit` are as in `Ledger`.
    """

    asked: Floats
    admitted: Ints
    free: Ints | None
    carry: Floats
    credit: Ints


class _Done(NamedTuple):
    """What clients did in a round: their windows, (R, M), purchases and charge.

    Late samples are included.
    """

    first: Ints
    last: Ints
    bought: Ints
    charge: Floats


def _checked_seeds(seeds: ArrayLike | None, runs: int) -> Ints:
    if seeds is None:
        return np.arange(runs)
    own = np.asarray(seeds)
    if own.shape != (runs,):
        raise SettingError(f"{own.size} seeds for {runs} runs; each needs one")
    return own


def _checked_shares(shares: Ints, clients: int) -> Ints:
    whole = shares.shape == (clients,) and shares.dtype.kind == "i"
    if not whole or np.any(shares < 0) or not shares.any():
        raise SettingError(
            "policy shares must be whole numbers, zero or more, not all zero, one"
            " per client"
        )
    return shares


def _terms(
    system: System,
    policy: AdmissionPolicy,
    runs: int,
) -> Terms:
    checksum = hashlib.sha256(system.buffer.tobytes()).hexdigest()[:8]
    return Terms(
        policy=type(policy).__name__,
        runs=int(runs),
        clients=system.clients,
        budget=float(system.budget),
        horizon=None if system.horizon is None else int(system.horizon),
        buffers=f"{system.buffer.sum()} places ({checksum})",
    )


def _reported(report: Report, orders: Orders) -> Ints:
    """Return the admitted samples that clients report, or raise LedgerError."""
    admitted = np.asarray(report.admitted)
    fits = admitted.shape == orders.admitted.shape and admitted.dtype.kind == "i"
    _need(fits, orders, "the report must hold one whole number per run and client")
    for r, m in np.argwhere((admitted < 0) | (admitted > orders.admitted))[:1]:
        _need(
            False,
            orders,
            f"client {m} reports {admitted[r, m]} admitted samples where"
            f" {orders.admitted[r, m]} were ordered",
        )
    return admitted


def _need(
    fine: bool,
    orders: Orders,
    wanted: str,
) -> None:
    if not fine:
        raise LedgerError(f"round {orders.t}: {wanted}; nothing was posted")


def _no_less_than_zero(values: Floats) -> bool:
    """Return whether all values are finite and zero or more."""
    return bool(((values >= 0) & (values < np.inf)).all())


def _supplied(
    request: AdmissionRequest,
    places: Ints,
    lot: int,
) -> AdmissionRequest:
    """Return the request, limited for each client to the places that can be filled."""
    limited: dict[str, Any] = {}
    room = places
    for name in ("given", "free"):
        extra = getattr(request, name)
        if extra is not None:
            limited[name] = np.minimum(extra, places) // lot * lot
            room = room - limited[name]
    if request.room is not None:
        room = np.minimum(room, request.room)
    return request._replace(
        room=np.maximum(room, 0),
        **limited,
    )


def _smaller(
    room: Ints | None,
    limit: Ints | None,
    shape: tuple[int, ...],
) -> Ints | None:
    """Return the smaller of two limits; None means no limit."""
    if limit is None:
        return room
    if room is None:
        return np.broadcast_to(limit, shape)
    return np.minimum(room, limit)


def _checked_memory(
    where: str,
    memory: object,
    before: Arrays | None = None,
) -> Arrays:
    """Return `memory`, or raise SettingError unless it holds arrays.

    Their names, shapes and types must be those of `before`.
    """
    if not isinstance(memory, Mapping):
        raise SettingError(
            f"{where}: the memory must be a dict of arrays, is {_kinds(memory)}"
        )
    if before is not None and memory.keys() != before.keys():
        raise SettingError(
            f"{where}: the memory has the names {shown(sorted(memory))}, `start` gave"
            f" {shown(sorted(before))}"
        )
    for name, array in memory.items():
        if not isinstance(array, np.ndarray):
            raise SettingError(
                f"{where}: memory[{name!r}] must be an array, is {_kinds(array)}"
            )
        like = array if before is None else before[name]
        if array.shape != like.shape or array.dtype != like.dtype:
            raise SettingError(
                f"{where}: memory[{name!r}] is {array.dtype}{list(array.shape)},"
                f" `start` gave {like.dtype}{list(like.shape)}"
            )
    return memory


def _kinds(answer: object) -> str:
    """Return the types of what was returned, for example "ndarray and dict"."""
    parts = answer if type(answer) is tuple else (answer,)
    return " and ".join(type(each).__name__ for each in parts)
