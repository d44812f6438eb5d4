"""Simulate a schedule: its runs minute by minute, the peak, and how changes would move them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from typing import NamedTuple, TypeVar

from redisbeater.context import Context
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.files.definitions import definition_of
from redisbeater.management.files.export import Export
from redisbeater.management.files.plan import Changes
from redisbeater.management.future import FutureRuns, course_of, new_course
from redisbeater.management.long_read import long_read
from redisbeater.management.search import Filter, Search
from redisbeater.model.definition import Definition
from redisbeater.model.passed_values import checked_instant
from redisbeater.store import pages
from redisbeater.times import EPOCH

#: Fire times that one simulation finds, and then the first one of each entry that is left. Entries of one schedule
#: share theirs.
MOST_FIRE_TIMES = 5_000_000

#: An entry that ran in this time before a simulation is among its bands, also if it has no run in it.
BEFORE = timedelta(hours=6, minutes=15)

_MICROSECOND = timedelta(microseconds=1)

#: What tells one entry of a family from another: digits at the end of its name.
_NUMBER = re.compile(r"[\W_]*\d+$")


class Peak(NamedTuple):
    """A moment and how many runs it has."""

    at: datetime
    runs: int


#: So many entries of a family that run alike have a band each; more have one together.
MOST_APART = 3


class Band(NamedTuple):
    """How many runs an entry has, and the UNIX second of the first; 0: it has none, but ran shortly before.

    Or each of several that run alike: ``family`` is what their names begin with, and ``entries`` how many there are.
    """

    name: str
    runs: int
    first: int
    family: str = ""
    entries: int = 1


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The runs between two instants, ``end`` not included.

    Attributes:
        entries: how many entries run at all.
        per_second: UNIX seconds -> runs.
        zone: whose hours and days are counted.
        peak: the entries that run in the busiest minute: name -> runs, those first that have most above what they have
            in a minute on average. Those whose names differ only in a number at the end are one, ``report*``.
        is_at_least: whether there are more runs, which were not counted because that takes too long; of some entries
            the first run alone is counted then.
        bands: the entries that run, or ran in the six hours before; those with the fewest runs first, then by time.
    """

    start: datetime
    end: datetime
    zone: tzinfo
    entries: int
    per_second: Mapping[int, int]
    peak: Mapping[str, int] = field(default_factory=dict)
    is_at_least: bool = False
    bands: Sequence[Band] = ()

    @property
    def runs(self) -> int:
        """The number of all runs."""
        return sum(self.per_second.values())

    @property
    def busiest_second(self) -> Peak | None:
        """The second with the most runs, the first of several, or None if there is no run."""
        return _busiest(self.per_second)

    @property
    def busiest_minute(self) -> Peak | None:
        """The minute with the most runs, the first of several, or None if there is no run."""
        return _busiest(_by(60, self.per_second))

    def counts(self, per: str) -> list[Peak]:
        """Return the runs of each minute, hour or day, in order, those without runs included.

        Raises:
            ValueError: ``per`` is no such word.
        """
        if per not in ("minute", "hour", "day"):
            raise ValueError(f"per: expected minute, hour or day, got {per!r}")
        counted: Counter[datetime] = Counter()
        for second, runs in self.per_second.items():
            counted[_floor(_instant(second).astimezone(self.zone), per)] += runs
        return [Peak(at, counted[at]) for at in self._buckets(per)]

    def _buckets(self, per: str) -> Iterator[datetime]:
        """Yield where minutes, hours or days begin; those of a day are not always 24."""
        step = {"minute": timedelta(minutes=1), "hour": timedelta(minutes=30), "day": timedelta(hours=6)}[per]
        last = None
        moments = int((self.end - self.start) / step) + 1
        for moment in (*(self.start + number * step for number in range(moments)), self.end - _MICROSECOND):
            bucket = _floor(moment.astimezone(self.zone), per)
            if moment < self.end and bucket != last:
                yield bucket
                last = bucket


