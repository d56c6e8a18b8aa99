"""How the clients of a run stand, from its ledger: offences, quarantine, and what became of every sample ordered."""

from pathlib import Path
from typing import NamedTuple

from headgate.books.ledger_store import Event, LedgerStore, Ordered
from headgate.books.replay import reserve
from headgate.books.statement import opened
from headgate.errors import SettingError

OFFENCES = ("rejected", "quarantined", "released", "lifted")
"""events that tell how a client came to stand where it does"""


class ClientStanding(NamedTuple):
    """One client of a run. Of all samples ordered, `paid`, `reserved` and `released` are the parts."""

    client: int
    heard: int
    """the round of its last valid answer; 0: none yet"""
    offences: int
    quarantined: bool
    ordered: int
    paid: int
    """admitted, by its answers"""
    reserved: int
    """on open orders"""
    released: int
    """ordered, and not admitted as far as is known"""
    money: float
    """the most that its open orders may cost"""


def standings(folder: Path | str) -> list[ClientStanding]:
    """Every client that was ordered something or offended, by number."""
    with opened(folder) as store:
        return standings_of(store)


def standings_of(store: LedgerStore) -> list[ClientStanding]:
    rows, orders = store.clients(), dict[int, list[Ordered]]()
    for order in store.orders():
        orders.setdefault(order.client, []).append(order)
    corrected = dict[int, int]()
    for order in store.corrections():
        corrected[order.client] = corrected.get(order.client, 0) + (order.admitted or 0)
    found = []
    for client in sorted(rows.keys() | orders.keys()):
        row, own = rows.get(client), orders.get(client, [])
        open_ = [order for order in own if order.admitted is None]
        ordered, reserved = sum(order.ordered for order in own), sum(order.ordered for order in open_)
        paid = sum(order.admitted or 0 for order in own) + corrected.get(client, 0)
        told = (row.heard, row.offences, row.quarantined) if row is not None else (0, 0, False)
        found.append(ClientStanding(client, *told, ordered, paid, reserved, ordered - reserved - paid, reserve(open_)))
    return found


def nodes(folder: Path | str) -> dict[int, int]:
    """Client → the node that was it last."""
    with opened(folder) as store:
        return {node.client: node.node for node in sorted(store.nodes(), key=lambda node: node.since)}


def offences(folder: Path | str) -> list[Event]:
    """What was rejected, who was put into quarantine, which money that released, and what was lifted; oldest first."""
    with opened(folder) as store:
        return [event for event in store.events() if event.kind in OFFENCES]


def lift(folder: Path | str, client: int) -> None:
    """End a client's quarantine, for good and on disk. A server that plays the run takes it up with its next round.

    What the client had admitted on released orders is charged by its next valid answer, at the prices of those orders.
    """
    with opened(folder) as store:
        if not store.lift(client):
            raise SettingError(f"client {client}: is not in quarantine in {folder}")
