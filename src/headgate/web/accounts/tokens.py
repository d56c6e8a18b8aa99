"""Tokens: who may do what in which accounts.

A token is 256 random bits. A file beside the accounts holds the SHA-256 of each, with
the name, the accounts and the role that belong to it. The token itself is printed once.
"""

import re
import secrets
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from headgate.books.moments import now
from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.reading import read_object
from headgate.writing import FolderLock, json_bytes, replace_file

FILE = "tokens.json"
ROLES = ("read", "deliver", "run", "amend")
"""what a token allows; each role includes those before it"""
EVERY = "*"
"""in place of the name of accounts: all of them, and new ones"""
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
"""names of accounts and of tokens"""
MOST = 10_000
"""the most tokens"""
MARK = "hg_"
"""what a token begins with, so that it is found where it should not be"""


@dataclass(frozen=True)
class Holder:
    """The holder of a token."""

    name: str
    account: str
    role: str
    made: str
    sha256: str

    def may(self, role: str) -> bool:
        """Return whether the token allows what this role does."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def enters(self, account: str) -> bool:
        """Return whether the token is for these accounts."""
        return self.account in (EVERY, account)


NOBODY = Holder("", "", ROLES[0], "", "")
"""who has no token"""


class Tokens:
    """The tokens in a file, which is read again after it has changed.

    Parameters
    ----------
    path : Path
        The file, or the folder that it is in.
    """

    def __init__(self, path: Path) -> None:
        self.path = path / FILE if path.is_dir() else path
        self._mark: tuple[int, ...] = ()
        self._holders: dict[str, Holder] = {}

    def holders(self) -> dict[str, Holder]:
        """Return who holds a token, by its hash."""
        try:
            found = self.path.stat()
        except OSError:
            return {}
        mark = found.st_mtime_ns, found.st_size, found.st_ino
        if mark != self._mark:
            self._holders = self._read()
            self._mark = mark
        return self._holders

    def _read(self) -> dict[str, Holder]:
        try:
            rows = read_object(self.path)["tokens"]
            found = [Holder(**row) for row in rows]
            return {each.sha256: each for each in found if each.role in ROLES}
        except (KeyError, TypeError, AttributeError):
            raise DataError(f"{self.path}: holds no tokens") from None

    def holder(self, token: str) -> Holder | None:
        """Return the holder of a token; None: nobody."""
        return self.holders().get(hashed(token))

    def make(
        self,
        name: str,
        account: str,
        role: str,
    ) -> str:
        """Make a token, and return it; only its hash is kept."""
        checked_name("name", name)
        if account != EVERY:
            checked_name("account", account)
        if role not in ROLES:
            known = ", ".join(ROLES)
            raise SettingError(f"role = {shown(role)}: must be one of {known}")
        token = MARK + secrets.token_urlsafe(32)
        with self._locked():
            holders = self.holders()
            if any(each.name == name for each in holders.values()):
                raise SettingError(
                    f"name = {name}: has a token already; revoke it, or choose another"
                    " name"
                )
            if len(holders) >= MOST:
                raise SettingError(f"tokens: there are {MOST:,}, the most that can be")
            new = Holder(name, account, role, now(), hashed(token))
            self._write([*holders.values(), new])
        return token

    def revoke(self, name: str) -> None:
        """Make the token with this name worthless, at once."""
        with self._locked():
            holders = self.holders().values()
            kept = [each for each in holders if each.name != name]
            if len(kept) == len(holders):
                raise SettingError(f"name = {shown(name)}: has no token")
            self._write(kept)

    def _write(self, holders: list[Holder]) -> None:
        table: dict[str, Any] = {"tokens": [asdict(each) for each in holders]}
        replace_file(self.path, json_bytes(table))
        self.path.chmod(0o600)

    def _locked(self) -> FolderLock:
        """Return a lock: two commands do not write at once."""
        lock, beside = FolderLock(), self.path.with_suffix(".lock")
        beside.touch(0o600)
        lock.take(beside, beside)
        return lock


def hashed(token: str) -> str:
    """Return the hash under which a token is kept."""
    return sha256(token.encode("utf-8", "backslashreplace")).hexdigest()


def checked_name(setting: str, name: str) -> str:
    """Return a name of accounts or of a token, which may stand in an address."""
    if not NAME.fullmatch(name):
        raise SettingError(
            f"{setting} = {shown(name)}: must be 1 to 63 small letters, digits and"
            " hyphens, the first no hyphen"
        )
    return name
