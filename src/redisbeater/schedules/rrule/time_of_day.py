"""The hours, minutes and seconds of a recurrence rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dateutil.rrule import DAILY

from redisbeater.schedules.rrule.clock import DAY_SECONDS
from redisbeater.schedules.rrule.rule import RecurrenceRule

__all__ = ("CLOCK_SECONDS", "clock_numbers", "seconds_of", "unit_seconds")

#: The seconds of an hour, a minute and a second.
CLOCK_SECONDS = (3600, 60, 1)


def unit_seconds(rule: RecurrenceRule) -> int:
    """Return the seconds of the unit of a rule's interval: an hour, a minute, a second, else a day."""
    return CLOCK_SECONDS[rule.freq - DAILY - 1] if rule.freq > DAILY else DAY_SECONDS


def clock_numbers(rule: RecurrenceRule) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Return the allowed hours, minutes and seconds of a rule; all of them for a part that is not given."""
    return _or_all(rule.byhour, 24), _or_all(rule.byminute, 60), _or_all(rule.bysecond, 60)


def _or_all(numbers: Sequence[int] | None, most: int) -> Sequence[int]:
    return range(most) if numbers is None or len(numbers) == most else numbers


def seconds_of(numbers: Iterable[Sequence[int]], sizes: Iterable[int]) -> list[int]:
    """Return the sums of all combinations of the numbers, each times its size in seconds, in order."""
    seconds = [0]
    for finer, size in zip(numbers, sizes):
        seconds = [second + number * size for second in seconds for number in finer]
    return seconds
