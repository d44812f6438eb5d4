"""Fire times: when a schedule fires next, first, last, and after it was dormant.

Functions of a schedule, a zone and instants; none reads a clock. The next fire time after one is computed
from that one, never from when the run really left.
"""

from __future__ import annotations

import copy
from datetime import datetime, timedelta, tzinfo

from celery.schedules import BaseSchedule, crontab, schedule

from redisbeater.schedules import crontab as crontab_engine
from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.rrule import rrule

__all__ = ("first_fire_time", "latest_fire_time", "next_fire_time", "resumed_fire_time")

#: Where the search for the newest missed fire time begins; it widens until it finds one.
_FIRST_WINDOW = timedelta(minutes=1)

_SECOND = timedelta(seconds=1)


def next_fire_time(schedule: BaseSchedule, zone: tzinfo, after: datetime) -> datetime | None:
    """The first fire time after an instant.

    Arguments:
        schedule: Celery's crontab, schedule (interval) or solar, ours, or a custom one.
        zone: for local times; an rrule has its own.
        after: aware UTC. An interval counts from it.

    Returns:
        Aware UTC, later than ``after``; None when the schedule never fires again.
    """
    if hasattr(schedule, "to_redisbeater"):
        return _by_celery(schedule, zone, after)
    if _is_interval(schedule):
        return after + schedule.run_every
    if isinstance(schedule, crontab):
        return crontab_engine.next_fire_time(schedule, zone, after)
    if isinstance(schedule, rrule):
        return schedule.next_fire_time(after)
    if isinstance(schedule, clocked):
        at = schedule.fire_time(zone)
        return at if at > after else None
    return _by_celery(schedule, zone, after)


def first_fire_time(schedule: BaseSchedule, zone: tzinfo, now: datetime) -> datetime | None:
    """The first fire time of an entry that is made now.

    The first occurrence of an rrule and the moment of a one-off count when they have just passed, that is, when no
    later one has; a rule that has been going for longer waits for its next occurrence.
    """
    upcoming = next_fire_time(schedule, zone, now)
    start = _start(schedule, zone)
    if start is None or start > now:
        return upcoming
    return start if next_fire_time(schedule, zone, start) == upcoming else upcoming


def resumed_fire_time(schedule: BaseSchedule, zone: tzinfo, anchor: datetime | None, now: datetime) -> datetime | None:
    """The first fire time after now of an entry that fired, or would have, at ``anchor``; never in the past."""
    if anchor is None:
        return first_fire_time(schedule, zone, now)
    if anchor > now:
        return next_fire_time(schedule, zone, now) if not _is_interval(schedule) else anchor
    return next_fire_time(schedule, zone, latest_fire_time(schedule, zone, anchor, now))


def latest_fire_time(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime, now: datetime) -> datetime:
    """The newest fire time that is not after now, beginning at one that is not; missed ones are not stepped through."""
    if _is_interval(schedule):
        every = schedule.run_every
        return fire_time + (now - fire_time) // every * every
    following = next_fire_time(schedule, zone, fire_time)
    if following is None or following > now:
        return fire_time
    return _newest_until(schedule, zone, fire_time, now)


def _newest_until(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime, now: datetime) -> datetime:
    window = _FIRST_WINDOW
    while True:
        newest = None
        following = next_fire_time(schedule, zone, max(fire_time, now - window))
        while following is not None and following <= now:
            newest, following = following, next_fire_time(schedule, zone, following)
        if newest is not None:
            return newest
        window *= 2


def _is_interval(schedule_: BaseSchedule) -> bool:
    """Whether it counts from its last fire time; Celery aligns to nothing below a second, and would never advance."""
    return isinstance(schedule_, schedule) and (not schedule_.relative or schedule_.run_every < _SECOND)


def _start(schedule: BaseSchedule, zone: tzinfo) -> datetime | None:
    if isinstance(schedule, clocked):
        return schedule.fire_time(zone)
    if isinstance(schedule, rrule):
        return schedule.first_occurrence()
    return None


def _by_celery(schedule: BaseSchedule, zone: tzinfo, after: datetime) -> datetime | None:
    """By Celery's contract: a schedule that is told that now is ``after`` says how long to wait from there.

    One that does not wait does not advance either: it has finished.
    """
    local = after.astimezone(zone)
    asked = copy.copy(schedule)
    asked.nowfun = lambda: local
    remaining = asked.remaining_estimate(local)
    return after + remaining if remaining is not None and remaining > timedelta() else None
