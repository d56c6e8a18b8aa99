"""The server of Algorithm 1. `decide` changes nothing; only `post` advances to the next
round.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from headgate.control.amendments import Amendment, amended, carried_over
from headgate.control.apportion import apportion, whole_total
from headgate.control.buffers import Buffers
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
def debt_update(debt: ArrayLike, spend: ArrayLike, budget: ArrayLike) -> Floats:
    """Return Z(t+1) = [Z(t) + C_t − C]^+, the cost debt after a round with spend C_t.

    >>> debt_update([0.0, 10.0], [30.0, 70.0], 55.0).tolist()
    [0.0, 25.0]
    """
    return np.asarray(
        np.maximum(np.asarray(debt) + np.asarray(spend) - np.asarray(budget), 0.0)
    )


@paper("alg:acdpp", "eq:lambda-def")
class Controller:
    """Control one policy over `runs` independent runs of the same system.

    Retention rules that draw at random use the runs' `seeds` (default: 0 to runs − 1).
    `looks` is the part of each label's price that pays for looking at samples before
    the purchase; the ledger records it separately.

    >>> from headgate.control.policies import Headgate
    >>> controller = Controller(System([8, 9, 10], budget=20.0, horizon=100), Headgate())
    >>> ledger = controller.open()
    >>> orders = controller.decide(ledger, 3.0)
    >>> orders.admitted.tolist(), float(controller.post(ledger, orders).spent[0])
    ([[8, 9, 10]], 81.0)
    """

    def __init__(
        self,
        system: System,
        policy: AdmissionPolicy,
        runs: int = 1,
        seeds: Ints | None = None,
        *,
        looks: float = 0.0,
    ) -> None:
        check_is_policy(policy)
        require(runs >= 1, "runs", runs, "at least 1")
        seeds = np.arange(runs) if seeds is None else np.asarray(seeds)
        if seeds.shape != (runs,):
            raise SettingError(f"{seeds.size} seeds for {runs} runs; each needs one")
        shares = policy.shares(system)
        if (
            shares.shape != (system.clients,)
            or shares.dtype.kind != "i"
            or np.any(shares < 0)
            or not shares.any()
        ):
            raise SettingError(
                "policy shares must be whole numbers, zero or more, not all zero, one"
                " per client"
            )
        self.system, self.policy, self.runs, self.shares = system, policy, runs, shares
        self.looks = looks
        buffers = (
            f"{system.buffer.sum()} places"
            f" ({hashlib.sha256(system.buffer.tobytes()).hexdigest()[:8]})"
        )
        end = None if system.horizon is None else int(system.horizon)
        self.terms = Terms(
            type(policy).__name__,
            int(runs),
            system.clients,
            float(system.budget),
            end,
            buffers,
        )
        self._whole = int(shares.sum())
        if not callable(policy.retention):
            raise SettingError(
                f"{type(policy).__name__}.retention: must be a method, retention(self,"
                " system)"
            )
        self.buffers = Buffers(policy.retention(system), system, runs, seeds)

    def open(self) -> Ledger:
        """Return the ledger before round 1, with Z(1) = 0 and nothing admitted."""
        R, M = self.runs, self.system.clients
        zeros, counts, per_client = (
            np.zeros(R),
            np.zeros(R, dtype=np.int64),
            np.zeros((R, M), dtype=np.int64),
        )
        return Ledger(
            t=0,
            debt=zeros,
            spent=zeros,
            admitted=per_client,
            dropped=per_client,
            unused=counts,
            uses=counts,
            squared_uses=counts,
            uses_in_memory=counts,
            carry=zeros,
            credit=per_client,
            contents=self.buffers.open(),
            memory={
                **_checked_memory(
                    f"{type(self.policy).__name__}.start",
                    self.policy.start(self.system, R),
                ),
                **(self.policy.selection.start(R) if self.policy.selection else {}),
            },
            terms=self.terms,
            looks=zeros if self.looks else None,
        )

    def decide(
        self,
        ledger: Ledger,
        price: ArrayLike,
        reserved: Floats | None = None,
        supply: Supply = EVERYTHING,
        *,
        present: ArrayLike | None = None,
        most: ArrayLike | None = None,
    ) -> Orders:
        """Return the orders of the next round. This method changes nothing.

        Parameters
        ----------
        ledger : Ledger
            The ledger after the previous round.
        price : array_like
            The price of a sample: one number, one for each run, (R,), or one for each
            run and client, (R, M).
        reserved : array, optional
            The most that unanswered orders of earlier rounds may cost, (R,); the policy
            treats it as spent. If answers may come late, it must include
            `purse.kept_back`.
        supply : Supply, optional
            The clients that are present and the samples that can be bought in this
            round. The policy sees only the places that can be filled, so the samples of
            an absent client go to the others.
        present, most : array_like, optional
            Values that replace the fields of `supply` with the same names.

        Returns
        -------
        Orders
            What each client must admit and which samples it must hold.
        """
        self._check_terms(ledger)
        t, price = ledger.t + 1, self._checked(price, ledger.t + 1)
        if present is not None or most is not None:
            supply = supply._replace(present=present, most=most)
        usual = supply is EVERYTHING and self.system.amended is None
        open_ = None if usual else supply.places(self.system, self.buffers.limit, t)
        kept_from = self.buffers.kept_from(ledger, t)
        chosen_by = (
            {} if self.policy.selection is None else self.policy.selection.heard(ledger)
        )
        if (
            open_ is not None and not open_.any()
        ):  # nothing can be bought, so the policy is not called
            zero, none, last = (
                np.zeros(self.runs),
                np.zeros_like(ledger.credit),
                ledger.admitted,
            )
            heard = {**ledger.memory, **chosen_by}
            return Orders(
                t,
                price,
                zero,
                none,
                None,
                kept_from,
                last,
                ledger.carry,
                ledger.credit,
                heard,
            )
        left_none = kept_from is ledger.dropped
        kept_by_client = ledger.occupancy if left_none else ledger.admitted - kept_from
        view = View(
            t=t,
            price=price,
            debt=ledger.debt,
            spent=ledger.spent if reserved is None else ledger.spent + reserved,
            kept=ledger.held if left_none else kept_by_client.sum(axis=-1),
            distinct=ledger.distinct,
            kept_by_client=kept_by_client,
            system=self.system if open_ is None else self.system.within(open_),
            unused=ledger.unused,
            losses=ledger.losses,
            lot=supply.lot,
            money=supply.money,
        )
        own = {
            name: array
            for name, array in ledger.memory.items()
            if name not in chosen_by
        }
        ask, memory = self._asked(view, own)
        if self._first is not None:
            self._first._asked(
                view.of_first_run(), {name: array[:1] for name, array in own.items()}
            )
        limit, shares, lot = self.buffers.limit, self.shares, supply.lot
        if open_ is not None:
            ask, limit, shares = (
                _supplied(ask, open_, lot),
                open_,
                np.where(open_ > 0, shares, 0),
            )
        room, fits = ask.room, None
        if limit is not None:
            room = (
                np.broadcast_to(limit, ledger.credit.shape)
                if room is None
                else np.minimum(room, limit)
            )
        if room is not None:
            fits = np.where(shares > 0, room, 0).sum(axis=-1)
        total, carry, asked = whole_total(ask.total, ledger.carry, fits, lot)
        room = (
            room if room is None or lot == 1 else room // lot
        )  # a lot counts as one sample of as many shares
        lots, credit = apportion(
            total // lot, ledger.credit, shares * lot, room, self._whole * lot
        )
        admitted = lots * lot
        for extra in (ask.given, ask.free):
            admitted = admitted if extra is None else admitted + extra
        nothing = ask.given is None and ask.free is None and not total.any()
        last = ledger.admitted if nothing else ledger.admitted + admitted
        first = kept_from if nothing else self.buffers.first(kept_from, last)
        return Orders(
            t=t,
            price=self._paid(ledger, price) if self.looks else price,
            asked=asked,
            admitted=admitted,
            free=ask.free,
            first=first,
            last=last,
            carry=carry,
            credit=credit,
            memory={**memory, **chosen_by},
        )

    def _looking(self, ledger: Ledger) -> Bools:
        """Return which clients look in the next round, (R, M)."""
        rule = self.policy.selection
        return (
            np.ones(ledger.admitted.shape, dtype=bool)
            if rule is None
            else rule.looking(ledger)
        )

    def _paid(self, ledger: Ledger, price: Floats) -> Floats:
        """Return the price of the next round, without the price of looks for clients
        that do not look. The policy decides by the full price, so what it learns about
        prices does not depend on who looks, and it never overspends."""
        if (looking := self._looking(ledger)).all():
            return price
        saved = np.where(looking, 0.0, self.looks)
        if price.ndim == 1 and (saved == saved[:, :1]).all():
            return price - saved[:, 0]
        return (price if price.ndim == 2 else price[:, None]) - saved

    def amend(
        self, ledger: Ledger, amendment: Amendment
    ) -> "tuple[Controller, Ledger]":
        """Return a controller and a ledger for the rounds that follow, under amended
        terms.

        Parameters
        ----------
        ledger : Ledger
            The ledger after the last settled round.
        amendment : Amendment
            The change: money, horizon, clients or a corrected invoice.

        Returns
        -------
        controller, ledger : tuple of Controller and Ledger
            Both replace the previous ones.
        """
        self._check_terms(ledger)
        system = amended(self.system, amendment, ledger.t, float(ledger.spent.mean()))
        after = Controller(
            system, self.policy, self.runs, self.buffers.seeds, looks=self.looks
        )
        if amendment.leave is not None:
            contents, uses = self.buffers.erased(ledger, amendment.leave)
            dropped = ledger.dropped.copy()
            dropped[:, amendment.leave] = ledger.admitted[:, amendment.leave]
            ledger = replace(
                ledger,
                contents=contents,
                dropped=dropped,
                uses_in_memory=ledger.uses_in_memory - uses,
            )
        return after, carried_over(ledger, amendment, after.open(), after.terms)

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
            What clients admitted; if omitted, all clients followed their orders.
            Samples that were not admitted are neither charged nor owed later. Late
            samples count from this round on, because the server did not know of them
            before.
        samples : SampleView, optional
            Classes and scores of the samples, for retention rules that need them.
        """
        self._check_terms(ledger)
        if orders.t != ledger.t + 1:
            raise LedgerError(
                f"orders are for round {orders.t}, the ledger stands at round"
                f" {ledger.t}; nothing was posted"
            )
        admitted = orders.admitted if report is None else self._reported(report, orders)
        late, late_charge = (
            (None, None) if report is None else self._late(report, orders)
        )
        if report is None:
            first, last = orders.first, orders.last
        else:
            last = (
                ledger.admitted + admitted
                if late is None
                else ledger.admitted + late + admitted
            )
            first = self.buffers.first(self.buffers.kept_from(ledger, orders.t), last)
        contents, unused, uses_gone = self.buffers.settle(
            ledger, orders.t, first, last, samples
        )
        n = last.sum(axis=-1) - first.sum(axis=-1)
        in_memory = ledger.uses_in_memory - uses_gone + n
        uses, squared = count_uses(ledger.uses, ledger.squared_uses, in_memory, n)
        charge = (
            orders.charge(admitted)
            if late_charge is None
            else orders.charge(admitted) + late_charge
        )
        return Ledger(
            t=orders.t,
            debt=debt_update(ledger.debt, charge, self.system.budget),
            spent=ledger.spent + charge,
            admitted=last,
            dropped=first,
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
            looks=(
                None
                if ledger.looks is None
                else self._looks(ledger.looks, ledger, orders, admitted, late)
            ),
        )

    def _check_terms(self, ledger: Ledger) -> None:
        if ledger.terms is not self.terms:
            ledger.terms.check(self.terms, "ledger")

    def _looks(
        self,
        before: Floats,
        ledger: Ledger,
        orders: Orders,
        admitted: Ints,
        late: Ints | None,
    ) -> Floats:
        """Return the money spent on looks so far, including the looks for late
        samples.
        """
        labels = (
            orders.bought(admitted) if late is None else orders.bought(admitted) + late
        )
        return np.asarray(
            before
            + self.looks * np.where(self._looking(ledger), labels, 0).sum(axis=-1)
        )

    @cached_property
    def _first(self) -> "Controller | None":
        """A controller of run 0 alone, if there are as many runs as clients, else None.
        Its different shapes reveal a policy that returns a number for each client
        instead of each run."""
        if self.runs == 1 or self.runs != self.system.clients:
            return None
        return Controller(self.system, self.policy, 1, self.buffers.seeds[:1])

    def _asked(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        """Return the policy's request and memory, or raise SettingError if their shapes
        or values are invalid.
        """
        name = type(self.policy).__name__
        try:
            answer = self.policy.admit(view, memory)
        except SettingError as error:
            raise SettingError(f"round {view.t}: {name}: {error}") from None
        except Exception as error:
            error.add_note(
                f"in round {view.t}, in {name}.admit: arrays of view and memory hold"
                f" all {self.runs} runs"
            )
            raise
        if not (
            isinstance(answer, tuple)
            and len(answer) == 2
            and isinstance(answer[0], AdmissionRequest)
        ):
            raise SettingError(
                f"round {view.t}: {name}.admit must return an AdmissionRequest and the"
                f" memory, returned {_kinds(answer)}"
            )
        ask, after = answer
        total = np.asarray(ask.total, dtype=np.float64)
        if total.shape != (self.runs,):
            raise SettingError(
                f"round {view.t}: {name} asked for an array of {total.shape}; needs one"
                " total for each run"
            )
        if not ((total >= 0) & (total < np.inf)).all():
            raise SettingError(
                f"round {view.t}: {name} asked for {shown(total.tolist())} samples;"
                " must be finite, 0 or more"
            )
        for key in ("room", "given", "free"):
            each = getattr(ask, key)
            if each is not None and np.shape(each) != (self.runs, self.system.clients):
                needed = (
                    f"one number for each of {self.runs} runs and {self.system.clients}"
                    " clients"
                )
                raise SettingError(
                    f"round {view.t}: {name} asked with `{key}` of shape"
                    f" {np.shape(each)}; needs {needed}"
                )
        most = MOST_ADMITTED / max(self._whole, 1)
        extra = sum(
            int(each.max(initial=0)) * self.system.clients
            for each in (ask.given, ask.free)
            if each is not None
        )
        if (total > most).any() or extra > MOST_ADMITTED:
            raise SettingError(
                f"round {view.t}: {name} asked for {max(total.max(), extra):g} samples;"
                f" at most {most:,.0f}"
            )
        return ask._replace(total=total), _checked_memory(
            f"round {view.t}: {name}", after, memory
        )

    def _checked(self, price: ArrayLike, t: int) -> Floats:
        price = np.asarray(price, dtype=np.float64)
        if price.ndim == 0:  # one price for all runs
            price = np.full(self.runs, price)
        if price.shape not in ((self.runs,), (self.runs, self.system.clients)):
            each = (
                f"one for each of {self.runs} runs, or one for each run and each of"
                f" {self.system.clients} clients"
            )
            raise SettingError(
                f"round {t}: prices of shape {price.shape}; needs one, {each}"
            )
        fine = (price >= 0) & (price < np.inf)
        if not fine.all():
            raise SettingError(
                f"round {t}: a price of {price[~fine][0]}; prices must be finite and"
                " zero or more"
            )
        return price

    def _reported(self, report: Report, orders: Orders) -> Ints:
        admitted = np.asarray(report.admitted)
        fits = admitted.shape == orders.admitted.shape and admitted.dtype.kind == "i"
        _need(fits, orders, "the report must hold one whole number per run and client")
        for r, m in np.argwhere((admitted < 0) | (admitted > orders.admitted))[:1]:
            reported, ordered = admitted[r, m], orders.admitted[r, m]
            _need(
                False,
                orders,
                f"client {m} reports {reported} admitted samples where {ordered} were"
                " ordered",
            )
        return admitted

    def _losses(self, report: Report, orders: Orders) -> Losses | None:
        losses = self.kept(report.losses)
        for each in () if losses is None else losses.arrays:
            fine = each.shape == orders.admitted.shape and bool(
                (np.isnan(each) | ((each >= 0) & (each < np.inf))).all()
            )
            _need(
                fine,
                orders,
                "losses must be one for each run and client, finite and 0 or more, or"
                " not a number",
            )
        return losses

    def kept(self, losses: Losses | None) -> Losses | None:
        """Return the reported losses that the policy and its selection use, or None if
        neither listens.
        """
        if losses is None or not self.policy.hears:
            return None
        rule = self.policy.selection
        used = losses.arrays if rule is not None and rule.listens else losses[:2]
        return Losses(*(np.asarray(each, dtype=np.float64) for each in used))

    def _late(
        self, report: Report, orders: Orders
    ) -> tuple[Ints | None, Floats | None]:
        if report.late is None and report.late_charge is None:
            return None, None
        together = report.late is not None and report.late_charge is not None
        _need(together, orders, "late samples and their charge belong together")
        late, charge = np.asarray(report.late), np.asarray(report.late_charge)
        fine = (
            late.shape == orders.admitted.shape
            and late.dtype.kind == "i"
            and bool((late >= 0).all())
        )
        _need(
            fine,
            orders,
            "late samples must be whole numbers from 0 on, one per run and client",
        )
        fine = charge.shape == (self.runs,) and bool(
            ((charge >= 0) & (charge < np.inf)).all()
        )
        _need(
            fine,
            orders,
            f"late samples for {charge.tolist()}; must be finite and 0 or more",
        )
        return late, charge


def _need(fine: bool, orders: Orders, wanted: str) -> None:
    if not fine:
        raise LedgerError(f"round {orders.t}: {wanted}; nothing was posted")


def _supplied(ask: AdmissionRequest, open_: Ints, lot: int) -> AdmissionRequest:
    """Return the request, limited for each client to the places that can be filled."""
    given, free = (
        None if each is None else np.minimum(each, open_) // lot * lot
        for each in (ask.given, ask.free)
    )
    room = (
        open_
        if given is None and free is None
        else open_ - sum(each for each in (given, free) if each is not None)
    )
    return ask._replace(
        given=given,
        free=free,
        room=np.minimum(room, open_ if ask.room is None else ask.room).clip(0),
    )


def _checked_memory(where: str, memory: object, before: Arrays | None = None) -> Arrays:
    """Return `memory`, or raise SettingError unless it holds arrays with the names,
    shapes and types of `before`.
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
            given = f"{like.dtype}{list(like.shape)}"
            raise SettingError(
                f"{where}: memory[{name!r}] is {array.dtype}{list(array.shape)},"
                f" `start` gave {given}"
            )
    return memory


def _kinds(answer: object) -> str:
    """Return the names of the types of what was returned, for example "ndarray and
    dict".
    """
    return " and ".join(
        type(each).__name__ for each in (answer if type(answer) is tuple else (answer,))
    )
