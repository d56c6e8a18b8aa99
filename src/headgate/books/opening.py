"""The tables of accounts, wherever they are."""

from pathlib import Path

from headgate.books.addresses import Address, Place
from headgate.books.anchor import Anchor
from headgate.books.database import LEDGER, Tables
from headgate.books.in_file import FileTables
from headgate.errors import DataError, SettingError


def tables_at(place: Place, writes: bool = True, new: bool = False) -> Tables:
    """Open the tables of accounts.

    Parameters
    ----------
    place : Path or Address
        A folder, the file in it, or an address in PostgreSQL.
    writes : bool
        Whether anything may be written.
    new : bool
        Whether the accounts may begin.
    """
    if isinstance(place, Address):
        return _served(place, writes, new)
    return FileTables(file_of(place, new), writes)


def file_of(place: Path, new: bool = False) -> Path:
    """Return the file of the accounts in a folder, or that file itself; raise DataError
    if there is none and they may not begin.
    """
    if new:
        return place / LEDGER
    path = place if place.is_file() else place / LEDGER
    if not path.is_file() and Anchor.of(path.parent) is None:
        raise DataError(
            f"{place}: holds no {LEDGER}; a folder of headgate.Books or of a run on"
            " Flower does"
        )
    return path


def _served(address: Address, writes: bool, new: bool) -> Tables:
    try:
        from headgate.books.in_postgres import ServedTables
    except ImportError as error:
        raise SettingError(
            f"{address}: needs {error.name}, as in pip install 'headgate[postgres]'"
        ) from None
    return ServedTables(address, writes, new)
