"""An instant: an aware UTC datetime in Python, UNIX seconds as text at the Redis edge.

Text, because a float that passes through Lua or JSON loses digits; six decimals, because that is the
resolution of :class:`datetime.datetime` and of the Redis server's clock.
"""

import math
from datetime import datetime, timedelta, timezone

__all__ = ("EPOCH", "FAR_FUTURE", "MOST_SECONDS", "from_unix", "to_unix")

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: The latest instant we plan with; what lies beyond (a score of ``+inf``) is read as this.
FAR_FUTURE = datetime(9999, 1, 1, tzinfo=timezone.utc)

#: The longest time that we plan with, 1000 years: what lies further from now no calendar here can hold.
MOST_SECONDS = 365_242 * 86_400

_MICROSECOND = timedelta(microseconds=1)
_FAR_FUTURE_SECONDS = (FAR_FUTURE - EPOCH).total_seconds()


def to_unix(instant: datetime) -> str:
    """UNIX seconds with six decimals; an instant before 1970 becomes the first one after it.

    A negative score would mean "dormant", and zero "now".
    """
    since = max(instant - EPOCH, _MICROSECOND)
    return f"{since.days * 86_400 + since.seconds}.{since.microseconds:06d}"


def from_unix(seconds: str | float) -> datetime:
    """The instant of that many UNIX seconds, exact to the microsecond."""
    value = float(seconds)
    if value >= _FAR_FUTURE_SECONDS:
        return FAR_FUTURE
    whole = math.floor(value)  # apart, because the product would need more digits than a float has, from 2106 on
    return EPOCH + timedelta(seconds=whole, microseconds=round((value - whole) * 1_000_000))
