"""WHEN an entry fires: schedules, their fire times and how they are stored. Pure; no Redis, no clock."""

from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.codec import ScheduleCodec
from redisbeater.schedules.fire_time import first_fire_time, latest_fire_time, next_fire_time, resumed_fire_time
from redisbeater.schedules.rrule import rrule

__all__ = (
    "ScheduleCodec",
    "clocked",
    "first_fire_time",
    "latest_fire_time",
    "next_fire_time",
    "resumed_fire_time",
    "rrule",
)
