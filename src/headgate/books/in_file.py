"""The tables of the accounts in a SQLite file of a folder."""

from pathlib import Path

from headgate.books.anchor import Anchor
from headgate.books.database import FORMAT, LEDGER, OLD, SCHEMA, OldFormatError, Tables
from headgate.books.durable import Durable, statements
from headgate.writing import FolderLock, clear_partial


class FileTables(Durable, Tables):
    """The tables of one account in one file.

    Parameters
    ----------
    path : Path or str
        The file. Beside it stands a small file that tells how far the accounts have
        come.
    writes : bool
        As for `Durable`.
    """

    format = FORMAT
    schema = statements(SCHEMA)

    def __init__(self, path: Path | str, writes: bool = True) -> None:
        path = Path(path)
        self._lock = FolderLock()
        self._has_anchor = path.name == LEDGER  # a backup has none
        # read first: the ledger may go on meanwhile
        self.anchor = Anchor.of(path.parent) if self._has_anchor else None
        if self.anchor is not None and not path.exists():
            raise self.anchor.missing(path, "missing")
        super().__init__(path, writes)

    def _check_new(self) -> None:
        if self.anchor is not None:
            raise self.anchor.missing(self.path, "empty")

    def _check_kind(self) -> None:
        if str(self.meta("format")).startswith(OLD):
            raise OldFormatError(
                f"{self.path}: is of format 3; `headgate ledger upgrade"
                f" {self.path.parent}` makes one of format 4 of it, and keeps a copy"
            )
        super()._check_kind()

    def _opened(self) -> None:
        self.check()
        self.account = str(self.meta("account") or "")

    def _take_lead(self) -> None:
        folder = self.path.parent
        self._lock.take(folder, folder)
        clear_partial(folder)

    def _give_lead(self) -> None:
        self._lock.close()
        self._lock = FolderLock()

    def close(self) -> None:
        super().close()
        self._lock.close()

    def check_anchor(self, begun: int, settled: int, amendments: int) -> None:
        if self.anchor is not None:
            found = Anchor(self.account, begun, settled, amendments)
            self.anchor.check(self.path, found)

    def write_anchor(self, begun: int, settled: int, amendments: int) -> None:
        if self._has_anchor:
            anchor = Anchor(self.account, begun, settled, amendments)
            anchor.write(self.path.parent)

    def close_log(self) -> None:
        """Leave all content in the one file, with no log beside it."""
        self._run("PRAGMA journal_mode = DELETE")
