"""The days of a year or month that the parts of a rule allow."""

from __future__ import annotations

from calendar import isleap
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime
from functools import lru_cache
from typing import Any

from dateutil.rrule import MONTHLY, YEARLY, weekday
from dateutil.rrule import rrule as dateutil_rrule

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.rrule.rule import Numbers, RecurrenceRule

__all__ = ("DayFilter", "matching_days")

#: What it takes dateutil to find the days of a month and of a year.
_MONTH_STEPS, _YEAR_STEPS = 110, 350


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


def matching_days(parts: DayFilter, year: int, month: int, steps: Steps) -> Sequence[int]:
    """Return the ordinals of the days that match in a month, or in a year if the filter is for years.

    Years with the same weekdays and leap days match alike, and so do months: few are computed, and these remembered.
    """
    if parts.freq == MONTHLY and parts.bymonth and month not in parts.bymonth:
        return ()
    model = year if parts.byeaster else _MODELS[_pattern(parts, year, month)]
    steps.take_once((parts, model, month), _MONTH_STEPS if parts.freq == MONTHLY else _YEAR_STEPS)
    days = _computed_days(parts, model, month)
    if model == year:
        return days
    moved = date(year, month, 1).toordinal() - date(model, month, 1).toordinal()
    return [day + moved for day in days]


def _pattern(parts: DayFilter, year: int, month: int) -> Hashable:
    """Return what decides which days match; the weeks at the ends of a year depend on the years around it."""
    if parts.byweekno:
        return _year_pattern(year)
    return _year_pattern(year)[:2] if parts.freq == YEARLY or parts.byyearday else _month_pattern(year, month)


def _year_pattern(year: int) -> tuple[int, bool, bool, bool]:
    return date(year, 1, 1).weekday(), isleap(year), isleap(year - 1), isleap(year + 1)


def _month_pattern(year: int, month: int) -> tuple[str, int, int, bool]:
    return "month", month, date(year, month, 1).weekday(), month == 2 and isleap(year)


#: A year for each pattern: after 28 years, all are repeated.
_MODELS: dict[Hashable, int] = {
    pattern: year
    for year in range(2000, 2028)
    for pattern in (
        _year_pattern(year),
        _year_pattern(year)[:2],
        *(_month_pattern(year, month) for month in range(1, 13)),
    )
}


@lru_cache(maxsize=1024)
def _computed_days(parts: DayFilter, year: int, month: int) -> tuple[int, ...]:
    frequency: Any = parts.freq  # an int here, one of seven literals to dateutil
    # What dateutil takes for weeks 52 and 53 is wrong where the year turns, so weeks are numbered here.
    given = {
        name: value for name, value in vars(parts).items() if name not in ("freq", "byweekno") and value is not None
    }
    given.setdefault("byweekday", range(7))  # otherwise dateutil uses the weekday of dtstart
    # Without a match, dateutil steps on to the year 9999; with an interval this long, that is a single step.
    days = dateutil_rrule(frequency, dtstart=datetime(year, month, 1), interval=12 * MAXYEAR, **given)
    return tuple(day for day in map(date.toordinal, days) if _is_in_weeks(day, parts))


def _is_in_weeks(day: int, parts: DayFilter) -> bool:
    """Tell whether the week of a day is one of those that the filter lists, if any, from the begin or the end.

    A week belongs to the year in which most of its days lie (RFC 5545, ISO 8601), so its fourth day decides.
    """
    if parts.byweekno is None:
        return True
    middle = day - (day - 1 - parts.wkst) % 7 + 3
    new_year = date(date.fromordinal(middle).year, 1, 1)
    number = (middle - new_year.toordinal()) // 7
    weeks = number + 1 + (date(new_year.year, 12, 31).toordinal() - middle) // 7
    return number + 1 in parts.byweekno or number - weeks in parts.byweekno
