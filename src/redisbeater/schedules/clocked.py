"""``clocked``: a schedule that fires once, at a given time."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Any

from celery.schedules import BaseSchedule, schedstate

from redisbeater.schedules.datetime_codec import read_zone
from redisbeater.schedules.local_time import in_zone

__all__ = ("clocked",)


class clocked(BaseSchedule):
    """Fire once, at ``at``.

    Arguments:
        at: when to fire; naive means local time. If the clock skips that time, the offset before the gap counts; if
            the clock shows it twice, the first time counts.
        timezone: IANA name of the zone of a naive ``at``; default: the entry's. An aware ``at`` is converted to it.

    Raises:
        TypeError: ``at`` is not a datetime.
        InvalidEntry: there is no such zone (also a ValueError).

    Example::

        clocked(datetime(2027, 1, 1, 9, 0), timezone="Europe/Vienna")
    """

    def __init__(self, at: datetime, timezone: str | None = None, **kwargs: Any) -> None:
        if not isinstance(at, datetime):
            raise TypeError(f"clocked(at): expected a datetime, got {at!r}")
        super().__init__(**kwargs)
        self.at = at if timezone is None else _in_timezone(at, read_zone(timezone, "$.timezone"))

    def fire_time(self, zone: tzinfo) -> datetime:
        """Return the instant of ``at``; a naive one is local time in the zone."""
        return in_zone(self.at, zone)

    def nominal_time(self, fire_time: datetime, zone: tzinfo) -> datetime | None:
        """Return ``at`` without its zone if that instant is its fire time; else None.

        It differs from what a clock in the zone shows at the instant only when the clock skips it.
        """
        return self.at.replace(tzinfo=None) if fire_time == self.fire_time(zone) else None

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Return the time until ``at``, for Celery."""
        return self.fire_time(self.tz) - self.maybe_make_aware(self.now())

    def is_due(self, last_run_at: datetime) -> tuple[bool, Any]:
        """Return whether it is due and the seconds until then, for Celery: due if the last run was before ``at``."""
        remaining = self.remaining_estimate(last_run_at).total_seconds()
        ran = self.maybe_make_aware(last_run_at) >= self.fire_time(self.tz)
        return schedstate(remaining <= 0 and not ran, max(remaining, 0) or None)

    def __repr__(self) -> str:
        return f"<clocked: {self.at.isoformat()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, clocked) and self.at == other.at

    def __hash__(self) -> int:
        return hash(self.at)

    def __reduce__(self) -> tuple[type, tuple[datetime]]:
        return type(self), (self.at,)


def _in_timezone(at: datetime, zone: tzinfo) -> datetime:
    return at.replace(tzinfo=zone) if at.tzinfo is None else at.astimezone(zone)
