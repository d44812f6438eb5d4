"""The days of a year or a month that a rule's parts allow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import MAXYEAR, datetime
from functools import lru_cache
from typing import Any

from dateutil.rrule import MONTHLY, weekday
from dateutil.rrule import rrule as dateutil_rrule

from redisbeater.schedules.rrule.rule import Numbers, RecurrenceRule

__all__ = ("DayFilter", "matching_days")


@dataclass(frozen=True, kw_only=True)
class DayFilter:
    """The parts of a rule that decide about days.

    A weekday is numbered in the year, when that is the frequency, or in the month; by dateutil never in a week.
    """

    freq: int
    wkst: int
    bymonth: Numbers | None
    bymonthday: Numbers | None
    byyearday: Numbers | None
    byeaster: Numbers | None
    byweekno: Numbers | None
    byweekday: tuple[weekday, ...] | None

    @classmethod
    def of(cls, rule: RecurrenceRule) -> DayFilter:
        """The filter of a pinned rule."""
        names = ("wkst", "bymonth", "bymonthday", "byyearday", "byeaster", "byweekno")
        parts = {name: getattr(rule, name) for name in names}
        if rule.freq <= MONTHLY:
            return cls(freq=rule.freq, byweekday=_alike_weekdays(rule), **parts)
        plain = None if rule.byweekday is None else tuple(weekday(day.weekday) for day in rule.byweekday)
        return cls(freq=MONTHLY, byweekday=plain, **parts)


def _alike_weekdays(rule: RecurrenceRule) -> tuple[weekday, ...] | None:
    """All numbered or none: dateutil takes "Mondays and the last Friday" for Mondays that are the last Friday."""
    days = rule.byweekday
    if not days or all(day.n for day in days) or not any(day.n for day in days):
        return days
    numbers = range(1, rule.most_weekdays + 1)
    return tuple(alike for day in days for alike in ([day] if day.n else map(day, numbers)))


@lru_cache(maxsize=1024)
def matching_days(parts: DayFilter, year: int, month: int = 1) -> tuple[int, ...]:
    """The ordinals of the days that match in a month, or of a filter for years in the year.

    Remembered, because many rules ask again and again for the days of this month and of the next.
    """
    if parts.freq == MONTHLY and parts.bymonth and month not in parts.bymonth:
        return ()
    frequency: Any = parts.freq  # any int to us, seven literals to the type
    said = {name: value for name, value in vars(parts).items() if name != "freq" and value is not None}
    said.setdefault("byweekday", range(7))  # else dateutil would take the day from dtstart
    # dateutil steps on to the year 9999 where nothing matches; of an interval as long as that it takes one step.
    days = dateutil_rrule(frequency, dtstart=datetime(year, month, 1), interval=12 * MAXYEAR, **said)
    return tuple(day.toordinal() for day in days)