def simulate(
    courses: Iterable[FutureRuns],
    start: datetime,
    end: datetime,
    zone: tzinfo,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Return the runs of entries from one instant up to another, with their jitter, without those that are overdue.

    ``progress`` is called with the number of entries that are done.

    Raises:
        ValueError: ``end`` is not after ``start``.
    """
    if end <= start:
        raise ValueError(f"end: expected a time after {start.isoformat()}, got {end.isoformat()}")
    groups: defaultdict[tuple[object, ...], list[FutureRuns]] = defaultdict(list)
    for course in courses:
        groups[course.group].append(course)
    per_second: Counter[int] = Counter()
    bands: list[Band] = []
    rates: dict[tuple[object, ...], float] = {}
    minutes = (end - start) / timedelta(minutes=1)
    found = entries = done = 0
    for group, members in groups.items():
        seconds = Counter(members[0].seconds(start, end, max(MOST_FIRE_TIMES - found, 1)))
        for second, runs in seconds.items():
            per_second[second] += runs * len(members)
        runs, first = sum(seconds.values()), min(seconds, default=0)
        rates[group] = runs / minutes
        bands += _bands(members, runs, first, start - max(BEFORE, (end - start) / 3))
        found, done = found + runs, done + len(members)
        entries += len(members) if seconds else 0
        if progress is not None:
            progress(done)
    busiest = _busiest(_by(60, per_second))
    return Simulation(
        start=start,
        end=end,
        zone=zone,
        entries=entries,
        per_second=per_second,
        peak=_peak(groups, rates, busiest, start, end) if busiest else {},
        is_at_least=found >= MOST_FIRE_TIMES,
        bands=sorted(bands, key=lambda band: (band.runs, band.first, band.name)),
    )


def _bands(members: Sequence[FutureRuns], runs: int, first: int, since: datetime) -> Iterator[Band]:
    """Yield the bands of entries that run alike: those of a family that have not run since a moment are one."""
    waiting: defaultdict[str, list[str]] = defaultdict(list)
    for each in members:
        if each.ran_since(since):
            yield Band(each.name, runs, first)
        elif runs:
            waiting[_NUMBER.sub("", each.name)].append(each.name)
    for family, names in waiting.items():
        if family and len(names) > MOST_APART:
            yield Band(min(names), runs, first, family, len(names))
        else:
            yield from (Band(name, runs, first) for name in names)


def number_of_runs(course: FutureRuns, start: datetime, end: datetime, known: dict[tuple[object, ...], int]) -> int:
    """Return how many runs an entry has between two instants; ``known`` remembers those of entries like it."""
    group = course.group
    if group not in known:
        known[group] = sum(1 for _ in course.seconds(start, end, MOST_FIRE_TIMES))
    return known[group]


def _peak(
    groups: Mapping[tuple[object, ...], list[FutureRuns]],
    rates: Mapping[tuple[object, ...], float],
    busiest: Peak,
    start: datetime,
    end: datetime,
) -> dict[str, int]:
    """Return the entries that run in the busiest minute by families: those first that are its reason.

    Arguments:
        groups: the entries that run alike.
        rates: how many runs one of them has in a minute, on average.
        busiest: the minute.
        start: when the simulation begins.
        end: when it ends.
    """
    families: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    usual: defaultdict[str, float] = defaultdict(float)
    begin = (busiest.at - EPOCH) // timedelta(seconds=1)
    since = max(start, busiest.at - timedelta(minutes=1))
    until = min(end, busiest.at + timedelta(minutes=1))
    for group, members in groups.items():
        runs = sum(1 for second in members[0].seconds(since, until, MOST_FIRE_TIMES) if 0 <= second - begin < 60)
        for member in members if runs else ():
            stem = _NUMBER.sub("", member.name) or member.name
            families[stem].append((member.name, runs))
            usual[stem] += rates[group]
    counted = [
        (sum(runs for _, runs in found) - usual[stem], f"{stem}*" if len(found) > 1 else found[0][0], found)
        for stem, found in families.items()
    ]
    counted.sort(key=lambda each: (-each[0], each[1]))
    return {name: sum(runs for _, runs in found) for _, name, found in counted}


def _by(seconds: int, per_second: Mapping[int, int]) -> Counter[int]:
    counted: Counter[int] = Counter()
    for second, runs in per_second.items():
        counted[second - second % seconds] += runs
    return counted


def _busiest(counted: Mapping[int, int]) -> Peak | None:
    if not counted:
        return None
    second, runs = min(counted.items(), key=lambda item: (-item[1], item[0]))
    return Peak(_instant(second), runs)


def _instant(second: int) -> datetime:
    return datetime.fromtimestamp(second, timezone.utc)


def _floor(moment: datetime, per: str) -> datetime:
    if per == "day":
        return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return moment.replace(minute=moment.minute if per == "minute" else 0, second=0, microsecond=0)


#: How many entries are read in one step.
PIECE = 250

_DAY, _WEEK = timedelta(days=1), timedelta(days=7)

#: A schedule with more entries than this is not simulated before each change of a file.
MOST_FORECAST = 2_000

Progress = Callable[[int], None]

Item = TypeVar("Item")


def simulate_schedule(
    context: Context,
    start: datetime | None,
    end: datetime | None,
    entries: Iterable[RedisScheduleEntry] | Export | None,
    wanted: Filter,
    progress: Progress | None,
    *,
    states: Collection[str],
    text: str,
) -> Simulation:
    """Return how many runs there will be between two instants; of stored entries those that :func:`search` finds.

    Raises:
        ValueError: ``end`` is not after ``start``, or one of them is no datetime.
        InvalidEntry: an entry that is passed cannot be stored.
    """
    now, zone = context.redis.clock()
    context = context.in_zone(zone)
    start = now if start is None else checked_instant(start, context.zone, "start")
    end = start + _DAY if end is None else checked_instant(end, context.zone, "end")
    if entries is None:
        is_plain = not states and not text
        stored = _stored(context, wanted, progress) if is_plain else _found(context, wanted, states, text)
        return simulate(_courses(context, stored), start, end, context.zone, progress)
    definitions = (each for each in _definitions(context, entries) if _is_wanted(each, wanted))
    courses = (new_course(each, now, context.defaults, context.codec) for each in definitions)
    return simulate(filter(None, _counted(courses, progress)), start, end, context.zone, progress)


@long_read
def due_seconds(
    context: Context, names: Sequence[str], start: datetime, end: datetime, most: int
) -> dict[str, list[int]]:
    """Return the UNIX seconds of the runs of some entries between two instants, the first ``most`` of each."""
    courses = _courses(context, _read(context, names, Filter(), None))
    return {course.name: list(course.seconds(start, end, most)) for course in courses}


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

    def __init__(self, context: Context, changes: Changes, progress: Progress | None) -> None:
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
            course = None if entry is None else course_of_stored(context, entry)
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
            self.busiest_before = _runs_of_busiest_minute(runs([*others, *old_entries]))
            self.busiest_after = _runs_of_busiest_minute(runs([*others, *new_entries]))


def forecast(context: Context, changes: Changes, progress: Progress | None = None) -> Forecast | None:
    """Return how changes move the runs of the next week, or None if there are no changes, or too many.

    ``progress`` is called with the number of changed entries that were looked at.
    """
    if not changes.differ or len(changes.entries) > MOST_FORECAST:
        return None
    return Forecast(context, changes, progress)


def _runs_of_busiest_minute(simulation: Simulation) -> int:
    return simulation.busiest_minute.runs if simulation.busiest_minute else 0


def _courses(context: Context, entries: Iterable[StoredEntry]) -> Iterator[FutureRuns]:
    return filter(None, (course_of_stored(context, stored) for stored in entries))


def _found(context: Context, wanted: Filter, states: Collection[str], text: str) -> Iterator[StoredEntry]:
    """Yield the entries in states, or with a text, that are not quarantined."""
    for found in Search(context, wanted, states=states, text=text).entries():
        if found.stored is not None and found.state != "broken":
            yield found.stored


def read_stored(context: Context, names: Sequence[str]) -> Iterator[StoredEntry]:
    """Yield those of some entries that can be read and are not quarantined."""
    return _read(context, names, Filter(), None)


def course_of_stored(context: Context, stored: StoredEntry) -> FutureRuns | None:
    """Return the future of a stored entry, or None if it will not run, or nobody can tell when."""
    context = context.in_zone(stored.zone)
    try:
        return course_of(stored, context.defaults, context.codec)
    except (InvalidEntry, OverflowError):
        return None


def _stored(context: Context, wanted: Filter | None = None, progress: Progress | None = None) -> Iterator[StoredEntry]:
    """Yield the entries that can be read and are not quarantined."""
    wanted = wanted or Filter()
    names = [name for name in context.redis.contents.names() if wanted.lets_name_through(name)]
    return _read(context, names, wanted, progress)


def _read(context: Context, names: Sequence[str], wanted: Filter, progress: Progress | None) -> Iterator[StoredEntry]:
    for number, page in enumerate(pages(names, PIECE), 1):
        for snapshot in context.redis.load_many(page):
            with suppress(InvalidEntry):
                if snapshot.exists and not snapshot.is_broken:
                    stored = StoredEntry.from_snapshot(snapshot, context.reader.codec)
                    if wanted.lets_through(stored):
                        yield stored
        if progress is not None:
            progress(min(number * PIECE, len(names)))


def _definitions(context: Context, entries: Iterable[RedisScheduleEntry] | Export) -> Iterator[Definition]:
    if isinstance(entries, Export):
        rules = context.task_options
        yield from (definition_of(each, context.codec, rules, context.zone) for each in entries.entries.values())
    else:
        yield from (entry._definition() for entry in entries)


def _is_wanted(definition: Definition, wanted: Filter) -> bool:
    return wanted.lets_name_through(definition.name) and wanted.lets_definition_through(definition)
