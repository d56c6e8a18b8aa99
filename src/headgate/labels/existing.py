"""A gate's file beside accounts that exist: the accounts keep the terms with which they
were opened, and amendments change them.
"""

from collections.abc import Collection
from pathlib import Path

from headgate.books.database import LEDGER
from headgate.books.state import system_of, system_table
from headgate.books.statement import opened
from headgate.control.types import System
from headgate.errors import SettingError
from headgate.escaping import shown
from headgate.labels.settings import GateSettings

NAMES = {
    "budget": "money.budget",
    "horizon": "money.rounds",
    "currency": "money.currency",
    "quantum": "money.quantum",
    "buffer": "places of the clients",
    "weight": "weights of the clients",
}
"""what a gate's file calls the terms of a system"""


def opening_system(settings: GateSettings) -> System:
    """Return the terms with which the accounts are, or were, opened.

    Raises
    ------
    SettingError
        If the file states other terms than the accounts were opened with.
    """
    folder = Path(settings.accounts)
    if not (folder / LEDGER).exists():
        return settings.system(settings.clients)
    with opened(folder) as accounts:
        known = system_of(accounts.state.opening["system"])
        names = accounts.state.system_ahead().names or ()
    check_clients(settings, names)
    stated = system_table(settings.system(known.names or ()))
    before = system_table(known)
    for name, called in NAMES.items():
        if stated.get(name) != before.get(name):
            raise SettingError(
                f"{called} = {shown(stated.get(name))}: the accounts were opened with"
                f" {shown(before.get(name))}, which the file keeps; headgate ledger"
                f" amend {folder} changes it from the next round on"
            )
    return known


def check_clients(settings: GateSettings, names: Collection[str]) -> None:
    """Raise SettingError unless the file has the clients of the accounts."""
    folder = settings.accounts
    for name in names:
        if name not in settings.clients:
            raise SettingError(
                f"clients: {name} is missing; a client of the accounts stays in the"
                f" file, also after headgate ledger amend {folder} --leave {name}"
            )
    for name, client in settings.clients.items():
        if name not in names:
            raise SettingError(
                f"clients.{name}: is not in the accounts; it joins with headgate ledger"
                f" amend {folder} --join {client.places} --name {name}"
            )
