"""Intervals, and ``clocked``, which fires once, at a given time.

An interval counts from its last fire time, so its fire times lie on a grid. A *relative* interval instead fires when
the local clock shows a whole second, minute, hour or day: the largest of these units that fits into the interval.

Relative intervals are aligned like in Celery 5.7, whichever version is installed: days follow the calendar, shorter
intervals are elapsed time. If the clock shows a whole unit twice, both times count; if the clock skips it, it counts
later, by as much as the clock was put forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import MAXYEAR, MINYEAR, datetime, timedelta, tzinfo
from datetime import timezone as fixed_zone
from typing import Any

from celery.schedules import BaseSchedule, schedstate, schedule

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry, WrongType
from redisbeater.schedules import english
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.crontab_text import PATH
from redisbeater.schedules.english import clock_text, date_text, zone_text
from redisbeater.schedules.kind import Reading, ScheduleKind, checked_text
from redisbeater.schedules.zones import (
    decode_datetime,
    encode_datetime,
    in_iana_zone,
    in_zone,
    is_in_gap,
    moment_text,
    read_zone,
    to_utc,
)
from redisbeater.times import MAX_SECONDS, read_duration


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


class ClockedKind(ScheduleKind[clocked]):
    """Once, at a given time."""

    __slots__ = ()

    schedule_class = clocked
    name = "clocked"
    word = "at"
    title = "Once"
    placeholder = "TIME"
    sentence = 'Run once: 2027-01-03T09:00, "tomorrow 09:00", +2h.'
    expected = "a time: 2027-01-03T09:00, tomorrow 09:00, +2h"
    stores_subclasses = True

    def encode(self, schedule: clocked) -> dict[str, Any]:
        """Return the time."""
        return {"at": encode_datetime(schedule.at)}

    def decode(self, data: dict[str, Any]) -> clocked:
        """Return the schedule of a time."""
        return clocked(decode_datetime(data.get("at"), f"{PATH}.at", default_zone=None))

    def next(self, schedule: clocked, zone: tzinfo, after: datetime, steps: Steps) -> datetime | None:
        """Return the time, if it is to come."""
        at = schedule.fire_time(zone)
        return at if at > after else None

    def first(self, schedule: clocked, zone: tzinfo, steps: Steps) -> datetime:
        """Return the time."""
        return schedule.fire_time(zone)

    def has_local_times(self, schedule: clocked) -> bool:
        """Tell whether the time is naive."""
        return schedule.at.tzinfo is None

    def zones(self, schedule: clocked, zone: tzinfo) -> tuple[tzinfo, ...]:
        """Return the zone of the time."""
        return (schedule.at.tzinfo or zone,)

    def nominal_times(self, schedule: clocked, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
        """Return the time, if it is a local time of the zone."""
        nominal = schedule.nominal_time(fire_time, zone) if schedule.at.tzinfo in (None, zone) else None
        return () if nominal is None else (nominal,)

    def describe(self, schedule: clocked, zone: str | tzinfo | None) -> str:
        """Describe the date, the time and its zone."""
        return _once(schedule.at, read_zone(zone, "timezone") if isinstance(zone, str) else zone)

    def text(self, schedule: clocked) -> Any:
        """Return the time in the form of ISO 8601, with its zone."""
        return moment_text(encode_datetime(schedule.at))

    def read(self, text: Any, reading: Reading) -> clocked:
        """Return the schedule of a time."""
        return clocked(reading.time(checked_text(text, "a time such as 2026-11-23T09:00"), f"{PATH}.at"))


def _once(at: datetime, zone: tzinfo | None) -> str:
    local = at if at.tzinfo is not None else at.replace(tzinfo=zone)
    named = zone_text(local.tzinfo)
    if local.tzinfo is not None and is_in_gap(local):
        local, skipped = in_zone(local, local.tzinfo).astimezone(local.tzinfo), local
        named = f"{named} (for {clock_text(skipped.time())}, which the clock skips)"
    elif (offset := local.utcoffset()) is not None and offset != local.replace(fold=0).utcoffset():
        named = f"{named} ({zone_text(fixed_zone(offset))})"  # the second pass of a repeated hour
    local = local.replace(microsecond=0)
    return ", ".join(filter(None, ("once", f"on {date_text(local)} at {clock_text(local.time())}", named)))


_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


def every(interval: schedule) -> timedelta:
    """Return the time from one fire time to the next; ``run_every`` may be a number of seconds."""
    period = interval.run_every
    return period if isinstance(period, timedelta) else timedelta(seconds=period)


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


#: What the next fire time takes.
_STEPS = 10

#: The units in which people write intervals.
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60))


class IntervalKind(ScheduleKind[schedule]):
    """Celery's ``schedule``: an interval."""

    __slots__ = ()

    schedule_class = schedule
    name = "interval"
    passed_as = "seconds, a timedelta"
    word = "every"
    title = "Every"
    placeholder = "DURATION"
    sentence = "Run every 10s, 1h30m or 2d."
    expected = "a duration: 10s, 5m, 1h30m, 2d"
    foreign = ()
    is_interval = True
    is_endless = True
    is_plain = True

    def encode(self, schedule: schedule) -> dict[str, Any]:
        """Return its seconds, as RedBeat does."""
        length = schedule.run_every
        seconds = length.total_seconds() if isinstance(length, timedelta) else length
        return {"every": _check_every(seconds), "relative": bool(schedule.relative)}

    def decode(self, data: dict[str, Any]) -> schedule:
        """Return the interval of some seconds."""
        return schedule(timedelta(seconds=_check_every(data.get("every"))), relative=bool(data.get("relative", False)))

    def comparable(self, data: Mapping[str, Any]) -> Any:
        """Return it with its default: other programs may leave out that it is not relative."""
        every = data.get("every")
        is_whole = isinstance(every, float) and every.is_integer()
        return {**data, "every": int(every or 0) if is_whole else every, "relative": bool(data.get("relative", False))}

    def plain_values(self, schedule: schedule) -> tuple[Any, ...]:
        """Return its length, and whether it is aligned to the clock."""
        length = schedule.run_every
        return length.days, length.seconds, length.microseconds, schedule.relative

    def next(self, schedule: schedule, zone: tzinfo, after: datetime, steps: Steps) -> datetime:
        """Return the next fire time; that of a relative interval is aligned to the clock of the zone."""
        steps.take(_STEPS)
        length = every(schedule)
        if not schedule.relative or length < _SECOND:
            return after + length
        return _next_midnight(length, zone, after) if length >= _DAY else _next_whole_unit(length, zone, after)

    def period(self, schedule: schedule) -> timedelta | None:
        """Return its length, unless it is aligned to the clock: below one second, there is no unit for that."""
        length = every(schedule)
        return length if not schedule.relative or length < _SECOND else None

    def has_local_times(self, schedule: schedule) -> bool:
        """Tell whether it is aligned to the clock."""
        return self.period(schedule) is None

    def means_elapsed_time(self, schedule: schedule) -> bool:
        """Tell whether it is shorter than a day."""
        return every(schedule) < _DAY

    def describe(self, schedule: schedule, zone: str | tzinfo | None) -> str:
        """Describe its length, and the clock to which it is aligned."""
        return _relative(schedule.run_every, zone_text(zone)) if schedule.relative else _interval(schedule.run_every)

    def text(self, schedule: schedule) -> Any:
        """Return its length as ``90m``, else in seconds; None for one that is aligned to the clock."""
        if schedule.relative:
            return None
        seconds = every(schedule).total_seconds()
        for unit, size in _UNITS:
            if seconds % size == 0:
                return f"{int(seconds // size)}{unit}"
        return int(seconds) if seconds % 1 == 0 else seconds

    def read(self, text: Any, reading: Reading) -> schedule:
        """Return the interval of a text such as ``1h30m``, or of seconds."""
        if not isinstance(text, str):
            return self.decode({"every": text})
        length = read_duration(text)
        if not length:
            raise InvalidEntry(f"{PATH}.every", f"expected a duration of at least 1 microsecond, got {quoted(text)}")
        return schedule(length)

    def json_schema(self) -> dict[str, Any]:
        """Return that of a text such as ``1h30m``, or of seconds."""
        return {"type": ["string", "number"], "exclusiveMinimum": 0, "maximum": MAX_SECONDS}


