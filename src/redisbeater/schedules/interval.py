"""Intervals, and ``clocked``, which fires once, at a given time.

An interval counts from its last fire time, so its fire times lie on a grid. A *relative* interval instead fires when
the local clock shows a whole second, minute, hour or day: the largest of these units that fits into the interval.

Relative intervals are aligned like in Celery 5.7, whichever version is installed: days follow the calendar, shorter
intervals are elapsed time. If the clock shows a whole unit twice, both times count; if the clock skips it, it counts
later, by as much as the clock was put forward.
"""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, datetime, timedelta, tzinfo
from typing import Any

from celery.schedules import BaseSchedule, schedstate, schedule

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry, WrongType
from redisbeater.schedules.zones import in_iana_zone, in_zone, read_zone, to_utc


class clocked(BaseSchedule):
    """Fire once, at ``at``.

    Arguments:
        at: when to fire, in the years 2 to 9998; naive means local time. If the clock skips that time, the offset
            before the gap counts; if the clock shows it twice, the first time counts, or the second with ``fold=1``.
        timezone: zone of a naive ``at``, by its IANA name or as a ``ZoneInfo``; default: the entry's. An aware ``at``
            is converted to it.

    Raises:
        InvalidEntry: ``at`` is not a datetime (also a TypeError), there is no such zone, or ``at`` is in another year
            (both also a ValueError).

    Example::

        clocked(datetime(2027, 1, 1, 9, 0), timezone="Europe/Vienna")
    """

    def __init__(self, at: datetime, timezone: str | tzinfo | None = None, **kwargs: Any) -> None:
        if not isinstance(at, datetime):
            raise WrongType("clocked(at)", f"expected a datetime, got {quoted(at)}")
        if not MINYEAR < at.year < MAXYEAR:
            years = f"{MINYEAR + 1} to {MAXYEAR - 1}"
            raise InvalidEntry("$.schedule.at", f"expected a year from {years}, got {at.year}")
        super().__init__(**kwargs)
        at = in_iana_zone(at, "$.schedule.at")
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


_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


def next_fire_time(interval: schedule, zone: tzinfo, after: datetime) -> datetime:
    """Return the fire time after ``after``, aware UTC; a relative interval is aligned to the clock of the zone."""
    period = every(interval)
    if counts_from_last(interval):
        return after + period
    return _next_midnight(period, zone, after) if period >= _DAY else _next_whole_unit(period, zone, after)


def every(interval: schedule) -> timedelta:
    """Return the time from one fire time to the next; ``run_every`` may be a number of seconds."""
    period = interval.run_every
    return period if isinstance(period, timedelta) else timedelta(seconds=period)


def counts_from_last(schedule_: BaseSchedule) -> bool:
    """Tell whether a schedule is an interval that counts from its last fire time, so that its fire times lie on a grid.

    A relative interval below one second does: there is no unit to which Celery could align it.
    """
    return type(schedule_) is schedule and (not schedule_.relative or every(schedule_) < _SECOND)


def latest(interval: schedule, fire_time: datetime, until: datetime) -> datetime:
    """Return the newest fire time up to an instant, for an interval that counts from an earlier fire time."""
    return fire_time + (until - fire_time) // every(interval) * every(interval)


def count(interval: schedule, first: datetime, last: datetime) -> int:
    """Count the fire times from ``first`` up to ``last``, both included, for an interval that counts from ``first``."""
    return max((last - first) // every(interval) + 1, 0)


def _next_midnight(period: timedelta, zone: tzinfo, after: datetime) -> datetime:
    """Return when the date starts that is one interval after today in the calendar."""
    target = after.astimezone(zone).replace(tzinfo=None) + period
    midnight = target.replace(hour=0, minute=0, second=0, microsecond=0)
    return min((instant for instant in _shown(midnight, zone) if instant > after), default=to_utc(target, zone))


def _next_whole_unit(period: timedelta, zone: tzinfo, after: datetime) -> datetime:
    """Return the last instant, up to one interval after ``after``, at which the clock shows a whole unit."""
    end = after + period
    local = end.astimezone(zone).replace(tzinfo=None)
    instants = _shown(_round_down(local, period), zone)
    newest = max((instant for instant in instants if instant <= end), default=min(instants))
    return newest if newest > after else _next_after_put_back(period, zone, after)


def _next_after_put_back(period: timedelta, zone: tzinfo, after: datetime) -> datetime:
    """Return the next whole unit when the clock, put back by less than a unit, shows none within the interval."""
    end = after + period
    unit = _HOUR if period >= _HOUR else _MINUTE
    reached = end.astimezone(zone).replace(tzinfo=None)
    aimed_at = after.astimezone(zone).replace(tzinfo=None) + period
    candidates = [
        instant
        for local in (reached, reached + unit, aimed_at)
        for instant in _shown(_round_down(local, period), zone)
        if instant > after
    ]
    return max((instant for instant in candidates if instant <= end), default=min(candidates, default=end))


def _round_down(local: datetime, period: timedelta) -> datetime:
    if period >= _HOUR:
        return local.replace(minute=0, second=0, microsecond=0)
    return local.replace(second=0, microsecond=0) if period >= _MINUTE else local.replace(microsecond=0)


def _shown(local: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the first and the last instant at which the clock shows a local time; in a gap by the offset before it."""
    first, second = (to_utc(local.replace(fold=fold), zone) for fold in (0, 1))
    return first, max(first, second)
