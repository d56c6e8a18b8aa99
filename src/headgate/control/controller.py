"""Algorithm 1's server. `decide` is pure; `post` is the only place where time advances."""

import numpy as np

from headgate.control.apportion import apportion, whole_total
from headgate.control.types import AdmissionPolicy, Floats, Ints, Ledger, Orders, Report, System, View, Window
from headgate.errors import LedgerError, SettingError
from headgate.theory.drift import debt_update
from headgate.theory.labels import paper
from headgate.theory.reuse import count_uses


@paper("alg:acdpp", "eq:lambda-def")
class Controller:
    """One policy over `runs` independent runs of the same system."""

    def __init__(self, system: System, policy: AdmissionPolicy, runs: int = 1) -> None:
        if runs < 1:
            raise SettingError(f"runs = {runs}: must be at least 1")
        shares = policy.shares(system)
        if shares.shape != (system.clients,) or shares.dtype.kind != "i" or np.any(shares < 0) or not shares.any():
            raise SettingError("policy shares must be whole numbers, zero or more, not all zero, one per client")
        self.system, self.policy, self.runs, self.shares = system, policy, runs, shares

    def open(self) -> Ledger:
        """The ledger before round 1: Z(1) = 0, nothing admitted."""
        R, M = self.runs, self.system.clients
        zeros, counts, per_client = np.zeros(R), np.zeros(R, dtype=np.int64), np.zeros((R, M), dtype=np.int64)
        return Ledger(
            t=0,
            debt=zeros,
            spent=zeros,
            admitted=per_client,
            dropped=per_client,
            uses=counts,
            squared_uses=counts,
            uses_in_memory=counts,
            carry=zeros,
            credit=per_client,
            retained=self.policy.retention.open(self.system, R),
            memory=self.policy.start(self.system, R),
        )

    def decide(self, ledger: Ledger, cost: Floats) -> Orders:
        """The orders of round ledger.t + 1 at price `cost` (R,), or (R, M) for a price per client. Changes nothing."""
        t, cost = ledger.t + 1, self._checked(cost, ledger.t + 1)
        retention, M = self.policy.retention, self.system.clients
        kept_from = retention.expire(ledger.retained, t, Window(ledger.dropped, ledger.admitted))
        kept_by_client = ledger.admitted - kept_from
        view = View(
            t=t,
            cost=cost,
            debt=ledger.debt,
            spent=ledger.spent,
            kept=kept_by_client.sum(axis=-1),
            distinct=ledger.distinct,
            kept_by_client=kept_by_client,
            system=self.system,
        )
        ask, memory = self.policy.admit(view, ledger.memory)
        if not np.all(np.isfinite(ask.total)) or np.any(ask.total < 0):
            raise SettingError(f"round {t}: {type(self.policy).__name__} asked for {ask.total.tolist()} samples")
        limit = retention.limit(self.system)
        room = ask.room if limit is None or ask.room is None else np.minimum(ask.room, limit)
        if room is None and limit is not None:
            room = np.broadcast_to(limit, (self.runs, M))
        total, carry, asked = whole_total(
            ask.total, ledger.carry, None if room is None else np.where(self.shares > 0, room, 0).sum(axis=-1)
        )
        admitted, credit = apportion(total, ledger.credit, self.shares, room)
        for extra in (ask.given, ask.free):
            admitted = admitted if extra is None else admitted + extra
        last = ledger.admitted + admitted
        first = kept_from if limit is None else np.maximum(kept_from, last - limit)
        return Orders(
            t=t,
            cost=cost,
            asked=asked,
            admitted=admitted,
            free=ask.free,
            first=first,
            last=last,
            carry=carry,
            credit=credit,
            memory=memory,
        )

    def post(self, ledger: Ledger, orders: Orders, report: Report | None = None) -> Ledger:
        """The ledger after the round. Without a report everybody did as ordered; with one, what was
        not admitted is neither charged nor owed later."""
        if orders.t != ledger.t + 1:
            raise LedgerError(f"orders are for round {orders.t}, the ledger stands at round {ledger.t}; nothing was posted")
        admitted = orders.admitted if report is None else self._reported(report, orders)
        retention, held = self.policy.retention, Window(ledger.dropped, ledger.admitted)
        kept_from = retention.expire(ledger.retained, orders.t, held)
        last = ledger.admitted + admitted
        retained, first, uses_gone = retention.settle(ledger.retained, orders.t, held, kept_from, last)
        n = (last - first).sum(axis=-1)
        in_memory = ledger.uses_in_memory - uses_gone + n
        uses, squared = count_uses(ledger.uses, ledger.squared_uses, in_memory, n)
        charge = orders.charge(admitted)
        return Ledger(
            t=orders.t,
            debt=debt_update(ledger.debt, charge, self.system.budget),
            spent=ledger.spent + charge,
            admitted=last,
            dropped=first,
            uses=uses,
            squared_uses=squared,
            uses_in_memory=in_memory,
            carry=orders.carry,
            credit=orders.credit,
            retained=retained,
            memory=orders.memory,
        )

    def _checked(self, cost: Floats, t: int) -> Floats:
        cost = np.asarray(cost, dtype=np.float64)
        if cost.shape not in ((self.runs,), (self.runs, self.system.clients)):
            raise SettingError(f"round {t}: {cost.shape} prices for {self.runs} runs and {self.system.clients} clients")
        if not np.all(np.isfinite(cost)) or np.any(cost < 0):
            bad = cost[~(np.isfinite(cost) & (cost >= 0))].flat[0]
            raise SettingError(f"round {t}: a price of {bad}; prices must be finite and zero or more")
        return cost

    def _reported(self, report: Report, orders: Orders) -> Ints:
        admitted = np.asarray(report.admitted)
        if admitted.shape != orders.admitted.shape or admitted.dtype.kind != "i":
            raise LedgerError(f"round {orders.t}: the report must hold one whole number per run and client; nothing was posted")
        if np.any(admitted < 0) or np.any(admitted > orders.admitted):
            r, m = np.argwhere((admitted < 0) | (admitted > orders.admitted))[0]
            raise LedgerError(
                f"round {orders.t}: client {m} reports {admitted[r, m]} admitted samples "
                f"where {orders.admitted[r, m]} were ordered; nothing was posted"
            )
        return admitted
