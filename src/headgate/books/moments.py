"""Times of the accounts: in UTC, as ISO text."""

from datetime import UTC, date, datetime

from headgate.errors import SettingError
from headgate.escaping import shown


def now() -> str:
    """Return the present time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def moment(name: str, when: object) -> str:
    """Return a date, or a date and time, as its time in UTC; raise SettingError if it
    is none.

    >>> moment("begin: when", "2026-11-18")
    '2026-11-18T00:00:00+00:00'
    >>> moment("begin: when", "2026-11-30T23:00:00-12:00")
    '2026-12-01T11:00:00+00:00'
    """
    try:
        text = when.isoformat() if isinstance(when, date) else when
        # other types raise TypeError
        found = datetime.fromisoformat(text)  # type: ignore[arg-type]
        utc = (
            found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        )
    except (TypeError, ValueError, OverflowError):
        raise SettingError(
            f"{name} = {shown(when)}: must be an ISO date, as in 2026-11-18, or date"
            " and time"
        ) from None
    return utc.isoformat(timespec="seconds")


def month_of(time: str) -> str:
    """Return year and month of a time in UTC; empty for a text of an older version that
    is no date.

    >>> month_of("2026-11-18T09:00:00+00:00"), month_of("tomorrow")
    ('2026-11', '')
    """
    try:
        return moment("begun", time)[:7]
    except SettingError:
        return ""


def months_between(earlier: str, later: str) -> int:
    """Return how many months a time or a month is after another one.

    >>> months_between("2026-11", "2027-01-15T00:00:00+00:00")
    2
    """
    (year, month), (other, another) = (
        (int(text[:4]), int(text[5:7])) for text in (earlier, later)
    )
    return 12 * (other - year) + another - month
