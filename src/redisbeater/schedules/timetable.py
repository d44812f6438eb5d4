"""The timetable of an entry: all its fire times, between its bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from celery.schedules import BaseSchedule, crontab

from redisbeater.schedules import interval
from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.crontab import engine as crontab_engine
from redisbeater.schedules.fire_time import next_fire_time
from redisbeater.schedules.rrule.rrule import rrule

__all__ = ("COUNT_LIMIT", "Timetable")

#: The first window of the search for the newest missed fire times, which doubles until it has found them.
_FIRST_WINDOW = timedelta(minutes=1)

#: Fire times of rrules, solar and custom schedules are counted one by one, up to this number.
COUNT_LIMIT = 10_000

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class Timetable:
    """The fire times of a schedule in a zone between two bounds, both inclusive; all instants are aware UTC.

    An interval counts from one fire time to the next, so the methods take a fire time; with ``start_at``, its first
    fire time is ``start_at``.
    """

    schedule: BaseSchedule
    zone: tzinfo
    start_at: datetime | None = None
    end_at: datetime | None = None

    @property
    def local_zone(self) -> tzinfo:
        """The zone of its local times; an rrule has its own."""
        return self.schedule.zone if isinstance(self.schedule, rrule) else self.zone

    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time after an instant; None when there is none."""
        following = self._next(after)
        return None if following is None or self.is_past_end(following) else following

    def first(self, now: datetime) -> datetime | None:
        """Return the first fire time of an entry that is created now.

        If the schedule has a first fire time (``start_at`` of an interval, the first occurrence of an rrule, the time
        of a ``clocked``), it counts even when it has passed, as long as no later one has. Otherwise the entry waits
        for its next fire time.
        """
        start = self._given_start()
        if start is None or start > now or not self.includes(start):
            return self.next(now)
        upcoming = self.resumed(start, now) if self._counts_from_last() else self.next(now)
        return start if self.next(start) == upcoming else upcoming

    def resumed(self, anchor: datetime | None, now: datetime) -> datetime | None:
        """Return the first fire time after now of an entry that fired, or would have fired, at ``anchor``."""
        if anchor is None:
            return self.first(now)
        if anchor <= now:
            return self.next(self.newest(anchor, now))
        if not self._counts_from_last() or (self.start_at is not None and anchor < self.start_at):
            return self.next(now)
        return None if self.is_past_end(anchor) else anchor

    def restarted(self, last_run_at: datetime | None, now: datetime) -> datetime | None:
        """Return the first fire time after now of an entry that has just changed to this timetable."""
        if self.start_at is not None and self._counts_from_last():
            return self.resumed(self.start_at, now)
        return self.resumed(last_run_at, now)

    def includes(self, instant: datetime) -> bool:
        """Tell whether an instant lies between the bounds."""
        return not self.is_past_end(instant) and (self.start_at is None or instant >= self.start_at)

    def is_past_end(self, instant: datetime) -> bool:
        """Tell whether an instant is later than ``end_at``."""
        return self.end_at is not None and instant > self.end_at

    def newest(self, fire_time: datetime, until: datetime) -> datetime:
        """Return the newest fire time from ``fire_time`` up to an instant, without stepping through the missed ones."""
        until = self._bounded(until)
        if self._counts_from_last():
            return interval.latest(self.schedule, fire_time, until) if until > fire_time else fire_time
        following = self.next(fire_time)
        if following is None or following > until:
            return fire_time
        return self.newest_of(1, fire_time, until)[-1]

    def newest_of(self, limit: int, fire_time: datetime, until: datetime) -> list[datetime]:
        """Return the newest fire times from ``fire_time`` up to an instant, at most ``limit``, oldest first."""
        if self._counts_from_last():
            every = interval.every(self.schedule)
            newest = self.newest(fire_time, until)
            count = min(limit, (newest - fire_time) // every + 1)
            return [newest - every * back for back in reversed(range(count))]
        return self._newest_stepped(limit, fire_time, until) or self._newest_searched(limit, fire_time, until)

    def count(self, first: datetime, last: datetime) -> int:
        """Count the fire times from ``first`` to ``last``, both included; at least 1.

        The count is exact for intervals and crontabs; for other schedules it stops at ``COUNT_LIMIT``.
        """
        if self._counts_from_last():
            return interval.count(self.schedule, first, last)
        if type(self.schedule) is crontab:
            return 1 + crontab_engine.count(self.schedule, self.zone, first + _MICROSECOND, last)
        counted = 1
        for _ in self.between(first, last):
            counted += 1
            if counted == COUNT_LIMIT:
                break
        return counted

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the fire times after one instant and up to another, in order."""
        following = self.next(after)
        while following is not None and following <= until:
            yield following
            following = self.next(following)

    def _newest_stepped(self, limit: int, fire_time: datetime, until: datetime) -> list[datetime]:
        """Find them by stepping, if each depends on the one before; return [] when that takes too many steps."""
        if type(self.schedule) in (crontab, rrule):
            return []
        newest = deque([fire_time], maxlen=limit)
        for steps, following in enumerate(self.between(fire_time, until)):
            newest.append(following)
            if steps == COUNT_LIMIT:
                return []
        return list(newest)

    def _newest_searched(self, limit: int, fire_time: datetime, until: datetime) -> list[datetime]:
        window = _FIRST_WINDOW
        while True:
            since = max(fire_time, until - window)
            newest = deque(self.between(since, until), maxlen=limit)
            if since == fire_time:
                newest = deque([fire_time, *newest], maxlen=limit)
            if since == fire_time or len(newest) == limit:
                return list(newest)
            window *= 2

    def _counts_from_last(self) -> bool:
        return interval.counts_from_last(self.schedule)

    def _next(self, after: datetime) -> datetime | None:
        if self.start_at is None or after >= self.start_at:
            return next_fire_time(self.schedule, self.zone, after)
        if self._counts_from_last():
            return self.start_at
        return next_fire_time(self.schedule, self.zone, self.start_at - _MICROSECOND)

    def _given_start(self) -> datetime | None:
        if isinstance(self.schedule, clocked):
            return self.schedule.fire_time(self.zone)
        if isinstance(self.schedule, rrule):
            return self.schedule.first_occurrence()
        return self.start_at if self._counts_from_last() else None

    def _bounded(self, until: datetime) -> datetime:
        return until if self.end_at is None else min(until, self.end_at)
