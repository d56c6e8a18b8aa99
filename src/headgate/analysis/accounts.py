"""What the ledger of a run says: what was saved, and which sources ran dry."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from headgate.books.database import LEDGER
from headgate.books.saved import Saved
from headgate.books.statement import opened, statement
from headgate.errors import HeadgateError
from headgate.escaping import one_line
from headgate.limits import TABLE
from headgate.records.reader import RunFolder
from headgate.records.tables import mark_of


class LedgerFacts(NamedTuple):
    """What a page shows of a ledger.

    Parameters
    ----------
    sentence : str
        What was saved, in words, or why it is not known; empty if there is no ledger.
    dry : str
        The clients whose sources ran dry; empty if there are none.
    saved : Saved or None
        The numbers of the sentence.
    """

    sentence: str = ""
    dry: str = ""
    saved: Saved | None = None


def ledger_facts(run: RunFolder) -> LedgerFacts:
    """Return what the ledger of a run says; it is read again after each round."""
    mark = mark_of(run.path / LEDGER)
    if mark is None:
        return LedgerFacts()
    _, _, size = mark
    if size > TABLE:
        return LedgerFacts("The ledger is long: `headgate ledger show` reads it.")
    return _facts(run.path, int(run.state.get("round", 0)))


@lru_cache(maxsize=64)
def _facts(folder: Path, rounds: int) -> LedgerFacts:
    try:
        with opened(folder) as store:
            found = statement(store)
            return LedgerFacts(found.sentence, found.dry, found.saved)
    except HeadgateError as error:
        return LedgerFacts(f"{one_line(error)}.")
