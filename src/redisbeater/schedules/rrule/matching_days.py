"""The days of a year or month that the parts of a rule allow."""

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
    """The parts of a rule that select days.

    The number of a weekday counts in the year if that is the frequency, else in the month; dateutil ignores it in
    rules of weeks and shorter periods.
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
        """Return the filter of a pinned rule."""
        names = ("wkst", "bymonth", "bymonthday", "byyearday", "byeaster", "byweekno")
        parts = {name: getattr(rule, name) for name in names}
        if rule.freq <= MONTHLY:
            return cls(freq=rule.freq, byweekday=_uniform_weekdays(rule), **parts)
        plain = None if rule.byweekday is None else tuple(weekday(day.weekday) for day in rule.byweekday)
        return cls(freq=MONTHLY, byweekday=plain, **parts)


def _uniform_weekdays(rule: RecurrenceRule) -> tuple[weekday, ...] | None:
    """Return weekdays all numbered or none: dateutil reads "Mondays and the last Friday" as their intersection."""
    days = rule.byweekday
    if not days or all(day.n for day in days) or not any(day.n for day in days):
        return days
    numbers = range(1, rule.max_weekday_number + 1)
    return tuple(numbered for day in days for numbered in ([day] if day.n else map(day, numbers)))


@lru_cache(maxsize=1024)
def matching_days(parts: DayFilter, year: int, month: int = 1) -> tuple[int, ...]:
    """Return the ordinals of the days that match in a month, or in a year if the filter is for years.

    The result is cached, because many rules ask for the days of this month and of the next.
    """
    if parts.freq == MONTHLY and parts.bymonth and month not in parts.bymonth:
        return ()
    frequency: Any = parts.freq  # an int here, one of seven literals to dateutil
    given = {name: value for name, value in vars(parts).items() if name != "freq" and value is not None}
    given.setdefault("byweekday", range(7))  # otherwise dateutil uses the weekday of dtstart
    # Without a match, dateutil steps on to the year 9999; with an interval this long, that is a single step.
    days = dateutil_rrule(frequency, dtstart=datetime(year, month, 1), interval=12 * MAXYEAR, **given)
    return tuple(day.toordinal() for day in days)
