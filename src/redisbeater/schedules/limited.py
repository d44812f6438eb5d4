"""Crons and intervals that fire only within a window, or on days of a calendar: ``between``, ``days``, ``calendar``.

A cron keeps the slots within its window, and fires as if its text had only these. An interval begins anew whenever its
window opens: at the opening, and then at each interval before the close; without a window, each day is one. A calendar
chooses the days on which windows open. With ``roll``, a fixed cron fires on other days instead of those that do not
count. Beats without these fields refuse what is stored.

A window opens whenever the clock comes to show a time within, so in a repeated hour perhaps twice. One that lies in a
gap opens for an instant at the end of the gap, if its date exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from celery.schedules import BaseSchedule
from celery.schedules import schedule as celery_interval

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules import any_of as union
from redisbeater.schedules.any_of import CRONS, AnyOfKind, any_of, joined_clock_changes
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.calendar import (
    Calendars,
    Days,
    calendar_names,
    checked_calendar,
    checked_roll,
    days_of,
    unknown,
)
from redisbeater.schedules.calendar import in_words as calendar_in_words
from redisbeater.schedules.crontab import Slots, nominal_times, slots_of
from redisbeater.schedules.crontab_text import PATH
from redisbeater.schedules.english import kind_in_words, zone_text
from redisbeater.schedules.interval import IntervalKind, every
from redisbeater.schedules.kind import OwnSchedule, ScheduleKind, check_fields
from redisbeater.schedules.rolled import RolledSlots
from redisbeater.schedules.window import FIELDS, Span, Window, checked_between, checked_days, window_of
from redisbeater.schedules.zones import Shift, offset_during, shifts_between

#: The ``__type__`` of the stored form.
NAME = "limited"

#: What a search takes for each day that it looks at, and for each window of it.
_DAY_STEPS, _WINDOW_STEPS = 10, 5

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)

#: Every month has had each of its dates on each weekday.
_YEARS = datetime(2000, 1, 1), datetime(2041, 1, 1)

#: The kinds of schedules that may have a window.
_KINDS: Mapping[type, ScheduleKind[Any]] = {celery_interval: IntervalKind(), **CRONS, any_of: AnyOfKind()}
_KINDS_BY_NAME = {kind.name: kind for kind in _KINDS.values()}


class limited(OwnSchedule):
    """A schedule that fires only within a window or on days of calendars; an entry makes it of its fields.

    Arguments:
        schedule: the cron, several or the interval.
        between, days, calendar, roll: the fields of the entry.
        chosen: the days of its calendars, or what to do about one that there is not; None: nobody has looked yet.

    Raises:
        InvalidEntry: the schedule has no windows, is an interval that is not shorter than one, or never fires within.
    """

    def __init__(
        self,
        schedule: Any,
        between: str | None = None,
        days: str | None = None,
        calendar: str | None = None,
        roll: str | None = None,
        chosen: Days | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._slots: Slots | None = None
        self.schedule, self.between, self.days = schedule, between, days
        self.calendar, self.roll, self.chosen = calendar, roll, chosen
        self.timezone = getattr(schedule, "timezone", None)
        path = f"$.{next(name for name in FIELDS if getattr(self, name) is not None)}"
        if type(schedule) not in _KINDS or getattr(schedule, "relative", False):
            problem = "is for crons and for intervals that are not relative"
            raise InvalidEntry(path, f"{problem}; the schedule is {quoted(schedule)}")
        if getattr(schedule, "nowfun", None) is not None:
            raise InvalidEntry(PATH, "nowfun cannot be stored; give the entry a timezone='Europe/Vienna' instead")
        self.window = window_of(between, days)
        #: The length of an interval; None: it is no interval.
        self.every = every(schedule) if isinstance(schedule, celery_interval) else None
        self._parts: tuple[BaseSchedule, ...] = ()
        if roll is not None:
            self._check_roll()
        if self.every is not None:
            if self.every >= self.window.shortest:
                problem = "a window must be longer than the interval, so that it fires more than once"
                if not self.has_window:
                    problem = "an interval begins anew on each day, so it must be shorter"
                raise InvalidEntry(path, f"{problem}; expected more than {self.every}, got {self.window.shortest}")
        elif isinstance(schedule, any_of):
            self._parts = tuple(map(self.of, schedule.parts))
        elif getattr(schedule, "is_bound", True):
            slots = WindowedSlots(slots_of(schedule), self.window) if self.has_window else slots_of(schedule)
            if self.has_window and chosen is None and slots.first(*_YEARS) is None:
                raise InvalidEntry(path, f"{quoted(union.cron_text(schedule))} has no time {self.window.words}")
            self._slots = slots if calendar is None else None

    def of(self, schedule: BaseSchedule) -> limited:
        """Return another schedule that is limited alike."""
        return limited(schedule, *self._key, self.chosen)

    @property
    def has_window(self) -> bool:
        """Whether it has one, besides its calendars."""
        return self.between is not None or self.days is not None

    @property
    def words(self) -> str:
        """Its window and its calendars in words."""
        window = self.window.words if self.has_window else ""
        calendar = calendar_in_words(self.calendar, self.roll) if self.calendar else ""
        return ", ".join(filter(None, (window, calendar)))

    @property
    def calendars(self) -> list[str]:
        """The names of its calendars."""
        return calendar_names(self.calendar)

    def on_days_of(self, calendars: Calendars) -> limited:
        """Return it with the days of its calendars; itself without a calendar."""
        if self.calendar is None:
            return self
        missing = next((name for name in self.calendars if name not in calendars), None)
        chosen = unknown(missing, calendars).problem if missing else days_of(self.calendar, calendars)
        return self if chosen == self.chosen else limited(self.schedule, *self._key, chosen)

    @property
    def on_all_days(self) -> BaseSchedule:
        """The same without its calendars."""
        between = "00:00-24:00" if self.every is not None and not self.has_window else self.between
        is_limited = between is not None or self.days is not None
        return limited(self.schedule, between, self.days) if is_limited else self.schedule

    @property
    def counted_days(self) -> Days | None:
        """The days of its calendars; None without a calendar.

        Raises:
            InvalidEntry: there is no such calendar.
        """
        if self.calendar is None or isinstance(self.chosen, Days):
            return self.chosen  # type: ignore[return-value]
        raise InvalidEntry("$.calendar", self.chosen or unknown(self.calendars[0]).problem)

    @property
    def parts(self) -> tuple[BaseSchedule, ...]:
        """The crons, each with the window; none of an interval."""
        return self._parts or (() if self.every else (self,))

    @property
    def slots(self) -> Slots:
        """The slots of a cron that lie within; InvalidEntry if what decides them is not known."""
        if self._slots is None and getattr(self.schedule, "is_bound", True):
            self._slots = self._on_days(slots_of(self.schedule), self.counted_days)
        return self._slots or slots_of(self.schedule)

    def _on_days(self, slots: Slots, days: Days | None) -> Slots:
        if self.roll is not None and days is not None:
            return RolledSlots(slots, days, self.roll)
        return WindowedSlots(slots, self.window, days)

    def _check_roll(self) -> None:
        """Refuse ``roll`` where it means nothing."""
        if self.calendar is None:
            raise InvalidEntry("$.roll", "is for entries with a calendar; give it calendar='at', or leave roll out")
        if self.has_window:
            raise InvalidEntry("$.roll", "is not for entries with between or days; leave these out, or roll")
        parts = getattr(self.schedule, "parts", (self.schedule,))
        known = [part for part in parts if getattr(part, "is_bound", True)]
        repeating = (
            [self.schedule] if self.every is not None else [part for part in known if slots_of(part).is_repeating]
        )
        if repeating:
            text = "an interval" if self.every is not None else quoted(union.cron_text(repeating[0]))
            raise InvalidEntry("$.roll", f"is for crons of fixed times, such as '0 9 * * *'; {text} means elapsed time")

    def _following(self, after: datetime) -> datetime | None:
        return next_fire_time(self, self.tz, after, Steps())

    def __repr__(self) -> str:
        return f"<{self.schedule!r} {self.words}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, limited) and (self.schedule, *self._key) == (other.schedule, *other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.schedule, *self._key, self.chosen)

    @property
    def _key(self) -> tuple[str | None, str | None, str | None, str | None]:
        return self.between, self.days, self.calendar, self.roll


def limit(schedule: BaseSchedule, fields: Mapping[str, Any]) -> BaseSchedule:
    """Return a schedule with the window and the calendars of an entry, itself without any.

    Raises:
        InvalidEntry: as for :class:`limited`; or it has a window already.
    """
    given = {name: str(fields[name]) for name in FIELDS if fields[name] is not None}
    if not given:
        return schedule
    if type(schedule) is limited:
        raise InvalidEntry(f"$.{next(iter(given))}", "is also in the schedule; write it once")
    return limited(schedule, **given)


def unlimited(schedule: Any) -> Any:
    """Return a schedule without its window and its calendars."""
    return schedule.schedule if type(schedule) is limited else schedule


def flattened(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a stored entry with those beside the schedule that are stored with it.

    What cannot be read, or is in both places, stays as it is: whoever reads the schedule says what is wrong.
    """
    stored = data.get("schedule")
    if not isinstance(stored, Mapping) or stored.get("__type__") != NAME:
        return data
    within = {name: value for name, value in stored.items() if name not in ("__type__", "schedule")}
    if within.keys() - set(FIELDS) or within.keys() & data.keys():
        return data
    return {**data, "schedule": stored.get("schedule"), **within}


