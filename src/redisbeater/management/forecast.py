"""Simulate the entries of a schedule, of a file, or entries that are not stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from celery import Celery

from redisbeater.context import Context, task_options
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.course import Course, course_of, new_course
from redisbeater.management.entry_filter import Filter
from redisbeater.management.files.changes import Changes
from redisbeater.management.files.definitions import definition_of
from redisbeater.management.files.export import Export
from redisbeater.management.search import search
from redisbeater.management.simulation import Simulation, number_of_runs, simulate
from redisbeater.model.definition import Definition
from redisbeater.model.passed_values import checked_instant
from redisbeater.store import pages

__all__ = ("Forecast", "forecast", "simulate_schedule")

#: How many entries are read in one step.
PIECE = 250

_DAY, _WEEK = timedelta(days=1), timedelta(days=7)

#: A schedule with more entries than this is not simulated before each change of a file.
MOST_FORECAST = 2_000

Progress = Callable[[int], None]

Item = TypeVar("Item")


def simulate_schedule(
    app: Celery,
    start: datetime | None,
    end: datetime | None,
    entries: Iterable[RedisScheduleEntry] | Export | None,
    wanted: Filter,
    progress: Progress | None = None,
    *,
    states: Collection[str] = (),
    text: str = "",
) -> Simulation:
    """Return how many runs there will be between two instants; of stored entries those that :func:`search` finds.

    Raises:
        ValueError: ``end`` is not after ``start``, or one of them is no datetime.
        InvalidEntry: an entry that is passed cannot be stored.
    """
    context = Context.of(app)
    now, zone = context.redis.clock()
    context = context.in_zone(zone)
    start = now if start is None else checked_instant(start, context.zone, "start")
    end = start + _DAY if end is None else checked_instant(end, context.zone, "end")
    if entries is None:
        is_plain = not states and not text
        stored = _stored(context, wanted, progress) if is_plain else _found(context, wanted, states, text)
        return simulate(_courses(context, stored), start, end, context.zone, progress)
    definitions = (each for each in _definitions(app, context, entries) if _is_wanted(each, wanted))
    courses = (new_course(each, now, context.defaults, context.codec) for each in definitions)
    return simulate(filter(None, _counted(courses, progress)), start, end, context.zone, progress)


def _counted(items: Iterable[Item], progress: Progress | None) -> Iterator[Item]:
    for number, item in enumerate(items, 1):
        if progress is not None:
            progress(number)
        yield item


class Forecast:
    """How applying changes moves the runs of the next week.

    Attributes:
        more, fewer: runs that the changed entries have more, and fewer.
        busiest_before, busiest_after: runs of the busiest minute of the whole schedule; None: it is too large.
    """

    def __init__(self, context: Context, changes: Changes, progress: Progress | None = None) -> None:
        self.more = self.fewer = 0
        self.busiest_before: int | None = None
        self.busiest_after: int | None = None
        context = context.in_zone("")
        before = {each.name: each.before for each in changes.entries if each.before is not None}
        after = {each.name: each.after for each in changes.entries if each.after is not None}
        changed = {each.name for each in changes.entries if each.kind != "keep"}
        end = changes.now + _WEEK

        def runs(entries: Iterable[StoredEntry]) -> Simulation:
            return simulate(_courses(context, entries), changes.now, end, changes.zone)

        known: dict[tuple[object, ...], int] = {}

        def count(entry: StoredEntry | None) -> int:
            course = None if entry is None else _course(context, entry)
            return 0 if course is None else number_of_runs(course, changes.now, end, known)

        for number, name in enumerate(changed, 1):
            old, new = count(before.get(name)), count(after.get(name))
            self.more, self.fewer = self.more + max(new - old, 0), self.fewer + max(old - new, 0)
            if progress is not None:
                progress(number)
        if context.redis.contents.count() <= MOST_FORECAST:
            others = [each for each in _stored(context) if each.definition.name not in changed]
            old_entries = [entry for name, entry in before.items() if name in changed]
            new_entries = [entry for name, entry in after.items() if name in changed]
            self.busiest_before = _busiest(runs([*others, *old_entries]))
            self.busiest_after = _busiest(runs([*others, *new_entries]))


def forecast(app: Celery, changes: Changes, progress: Progress | None = None) -> Forecast | None:
    """Return how applying changes moves the runs of the next week; None: they are too many to tell at once.

    ``progress`` is called with the number of changed entries that were looked at.
    """
    if not changes.differ or len(changes.entries) > MOST_FORECAST:
        return None
    return Forecast(Context.of(app), changes, progress)


def _busiest(simulation: Simulation) -> int:
    return simulation.busiest_minute.runs if simulation.busiest_minute else 0


def _courses(context: Context, entries: Iterable[StoredEntry]) -> Iterator[Course]:
    return filter(None, (_course(context, stored) for stored in entries))


def _found(context: Context, wanted: Filter, states: Collection[str], text: str) -> Iterator[StoredEntry]:
    """Yield the entries in states, or with a text, that are not quarantined."""
    for found in search(context, wanted, states=states, text=text):
        if found.stored is not None and found.state != "broken":
            yield found.stored


def _course(context: Context, stored: StoredEntry) -> Course | None:
    context = context.in_zone(stored.zone)
    try:
        return course_of(stored, context.defaults, context.codec)
    except Exception:  # a custom schedule is the application's code: only its own entry may suffer
        return None


def _stored(context: Context, wanted: Filter | None = None, progress: Progress | None = None) -> Iterator[StoredEntry]:
    """Yield the entries that can be read and are not quarantined."""
    wanted = wanted or Filter()
    names = [name for name in context.redis.contents.names() if wanted.lets_name_through(name)]
    for number, page in enumerate(pages(names, PIECE), 1):
        for snapshot in context.redis.load_many(page):
            with suppress(InvalidEntry):
                if snapshot.exists and not snapshot.is_broken:
                    stored = StoredEntry.from_snapshot(snapshot, context.reader.codec)
                    if wanted.lets_through(stored):
                        yield stored
        if progress is not None:
            progress(min(number * PIECE, len(names)))


def _definitions(app: Celery, context: Context, entries: Iterable[RedisScheduleEntry] | Export) -> Iterator[Definition]:
    if isinstance(entries, Export):
        rules = task_options(app)
        yield from (definition_of(each, context.codec, rules, context.zone) for each in entries.entries.values())
    else:
        yield from (entry.definition() for entry in entries)


def _is_wanted(definition: Definition, wanted: Filter) -> bool:
    return wanted.lets_name_through(definition.name) and wanted.lets_definition_through(definition)
