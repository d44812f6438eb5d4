"""Refuse rules that can never match."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dateutil.rrule import DAILY

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.rrule.occurrences import first_occurrence
from redisbeater.schedules.rrule.rule import BY_PARTS, RecurrenceRule
from redisbeater.schedules.words import every

__all__ = ("check_possible",)

#: Indexed by dateutil's number of the frequency.
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")


def check_possible(rules: Iterable[RecurrenceRule], label: Callable[[str], str] = str) -> None:
    """Refuse rules of which one has no occurrence, whatever its end is; they share the steps of one search.

    Raises:
        ValueError: the parts of a rule never match together; the message starts with their labels.
        StepsExhausted: finding the first occurrence takes too many steps.
    """
    steps = Steps()
    for rule in rules:
        if _misses_its_weekdays(rule):
            raise ValueError(_problem(rule, label))
        found, cost = first_occurrence(rule)
        steps.take(cost)
        if found is None:
            raise ValueError(_problem(rule, label))


def _misses_its_weekdays(rule: RecurrenceRule) -> bool:
    """Tell whether whole weeks lead from a start that is on none of the days of the week to none of them, ever."""
    if rule.freq != DAILY or rule.interval % 7 or rule.byweekday is None:
        return False
    return rule.start.weekday() not in {day.weekday for day in rule.byweekday}


def _problem(rule: RecurrenceRule, label: Callable[[str], str]) -> str:
    names = ", ".join(label(part) for part in BY_PARTS if getattr(rule, part) is not None)
    step = every(rule.interval, _UNITS[rule.freq])
    return (
        f"{names}: never match {step} from {rule.start}, at least not within 41 years; "
        f"change one of these, {label('interval')} or the start"
    )
