"""The next fire time of any schedule.

It depends only on a schedule, a zone and an instant, never on a clock: the next fire time is computed from the one
before, and not from when its run was really sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from celery.schedules import BaseSchedule

from redisbeater.schedules.budget import COUNTING_STEPS, SEARCHING_STEPS, Count, Steps, StepsExhausted
from redisbeater.schedules.english import clock_text, day_text, join_words
from redisbeater.schedules.interval import every
from redisbeater.schedules.kind import ScheduleKind
from redisbeater.schedules.kinds import kind_of
from redisbeater.schedules.limited import limited, rolled_from
from redisbeater.schedules.zones import read_zone

#: From here on, local times and the days before exist in all zones.
_EARLIEST = datetime(1, 1, 8, tzinfo=timezone.utc)


def next_fire_time(
    schedule: BaseSchedule, zone: tzinfo, after: datetime, steps: Steps | None = None
) -> datetime | None:
    """Return the first fire time after an instant.

    Arguments:
        schedule: Celery's crontab, schedule (interval) or solar, redisbeater's cron_expression, any_of, rrule or
            clocked, or a custom one.
        zone: the zone of local times, of zoneinfo, pytz or dateutil; an rrule has its own.
        after: an aware datetime, from which an interval counts.
        steps: the engine steps that finding it may take, if several searches share a budget.

    Returns:
        Aware UTC, later than ``after``; None when the schedule never fires again, or not before the calendar ends.

    Raises:
        ValueError: ``after`` is naive, or within a few days of the start of the calendar.
        InvalidEntry: finding it takes too many steps, the class of the schedule raised something, or the schedule has
            ``H`` and no name of an entry.

    Example::

        next_fire_time(crontab(hour=9, minute=0), ZoneInfo("Europe/Vienna"), datetime.now(timezone.utc))
    """
    try:
        return _next_within_calendar(kind_of(schedule), schedule, zone, after, steps or Steps())
    except OverflowError:
        if after > _EARLIEST:
            return None
        raise ValueError(f"after: expected 8 January of year 1 or later, got {after.isoformat()}") from None


def _next_within_calendar(
    kind: ScheduleKind[Any], schedule: BaseSchedule, zone: tzinfo, after: datetime, steps: Steps
) -> datetime | None:
    """Return the first fire time after an instant, like :func:`next_fire_time`; None when there is no other.

    Raises:
        OverflowError: it may have one that no datetime can hold.
        ValueError, InvalidEntry: as for :func:`next_fire_time`.
    """
    if after.tzinfo is not timezone.utc:
        after = _in_utc(after)
    if type(zone) not in (ZoneInfo, timezone):
        zone = read_zone(zone, "zone")
    return kind.next(schedule, zone, after, steps)


def _in_utc(after: datetime) -> datetime:
    if after.tzinfo is None:
        raise ValueError(f"after: expected an aware datetime, got {after.isoformat()} without a zone")
    return after.astimezone(timezone.utc)


#: The first window of the search for the newest missed fire times, which doubles until it has found them.
_FIRST_WINDOW = timedelta(minutes=1)

#: A window that holds this many times as many fire times as are wanted is too long.
_MOST_IN_WINDOW = 4

#: What it takes to find any next fire time, besides the steps of a rule or of a schedule of Celery's.
_FIRE_TIME_STEPS = 10

_MICROSECOND = timedelta(microseconds=1)

#: A note names at most this many local times one by one.
_MOST_TIMES = 8


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
    kind: ScheduleKind[Any] = field(init=False, compare=False, repr=False)
    #: The time between two fire times, if they lie on a grid that any of them fixes.
    period: timedelta | None = field(init=False, compare=False, repr=False)
    #: The fire times that were found so far, by the instants that they follow.
    known: dict[datetime, datetime | None] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.kind = kind_of(self.schedule)
        self.period = self.kind.period(self.schedule)

    def afresh(self, limit: int = SEARCHING_STEPS) -> Timetable:
        """Return an equal timetable whose searches may take that many steps.

        Each run is planned by one of its own, so it is not asked again what its schedule is.
        """
        other: Timetable = object.__new__(Timetable)
        other.schedule, other.zone, other.start_at, other.end_at = self.schedule, self.zone, self.start_at, self.end_at
        other.searching, other.counting = Steps(limit), Steps(COUNTING_STEPS)
        other.kind, other.period, other.known = self.kind, self.period, {}
        return other

    @property
    def local_zone(self) -> tzinfo:
        """The zone of its local times; an rrule has its own."""
        return self.kind.local_zone(self.schedule, self.zone)

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
        given = self.start_at if self.period is not None else None
        start = given or self.kind.first(self.schedule, self.zone, self.searching)
        if start is None or start > now or not self.includes(start):
            return self.next(now)
        upcoming = self.next(now) if self.period is None else self.resumed(start, now)
        return start if self.next(start) == upcoming else upcoming

    def resumed(self, anchor: datetime | None, now: datetime) -> datetime | None:
        """Return the first fire time after now of an entry that fired, or would have fired, at ``anchor``."""
        if anchor is None:
            return self.first(now)
        if anchor <= now:
            return self.next(self.newest(anchor, now))
        if self.period is None or (self.start_at is not None and anchor < self.start_at):
            return self.next(now)
        return None if self.is_past_end(anchor) else anchor

    def restarted(self, last_run_at: datetime | None, now: datetime) -> datetime | None:
        """Return the first fire time after now of an entry that has just changed to this timetable."""
        if self.start_at is not None and self.period is not None:
            return self.resumed(self.start_at, now)
        return self.resumed(last_run_at, now)

    def brought_back(self, fire_time: datetime, now: datetime) -> datetime:
        """Return the first fire time after now of an entry that had been moved on to ``fire_time``, in its phase."""
        if self.period is None:
            return self.next(now) or fire_time
        earliest = now + _MICROSECOND if self.start_at is None else max(now + _MICROSECOND, self.start_at)
        return fire_time - self.period * ((fire_time - earliest) // self.period)

    def fires_at(self, instant: datetime) -> bool:
        """Tell whether an instant is a fire time, bounds aside; of a custom schedule, any may be one."""
        found = self.kind.fires_at(self.schedule, self.zone, instant)
        return self._next(instant - _MICROSECOND) == instant if found is None else found

    def is_on_given_grid(self, instant: datetime) -> bool:
        """Tell whether an interval fires at an instant because of its ``start_at``, whatever its last run."""
        return self.start_at is not None and not (instant - self.start_at) % every(self.schedule)

    def includes(self, instant: datetime) -> bool:
        """Tell whether an instant lies between the bounds."""
        return not self.is_past_end(instant) and (self.start_at is None or instant >= self.start_at)

    def is_past_end(self, instant: datetime) -> bool:
        """Tell whether an instant is later than ``end_at``."""
        return self.end_at is not None and instant > self.end_at

    @property
    def ended_calendar(self) -> str:
        """The calendar because of whose end :meth:`next` finds none; empty where ``end_at`` comes first."""
        days = self.schedule.counted_days if type(self.schedule) is limited else None
        if days is None or (self.end_at is not None and self.end_at.astimezone(self.zone).date() <= days.last):
            return ""
        return days.of

    def newest(self, fire_time: datetime, until: datetime) -> datetime:
        """Return the newest fire time from ``fire_time`` up to an instant, without stepping through the missed ones."""
        until = self._bounded(until)
        if self.period is not None:
            return fire_time + (until - fire_time) // self.period * self.period if until > fire_time else fire_time
        following = self.next(fire_time)
        if following is None or following > until:
            return fire_time
        return self.newest_of(1, fire_time, until)[-1]

    def newest_of(self, limit: int, fire_time: datetime, until: datetime) -> list[datetime]:
        """Return the newest fire times from ``fire_time`` up to an instant, at most ``limit``, oldest first.

        If a schedule of the application has had so many that finding them takes too long, older ones are returned.
        """
        if self.period is not None:
            newest = self.newest(fire_time, until)
            count = min(limit, (newest - fire_time) // self.period + 1)
            return [newest - self.period * back for back in reversed(range(count))]
        found = self.kind.newest_of(self.schedule, limit, fire_time, until, self.searching, self.between)
        if found is None and not self.kind.is_memoryless:
            found = self._newest_stepped(limit, fire_time, until)
        return found or self._newest_searched(limit, fire_time, until)

    def count(self, first: datetime, last: datetime) -> Count:
        """Count the fire times from ``first`` to ``last``, both included; at least 1.

        Those of intervals, crontabs, cron expressions and rrules are counted by arithmetic, all others one by one. What
        takes too many steps is not counted to its end.
        """
        if self.period is not None:
            return Count(max((last - first) // self.period + 1, 0))
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

    def _counted(self, first: datetime, last: datetime) -> Iterable[int]:
        """Return numbers whose sum is that of the fire times after ``first`` and up to ``last``."""
        numbers = self.kind.counted(self.schedule, self.zone, first, last, self.counting)
        if numbers is None:
            numbers = (1 for _ in replace(self, searching=self.counting).between(first, last))
        return numbers

    def _newest_stepped(self, limit: int, fire_time: datetime, until: datetime) -> list[datetime]:
        """Find them by stepping, if each may depend on the one before; return [] when that takes too many steps."""
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

    def _next(self, after: datetime) -> datetime | None:
        if after in self.known:
            self.searching.take()
        else:
            self.searching.take(_FIRE_TIME_STEPS)
            self.known[after] = self._found(after)
        return self.known[after]

    def _found(self, after: datetime) -> datetime | None:
        if self.start_at is None or after >= self.start_at:
            return _next_within_calendar(self.kind, self.schedule, self.zone, after, self.searching)
        if self.period is not None:
            return self.start_at
        return _next_within_calendar(self.kind, self.schedule, self.zone, self.start_at - _MICROSECOND, self.searching)

    def _bounded(self, until: datetime) -> datetime:
        return until if self.end_at is None else min(until, self.end_at)


def part_note(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> str:
    """Name the parts of a schedule that fire at an instant: ``by 0 12 * * sat``; return "" for one without parts."""
    parts = kind_of(schedule).parts(schedule)
    if len(parts) < 2:
        return ""
    kinds = [(part, kind_of(part)) for part in parts]
    texts = [kind.cron_text(part) for part, kind in kinds if kind.fires_at(part, zone, fire_time)]
    return f"by {join_words(texts)}" if texts else ""


def roll_note(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> str:
    """Say from which days a fire time was moved: ``rolled from Sunday 1 November 2026``; return "" for any other."""
    days = [day_text(day) for day in rolled_from(schedule, zone, fire_time)]
    return f"rolled from {join_words(days)}" if days else ""


def clock_change_note(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> str:
    """Describe a fire time that a clock change moved, or whose local time comes twice; return "" for any other.

    Arguments:
        schedule: the schedule that fires.
        zone: the zone of the schedule's local times.
        fire_time: aware UTC.
    """
    local = fire_time.astimezone(zone)
    if moved := moved_times(schedule, zone, fire_time):
        verb = "does" if len(moved) == 1 else "do"
        return f"moved from {_clock_times(moved)}, which {verb} not exist on {moved[0]:%Y-%m-%d}"
    if _comes_twice(local):
        pass_ = "second" if local.fold else "first"
        return f"{clock_text(local.time())} comes twice on {local:%Y-%m-%d}; this is the {pass_}"
    return ""


def moved_times(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> list[datetime]:
    """Return the naive local times that a clock change moved to a fire time, because they did not exist."""
    local = fire_time.astimezone(zone).replace(tzinfo=None, fold=0)
    return [time for time in kind_of(schedule).nominal_times(schedule, zone, fire_time) if time != local]


def _clock_times(moved: Sequence[datetime]) -> str:
    if len(moved) > _MOST_TIMES:
        return f"{len(moved)} times between {clock_text(moved[0].time())} and {clock_text(moved[-1].time())}"
    return join_words([clock_text(moment.time()) for moment in moved])


def _comes_twice(local: datetime) -> bool:
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
