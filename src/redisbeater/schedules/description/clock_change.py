"""Notes for people about fire times that a clock change affects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

from celery.schedules import BaseSchedule, crontab

from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.cron_expression.expression import cron_expression
from redisbeater.schedules.crontab import engine as crontab_engine
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.words import clock_text, join_words

__all__ = ("clock_change_note", "moved_times")

#: Up to this many moved times are named one by one.
_MOST_TIMES = 8


def clock_change_note(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> str:
    """Describe a fire time that a clock change moved, or whose local time comes twice; return "" for any other.

    Arguments:
        schedule: the schedule that fires.
        zone: the zone of the schedule's local times.
        fire_time: aware UTC.
    """
    local = fire_time.astimezone(zone)
    if moved := moved_times(schedule, zone, fire_time):
        return (
            f"moved from {_times(moved)}, which {'does' if len(moved) == 1 else 'do'} not exist on {moved[0]:%Y-%m-%d}"
        )
    if _comes_twice(local):
        pass_ = "second" if local.fold else "first"
        return f"{clock_text(local.time())} comes twice on {local:%Y-%m-%d}; this is the {pass_}"
    return ""


def moved_times(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> list[datetime]:
    """Return the naive local times that a clock change moved to a fire time, because they did not exist."""
    local = fire_time.astimezone(zone).replace(tzinfo=None, fold=0)
    return [time for time in _nominal_times(schedule, zone, fire_time) if time != local]


def _times(moved: Sequence[datetime]) -> str:
    if len(moved) > _MOST_TIMES:
        return f"{len(moved)} times between {clock_text(moved[0].time())} and {clock_text(moved[-1].time())}"
    return join_words([clock_text(moment.time()) for moment in moved])


def _nominal_times(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
    """Return the local times of the schedule that fire at that instant, as its fields give them."""
    if type(schedule) in (crontab, cron_expression):
        return crontab_engine.nominal_times(schedule, zone, fire_time)
    if isinstance(schedule, rrule):
        nominal = schedule.nominal_time(fire_time)
    elif isinstance(schedule, clocked) and schedule.at.tzinfo in (None, zone):  # else it is no local time of the zone
        nominal = schedule.nominal_time(fire_time, zone)
    else:
        nominal = None
    return () if nominal is None else (nominal,)


def _comes_twice(local: datetime) -> bool:
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