def kind_of_inner(schedule: BaseSchedule) -> ScheduleKind[Any]:
    """Return the kind of a schedule that may have a window."""
    return _KINDS[type(schedule)]


def rolled_from(schedule: Any, zone: tzinfo, fire_time: datetime) -> list[date]:
    """Return the days that do not count, in order, whose fire times were moved to an instant."""
    found: set[date] = set()
    for day, sources, _ in _rolled_to(schedule, zone, fire_time):
        found.update(sources if day not in sources else ())
    return sorted(found)


def meant_times(schedule: Any, zone: tzinfo, fire_time: datetime) -> set[datetime]:
    """Return the local times that one with ``roll`` means by a fire time, on the days from which they were moved."""
    moved = _rolled_to(schedule, zone, fire_time)
    return {datetime.combine(day, time) for _, sources, time in moved for day in sources}


def _rolled_to(schedule: Any, zone: tzinfo, fire_time: datetime) -> Iterator[tuple[date, list[date], time]]:
    """Yield the days and times of the parts that fire at an instant, and with each day those that were moved there."""
    for part in schedule.parts if type(schedule) is limited and schedule.roll else ():
        for nominal in nominal_times(part, zone, fire_time):
            yield nominal.date(), part.slots.sources(nominal.date()), nominal.time()


