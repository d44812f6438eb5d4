"""``clocked``: one fire time, at a given moment."""

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
        at: the moment; a naive one is local time (in a gap the offset before it, of a repeated time the first).
        timezone: IANA name of the zone of a naive ``at``; default: the entry's. An aware one is converted to it.

    Raises:
        InvalidEntry: there is no such zone; a ValueError, too.

    Example::

        clocked(datetime(2027, 1, 1, 9, 0), timezone="Europe/Vienna")
    """

    def __init__(self, at: datetime, timezone: str | None = None, **kwargs: Any) -> None:
        if not isinstance(at, datetime):
            raise TypeError(f"clocked(at): expected a datetime, got {at!r}")
        super().__init__(**kwargs)
        self.at = at if timezone is None else _placed(at, read_zone(timezone, "$.timezone"))

    def fire_time(self, zone: tzinfo) -> datetime:
        """The instant, with a naive ``at`` read in the zone."""
        return in_zone(self.at, zone)

    def nominal_time(self, fire_time: datetime, zone: tzinfo) -> datetime | None:
        """The local time as it was given, naive, when that instant is its fire time; else None.

        In a gap, and only there, it is not what a clock in the zone shows at the instant.
        """
        return self.at.replace(tzinfo=None) if fire_time == self.fire_time(zone) else None

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """How long until ``at``; for Celery, which asks schedules this way."""
        return self.fire_time(self.tz) - self.maybe_make_aware(self.now())

    def is_due(self, last_run_at: datetime) -> tuple[bool, Any]:
        """Celery's question: due once ``at`` has come and the last run was before it."""
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


def _placed(at: datetime, zone: tzinfo) -> datetime:
    return at.replace(tzinfo=zone) if at.tzinfo is None else at.astimezone(zone)
