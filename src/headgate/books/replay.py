"""The ledger from what is on disk: prices, orders and reports, played through the same control again."""

from collections.abc import Iterable

import numpy as np

from headgate.books.ledger_store import LedgerStore, Ordered
from headgate.control.controller import Controller
from headgate.control.supply import EVERYTHING, Supply
from headgate.control.types import Floats, Ledger, Losses, Orders, Report
from headgate.errors import LedgerError


def replay(store: LedgerStore, controller: Controller) -> tuple[Controller, Ledger]:
    """The ledger after the last settled round, and the controller under the terms of that time.

    Refused where what was recorded is not what control makes of it.
    """
    store.check_terms(controller.terms)
    ledger = controller.open()
    learned: dict[int, list[Ordered]] = {}
    sent: dict[int, list[Ordered]] = {}
    orders = store.orders()
    for row in orders:
        sent.setdefault(row.round, []).append(row)
    for row in (*orders, *store.corrections()):
        if row.learned is not None:
            learned.setdefault(row.learned, []).append(row)
    policy = controller.policy
    told = store.losses(3 if policy.selection and policy.selection.listens else 2) if policy.hears else {}
    amendments = store.amendments()
    for past in store.rounds():
        while amendments and amendments[0].round <= ledger.t:
            controller, ledger = controller.amend(ledger, amendments.pop(0).change)
        if past.round != ledger.t + 1:
            raise LedgerError(f"round {ledger.t + 1}: is missing in {store.path}")
        decision = decided(controller, ledger, past.price, past.reserved, past.supply)
        check_orders(decision, sent.get(past.round, []))
        report = report_of(decision, learned.get(past.round, []), told.get(past.round))
        ledger = controller.post(ledger, decision, report)
        for name, live, recorded in (("Z", float(ledger.debt[0]), past.debt), ("spend", float(ledger.spent[0]), past.spent)):
            if live != recorded:
                raise LedgerError(f"round {past.round}: {name} is {live!r} by the replay, {recorded!r} in {store.path}")
    return controller, ledger


def decided(controller: Controller, ledger: Ledger, price: Floats, reserved: float, supply: Supply = EVERYTHING) -> Orders:
    """The orders of the next round of one run at `price`, one number or one for each client."""
    paid = np.asarray(price, np.float64).reshape(1) if np.size(price) == 1 else np.asarray(price, np.float64)[None, :]
    return controller.decide(ledger, paid, np.array([reserved]), supply)


def check_orders(orders: Orders, recorded: Iterable[Ordered]) -> None:
    """Refuse recorded orders that control would not give."""
    for row in recorded:
        wanted = int(orders.admitted[0, row.client])
        if row.ordered != wanted:
            raise LedgerError(
                f"round {orders.t}: client {row.client} was ordered {row.ordered} samples, the replay orders {wanted}"
            )


def report_of(orders: Orders, learned: Iterable[Ordered], losses: Losses | None = None) -> Report:
    """The report of a round: admissions on its own orders, and late ones on earlier orders at the prices of those."""
    admitted, late, charge = np.zeros_like(orders.admitted), np.zeros_like(orders.admitted), 0.0
    for row in sorted(learned, key=lambda row: (row.client, row.round)):  # one order, so one sum
        assert row.admitted is not None
        if row.round == orders.t:
            admitted[0, row.client] = row.admitted
        else:
            late[0, row.client] += row.admitted
            charge += row.charge
    return Report(admitted, late, np.array([charge]), losses) if late.any() else Report(admitted, losses=losses)


def reserve(outstanding: Iterable[Ordered]) -> float:
    """The most that outstanding orders may have cost.

    The orders to a client overlap: each says up to where to admit, so a sample is bought on one of them. At worst each
    was bought on the dearest order that it is part of.

    >>> reserve([Ordered(1, 0, 5, 0, 2.0), Ordered(2, 0, 8, 0, 1.0), Ordered(2, 1, 1, 0, 1.0)])
    14.0
    """
    total, by_client = 0.0, dict[int, list[Ordered]]()
    for row in outstanding:
        by_client.setdefault(row.client, []).append(row)
    for client in sorted(by_client):
        covered = 0
        for row in sorted(by_client[client], key=lambda row: (-row.price, row.round)):
            paid = row.ordered - row.free
            if paid > covered:
                total += row.price * (paid - covered)
                covered = paid
    return total
