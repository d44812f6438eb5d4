"""The next fire time of any schedule.

It depends only on a schedule, a zone and an instant, never on a clock: the next fire time is computed from the one
before, and not from when its run was really sent.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

from celery.schedules import BaseSchedule, crontab, solar
from celery.schedules import schedule as celery_interval

from redisbeater.schedules import crontab as crontab_engine
from redisbeater.schedules import interval
from redisbeater.schedules.budget import COUNTING_STEPS, SEARCHING_STEPS, Count, Steps, StepsExhausted
from redisbeater.schedules.cron_expression import cron_expression
from redisbeater.schedules.interval import clocked
from redisbeater.schedules.rrule import recurrence as recurring
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.zones import read_zone

#: What the next fire time of a relative interval takes.
_INTERVAL_STEPS = 10

#: What a call of a custom schedule takes that does simple arithmetic, a call of Celery's solar, and each day that solar
#: looks at without success, near a pole.
_CUSTOM_STEPS, _SOLAR_STEPS, _SOLAR_DAY_STEPS = 20, 500, 150

#: Celery's solar returns the end of its search, a year later, where an event never happens: at a pole.
_SEASON = timedelta(days=300)

_MINUTE = timedelta(minutes=1)

#: From here on, local times and the days before exist in all zones.
_EARLIEST = datetime(1, 1, 8, tzinfo=timezone.utc)


def next_fire_time(
    schedule: BaseSchedule, zone: tzinfo, after: datetime, steps: Steps | None = None
) -> datetime | None:
    """Return the first fire time after an instant.

    Arguments:
        schedule: Celery's crontab, schedule (interval) or solar, redisbeater's cron_expression, rrule or clocked, or
            a custom one.
        zone: the zone of local times, of zoneinfo, pytz or dateutil; an rrule has its own.
        after: an aware datetime, from which an interval counts.
        steps: the engine steps that finding it may take, if several searches share a budget.

    Returns:
        Aware UTC, later than ``after``; None when the schedule never fires again, or not before the calendar ends.

    Raises:
        ValueError: ``after`` is naive, or within a few days of the start of the calendar.
        InvalidEntry: finding it takes too many steps, or the schedule has ``H`` and no name of an entry.

    Example::

        next_fire_time(crontab(hour=9, minute=0), ZoneInfo("Europe/Vienna"), datetime.now(timezone.utc))
    """
    try:
        return next_within_calendar(schedule, zone, after, steps)
    except OverflowError:
        if after > _EARLIEST:
            return None
        raise ValueError(f"after: expected 8 January of year 1 or later, got {after.isoformat()}") from None


def next_within_calendar(
    schedule: BaseSchedule, zone: tzinfo, after: datetime, steps: Steps | None = None
) -> datetime | None:
    """Return the first fire time after an instant, like :func:`next_fire_time`; None when there is no other.

    Raises:
        OverflowError: it may have one that no datetime can hold.
        ValueError, InvalidEntry: as for :func:`next_fire_time`.
    """
    steps = steps or Steps()
    if after.tzinfo is not timezone.utc:
        after = _in_utc(after)
    if type(zone) not in (ZoneInfo, timezone):
        zone = read_zone(zone, "zone")
    if type(schedule) not in (celery_interval, crontab) and (
        hasattr(schedule, "to_redisbeater") or _is_overridden(schedule)
    ):
        return _by_celery(schedule, zone, after, steps)
    if isinstance(schedule, celery_interval):
        steps.take(_INTERVAL_STEPS)
        return interval.next_fire_time(schedule, zone, after)
    if isinstance(schedule, crontab):
        return crontab_engine.next_fire_time(schedule, zone, after)
    if isinstance(schedule, cron_expression):
        return schedule.next_fire_time(zone, after, steps)
    if isinstance(schedule, rrule):
        return schedule.next_fire_time(after, steps)
    if isinstance(schedule, clocked):
        at = schedule.fire_time(zone)
        return at if at > after else None
    return _by_celery(schedule, zone, after, steps)


def _in_utc(after: datetime) -> datetime:
    if after.tzinfo is None:
        raise ValueError(f"after: expected an aware datetime, got {after.isoformat()} without a zone")
    return after.astimezone(timezone.utc)


def _is_overridden(schedule: BaseSchedule) -> bool:
    """Tell whether a subclass of a crontab or an interval computes its fire times itself."""
    if not isinstance(schedule, (celery_interval, crontab)):
        return False
    return type(schedule).remaining_estimate not in (celery_interval.remaining_estimate, crontab.remaining_estimate)


def _by_celery(schedule: BaseSchedule, zone: tzinfo, after: datetime, steps: Steps) -> datetime | None:
    """Return the next fire time by Celery's contract: ask a schedule whose clock shows ``after`` how long to wait.

    A schedule that does not wait would not advance either, so it has finished.
    """
    steps.take(_SOLAR_STEPS if isinstance(schedule, solar) else _CUSTOM_STEPS)
    local = after.astimezone(zone)
    frozen = copy.copy(schedule)
    remaining = _ask(frozen, local) if not isinstance(schedule, solar) else _ask_solar(frozen, local)
    if isinstance(schedule, solar) and remaining is not None:
        steps.take(remaining.days * _SOLAR_DAY_STEPS)
        if remaining > _SEASON and not _is_event(frozen, local + remaining):
            return None
    return after + remaining if remaining is not None and remaining > timedelta() else None


def _ask(asked: BaseSchedule, local: datetime) -> timedelta | None:
    """Return how long a schedule waits whose clock shows a local time."""
    asked.nowfun = lambda: local
    remaining: timedelta | None = asked.remaining_estimate(local)
    return remaining


def _ask_solar(asked: solar, local: datetime) -> timedelta | None:
    """Return how long a solar schedule waits, or None if its event does not happen within a year.

    Celery before 5.7 looks at one day, and raises TypeError where the event does not happen on it: near a pole.
    """
    for day in (timedelta(days=number) for number in range(366)):
        with suppress(TypeError):
            remaining = _ask(asked, local + day)
            return None if remaining is None else day + remaining
    return None


def _is_event(asked: solar, local: datetime) -> bool:
    """Tell whether the event of a solar schedule happens at a local time."""
    remaining = _ask(asked, local - _MINUTE)
    return remaining is not None and remaining < 2 * _MINUTE


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
            yield from recurring.count_fire_times(self.schedule.recurrence, first + _MICROSECOND, last, self.counting)
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
