"""A cron expression in words, from its numbers and rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time

from redisbeater.schedules.cron_expression.day_rule import DateRule, WeekdayRule
from redisbeater.schedules.cron_expression.expression import cron_expression
from redisbeater.schedules.cron_expression.fields import Fields
from redisbeater.schedules.description.crontab import days_in_words, kind_in_words, times_in_words
from redisbeater.schedules.words import (
    clock_text,
    consecutive,
    every,
    join_words,
    ordinal,
    span_text,
    step_of,
    weekday_names,
)

__all__ = ("cron_expression_in_brief", "cron_expression_in_words")

#: Up to this many times of the day are named one by one.
_MOST_TIMES = 8

_MINUTES_FOLLOW = "in these minutes: "


def cron_expression_in_words(schedule: cron_expression, zone: str | None) -> str:
    """Describe when a cron expression fires, in which zone if it is known, and what it does when the clocks change."""
    brief = cron_expression_in_brief(schedule, zone)
    if not schedule.is_bound:
        return brief
    fields = schedule.slots.fields
    return f"{brief} ({kind_in_words(fields.is_repeating, len(fields.hours))})"


def cron_expression_in_brief(schedule: cron_expression, zone: str | None) -> str:
    """Describe when a cron expression fires, in which zone if it is known."""
    if not schedule.is_bound:
        return ", ".join(filter(None, (f'"{schedule.text}", where the name of the entry decides H', zone)))
    fields = schedule.slots.fields
    times = _times(fields)
    days = days_in_words(
        _weekdays(fields.weekdays),
        _dates(fields.dates),
        fields.months,
        is_listed=times.rpartition(_MINUTES_FOLLOW)[-1].startswith("at ") and len(fields.hours) < 24,
    )
    return ", ".join(filter(None, (f"{times}{days}", zone)))


def _times(fields: Fields) -> str:
    if fields.seconds == (0,):
        return times_in_words(fields.minutes, fields.hours)
    if len(fields.minutes) == 60 and len(fields.hours) == 24:
        seconds = _seconds(fields.seconds)
        return f"{seconds} past every minute" if seconds.startswith("at ") else seconds
    times = [
        time(hour, minute, second) for hour in fields.hours for minute in fields.minutes for second in fields.seconds
    ]
    if len(times) <= _MOST_TIMES:
        return f"at {join_words([clock_text(moment) for moment in times])}"
    return f"{_seconds(fields.seconds)} {_MINUTES_FOLLOW}{times_in_words(fields.minutes, fields.hours)}"


def _seconds(seconds: Sequence[int]) -> str:
    step = step_of(seconds)
    if step and len(seconds) > 2 and seconds[0] == 0 and seconds[-1] + step == 60:
        return every(step, "second")
    return f"at {span_text(consecutive(seconds))} seconds"


def _dates(rule: DateRule) -> str:
    """Describe the days of the month; return "" when all match."""
    if len(rule.days) == 31:
        return ""
    texts = [f"day {span_text(consecutive(rule.days))}"] if rule.days else []
    texts += [f"the workday nearest to day {day}" for day in sorted(rule.nearest_to)]
    texts += [f"the {ordinal(-1 - distance)} day" for distance in sorted(rule.from_end, reverse=True)]
    texts += ["the last workday"] if rule.last_workday else []
    return f"{join_words(texts)} of the month"


def _weekdays(rule: WeekdayRule) -> str:
    """Describe the weekdays; return "" when all match."""
    if len(rule.weekdays) == 7:
        return ""
    texts = [weekday_names([day or 7 for day in rule.weekdays])] if rule.weekdays else []
    texts += [f"the {ordinal(nth)} {_name(day)}" for nth, day in sorted((nth, day) for day, nth in rule.nth)]
    texts += [f"the last {_name(day)}" for day in sorted(rule.last)]
    return f"{join_words(texts)}{' of the month' if rule.nth or rule.last else ''}"


def _name(day: int) -> str:
    return weekday_names([day or 7])
