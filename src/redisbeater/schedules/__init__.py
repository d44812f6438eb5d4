"""When an entry fires: schedules, their fire times and how they are stored, without Redis or a clock."""

from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.codec import ScheduleCodec
from redisbeater.schedules.cron import cron
from redisbeater.schedules.description.describe import describe
from redisbeater.schedules.fire_time import next_fire_time
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.timetable import Timetable

__all__ = (
    "ScheduleCodec",
    "Timetable",
    "clocked",
    "cron",
    "describe",
    "next_fire_time",
    "rrule",
)
