"""An instant: an aware UTC datetime in Python, UNIX seconds as text at the Redis edge.

Text, because a float that passes through Lua or JSON loses digits; six decimals, because that is the
resolution of :class:`datetime.datetime` and of the Redis server's clock.
"""

import math
from datetime import datetime, timedelta, timezone

__all__ = ("EPOCH", "FAR_FUTURE", "FAR_PAST", "MAX_SECONDS", "from_iso", "from_unix", "to_unix")

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: The latest instant that is planned; a later one (a score of ``+inf``) is read as this.
FAR_FUTURE = datetime(9999, 1, 1, tzinfo=timezone.utc)

#: The earliest instant that is read; one before it has no date in some zones.
FAR_PAST = datetime(2, 1, 1, tzinfo=timezone.utc)

#: The longest duration that is accepted, 1000 years: a datetime cannot hold an instant much further from now.
MAX_SECONDS = 365_242 * 86_400

_MICROSECOND = timedelta(microseconds=1)
_FAR_FUTURE_SECONDS = (FAR_FUTURE - EPOCH).total_seconds()
_FAR_PAST_SECONDS = (FAR_PAST - EPOCH).total_seconds()


def to_unix(instant: datetime) -> str:
    """Return UNIX seconds with six decimals; an instant before 1970 becomes the first microsecond of 1970.

    As a score, a negative number means "dormant", and zero "now".
    """
    since = max(instant - EPOCH, _MICROSECOND)
    return f"{since.days * 86_400 + since.seconds}.{since.microseconds:06d}"


def from_unix(seconds: str | float) -> datetime:
    """Return the instant of that many UNIX seconds, exact to the microsecond.

    Raises:
        ValueError: they are no number.
    """
    value = float(seconds)
    if value >= _FAR_FUTURE_SECONDS:
        return FAR_FUTURE
    if value <= _FAR_PAST_SECONDS:
        return FAR_PAST
    whole = math.floor(value)  # separate: from 2106 on, microseconds in one product have more digits than a float
    return EPOCH + timedelta(seconds=whole, microseconds=round((value - whole) * 1_000_000))


def from_iso(text: object) -> datetime | None:
    """Return the instant of a text in ISO 8601 with an offset, which anybody may have written; None: it is none."""
    try:
        moment = datetime.fromisoformat(str(text))
        instant = moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    return instant if moment.tzinfo is not None and FAR_PAST <= instant <= FAR_FUTURE else None
