"""The runs to come: of one entry, of all, held by a pause, moved by clock changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from heapq import heappop, heappush
from itertools import islice, takewhile
from typing import Any, NamedTuple

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.stored_entry import StoredEntry, load
from redisbeater.editing.upcoming import UpcomingRun, runs_from
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry, RedisBeaterError
from redisbeater.management.entry_view import EntryView
from redisbeater.management.long_read import long_read
from redisbeater.management.search import Search
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.passed_values import check_number
from redisbeater.model.plan import plan
from redisbeater.model.policies import Anchor
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.budget import Count, StepsExhausted
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.timetable import Timetable, clock_change_note
from redisbeater.store import Snapshot
from redisbeater.store.connection import end_if_cancelled
from redisbeater.times import EPOCH

#: Engine steps that the fire times of one entry may take.
_STEPS = 20_000_000

_SECOND = timedelta(seconds=1)


class FutureRuns(NamedTuple):
    """The future of one entry: its policy, the fire time that comes next, how many runs are left; when it ran last."""

    name: str
    policy: ResolvedPolicy
    first: datetime
    runs_left: int | None
    schedule_text: str
    ran_at: datetime | None = None

    @property
    def group(self) -> tuple[object, ...]:
        """A key that entries with the same seconds of all their runs share."""
        policy, timetable = self.policy, self.policy.timetable
        if policy.jitter or timetable.kind.depends_on_entry(timetable.schedule):
            return (self.name,)
        first = self.first
        if timetable.period is not None and not policy.skip and timetable.period % _SECOND == timedelta():
            first = first.replace(microsecond=0)
        bounds = (timetable.start_at, timetable.end_at, policy.disabled_until, policy.skip)
        return (self.schedule_text, str(timetable.zone), *bounds, first, self.runs_left)

    def ran_since(self, moment: datetime) -> bool:
        """Return whether its last run was sent after a moment."""
        return self.ran_at is not None and self.ran_at > moment

    def seconds(self, start: datetime, end: datetime, most: int) -> Iterator[int]:
        """Yield the UNIX seconds of the runs that are due from one instant up to another, at most ``most``."""
        left = self.runs_left
        with suppress(InvalidEntry, OverflowError):
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
            moment = newest if newest >= start else timetable.next(newest)
        if timetable.period is not None and not policy.skip:
            while moment is not None and moment < end and not timetable.is_past_end(moment):
                yield moment
                moment += timetable.period
            return
        for fire_time in takewhile(lambda each: each < end, policy.kept_from(moment)):
            yield fire_time
            timetable.known.clear()


def course_of(stored: StoredEntry, defaults: Defaults, codec: ScheduleCodec) -> FutureRuns | None:
    """Return the future of a stored entry, also of one disabled until a time, or None if it will not run."""
    if not stored.definition.enabled:
        return None
    policy, count = ResolvedPolicy.of(stored.definition, defaults).afresh(_STEPS), stored.meta.total_run_count
    first = stored.fire_time(policy)
    if first is not None and first <= stored.now and policy.max_runs is not None:
        planned = plan(policy, first, stored.now, run_count=count)  # what is overdue is not shown, and uses runs up
        first, count = policy.kept(planned.next.fire_time), count + len(planned.runs)
    course = None if first is None else _course(stored.definition, policy, first, count, codec)
    return None if course is None else course._replace(ran_at=stored.meta.last_run_at)


def new_course(definition: Definition, now: datetime, defaults: Defaults, codec: ScheduleCodec) -> FutureRuns | None:
    """Return the future of an entry that is created now, or None if it will not run."""
    if not definition.enabled:
        return None
    policy = ResolvedPolicy.of(definition, defaults).afresh(_STEPS)
    first = policy.kept(policy.timetable.first(now))
    return None if first is None else _course(definition, policy, first, 0, codec)


def _course(
    definition: Definition, policy: ResolvedPolicy, first: datetime, count: int, codec: ScheduleCodec
) -> FutureRuns | None:
    left = None if definition.max_runs is None else definition.max_runs - count
    if left is not None and left <= 0:
        return None
    return FutureRuns(definition.name, policy, first, left, json_text.to_text(codec.encode(definition.schedule)))


#: How many entries are read to count their fire times.
MOST_READ = 1_000


@dataclass(frozen=True, kw_only=True)
class HeldRuns:
    """The fire times that have come, or will have come, and have not run.

    Attributes:
        entries: how many entries have some.
        fire_times: how many there are.
        runs: how many of them run at the end of the pause, by ``misfire_grace_time`` and ``coalesce``.
        is_at_least: whether there may be more of all: counting them would take too long.
    """

    entries: int
    fire_times: int
    runs: int = 0
    is_at_least: bool = False

    @property
    def fallen(self) -> int:
        """How many fire times fall away."""
        return max(self.fire_times - self.runs, 0)


@long_read
def read_held(context: Context, until: datetime | None = None) -> HeldRuns:
    """Return how many fire times have come and have not run, or will have come then; of 1,000 entries at most."""

    def has_come(entry: EntryView) -> bool:
        if entry.next is None or entry.stored is None:
            return False
        return entry.next <= (until or entry.stored.now)

    held = takewhile(has_come, Search(context, sort="next").each(MOST_READ + 1))
    found = [entry.stored for entry in islice(held, MOST_READ + 1) if entry.stored is not None]
    counts = [_count(context, stored, until or stored.now) for stored in found[:MOST_READ]]
    return HeldRuns(
        entries=len(counts),
        fire_times=sum(count.number for count, _ in counts),
        runs=sum(runs for _, runs in counts),
        is_at_least=len(found) > MOST_READ or any(count.is_at_least for count, _ in counts),
    )


def _count(context: Context, stored: StoredEntry, at: datetime) -> tuple[Count, int]:
    """Count the fire times of an entry that is late at a time, without those left out, and those that run then."""
    try:
        policy = ResolvedPolicy.of(stored.definition, context.in_zone(stored.zone).defaults).afresh()
        first = stored.fire_time(policy)
        if first is None or first > at or policy.anchor is Anchor.EXECUTION:
            return Count(1), 1
        newest = policy.timetable.newest(first, at)
        count = policy.timetable.count(first, newest)
        planned = plan(policy, first, at, run_count=stored.meta.total_run_count)
    except (InvalidEntry, OverflowError):
        return Count(1, is_at_least=True), 1
    number = count.number - sum(first < moment <= newest for moment in policy.skip)
    if policy.max_runs is not None:
        number = min(number, policy.max_runs - stored.meta.total_run_count)
    return Count(max(number, 1), count.is_at_least), len(planned.runs)


#: Zones change their clocks twice a year, if at all.
SEARCHED_DAYS = 366

#: Clocks change by less than this.
_AROUND = timedelta(hours=3)

#: An entry that fires so often around a change is not worth a note.
MOST_FIRE_TIMES = 30


def next_clock_change(context: Context, entry: RedisScheduleEntry) -> UpcomingRun | None:
    """Return the first run within a year that a change of the clocks moves, or that falls into a repeated hour.

    An interval counts elapsed time, and has none. Asks Redis for the time, writes nothing.
    """
    definition = entry._definition()
    now, stored_zone = context.redis.clock()
    defaults = context.in_zone(stored_zone).defaults
    timetable = definition.timetable(defaults.zone, defaults.calendars)
    if definition.is_interval or not definition.enabled:
        return None
    with suppress(OverflowError, StepsExhausted, InvalidEntry):
        for change in _changes(timetable.local_zone, now):
            if found := _affected(definition, timetable, max(change - _AROUND, now), change + _AROUND):
                return found
    return None


def _changes(zone: tzinfo, now: datetime) -> list[datetime]:
    """Return the full hours after which the offset of a zone is another one."""
    day, hour = timedelta(days=1), timedelta(hours=1)
    days = (now + number * day for number in range(SEARCHED_DAYS))
    changing = [start for start in days if _offset(start, zone) != _offset(start + day, zone)]
    hours = (start + number * hour for start in changing for number in range(24))
    return [start for start in hours if _offset(start, zone) != _offset(start + hour, zone)]


def _offset(moment: datetime, zone: tzinfo) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()


def _affected(definition: Definition, timetable: Timetable, start: datetime, end: datetime) -> UpcomingRun | None:
    zone = timetable.local_zone
    for fire_time in islice(timetable.between(start, end), MOST_FIRE_TIMES):
        if note := clock_change_note(timetable.schedule, zone, fire_time):
            instant = fire_time.astimezone(timezone.utc)
            return UpcomingRun(
                name=definition.name,
                task=definition.task,
                fire_time=instant,
                local=fire_time.astimezone(zone),
                due_at=instant,
                note=note,
            )
    return None


#: How many are listed of one entry, and of the whole schedule, unless somebody asks for another number.
NEXT_OF_ENTRY, NEXT_OF_SCHEDULE = 5, 20


def next_runs(
    context: Context,
    *,
    within: timedelta | None = None,
    limit: int = 20,
    start: datetime | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[UpcomingRun]:
    """Return the next runs; :meth:`redisbeater.ScheduleStore.upcoming`.

    Arguments:
        context: the app whose schedule it is.
        within: only runs that are due within this time from now, or from ``start``.
        limit: how many at most.
        start: only runs from this instant on.
        progress: called with the number of entries read so far, after each page.

    Raises:
        ValueError: an argument is not valid.
    """
    _check(within, limit)
    agenda = _Agenda(context, start, progress)
    begin = start or context.redis.clock()[0]
    end = None if within is None else begin + within
    found: list[UpcomingRun] = []
    for run in agenda.runs():
        if len(found) == limit or (end is not None and run.due_at > end):
            break
        found.append(run)
    return sorted(found, key=lambda run: (run.due_at, run.name))


def next_runs_of(
    context: Context, name: str, *, within: timedelta | None, limit: int, start: datetime | None
) -> list[UpcomingRun]:
    """Return the next runs of one entry, with the arguments of :func:`next_runs`.

    Raises:
        EntryNotFound: there is none of that name.
        InvalidEntry: it is broken.
        ValueError: an argument is not valid.
    """
    _check(within, limit)
    stored = load(context, name)
    end = None if within is None else (start or stored.now) + within
    runs = runs_from(stored, context.in_zone(stored.zone).defaults, start)
    return list(islice(takewhile(lambda run: end is None or run.due_at <= end, runs), limit))


class _Agenda:
    """Merges the runs of all entries. An entry is read only when no run of those that were read comes before it."""

    def __init__(self, context: Context, start: datetime | None, progress: Callable[[int], None] | None) -> None:
        self._context = context
        self._start = start
        self._progress = progress
        self._pages = context.redis.contents.names_by_score()
        self._read = 0
        #: No entry that was not read yet is due before; None: all were read.
        self._frontier: datetime | None = datetime.min.replace(tzinfo=context.redis.clock()[0].tzinfo)
        self._waiting: list[tuple[datetime, str, int, UpcomingRun, Iterator[UpcomingRun]]] = []
        self._seen: set[str] = set()

    def runs(self) -> Iterator[UpcomingRun]:
        """Yield the runs, the next one first."""
        while True:
            while self._frontier is not None and not (self._waiting and self._waiting[0][0] <= self._frontier):
                self._read_page()
            if not self._waiting:
                return
            *_, run, following = heappop(self._waiting)
            self._add(following)
            yield run

    def _read_page(self) -> None:
        page = next(self._pages, [])
        names = [name for name in page if name not in self._seen]
        snapshots = self._context.redis.load_many(names)
        self._seen.update(names)
        times = [time for snapshot in snapshots if (time := _score_of(snapshot)) is not None]
        for snapshot in snapshots:
            self._add(self._runs_of(snapshot))
        # Dormant entries come last. A run that is asked for at a later time may be of an entry that is due before it.
        if not page or (names and not times):
            self._frontier = None
        elif times:
            self._frontier = min(self._start, max(times)) if self._start else max(times)
        self._read += len(names)
        if self._progress is not None:
            self._progress(self._read)

    def _add(self, runs: Iterator[UpcomingRun]) -> None:
        run = next(runs, None)
        if run is not None:
            heappush(self._waiting, (run.due_at, run.name, id(runs), run, runs))

    def _runs_of(self, snapshot: Snapshot) -> Iterator[UpcomingRun]:
        """Yield the runs of an entry; of one that is broken none."""
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._context.reader.codec)
            defaults = self._context.in_zone(stored.zone).defaults
            yield from runs_from(stored, defaults, self._start)
        except (RedisBeaterError, OverflowError):
            return


def _score_of(snapshot: Snapshot) -> datetime | None:
    score = snapshot.score
    return None if score is None or score.dormant else score.fire_time


def _check(within: Any, limit: Any) -> None:
    if within is not None and within < timedelta():
        raise ValueError(f"within: expected a time that is not negative, got {quoted(within)}")
    check_number("limit", limit)
