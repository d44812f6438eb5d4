"""Notes for people about fire times that a clock change affects."""

from __future__ import annotations

from datetime import datetime, tzinfo

from celery.schedules import BaseSchedule, crontab

from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.crontab import engine as crontab_engine
from redisbeater.schedules.rrule.rrule import rrule

__all__ = ("clock_change_note",)


def clock_change_note(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> str:
    """Describe a fire time that a clock change moved, or whose local time comes twice; return "" for any other.

    Arguments:
        schedule: the schedule that fires.
        zone: the zone of the schedule's local times.
        fire_time: aware UTC.
    """
    local = fire_time.astimezone(zone)
    moved = [time for time in _nominal_times(schedule, zone, fire_time) if time != local.replace(tzinfo=None, fold=0)]
    if moved:
        times = " and ".join(f"{time:%H:%M}" for time in moved)
        return f"moved from {times}, which {'does' if len(moved) == 1 else 'do'} not exist on {moved[0]:%Y-%m-%d}"
    if _comes_twice(local):
        return f"{local:%H:%M} comes twice on {local:%Y-%m-%d}; this is the {'second' if local.fold else 'first'}"
    return ""


def _nominal_times(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
    """Return the local times of the schedule that fire at that instant, as its fields give them."""
    if type(schedule) is crontab:
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
