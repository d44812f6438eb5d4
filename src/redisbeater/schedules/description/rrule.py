"""A recurrence rule in words, or by its text where words would not be exact."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime, time
from itertools import product
from typing import Any, NamedTuple

from dateutil.rrule import DAILY, MONTHLY, WEEKLY, YEARLY

from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.words import (
    clock,
    dated,
    every,
    listed,
    months,
    ordinal,
    runs,
    spanned,
    unbracketed,
    weekdays,
    zone_text,
)

__all__ = ("rrule_in_words",)

#: By dateutil's number of the frequency.
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")

_NO_WORDS = ("byeaster", "byweekno", "byyearday")

#: What the numbers of a part can be; dateutil takes others, too, and passes over them.
_NUMBERS = {
    "bymonth": range(1, 13),
    "bymonthday": {*range(-31, 0), *range(1, 32)},
    "bysetpos": {*range(-366, 0), *range(1, 367)},
    "byhour": range(24),
    "byminute": range(60),
    "bysecond": range(60),
}

#: More times of the day than this are no help to a reader.
_MOST_TIMES = 8

#: Each month has this many days, and this many of each weekday; so has each year.
_SURE_DAYS, _SURE_WEEKDAYS, _SURE_WEEKDAYS_OF_A_YEAR = 28, 4, 52

_MAYBE = " (where there is one)"


class _Unwordable(Exception):
    """The rule has parts that no sentence here tells exactly."""


def rrule_in_words(rule: rrule) -> str:
    """When a rule fires, from when, for how long, and in which zone."""
    try:
        return _sentence(rule)
    except _Unwordable:
        return _by_text(rule)


def _sentence(rule: rrule) -> str:
    freq = getattr(rule, "freq", None)
    if freq not in range(len(_UNITS)) or any(_items(rule, name) for name in _NO_WORDS):
        raise _Unwordable
    times = _times(rule)
    phrases = (every(rule.interval, _UNITS[rule.freq]), _on(rule, times), _at(times))
    clauses = (_when(rule), _start(rule, times), _end(rule, times), _count(rule), zone_text(rule.zone))
    return ", ".join(filter(None, (" ".join(filter(None, phrases)), *clauses)))


def _items(rule: rrule, name: str) -> tuple[Any, ...]:
    """What a part lists; dateutil reads one that is given and empty in several ways."""
    part = getattr(rule, name, None)
    items = () if part is None else tuple(part) if isinstance(part, Collection) else (part,)
    if part is not None and not items:
        raise _Unwordable
    return items


def _numbers(rule: rrule, name: str) -> list[int]:
    numbers = set(_items(rule, name))
    if not numbers <= set(_NUMBERS[name]):
        raise _Unwordable
    return sorted(numbers)


def _times(rule: rrule) -> list[time]:
    """The times of the day; none of a rule that counts in hours or less."""
    given = [_numbers(rule, name) for name in ("byhour", "byminute", "bysecond")]
    if rule.freq > DAILY:
        if any(given):
            raise _Unwordable
        return []
    start = _local(rule, rule.dtstart)
    hours, minutes, seconds = (part or [own] for part, own in zip(given, (start.hour, start.minute, start.second)))
    times = sorted({time(*parts) for parts in product(hours, minutes, seconds)})
    if len(times) > _MOST_TIMES:
        raise _Unwordable
    return times


def _at(times: Sequence[time]) -> str:
    return f"at {listed([clock(moment) for moment in times])}" if times else ""


def _on(rule: rrule, times: Sequence[time]) -> str:
    """The days on which it fires."""
    if _numbers(rule, "bysetpos") and not (rule.freq == MONTHLY and len(times) == 1):
        raise _Unwordable
    if rule.freq == YEARLY:
        return _on_days_of_the_year(rule)
    if rule.freq == MONTHLY:
        return f"{_on_days_of_the_month(rule)}{_within(rule)}"
    if rule.freq == WEEKLY:
        days = _plain(_weekdays(rule)) or [_local(rule, rule.dtstart).isoweekday()]
        return f"on {weekdays(days)}{_within(rule)}"
    return _within(rule).strip()


def _on_days_of_the_year(rule: rrule) -> str:
    numbers, dates, days = _numbers(rule, "bymonth"), _numbers(rule, "bymonthday"), _weekdays(rule)
    if not dates and not days:
        start = _local(rule, rule.dtstart)
        dates, numbers = [start.day], numbers or [start.month]
    if dates and not days and len(numbers) == 1 and dates[0] > 0:
        return f"on {spanned(runs(dates))} {months(numbers)}{_maybe(dates)}"
    if days and not numbers and not dates:
        return f"{_on_weekdays(days, _SURE_WEEKDAYS_OF_A_YEAR)}{' of the year' if days[0].position else ''}"
    scope = "" if days and not days[0].position else " of the month" if numbers else " of every month"
    return f"{_on_days_of_the_month(rule)}{scope}{_within(rule)}"


def _on_days_of_the_month(rule: rrule) -> str:
    dates, days, setpos = _numbers(rule, "bymonthday"), _weekdays(rule), _numbers(rule, "bysetpos")
    if setpos:
        if dates or not days:
            raise _Unwordable
        return f"on {_positioned(setpos)} day that is {weekdays(_plain(days))}"
    if dates and days:
        return f"on {weekdays(_plain(days))}"  # _when tells the dates
    if days:
        return _on_weekdays(days, _SURE_WEEKDAYS)
    dates = dates or [_local(rule, rule.dtstart).day]
    return f"on {_dates(dates)}{_maybe(dates)}"


def _positioned(positions: Sequence[int]) -> str:
    return listed([f"the {ordinal(position)}" for position in positions])


def _on_weekdays(days: Sequence[_Weekday], sure: int) -> str:
    """Every such day, or the first, the last ... of it."""
    if not days[0].position:
        return f"on every {weekdays(_plain(days))}"
    texts = [f"the {ordinal(position)} {weekdays([day])}" for day, position in days]
    return f"on {listed(texts)}{_MAYBE if any(abs(position) > sure for _, position in days) else ''}"


class _Weekday(NamedTuple):
    """ISO number, and which of its period, from the end when negative; 0 for each."""

    day: int
    position: int


def _weekdays(rule: rrule) -> list[_Weekday]:
    """The weekdays, either all with a position or none: dateutil takes both together as neither does alone."""
    found = {_weekday(item) for item in _items(rule, "byweekday")}
    if len({bool(weekday.position) for weekday in found}) > 1:
        raise _Unwordable
    return sorted(found)


def _weekday(item: Any) -> _Weekday:
    number = getattr(item, "weekday", item)
    if number not in range(7):
        raise _Unwordable
    return _Weekday(number + 1, getattr(item, "n", None) or 0)


def _plain(days: Sequence[_Weekday]) -> list[int]:
    if any(weekday.position for weekday in days):
        raise _Unwordable
    return [weekday.day for weekday in days]


def _dates(dates: Sequence[int]) -> str:
    """Days of the month, counted from its end when negative."""
    texts = [f"the {ordinal(date)} day" for date in dates if date < 0]
    counted = [date for date in dates if date > 0]
    return listed([*([f"day {spanned(runs(counted))}"] if counted else []), *texts])


def _maybe(dates: Sequence[int]) -> str:
    return _MAYBE if any(abs(date) > _SURE_DAYS for date in dates) else ""


def _within(rule: rrule) -> str:
    numbers = _numbers(rule, "bymonth")
    return f" in {months(numbers)}" if numbers else ""


def _when(rule: rrule) -> str:
    """What the days must be besides."""
    days, dates = _weekdays(rule), _numbers(rule, "bymonthday")
    if rule.freq == WEEKLY:
        if dates:
            raise _Unwordable
        return _first_day_of_the_week(rule)
    if rule.freq < WEEKLY:
        return _when_dates(dates) if days else ""
    if days and dates:
        raise _Unwordable
    return f"when it is {weekdays(_plain(days))}" if days else _when_dates(dates)


def _when_dates(dates: Sequence[int]) -> str:
    return f"when it is {_dates(dates)} of the month" if dates else ""


def _first_day_of_the_week(rule: rrule) -> str:
    """It decides which days go together when weeks are left out."""
    first = getattr(rule, "wkst", None) or 0
    day = _weekday(first).day
    return f"weeks beginning on {weekdays([day])}" if day > 1 and rule.interval > 1 else ""


def _start(rule: rrule, times: Sequence[time]) -> str:
    """From when; with the time where the day alone would not tell the first fire time."""
    first = _local(rule, rule.dtstart)
    return f"from {dated(first)}{'' if times and first.time() <= times[0] else f' at {clock(first.time())}'}"


def _end(rule: rrule, times: Sequence[time]) -> str:
    """Until when; with the time where not all of the last day belongs to it."""
    if rule.until is None:
        return ""
    last = _local(rule, rule.until)
    return f"until {dated(last)}{'' if times and last.time() >= times[-1] else f' at {clock(last.time())}'}"


def _local(rule: rrule, moment: datetime) -> datetime:
    return moment.astimezone(rule.zone) if moment.tzinfo else moment


def _count(rule: rrule) -> str:
    if rule.count is None:
        return ""
    return "once" if rule.count == 1 else f"{rule.count} times"


def _by_text(rule: rrule) -> str:
    """With the text of the one rule that its repr shows, else with the whole of it."""
    text = unbracketed(repr(rule)).removeprefix("rrule: ")
    found = re.findall(r"\bRRULE:(\S+)", text)
    start = getattr(rule, "dtstart", None)
    if len(found) != 1 or re.search(r"\b(EXRULE|EXDATE|RDATE)\b", text) or not isinstance(start, datetime):
        return f"by the recurrence rule {text}"
    first = _local(rule, start)
    return f"by the recurrence rule {found[0]} from {dated(first)} at {clock(first.time())}, {zone_text(rule.zone)}"
