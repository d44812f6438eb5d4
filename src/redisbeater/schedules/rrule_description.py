"""A recurrence rule in words, or its text if words would not be exact."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime, time
from itertools import product
from typing import Any, NamedTuple

from dateutil.rrule import DAILY, MONTHLY, WEEKLY, YEARLY

from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.english import (
    clock_text,
    consecutive,
    date_text,
    every,
    join_words,
    month_names,
    ordinal,
    span_text,
    unbracketed,
    weekday_names,
    zone_text,
)
from redisbeater.schedules.rrule.rrule import rrule

#: Indexed by dateutil's number of the frequency.
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")

_PARTS_WITHOUT_WORDS = ("byeaster", "byweekno", "byyearday")

#: The valid numbers of a part; dateutil accepts others, and ignores them.
_NUMBERS = {
    "bymonth": range(1, 13),
    "bymonthday": {*range(-31, 0), *range(1, 32)},
    "bysetpos": {*range(-366, 0), *range(1, 367)},
    "byhour": range(24),
    "byminute": range(60),
    "bysecond": range(60),
}

#: A list of more times of the day would not help the reader.
_MAX_TIMES = 8

#: Every month has at least this many days and this many of each weekday; every year, this many of each weekday.
_SURE_DAYS, _SURE_WEEKDAYS, _SURE_WEEKDAYS_OF_YEAR = 28, 4, 52

_IF_IT_EXISTS = " (where there is one)"


class _Unwordable(Exception):
    """The rule has parts that no sentence here describes exactly."""


def rrule_in_words(rule: rrule) -> str:
    """Describe when a rule fires, from when, until when, and in which zone."""
    try:
        return _sentence(rule)
    except _Unwordable:
        return _by_text(rule)


def _sentence(rule: rrule) -> str:
    freq = getattr(rule, "freq", None)
    if freq not in range(len(_UNITS)) or any(_items(rule, name) for name in _PARTS_WITHOUT_WORDS):
        raise _Unwordable
    if rule.count == 1:
        return _once(rule)
    times = _times(rule)
    phrases = (every(rule.interval, _UNITS[rule.freq]), _on(rule, times), _at(times))
    bounds = (_start(rule, times), _end(rule, times), _count(rule))
    clauses = (_when(rule), *bounds, _in_repeated_hours(rule), zone_text(rule.zone))
    return ", ".join(filter(None, (" ".join(filter(None, phrases)), *clauses)))


def _once(rule: rrule) -> str:
    """Describe a rule with a count of 1 by the time at which it fires."""
    try:
        first = rule.first_occurrence()
    except InvalidEntry as exc:
        raise _Unwordable from exc
    if first is None:
        raise _Unwordable
    local = _local(rule, first)
    return ", ".join(filter(None, (f"once, on {date_text(local)} at {clock_text(local.time())}", zone_text(rule.zone))))


def _in_repeated_hours(rule: rrule) -> str:
    """Describe what becomes of the second pass of a repeated hour, which a rule of days hardly ever meets."""
    return "" if rule.freq <= DAILY or rule.recurrence.clock.never_shifts else "not again in a repeated hour"


def _items(rule: rrule, name: str) -> tuple[Any, ...]:
    """Return the values of a part; an empty list has no words, since dateutil reads it in several ways."""
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
    """Return the times of the day; none for a rule that counts hours, minutes or seconds."""
    given = [_numbers(rule, name) for name in ("byhour", "byminute", "bysecond")]
    if rule.freq > DAILY:
        if any(given):
            raise _Unwordable
        return []
    start = _local(rule, rule.dtstart)
    hours, minutes, seconds = (part or [own] for part, own in zip(given, (start.hour, start.minute, start.second)))
    times = sorted({time(*parts) for parts in product(hours, minutes, seconds)})
    if len(times) > _MAX_TIMES:
        raise _Unwordable
    return times


def _at(times: Sequence[time]) -> str:
    return f"at {join_words([clock_text(moment) for moment in times])}" if times else ""


def _on(rule: rrule, times: Sequence[time]) -> str:
    """Describe the days on which it fires."""
    if _numbers(rule, "bysetpos") and not (rule.freq == MONTHLY and len(times) == 1):
        raise _Unwordable
    if rule.freq == YEARLY:
        return _on_days_of_the_year(rule)
    if rule.freq == MONTHLY:
        return f"{_on_days_of_the_month(rule)}{_within(rule)}"
    if rule.freq == WEEKLY:
        days = _plain(_weekdays(rule)) or [_local(rule, rule.dtstart).isoweekday()]
        return f"on {weekday_names(days)}{_within(rule)}"
    return _within(rule).strip()


def _on_days_of_the_year(rule: rrule) -> str:
    numbers, dates, days = _numbers(rule, "bymonth"), _numbers(rule, "bymonthday"), _weekdays(rule)
    if not dates and not days:
        start = _local(rule, rule.dtstart)
        dates, numbers = [start.day], numbers or [start.month]
    if dates and not days and len(numbers) == 1 and dates[0] > 0:
        return f"on {span_text(consecutive(dates))} {month_names(numbers)}{_if_it_exists(dates)}"
    if days and not numbers and not dates:
        return f"{_on_weekdays(days, _SURE_WEEKDAYS_OF_YEAR)}{' of the year' if days[0].position else ''}"
    scope = "" if days and not days[0].position else " of the month" if numbers else " of every month"
    return f"{_on_days_of_the_month(rule)}{scope}{_within(rule)}"


def _on_days_of_the_month(rule: rrule) -> str:
    dates, days, setpos = _numbers(rule, "bymonthday"), _weekdays(rule), _numbers(rule, "bysetpos")
    if setpos:
        if dates or not days:
            raise _Unwordable
        return f"on {_positioned(setpos)} day that is {weekday_names(_plain(days))}"
    if dates and days:
        return f"on {weekday_names(_plain(days))}"  # _when describes the dates
    if days:
        return _on_weekdays(days, _SURE_WEEKDAYS)
    dates = dates or [_local(rule, rule.dtstart).day]
    return f"on {_dates(dates)}{_if_it_exists(dates)}"


def _positioned(positions: Sequence[int]) -> str:
    return join_words([f"the {ordinal(position)}" for position in positions])


def _on_weekdays(days: Sequence[_Weekday], sure: int) -> str:
    """Describe weekdays: every one, or by their position (the first, the last ...)."""
    if not days[0].position:
        return f"on every {weekday_names(_plain(days))}"
    texts = [f"the {ordinal(position)} {weekday_names([day])}" for day, position in days]
    return f"on {join_words(texts)}{_IF_IT_EXISTS if any(abs(position) > sure for _, position in days) else ''}"


class _Weekday(NamedTuple):
    """A weekday: its ISO number and its position in the period, negative from the end, 0 for every one."""

    day: int
    position: int


def _weekdays(rule: rrule) -> list[_Weekday]:
    """Return the weekdays, all with a position or all without: dateutil gives a mixture a third meaning."""
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
    """Describe days of the month; negative ones count from its end."""
    texts = [f"the {ordinal(date)} day" for date in dates if date < 0]
    counted = [date for date in dates if date > 0]
    word = "day" if len(counted) == 1 else "days"
    return join_words([*([f"{word} {span_text(consecutive(counted))}"] if counted else []), *texts])


def _if_it_exists(dates: Sequence[int]) -> str:
    return _IF_IT_EXISTS if any(abs(date) > _SURE_DAYS for date in dates) else ""


def _within(rule: rrule) -> str:
    numbers = _numbers(rule, "bymonth")
    return f" in {month_names(numbers)}" if numbers else ""


def _when(rule: rrule) -> str:
    """Describe the second condition that the days must meet, if there is one."""
    days, dates = _weekdays(rule), _numbers(rule, "bymonthday")
    if rule.freq == WEEKLY:
        if dates:
            raise _Unwordable
        return _first_day_of_the_week(rule)
    if rule.freq < WEEKLY:
        return _when_dates(dates) if days else ""
    if days and dates:
        raise _Unwordable
    return f"when it is {weekday_names(_plain(days))}" if days else _when_dates(dates)


def _when_dates(dates: Sequence[int]) -> str:
    return f"when it is {_dates(dates)} of the month" if dates else ""


def _first_day_of_the_week(rule: rrule) -> str:
    """Name the first day of the week if it matters: it decides which days belong to a week that is skipped."""
    first = getattr(rule, "wkst", None) or 0
    day = _weekday(first).day
    return f"weeks beginning on {weekday_names([day])}" if day > 1 and rule.interval > 1 else ""


def _start(rule: rrule, times: Sequence[time]) -> str:
    """Describe the start; with its time if the day alone does not determine the first fire time."""
    first = _local(rule, rule.dtstart)
    return f"from {date_text(first)}{'' if times and first.time() <= times[0] else f' at {clock_text(first.time())}'}"


def _end(rule: rrule, times: Sequence[time]) -> str:
    """Describe the end; with its time if the rule ends during that day."""
    if rule.until is None:
        return ""
    last = _local(rule, rule.until)
    return f"until {date_text(last)}{'' if times and last.time() >= times[-1] else f' at {clock_text(last.time())}'}"


def _local(rule: rrule, moment: datetime) -> datetime:
    return moment.astimezone(rule.zone) if moment.tzinfo else moment


def _count(rule: rrule) -> str:
    return "" if rule.count is None else f"{rule.count} times"


def _by_text(rule: rrule) -> str:
    """Describe a rule by its RRULE text if its repr has only that one rule, else by its repr."""
    text = unbracketed(repr(rule)).removeprefix("rrule: ")
    found = re.findall(r"\bRRULE:(\S+)", text)
    start = getattr(rule, "dtstart", None)
    if len(found) != 1 or re.search(r"\b(EXRULE|EXDATE|RDATE)\b", text) or not isinstance(start, datetime):
        return f"by the recurrence rule {text}"
    first = _local(rule, start)
    start_text = f"{date_text(first)} at {clock_text(first.time())}"
    return f"by the recurrence rule {found[0]} from {start_text}, {zone_text(rule.zone)}"
