"""The clock of a rule: which of its local times fire at which instants; local times are numbered seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone, tzinfo
from functools import cached_property
from typing import NamedTuple

from redisbeater.schedules.local_time import Shift, offset_at, offset_during, recent_shift, to_utc

__all__ = ("DAY_SECONDS", "NONE", "Passed", "RuleClock", "local_at", "second_of")

DAY_SECONDS = 86_400

#: No local times.
NONE = range(0)

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)


def second_of(local: datetime) -> int:
    """Return the number of the second in which a local time lies, counted in days of 86,400 from ordinal 0."""
    return local.toordinal() * DAY_SECONDS + local.hour * 3600 + local.minute * 60 + local.second


def local_at(second: int) -> datetime:
    """Return the local time of a numbered second."""
    day, within = divmod(second, DAY_SECONDS)
    return datetime.fromordinal(day) + timedelta(seconds=within)


class Passed(NamedTuple):
    """The local times that have fired at an instant: all up to ``last``, except those in a gap that are ``waiting``."""

    last: int
    waiting: range = NONE


@dataclass(frozen=True)
class RuleClock:
    """The clock of a zone for the local times of a rule, none of which fires before the start.

    A local time in a gap has the offset before the gap, and a repeated one is the first of the two (RFC 5545, section
    3.3.5). When the start is the second of two, so are the local times that follow it in that hour.
    """

    start: datetime

    @property
    def zone(self) -> tzinfo:
        """The zone of the local times."""
        return self.start.tzinfo or timezone.utc

    @cached_property
    def local_start(self) -> datetime:
        """The start as naive local time."""
        return self.start.replace(tzinfo=None, fold=0)

    @cached_property
    def starts_at(self) -> datetime:
        """The start as an instant."""
        return self.start.astimezone(timezone.utc)

    @cached_property
    def never_shifts(self) -> bool:
        """Whether the zone has a single offset."""
        return self.zone.utcoffset(None) is not None

    def instant(self, second: int) -> datetime:
        """Return the instant at which a local time from the start on fires."""
        local = local_at(second)
        first = to_utc(local, self.zone)
        return first if first >= self.starts_at else to_utc(local.replace(fold=1), self.zone)

    def passed(self, instant: datetime) -> Passed:
        """Return the local times that have fired at an instant; before the start, those that can never fire."""
        instant = max(instant, self.starts_at - _MICROSECOND)
        local = instant.astimezone(self.zone)
        last = second_of(local)
        shift = None if self.never_shifts else recent_shift(instant, self.zone)
        if shift is None:
            return Passed(last)
        if local.fold and self.instant(last) < instant - _SECOND:  # the second pass, in which nothing fires
            return Passed(second_of(shift.from_local) - 1)
        return Passed(last, range(second_of(instant + shift.before) + 1, second_of(shift.to_local)))

    def seconds_at(self, instants: Iterable[datetime]) -> Iterator[int]:
        """Yield the local times that would fire at some instants: the one shown, and one in a gap."""
        offsets: dict[int, int | None] = {}
        for instant in instants:
            if instant < self.starts_at:
                continue
            day = instant.toordinal()
            if day not in offsets:
                offsets[day] = self._steady_seconds(instant)
            offset = offsets[day]
            if offset is None:
                yield from self._seconds_near_shift(instant)
            else:
                yield second_of(instant) + offset

    def gap_of(self, second: int) -> Shift | None:
        """Return the shift that skips a local time; None when that exists."""
        if self.never_shifts:
            return None
        local = local_at(second)
        offset = offset_at(local, self.zone)
        if offset == offset_at(local.replace(fold=1), self.zone):
            return None
        shift = recent_shift(to_utc(local, self.zone), self.zone)
        return shift if shift is not None and shift.from_local <= local < shift.to_local else None

    def _steady_seconds(self, instant: datetime) -> int | None:
        """Return the offset on the UTC date of an instant; None if it changes then or the day before."""
        midnight = datetime.combine(instant.date(), time(), timezone.utc)
        offset = offset_during(midnight + _DAY, self.zone)
        return int(offset.total_seconds()) if offset == offset_during(midnight - _DAY, self.zone) else None

    def _seconds_near_shift(self, instant: datetime) -> Iterator[int]:
        shown, shift = second_of(instant.astimezone(self.zone)), recent_shift(instant, self.zone)
        if self.instant(shown) == instant:
            yield shown
        if shift is not None:
            skipped = range(second_of(shift.from_local), second_of(shift.to_local))
            if (moved := second_of(instant + shift.before)) in skipped:
                yield moved