def _check_every(seconds: Any) -> float:
    path = f"{PATH}.every"
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise InvalidEntry(path, f"expected seconds, got {quoted(seconds)}")
    if not 1e-6 <= seconds <= MAX_SECONDS:
        raise InvalidEntry(path, f"expected seconds above 0 and up to 1000 years, got {quoted(seconds)}")
    return seconds


#: The units to which Celery's relative intervals are rounded down: the longest one that the interval reaches.
_ALIGNMENTS = (
    (timedelta(days=1), "day", "at midnight", "midnight"),
    (timedelta(hours=1), "hour", "on the hour", "the full hour"),
    (timedelta(minutes=1), "minute", "on the minute", "the full minute"),
    (_SECOND, "second", "on the second", "the full second"),
)


def _interval(length: timedelta) -> str:
    days, odd = divmod(length, timedelta(days=1))
    if days == 0 or odd:
        return _every(length)
    return f"every {days * 24} hours of elapsed time{f' ({days} days)' if days > 1 else ''}"


def _relative(length: timedelta, zone: str | None) -> str:
    """Describe a relative interval; Celery rounds each fire time, the one before plus the interval, down."""
    for unit, name, aligned, rounded in _ALIGNMENTS:
        if length >= unit:
            units, odd = divmod(length, unit)
            text = f"{_every(length)}, rounded down to {rounded}" if odd else f"{english.every(units, name)}, {aligned}"
            return f"{text}, {zone}" if zone else text
    return _interval(length)


def _every(length: timedelta) -> str:
    for unit, name in ((timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"), (_SECOND, "second")):
        number, odd = divmod(length, unit)
        if not odd:
            return english.every(number, name)
    fraction = f"{length % _SECOND // timedelta(microseconds=1):06}".rstrip("0")
    return f"every {length // _SECOND}.{fraction} seconds"