class WindowedSlots(Slots):
    """The slots of a cron that lie within a window; a slot after midnight may be within that of the day before.

    Arguments:
        days: on which days windows open; None: on all that the window allows.
    """

    __slots__ = ("_before", "_days", "_own", "_slots", "_within", "unit")

    def __init__(self, slots: Slots, window: Window, days: Days | None = None) -> None:
        self._slots, self.unit, self._days = slots, slots.unit, days
        before, own = ([part(day) for day in range(7)] for part in (window.of_day_before, window.of_day))
        units = {spans: self._units(spans) for spans in {*before, *own}}
        #: The parts of each weekday within windows of the day before, and of its own, in units; none where the cron has
        #: no time within them.
        self._before, self._own = [units[spans] for spans in before], [units[spans] for spans in own]
        self._within = [before + own for before, own in zip(self._before, self._own)]

    def _units(self, spans: tuple[Span, ...]) -> tuple[Span, ...]:
        units = _MINUTE // self.unit
        within = tuple((start * units, end * units) for start, end in spans)
        return within if self._count(_DAY // self.unit, within, date.min) else ()

    @property
    def is_repeating(self) -> bool:
        """Whether the whole cron is: a window does not change that."""
        return self._slots.is_repeating

    def is_matching_day(self, day: date) -> bool:
        """Tell whether the cron allows a date, and a window lies on it."""
        return bool(self._on(day)) and self._slots.is_matching_day(day)

    def matching_days(self, first: date, last: date) -> Iterator[date]:
        """Yield the dates from ``first`` to ``last``, both included, that the cron allows and a window touches."""
        if self._days is not None:
            first, last = max(first, self._days.first), min(last, self._days.last + _DAY)
        return filter(self._on, self._slots.matching_days(first, last))

    def time_from(self, least: int, day: date) -> int | None:
        """Return the first time of a date, ``least`` or later, that the cron allows and that lies within."""
        time = -1  # the first of the cron from the window on that was looked at last
        for start, end in self._on(day):
            if end <= least:
                continue
            if time < max(least, start):  # else it is the first one from here on, too
                following = self._slots.time_from(max(least, start), day)
                if following is None:
                    return None
                time = following
            if time < end:
                return time
        return None

    def count_times(self, before: int, day: date) -> int:
        """Count the times of a date before one of them that the cron allows and that lie within."""
        return self._count(before, self._on(day), day)

    def count_on_days(self, first: date, last: date) -> int:
        """Count the slots on the dates from ``first`` to ``last``, both included, by what of each lies within."""
        if self._days is None and all(within == self._within[0] for within in self._within):
            return super().count_on_days(first, last)
        whole, kinds = _DAY // self.unit, Counter(map(self._on, self.matching_days(first, last)))
        return sum(days * self._count(whole, within, first) for within, days in kinds.items())

    def _count(self, before: int, within: tuple[Span, ...], day: date) -> int:
        count = self._slots.count_times
        return sum(count(min(before, end), day) - count(min(before, start), day) for start, end in within)

    def _on(self, day: date) -> tuple[Span, ...]:
        weekday, days = day.isoweekday() % 7, self._days
        if days is None:
            return self._within[weekday]
        before, own = self._before[weekday], self._own[weekday]
        return (before if before and days.counts(day - _DAY) else ()) + (own if own and days.counts(day) else ())


def openings(window: Window, zone: tzinfo, day: date) -> list[tuple[datetime, datetime]]:
    """Return the instants from which and to which the windows are open that open on a date; in a gap, both are one."""
    times, midnight = window.times_of(day), datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
    if not times:
        return []
    begun = midnight - _DAY
    if not any(shifts_between(begun, begun + 4 * _DAY, zone)):  # the last one ends on the day after
        offset = offset_during(begun, zone)
        return [(midnight + opens - offset, midnight + closes - offset) for opens, closes in times]
    found: dict[datetime, datetime] = {}
    for start, end in window.opened_on(day):
        for opens, closes in _open(start, end, zone):
            found[opens] = max(closes, found.get(opens, closes))
    return sorted(found.items())


#: Entries of a burst have the same days, and often the same window.
_known_openings = lru_cache(1000)(openings)


def _open(start: datetime, end: datetime, zone: tzinfo) -> list[tuple[datetime, datetime]]:
    """Return the instants from which and to which the clock shows local times from one up to another."""
    first, last = start.replace(tzinfo=timezone.utc), end.replace(tzinfo=timezone.utc)
    begun, until = first - _DAY, last + _DAY
    found: list[tuple[datetime, datetime]] = []
    offset = offset_during(begun, zone)
    for shift in (*shifts_between(begun, until, zone), None):
        opens, closes = max(begun, first - offset), min(shift.at if shift else until, last - offset)
        if opens < closes:
            if found and found[-1][1] == opens:  # the clock has only been moved within
                opens = found.pop()[0]
            found.append((opens, closes))
        if shift is not None:
            if _swallows(shift, start, end):
                found.append((shift.at, shift.at))
            begun, offset = shift.at, shift.after
    return found


def _swallows(shift: Shift, start: datetime, end: datetime) -> bool:
    """Tell whether a window lies in a gap, and the date on which it opens exists."""
    midnight = start.replace(hour=0, minute=0)
    exists = midnight < shift.from_local or shift.to_local < midnight + _DAY
    return shift.from_local <= start and end <= shift.to_local and exists


def next_fire_time(schedule: limited, zone: tzinfo, after: datetime, steps: Steps) -> datetime | None:
    """Return the first fire time after an instant, both aware UTC; None when there is none."""
    if schedule.every is None:
        return union.next_fire_time(schedule.parts, zone, after)
    length, days, found = schedule.every, schedule.counted_days, None
    found_openings = _known_openings if type(zone) in (ZoneInfo, timezone) else openings  # others may have no hash
    # A clock that is put back may show the days before again, and after the next one has begun.
    day = after.astimezone(zone).date() - 2 * _DAY
    while found is None or day <= found.astimezone(zone).date() + _DAY:
        if days is not None and (following := days.following(day)) != day:
            if following is None:
                break
            day = following
            continue
        steps.take(_DAY_STEPS + _WINDOW_STEPS * len(schedule.window.spans))
        for opens, closes in found_openings(schedule.window, zone, day):
            following = opens if after < opens else opens + ((after - opens) // length + 1) * length
            if after < opens or following < closes:
                found = following if found is None else min(found, following)
        day += _DAY
    return found


def counted(schedule: limited, zone: tzinfo, first: datetime, last: datetime, steps: Steps) -> Iterator[int]:
    """Yield numbers whose sum is that of the fire times between two instants, both included: of an interval by days."""
    if schedule.every is None:
        yield from union.counted(schedule.parts, zone, first, last, steps)
        return
    length, days = schedule.every, schedule.counted_days
    day, end = first.astimezone(zone).date() - 2 * _DAY, last.astimezone(zone).date() + 2 * _DAY
    if days is not None:
        end = min(end, days.last)
    opened: set[datetime] = set()  # two windows that lie in one gap open together
    while day <= end:
        steps.take(_DAY_STEPS + _WINDOW_STEPS * len(schedule.window.spans))
        does_open = days is None or days.counts(day)
        for opens, closes in openings(schedule.window, zone, day) if does_open else ():
            # The opening is the fire time number 0, if another window has not had it.
            least = max(-((opens - first) // length), 1 if opens in opened else 0)
            most = (min(last, max(closes - _MICROSECOND, opens)) - opens) // length
            yield max(most - least + 1, 0)
            opened.add(opens)
        day += _DAY


#: How the fields are read that are stored with a schedule.
_CHECKS = dict(zip(FIELDS, (checked_between, checked_days, checked_calendar, checked_roll)))


class LimitedKind(AnyOfKind):
    """A cron, several or an interval, within a window or on days of calendars."""

    __slots__ = ()

    schedule_class = limited
    name = NAME
    word = ""
    passed_as = ""

    def encode(self, schedule: Any) -> dict[str, Any]:
        """Return the stored form of the schedule, and the fields beside it that are set."""
        kind = kind_of_inner(schedule.schedule)
        within = {name: value for name in FIELDS if (value := getattr(schedule, name)) is not None}
        return {"schedule": {"__type__": kind.name, **kind.encode(schedule.schedule)}, **within}

    def decode(self, data: dict[str, Any]) -> BaseSchedule:
        """Return the schedule of a stored form, limited as it says."""
        check_fields(data, ("schedule", *FIELDS))
        kind, fields = _inner(data)
        if kind is None:
            expected = " or ".join(repr(name) for name in _KINDS_BY_NAME)
            raise InvalidEntry(f"{PATH}.schedule", f"expected one of the type {expected}, got {quoted(fields)}")
        given = {name: check(data[name], f"$.{name}") for name, check in _CHECKS.items() if data.get(name) is not None}
        return limited(kind.decode(fields), **given) if given else kind.decode(fields)

    def comparable(self, data: Mapping[str, Any]) -> Any:
        """Return it with a value of its schedule that is equal for what is read alike."""
        kind, fields = _inner(data)
        return {**data, "schedule": (kind.name, kind.comparable(fields))} if kind else dict(data)

    def next(self, schedule: Any, zone: tzinfo, after: datetime, steps: Steps | None = None) -> datetime | None:
        """Return the next fire time; each day that is looked at for an interval takes steps."""
        return next_fire_time(schedule, zone, after, steps or Steps())

    def counted(self, schedule: Any, zone: tzinfo, after: datetime, until: datetime, steps: Steps) -> Iterable[int]:
        """Return numbers whose sum is that of the fire times between."""
        return counted(schedule, zone, after + _MICROSECOND, until, steps)

    def fires_at(self, schedule: Any, zone: tzinfo, instant: datetime) -> bool:
        """Tell whether an instant is a fire time."""
        if schedule.every is None:
            return union.fires_at(schedule.parts, zone, instant)
        return next_fire_time(schedule, zone, instant - _MICROSECOND, Steps()) == instant

    def nominal_times(self, schedule: Any, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
        """Return the local times that fire at an instant, of an interval the openings that a gap has moved there."""
        if schedule.every is None:
            return super().nominal_times(schedule, zone, fire_time)
        moved: set[datetime] = set()
        for shift in shifts_between(fire_time - _MICROSECOND, fire_time, zone):
            for day in (shift.from_local.date(), shift.to_local.date()):
                starts = (start for start, _ in schedule.window.opened_on(day))
                moved |= {start for start in starts if shift.from_local <= start < shift.to_local}
        return tuple(sorted(moved)) or (fire_time.astimezone(zone).replace(tzinfo=None, fold=0),)

    def parts(self, schedule: Any) -> tuple[BaseSchedule, ...]:
        """Return the crons, each with the window; an interval has only itself."""
        return schedule.parts or (schedule,)

    def means_elapsed_time(self, schedule: Any) -> bool:
        """Tell whether it is an interval, or all parts are repeating: windows and calendars do not change that."""
        return all(slots_of(part.schedule).is_repeating for part in schedule.parts)

    def for_entry(self, schedule: Any, name: str) -> BaseSchedule:
        """Return it with the numbers that the name decides."""
        inner = kind_of_inner(schedule.schedule).for_entry(schedule.schedule, name)
        bound: limited = schedule.of(inner)
        return bound

    def depends_on_entry(self, schedule: Any) -> bool:
        """Tell whether it has ``H``."""
        return kind_of_inner(schedule.schedule).depends_on_entry(schedule.schedule)

    def is_cron(self, schedule: Any) -> bool:
        """Tell whether it is no interval."""
        return schedule.every is None

    def describe(self, schedule: Any, zone: str | tzinfo | None) -> str:
        """Describe the times and days, the window, the calendars, and in which zone if it is known."""
        named = zone_text(zone) or schedule.timezone
        behind = f", {named}" if named else ""
        inner = kind_of_inner(schedule.schedule).describe(schedule.schedule, named).removesuffix(behind)
        return f"{inner}, {schedule.words}{behind}"

    def describe_clock_changes(self, schedule: Any) -> str:
        """Describe whether it is repeating: within a window, that is by the clock."""
        words = {
            union.cron_text(part.schedule): kind_in_words(slots_of(part.schedule).is_repeating, 0)
            for part in schedule.parts
        }
        return joined_clock_changes(words) if words else kind_in_words(True, 0)

    def cron_text(self, schedule: Any) -> str:
        """Return the texts of the crons; empty for an interval."""
        return kind_of_inner(schedule.schedule).cron_text(schedule.schedule)

    def cron_fields(self, schedule: Any) -> dict[str, str]:
        """Return the fields of the cron text, if there is one."""
        return kind_of_inner(schedule.schedule).cron_fields(schedule.schedule)

    def text(self, schedule: Any) -> Any:
        """Return None: the window is written in fields of its own."""
        return None


def _inner(data: Mapping[str, Any]) -> tuple[ScheduleKind[Any] | None, dict[str, Any]]:
    """Return the kind of the schedule within a stored form, None if it is none of these, and its fields."""
    stored = data.get("schedule")
    fields = dict(stored) if isinstance(stored, Mapping) else {}
    name = fields.pop("__type__", None)
    return (_KINDS_BY_NAME.get(name) if isinstance(name, str) else None), fields
