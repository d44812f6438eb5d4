"""A schedule as one English sentence."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from datetime import timezone as fixed_zone

from celery.schedules import BaseSchedule, crontab, solar
from celery.schedules import schedule as interval

from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.cron_expression.expression import cron_expression
from redisbeater.schedules.description.cron_expression import cron_expression_in_brief, cron_expression_in_words
from redisbeater.schedules.description.crontab import crontab_in_brief, crontab_in_words
from redisbeater.schedules.description.rrule import rrule_in_words
from redisbeater.schedules.local_time import in_zone, is_in_gap
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.words import clock_text, date_text, every, unbracketed, zone_text
from redisbeater.schedules.zone import read_zone

__all__ = ("describe", "describe_in_brief")

_SECOND = timedelta(seconds=1)

#: The units to which Celery's relative intervals are rounded down: the longest one that the interval reaches.
_ALIGNMENTS = (
    (timedelta(days=1), "day", "at midnight", "midnight"),
    (timedelta(hours=1), "hour", "on the hour", "the full hour"),
    (timedelta(minutes=1), "minute", "on the minute", "the full minute"),
    (_SECOND, "second", "on the second", "the full second"),
)


def describe(schedule: BaseSchedule | float | timedelta, timezone: str | tzinfo | None = None) -> str:
    """Describe when a schedule fires, in words that need no knowledge of its notation.

    Arguments:
        schedule: any schedule that an entry can have, also seconds or a timedelta.
        timezone: the zone of its local times, named in the text; default: the one that was passed to ``cron()``. An
            rrule and an aware ``clocked`` have their own.

    Raises:
        InvalidEntry: there is no such zone, and the schedule is a ``clocked`` without its own.
    """
    zone = zone_text(timezone)
    if isinstance(schedule, (int, float, timedelta)):
        schedule = interval(schedule)
    if hasattr(schedule, "to_redisbeater"):
        return _repr_text(schedule)
    if isinstance(schedule, interval):
        return _relative(schedule.run_every, zone) if schedule.relative else _interval(schedule.run_every)
    if isinstance(schedule, crontab):
        return crontab_in_words(schedule, zone or getattr(schedule, "timezone", None))
    if isinstance(schedule, cron_expression):
        return cron_expression_in_words(schedule, zone or schedule.timezone)
    if isinstance(schedule, rrule):
        return rrule_in_words(schedule)
    if isinstance(schedule, clocked):
        return _once(schedule.at, read_zone(timezone, "timezone") if isinstance(timezone, str) else timezone)
    if isinstance(schedule, solar):
        return f"at {_event(schedule.event)} at {_degrees(schedule.lat, 'NS')}, {_degrees(schedule.lon, 'EW')}"
    return _repr_text(schedule)


def describe_in_brief(schedule: BaseSchedule, timezone: str | tzinfo | None = None) -> str:
    """Describe when a schedule fires, as :func:`describe`, without what happens when the clocks change."""
    if isinstance(schedule, crontab) and not hasattr(schedule, "to_redisbeater"):
        return crontab_in_brief(schedule, zone_text(timezone) or getattr(schedule, "timezone", None))
    if isinstance(schedule, cron_expression):
        return cron_expression_in_brief(schedule, zone_text(timezone) or schedule.timezone)
    return describe(schedule, timezone)


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
            text = f"{_every(length)}, rounded down to {rounded}" if odd else f"{every(units, name)}, {aligned}"
            return f"{text}, {zone}" if zone else text
    return _interval(length)


def _every(length: timedelta) -> str:
    for unit, name in ((timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"), (_SECOND, "second")):
        number, odd = divmod(length, unit)
        if not odd:
            return every(number, name)
    fraction = f"{length % _SECOND // timedelta(microseconds=1):06}".rstrip("0")
    return f"every {length // _SECOND}.{fraction} seconds"


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


def _event(name: str) -> str:
    """Return an event of Celery's solar as people say it: ``dawn_civil`` is civil dawn."""
    noun, _, kind = name.partition("_")
    return f"{kind} {noun}" if noun in ("dawn", "dusk") else name.replace("_", " ")


def _degrees(angle: float, sides: str) -> str:
    return f"{abs(angle):.10g} {sides[angle < 0]}"


def _repr_text(schedule: BaseSchedule) -> str:
    """Return its repr; if that has a memory address, only the name of the class."""
    kind = type(schedule)
    try:
        return unbracketed(repr(schedule)).partition(" object at 0x")[0]
    except Exception:  # the application's code: one bad repr must not break a list of entries
        return f"{kind.__module__}.{kind.__qualname__}"
