"""A service for many accounts: who may come, the accounts, and what it tells."""

from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headgate.errors import SettingError
from headgate.web.accounts.gate import Rates
from headgate.web.accounts.keeper import Keeper, Shelf
from headgate.web.accounts.telling import Counts, account_text
from headgate.web.accounts.tokens import EVERY, ROLES, Tokens

RATE = 100.0
"""requests a second of one token"""
FIRST = "first"
"""name of the token that a new service makes"""


class Service:
    """A service for the accounts of a place.

    Parameters
    ----------
    accounts : str
        The folder with the accounts, and with the tokens if they are not elsewhere, or
        the address of a database.
    tokens : Path, optional
        The file with the tokens.
    rate : float, optional
        Requests a second of one token; 0: any number.
    log : callable, optional
        What takes a line for each request; left out: nothing is written.
    """

    def __init__(
        self,
        accounts: str,
        tokens: Path | None = None,
        rate: float = RATE,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.shelf = Shelf(accounts)
        if tokens is None and not self.shelf.is_folder:
            raise SettingError("--tokens: is needed, as --accounts is no folder")
        self.keeper = Keeper(self.shelf)
        self.tokens = Tokens(tokens or self.shelf.folder)
        self.rates, self.counts, self.log = Rates(rate), Counts(), log

    def first_token(self) -> str | None:
        """Make a token for all accounts, if there is no token yet."""
        if self.tokens.holders():
            return None
        return self.tokens.make(FIRST, EVERY, ROLES[-1])

    async def health(self, request: Request) -> Response:
        """Answer that the service runs."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Answer whether the service takes requests."""
        if self.keeper.stopping:
            return PlainTextResponse("stopping\n", 503)
        return PlainTextResponse("ready\n")

    async def metrics(self) -> str:
        """Return what Prometheus reads of the service."""
        return self.counts.text() + await account_text(self.keeper)
