"""The timetable of an entry: all its fire times, between its bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from itertools import islice

from celery.schedules import BaseSchedule, crontab, solar

from redisbeater.schedules import interval
from redisbeater.schedules.budget import COUNTING_STEPS, SEARCHING_STEPS, Count, Steps, StepsExhausted
from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.cron_expression.expression import cron_expression
from redisbeater.schedules.crontab import engine as crontab_engine
from redisbeater.schedules.fire_time import next_within_calendar
from redisbeater.schedules.rrule import fire_times as recurring
from redisbeater.schedules.rrule.rrule import rrule

__all__ = ("Timetable",)

#: The first window of the search for the newest missed fire times, which doubles until it has found them.
_FIRST_WINDOW = timedelta(minutes=1)

#: A window that holds this many times as many fire times as are wanted is too long.
_MOST_IN_WINDOW = 4

#: What it takes to find any next fire time, besides the steps of a rule or of a schedule of Celery's.
_FIRE_TIME_STEPS = 10

_MICROSECOND = timedelta(microseconds=1)


@dataclass(kw_only=True, slots=True)
class Timetable:
    """The fire times of a schedule in a zone between two bounds, both inclusive; all instants are aware UTC.

    An interval counts from one fire time to the next, so the methods take a fire time; with ``start_at``, its first
    fire time is ``start_at``.

    All its searches share the steps of ``searching``, and all its counts those of ``counting``. A search beyond them
    raises StepsExhausted, an InvalidEntry; a count beyond them says "at least".
    """

    schedule: BaseSchedule
    zone: tzinfo
    start_at: datetime | None = None
    end_at: datetime | None = None
    searching: Steps = field(default_factory=Steps, compare=False, repr=False)
    counting: Steps = field(default_factory=lambda: Steps(COUNTING_STEPS), compare=False, repr=False)
    #: The fire times that were found so far, by the instants that they follow.
    known: dict[datetime, datetime | None] = field(default_factory=dict, compare=False, repr=False)

    def afresh(self, limit: int = SEARCHING_STEPS) -> Timetable:
        """Return an equal timetable whose searches may take that many steps."""
        return Timetable(
            schedule=self.schedule, zone=self.zone, start_at=self.start_at, end_at=self.end_at, searching=Steps(limit)
        )

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

    def brought_back(self, fire_time: datetime, now: datetime) -> datetime:
        """Return the first fire time after now of an entry that had been moved on to ``fire_time``, in its phase."""
        if not self._counts_from_last():
            return self.next(now) or fire_time
        earliest = now + _MICROSECOND if self.start_at is None else max(now + _MICROSECOND, self.start_at)
        every = interval.every(self.schedule)
        return fire_time - every * ((fire_time - earliest) // every)

    def fires_at(self, instant: datetime) -> bool:
        """Tell whether an instant is a fire time, bounds aside; of a custom schedule, any may be one."""
        if type(self.schedule) is crontab:
            return crontab_engine.fires_at(self.schedule, self.zone, instant)
        return hasattr(self.schedule, "to_redisbeater") or self._next(instant - _MICROSECOND) == instant

    def is_on_given_grid(self, instant: datetime) -> bool:
        """Tell whether an interval fires at an instant because of its ``start_at``, whatever its last run."""
        return self.start_at is not None and not (instant - self.start_at) % interval.every(self.schedule)

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
        """Return the newest fire times from ``fire_time`` up to an instant, at most ``limit``, oldest first.

        If a schedule of the application has had so many that finding them takes too long, older ones are returned.
        """
        if self._counts_from_last():
            every = interval.every(self.schedule)
            newest = self.newest(fire_time, until)
            count = min(limit, (newest - fire_time) // every + 1)
            return [newest - every * back for back in reversed(range(count))]
        if isinstance(self.schedule, rrule):
            return self._newest_of_rule(self.schedule, limit, fire_time, until)
        return self._newest_stepped(limit, fire_time, until) or self._newest_searched(limit, fire_time, until)

    def count(self, first: datetime, last: datetime) -> Count:
        """Count the fire times from ``first`` to ``last``, both included; at least 1.

        Those of intervals, crontabs, cron expressions and rrules are counted by arithmetic, all others one by one. What
        takes too many steps is not counted to its end.
        """
        if self._counts_from_last():
            return Count(interval.count(self.schedule, first, last))
        if type(self.schedule) in (crontab, cron_expression):
            return Count(1 + crontab_engine.count(self.schedule, self.zone, first + _MICROSECOND, last))
        counted = 1
        try:
            for number in self._counted(first, last):
                counted += number
        except StepsExhausted:
            return Count(max(counted, 1), is_at_least=True)
        return Count(counted)

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the fire times after one instant and up to another, in order."""
        following = self.next(after)
        while following is not None and following <= until:
            yield following
            following = self.next(following)

    def _counted(self, first: datetime, last: datetime) -> Iterator[int]:
        """Yield numbers whose sum is that of the fire times after ``first`` and up to ``last``."""
        if isinstance(self.schedule, rrule):
            yield from recurring.count_between(self.schedule.recurrence, first + _MICROSECOND, last, self.counting)
            return
        yield from (1 for _ in replace(self, searching=self.counting).between(first, last))

    def _newest_of_rule(self, rule: rrule, limit: int, fire_time: datetime, until: datetime) -> list[datetime]:
        """Find them from an instant on that is found backwards; near a shift, it may be too late."""
        reach = limit
        while True:
            since = recurring.reach_back(rule.recurrence, reach, until, fire_time, self.searching)
            newest = deque([fire_time] if since == fire_time else [], maxlen=limit)
            after = since if since == fire_time else since - _MICROSECOND
            listed = recurring.listed(rule.recurrence, after, until, self.searching)
            newest.extend(self.between(after, until) if listed is None else listed)
            if since == fire_time or len(newest) == limit:
                return list(newest)
            reach *= 2

    def _newest_stepped(self, limit: int, fire_time: datetime, until: datetime) -> list[datetime]:
        """Find them by stepping, if each may depend on the one before; return [] when that takes too many steps."""
        if type(self.schedule) in (crontab, cron_expression, solar):
            return []
        newest = deque([fire_time], maxlen=limit)
        with self._partly() as part, suppress(StepsExhausted):
            newest.extend(part.between(fire_time, until))
            return list(newest)
        return []

    def _newest_searched(self, limit: int, fire_time: datetime, until: datetime) -> list[datetime]:
        """Find them in a window that ends at ``until``: it grows until it holds enough, and shrinks from too many."""
        newest, most = [fire_time], _MOST_IN_WINDOW * limit
        window, shortest, longest = _FIRST_WINDOW, timedelta(), None
        with self._partly() as part, suppress(StepsExhausted):
            while True:
                part.searching.take(_FIRE_TIME_STEPS)
                since = max(fire_time, until - window)
                found = [fire_time] if since == fire_time else []
                found.extend(islice(part.between(since, until), most))
                newest = found[-limit:] or newest
                if len(found) >= most:
                    longest = window
                elif since == fire_time or len(found) >= limit:
                    return newest
                else:
                    shortest = window
                window = window * 2 if longest is None else shortest + (longest - shortest) / 2
        return newest

    @contextmanager
    def _partly(self) -> Iterator[Timetable]:
        """Give a search most of the steps that are left, so that some are left for the next fire time."""
        part = replace(self, searching=Steps(self.searching.left * 3 // 4))
        try:
            yield part
        finally:
            self.searching.take(min(part.searching.taken, part.searching.limit))

    def _counts_from_last(self) -> bool:
        return interval.counts_from_last(self.schedule)

    def _next(self, after: datetime) -> datetime | None:
        if after in self.known:
            self.searching.take()
        else:
            self.searching.take(_FIRE_TIME_STEPS)
            self.known[after] = self._found(after)
        return self.known[after]

    def _found(self, after: datetime) -> datetime | None:
        if self.start_at is None or after >= self.start_at:
            return next_within_calendar(self.schedule, self.zone, after, self.searching)
        if self._counts_from_last():
            return self.start_at
        return next_within_calendar(self.schedule, self.zone, self.start_at - _MICROSECOND, self.searching)

    def _given_start(self) -> datetime | None:
        if isinstance(self.schedule, clocked):
            return self.schedule.fire_time(self.zone)
        if isinstance(self.schedule, rrule):
            return self.schedule.first_occurrence(self.searching)
        return self.start_at if self._counts_from_last() else None

    def _bounded(self, until: datetime) -> datetime:
        return until if self.end_at is None else min(until, self.end_at)
