"""Where accounts are: a folder, or a name in a PostgreSQL database.

The password of an address is in no error and no text of ours.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from headgate.control.checks import path as checked_path
from headgate.errors import SettingError
from headgate.escaping import shown

SCHEMES = ("postgresql://", "postgres://")
FORM = "postgresql://[USER@]HOST[:PORT]/DATABASE/ACCOUNT"
NAME = re.compile(r"(?!pg_|(public|information_schema)$)[A-Za-z0-9][\w-]{0,62}", re.A)
"""names of accounts, which are those of schemas"""
SECRETS = (
    re.compile(r"(//[^/@:]*:).*(@)"),
    re.compile(r"(password=)[^&]*()", re.IGNORECASE),
)
"""where a password stands in an address, and what is before and after it"""
HIDDEN = "***"


@dataclass(frozen=True)
class Address:
    """The address of accounts in a PostgreSQL database.

    Parameters
    ----------
    text : str
        The address as messages have it, without password.
    account : str
        Name of the accounts, and of their schema.
    settings : dict
        What libpq connects with.
    """

    text: str
    account: str
    settings: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, name: str, value: str) -> Self:
        """Return the address in a text; raise SettingError if it is none."""
        try:
            parts = urlsplit(value)
            settings = _settings(parts)
            database, _, account = parts.path.removeprefix("/").partition("/")
        except ValueError:
            raise _wrong(name, value, f"must be {FORM}") from None
        if not (database and account):
            raise _wrong(name, value, f"must be {FORM}")
        if not NAME.fullmatch(account):
            raise _wrong(
                name,
                value,
                f"the account is {shown(account)}; it must be at most 63 letters,"
                " digits, _ and -, and no schema of PostgreSQL's own",
            )
        settings["dbname"] = unquote(database)
        return cls(_text_of(parts), account, settings)

    def without_password(self, text: object) -> str:
        """Return a text without the password of this address."""
        password = self.settings.get("password")
        return str(text).replace(password, HIDDEN) if password else str(text)


Place = Path | Address
"""where accounts are"""


def place_of(name: str, value: object) -> Place:
    """Return the place of accounts, which is stated as a path or an address."""
    if isinstance(value, Address):
        return value
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(text, str) and text.startswith(SCHEMES):
        return Address.of(name, text)
    return checked_path(name, value)


def _settings(parts: SplitResult) -> dict[str, str]:
    stated: dict[str, Any] = {
        "user": parts.username,
        "password": parts.password,
        "host": parts.hostname,
    }
    settings = {name: unquote(value) for name, value in stated.items() if value}
    if parts.port is not None:
        settings["port"] = str(parts.port)
    return settings | dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))


def _text_of(parts: SplitResult) -> str:
    user = f"{quote(unquote(parts.username))}@" if parts.username else ""
    port = "" if parts.port is None else f":{parts.port}"
    return f"postgresql://{user}{parts.hostname or ''}{port}{parts.path}"


def _wrong(name: str, value: str, why: str) -> SettingError:
    for secret in SECRETS:
        value = secret.sub(rf"\1{HIDDEN}\2", value)
    return SettingError(f"{name} = {shown(value)}: {why}")
