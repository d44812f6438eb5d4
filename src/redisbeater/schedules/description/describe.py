"""A schedule as one English sentence."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from datetime import timezone as fixed_zone

from celery.schedules import BaseSchedule, crontab, solar
from celery.schedules import schedule as interval

from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.description.crontab import crontab_in_words
from redisbeater.schedules.description.rrule import rrule_in_words
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.words import clock, dated, every, unbracketed, zone_text

__all__ = ("describe",)

_SECOND = timedelta(seconds=1)

#: What Celery's relative intervals are rounded down to: the longest of these that the interval reaches.
_ALIGNMENTS = (
    (timedelta(days=1), "day", "at midnight", "midnight"),
    (timedelta(hours=1), "hour", "on the hour", "the full hour"),
    (timedelta(minutes=1), "minute", "on the minute", "the full minute"),
    (_SECOND, "second", "on the second", "the full second"),
)


def describe(schedule: BaseSchedule, timezone: str | tzinfo | None = None) -> str:
    """When a schedule fires, in words that need no knowledge of its notation.

    Arguments:
        schedule: any that an entry can have.
        timezone: the zone of its local times, to be told with them; default: the one that a crontab was made with. An
            rrule and a moment with a zone have their own.
    """
    zone = zone_text(timezone)
    if hasattr(schedule, "to_redisbeater"):
        return _by_its_repr(schedule)
    if isinstance(schedule, interval):
        return _relative(schedule.run_every, zone) if schedule.relative else _interval(schedule.run_every)
    if isinstance(schedule, crontab):
        return crontab_in_words(schedule, zone or getattr(schedule, "timezone", None))
    if isinstance(schedule, rrule):
        return rrule_in_words(schedule)
    if isinstance(schedule, clocked):
        return _moment(schedule.at, zone)
    if isinstance(schedule, solar):
        return (
            f"at {schedule.event.replace('_', ' ')} at {_degrees(schedule.lat, 'NS')}, {_degrees(schedule.lon, 'EW')}"
        )
    return _by_its_repr(schedule)


def _interval(length: timedelta) -> str:
    days, odd = divmod(length, timedelta(days=1))
    if days == 0 or odd:
        return _every(length)
    return f"every {days * 24} hours of elapsed time{f' ({days} days)' if days > 1 else ''}"


def _relative(length: timedelta, zone: str | None) -> str:
    """As Celery aligns: each fire time is the one before plus the interval, rounded down."""
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


def _moment(at: datetime, zone: str | None) -> str:
    own = zone_text(at.tzinfo)
    offset = at.utcoffset()
    if offset is not None and offset != at.replace(fold=0).utcoffset():  # the second of a repeated time
        own = f"{own} ({zone_text(fixed_zone(offset))})"
    return ", ".join(filter(None, ("once", f"on {dated(at)} at {clock(at.time())}", own or zone)))


def _degrees(angle: float, sides: str) -> str:
    return f"{abs(angle):.10g} {sides[angle < 0]}"


def _by_its_repr(schedule: BaseSchedule) -> str:
    """Its repr, of one with an address in memory the name of the class."""
    kind = type(schedule)
    try:
        return unbracketed(repr(schedule)).partition(" object at 0x")[0]
    except Exception:  # the application's code: a list of entries does not fail for one that cannot be shown
        return f"{kind.__module__}.{kind.__qualname__}"
