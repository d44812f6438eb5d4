"""``Course``: the runs that an entry will have, as far as its schedule and its policies decide them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from celery.schedules import schedule

from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.plan import plan
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules import ScheduleCodec, interval
from redisbeater.store.connection import end_if_cancelled
from redisbeater.times import EPOCH

__all__ = ("Course", "course_of", "new_course")

#: Engine steps that the fire times of one entry may take.
_STEPS = 20_000_000

_SECOND = timedelta(seconds=1)


class Course(NamedTuple):
    """The future of one entry: its policy, the fire time that comes next, and how many runs it has left."""

    name: str
    policy: ResolvedPolicy
    first: datetime
    runs_left: int | None
    schedule_text: str

    @property
    def group(self) -> tuple[object, ...]:
        """A key that entries with the same seconds of all their runs share."""
        policy, timetable = self.policy, self.policy.timetable
        if policy.jitter or '"custom"' in self.schedule_text:
            return (self.name,)
        first = self.first
        if policy.is_interval and not policy.skip and interval.every(timetable.schedule) % _SECOND == timedelta():
            first = first.replace(microsecond=0)
        bounds = (timetable.start_at, timetable.end_at, policy.disabled_until, policy.skip)
        return (self.schedule_text, str(timetable.zone), *bounds, first, self.runs_left)

    def seconds(self, start: datetime, end: datetime, most: int) -> Iterator[int]:
        """Yield the UNIX seconds of the runs that are due from one instant up to another, at most ``most``."""
        left = self.runs_left
        # The end of the calendar, or of the steps; or a custom schedule, the application's code, raises something.
        with suppress(Exception):
            for fire_time in self._fire_times(start - self.policy.jitter, end):
                end_if_cancelled()
                due_at = self.policy.due_at(fire_time)
                if most <= 0 or left == 0:
                    return
                left = None if left is None else left - 1  # those before the start are runs as well
                if start <= due_at < end:
                    most -= 1
                    yield (due_at - EPOCH) // _SECOND

    def _fire_times(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield the fire times up to ``end`` that are not left out; from ``start`` on, if no earlier one is counted."""
        policy, timetable = self.policy, self.policy.timetable
        moment: datetime | None = self.first
        if self.first < start and self.runs_left is None:
            newest = timetable.newest(self.first, start)
            moment = policy.kept(newest if newest >= start else timetable.next(newest))
        if type(timetable.schedule) is schedule and interval.counts_from_last(timetable.schedule) and not policy.skip:
            every = interval.every(timetable.schedule)
            while moment is not None and moment < end and not timetable.is_past_end(moment):
                yield moment
                moment += every
            return
        while moment is not None and moment < end:
            yield moment
            timetable.known.clear()
            moment = policy.kept(timetable.next(moment))


def course_of(stored: StoredEntry, defaults: Defaults, codec: ScheduleCodec) -> Course | None:
    """Return the future of a stored entry, also of one that is disabled until a time; None: it will not run."""
    if not stored.definition.enabled:
        return None
    policy, count = ResolvedPolicy.of(stored.definition, defaults).afresh(_STEPS), stored.meta.total_run_count
    first = stored.fire_time(policy)
    if first is not None and first <= stored.now and policy.max_runs is not None:
        planned = plan(policy, first, stored.now, run_count=count)  # what is overdue is not shown, and uses runs up
        first, count = policy.kept(planned.next.fire_time), count + len(planned.runs)
    return None if first is None else _course(stored.definition, policy, first, count, codec)


def new_course(definition: Definition, now: datetime, defaults: Defaults, codec: ScheduleCodec) -> Course | None:
    """Return the future of an entry that is created now; None: it will not run."""
    if not definition.enabled:
        return None
    policy = ResolvedPolicy.of(definition, defaults).afresh(_STEPS)
    first = policy.kept(policy.timetable.first(now))
    return None if first is None else _course(definition, policy, first, 0, codec)


def _course(
    definition: Definition, policy: ResolvedPolicy, first: datetime, count: int, codec: ScheduleCodec
) -> Course | None:
    left = None if definition.max_runs is None else definition.max_runs - count
    if left is not None and left <= 0:
        return None
    return Course(definition.name, policy, first, left, json_text.to_text(codec.encode(definition.schedule)))
