"""What can go wrong, in the user's words. Every message names the setting and the value."""

from headgate.escaping import shown


class HeadgateError(Exception):
    """Anything headgate refuses. `exit_code` is what the command line returns for it."""

    exit_code = 1


class SettingError(HeadgateError):
    """A setting, an option or a value handed over has no meaning."""

    exit_code = 2


class InfeasibleError(HeadgateError):
    """Each setting is fine by itself, together they cannot be met."""

    exit_code = 3


class DataError(HeadgateError):
    """A file is missing, unreadable, damaged or ends too early."""

    exit_code = 4


class Interrupted(HeadgateError):
    """Ctrl-C: what became of the work, and how to go on."""

    exit_code = 130

    def __init__(self, what: str, go_on: str = "") -> None:
        super().__init__(f"{what}; {go_on}" if go_on else what)
        self.what = what


class LedgerError(HeadgateError):
    """Orders, reports and ledger do not belong together; nothing was posted."""

    exit_code = 5


def require(fits: bool, name: str, value: object, wanted: str) -> None:
    """Refuse a setting that does not fit."""
    if not fits:
        raise SettingError(f"{name} = {shown(value)}: must be {wanted}")
