"""``RolledSlots``: the slots of a fixed cron whose days are moved where they do not count: the field ``roll``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from redisbeater.schedules.calendar import ROLL_DAYS, Days
from redisbeater.schedules.crontab import Slots

_DAY = timedelta(days=1)


class RolledSlots(Slots):
    """The slots of a cron on the days that count, and on those to which its other days roll; two are one."""

    __slots__ = ("_days", "_roll", "_slots", "unit")

    def __init__(self, slots: Slots, days: Days, roll: str) -> None:
        self._slots, self._days, self._roll, self.unit = slots, days, roll, slots.unit

    @property
    def is_repeating(self) -> bool:
        """Whether the cron is; it is fixed."""
        return self._slots.is_repeating

    def is_matching_day(self, day: date) -> bool:
        """Tell whether a date counts, and the cron allows it or one that rolls there."""
        return self._days.counts(day) and (self._slots.is_matching_day(day) or bool(self.sources(day)))

    def matching_days(self, first: date, last: date) -> Iterator[date]:
        """Yield the dates from ``first`` to ``last``, both included, that the cron allows or that others roll to."""
        since = max(first - ROLL_DAYS * _DAY, self._days.first) if first > self._days.first else self._days.first
        until = min(last + ROLL_DAYS * _DAY, self._days.last) if last < self._days.last else self._days.last
        found = None
        for day in self._slots.matching_days(since, until):
            target = self._days.rolled(day, self._roll)
            if target not in (None, found) and first <= target <= last:
                found = target
                yield target

    def time_from(self, least: int, day: date) -> int | None:
        """Return the first time of a date, ``least`` or later, that the cron allows."""
        return self._slots.time_from(least, day)

    def count_times(self, before: int, day: date) -> int:
        """Count the times of a date that the cron allows, before one of them."""
        return self._slots.count_times(before, day)

    def sources(self, day: date) -> list[date]:
        """Return the dates, in order, that the cron allows and that roll to one; itself if the cron allows it."""
        around = [day] if self._slots.is_matching_day(day) else []
        for step in (-_DAY, _DAY):
            other = day + step
            while self._days.covers(other) and not self._days.counts(other):
                if self._slots.is_matching_day(other) and self._days.rolled(other, self._roll) == day:
                    around.append(other)
                other += step
        return sorted(around)
