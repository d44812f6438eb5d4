"""A crontab in words, from its sets of numbers, so that every notation of the same times reads the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import time

from celery.schedules import crontab

from redisbeater.schedules.crontab.engine import is_repeating
from redisbeater.schedules.words import (
    clock_text,
    consecutive,
    every,
    join_words,
    month_names,
    ordinal,
    span_text,
    step_of,
    weekday_names,
)

__all__ = (
    "crontab_in_brief",
    "crontab_in_words",
    "dates_in_words",
    "days_in_words",
    "kind_in_words",
    "times_in_words",
)

#: Up to this many times of the day are always named one by one.
_FEW = 3

#: Up to this many are named one by one if no interval describes them.
_SOME = 8

#: What a schedule does when the clocks change.
_FIXED = "fixed: once for each time of the day, also when the clocks change"
_BY_ELAPSED_TIME = "repeating: by elapsed time, also when the clocks change"
_BY_THE_CLOCK = "repeating: by the clock, so twice at a time that comes twice when the clocks change"


def crontab_in_words(schedule: crontab, zone: str | None) -> str:
    """Describe when a crontab fires, in which zone if it is known, and what it does when the clocks change."""
    return f"{crontab_in_brief(schedule, zone)} ({kind_in_words(is_repeating(schedule), len(schedule.hour))})"


def crontab_in_brief(schedule: crontab, zone: str | None) -> str:
    """Describe when a crontab fires, in which zone if it is known."""
    return ", ".join(filter(None, (_sentence(schedule), zone)))


def kind_in_words(is_repeating: bool, hours: int) -> str:
    """Describe what a schedule does when the clocks change, by its class and its number of hours of the day."""
    if not is_repeating:
        return _FIXED
    return _BY_ELAPSED_TIME if hours == 24 else _BY_THE_CLOCK


def times_in_words(minutes: Sequence[int], hours: Sequence[int]) -> str:
    """Describe the times of the day in the shortest wording that is exact."""
    number = len(minutes) * len(hours)
    if len(hours) == 24:
        return _in_every_hour(minutes)
    if number > _FEW:
        by_interval = _by_hours(minutes, hours) or _by_minutes(minutes, hours)
        if by_interval:
            return by_interval
    if number <= _SOME:
        return f"at {join_words([clock_text(time(hour, minute)) for hour in hours for minute in minutes])}"
    return _in_some_hours(minutes, hours)


def dates_in_words(dates: Sequence[int]) -> str:
    """Describe days of the month by number."""
    return f"day {span_text(consecutive(dates))} of the month"


def days_in_words(
    weekdays: str, dates: str, months: Collection[int], *, is_listed: bool, even_dates: str | None = None
) -> str:
    """Describe the days, after a blank; return "" when every day matches and the sentence is clear without.

    Arguments:
        weekdays: the weekdays in words; "" when all match.
        dates: the days of the month in words; "" when all match.
        months: by number.
        is_listed: whether the times of the day are named one by one.
        even_dates: shorter words for the days of the month, if no weekday comes before them.
    """
    within = f" in {month_names(months)}" if len(months) < 12 else ""
    if weekdays:
        return f" on {weekdays}{within}" + (f", when it is {dates}" if dates else "")
    if dates:
        return f" on {even_dates or dates}{within}"
    return f"{' every day' if is_listed else ''}{within}"


def _sentence(schedule: crontab) -> str:
    fields = (schedule.minute, schedule.hour, schedule.day_of_week, schedule.day_of_month, schedule.month_of_year)
    if not all(fields):
        return "never"
    times = times_in_words(sorted(schedule.minute), sorted(schedule.hour))
    return f"{times}{_days(schedule, is_listed=times.startswith('at ') and len(schedule.hour) < 24)}"


def _in_every_hour(minutes: Sequence[int]) -> str:
    step = _whole_step(minutes)
    return every(step, "minute") if step and len(minutes) > 2 else f"{_past(minutes)} past every hour"


def _by_hours(minutes: Sequence[int], hours: Sequence[int]) -> str | None:
    """Describe one minute of evenly spaced hours; None when the hours are not."""
    step = step_of(hours)
    if step is None or len(minutes) > 1:
        return None
    if hours[0] == 0 and hours[-1] + step == 24:
        return f"{every(step, 'hour')} at {minutes[0]:02} minutes past"
    return f"{every(step, 'hour')} {_from_to(time(hours[0], minutes[0]), time(hours[-1], minutes[0]))}"


def _by_minutes(minutes: Sequence[int], hours: Sequence[int]) -> str | None:
    """Describe an interval that divides the hour, in a few spans of hours; None when there is none."""
    step, spans = _whole_step(minutes), consecutive(hours)
    if step is None or len(spans) > _FEW or len(minutes) * len(hours) <= _FEW * len(spans):
        return None
    texts = [_from_to(time(span[0], minutes[0]), time(span[-1], minutes[-1])) for span in spans]
    return f"{every(step, 'minute')} {join_words(texts)}"


def _in_some_hours(minutes: Sequence[int], hours: Sequence[int]) -> str:
    within = f"the {'hour' if len(hours) == 1 else 'hours'} {span_text(consecutive(hours), _two_digits)}"
    step = _whole_step(minutes)
    return f"{every(step, 'minute')} during {within}" if step else f"{_past(minutes)} past {within}"


def _whole_step(minutes: Sequence[int]) -> int | None:
    """Return the step of minutes that continue evenly into the next hour; else None."""
    step = step_of(minutes)
    return step if step and minutes[0] == 0 and minutes[-1] + step == 60 else None


def _past(minutes: Sequence[int]) -> str:
    step = step_of(minutes)
    if step and len(minutes) > _FEW:
        return f"{every(step, 'minute')} from {minutes[0]:02} to {minutes[-1]:02} minutes"
    return f"at {span_text(consecutive(minutes), _two_digits)} minutes"


def _two_digits(value: int) -> str:
    return f"{value:02}"


def _from_to(first: time, last: time) -> str:
    return f"from {clock_text(first)} to {clock_text(last)}"


def _days(schedule: crontab, is_listed: bool) -> str:
    days = [day or 7 for day in schedule.day_of_week] if len(schedule.day_of_week) < 7 else []
    dates = sorted(schedule.day_of_month) if len(schedule.day_of_month) < 31 else []
    return days_in_words(
        weekday_names(days) if days else "",
        dates_in_words(dates) if dates else "",
        schedule.month_of_year,
        is_listed=is_listed,
        even_dates=_even_dates(dates) if dates else None,
    )


def _even_dates(dates: Sequence[int]) -> str | None:
    step = step_of(dates)
    if step in (None, 1) or len(dates) <= _SOME:
        return None
    return f"every {ordinal(step or 1)} day of the month from day {dates[0]} to {dates[-1]}"
