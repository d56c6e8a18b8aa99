"""The errors that headgate raises. Every message names the setting and the value."""

import os
import traceback

from headgate.escaping import one_line, printable, shown

PACKAGE = os.path.join(os.path.dirname(__file__), "")


class HeadgateError(Exception):
    """The base of all errors that headgate raises; `exit_code` is the exit code of the
    command line.

    Examples
    --------
    >>> import headgate
    >>> try:
    ...     headgate.load("digits", "run.ronds=20")
    ... except HeadgateError as error:
    ...     print(error)
    run.ronds: unknown key; did you mean rounds?
    """

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the line of the user, and the message."""
        calls = traceback.extract_tb(self.__traceback__)
        outside = [call for call in calls if not call.filename.startswith(PACKAGE)]
        message = f"{type(self).__name__}: {one_line(self)}"
        if not outside:
            return [message]
        last = outside[-1]
        return [f"line {last.lineno}: {printable(last.line or '')}", message]


class SettingError(HeadgateError):
    """The error for a setting, an option or an argument with an invalid value."""

    exit_code = 2


class InfeasibleError(HeadgateError):
    """The error for settings that are valid one by one but cannot be met together."""

    exit_code = 3


class DataError(HeadgateError):
    """The error for a file that is missing, unreadable, damaged or incomplete."""

    exit_code = 4


class Interrupted(HeadgateError):
    """The error after Ctrl-C; its message states what was kept and how to resume."""

    exit_code = 130

    def __init__(self, what: str, go_on: str = "") -> None:
        super().__init__(f"{what}; {go_on}" if go_on else what)
        self.what = what


class LedgerError(HeadgateError):
    """The error for orders, reports and a ledger that do not match; nothing was
    posted.
    """

    exit_code = 5


def require(
    fits: bool,
    name: str,
    value: object,
    wanted: str,
) -> None:
    """Raise SettingError unless `fits`; the message states the name, the value and what
    is wanted.
    """
    if not fits:
        raise SettingError(f"{name} = {shown(value)}: must be {wanted}")
