"""When an entry fires: schedules, their fire times and how they are stored, without Redis or a clock."""

from redisbeater.schedules.cron_expression import cron
from redisbeater.schedules.interval import clocked
from redisbeater.schedules.kinds import ScheduleCodec, describe
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.timetable import Timetable, next_fire_time

__all__ = (
    "ScheduleCodec",
    "Timetable",
    "clocked",
    "cron",
    "describe",
    "next_fire_time",
    "rrule",
)
