"""One recurrence rule: its parts, its times of day, and its clock: which local times fire at which instants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta, timezone, tzinfo
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from dateutil.rrule import DAILY, HOURLY, MINUTELY, MONTHLY, SECONDLY, WEEKLY, YEARLY, weekday

from redisbeater.display import quoted
from redisbeater.schedules.zones import Shift, offset_at, offset_during, recent_shift, to_utc

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


#: The seconds of an hour, a minute and a second.
CLOCK_SECONDS = (3600, 60, 1)


def unit_seconds(rule: RecurrenceRule) -> int:
    """Return the seconds of the unit of a rule's interval: an hour, a minute, a second, else a day."""
    return CLOCK_SECONDS[rule.freq - DAILY - 1] if rule.freq > DAILY else DAY_SECONDS


def clock_numbers(rule: RecurrenceRule) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Return the allowed hours, minutes and seconds of a rule; all of them for a part that is not given."""
    return _or_all(rule.byhour, 24), _or_all(rule.byminute, 60), _or_all(rule.bysecond, 60)


def _or_all(numbers: Sequence[int] | None, most: int) -> Sequence[int]:
    return range(most) if numbers is None or len(numbers) == most else numbers


def seconds_of(numbers: Iterable[Sequence[int]], sizes: Iterable[int]) -> list[int]:
    """Return the sums of all combinations of the numbers, each times its size in seconds, in order."""
    seconds = [0]
    for finer, size in zip(numbers, sizes):
        seconds = [second + number * size for second in seconds for number in finer]
    return seconds


FREQUENCIES = {
    "YEARLY": YEARLY,
    "MONTHLY": MONTHLY,
    "WEEKLY": WEEKLY,
    "DAILY": DAILY,
    "HOURLY": HOURLY,
    "MINUTELY": MINUTELY,
    "SECONDLY": SECONDLY,
}

BY_PARTS = (
    "bysetpos",
    "bymonth",
    "bymonthday",
    "byyearday",
    "byeaster",
    "byweekno",
    "byweekday",
    "byhour",
    "byminute",
    "bysecond",
)

#: The parts of a rule besides its two dates, in the order of RedBeat's stored form.
PARTS = ("freq", "interval", "wkst", "count", *BY_PARTS)

#: The values of a part, and those that count from the end. A year ends at most 250 days after Easter ("byeaster").
_VALUES = {
    "bysetpos": (range(1, 367), range(-366, 0)),
    "bymonth": (range(1, 13), range(0)),
    "bymonthday": (range(1, 32), range(-31, 0)),
    "byyearday": (range(1, 367), range(-366, 0)),
    "byeaster": (range(-80, 251), range(0)),
    "byweekno": (range(1, 54), range(-53, 0)),
    "byhour": (range(24), range(0)),
    "byminute": (range(60), range(0)),
    "bysecond": (range(60), range(0)),
}

_DAY_PARTS = ("bymonthday", "byyearday", "byeaster", "byweekno", "byweekday")

Numbers = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RecurrenceRule:
    """A rule whose parts are checked and sorted; a part that is None was not given.

    ``until`` is an instant; ``last`` is the last local time that it allows, and ``cut`` are earlier ones in a gap that
    would fire after it.
    """

    start: datetime
    freq: int
    interval: int = 1
    wkst: int = 0
    count: int | None = None
    until: datetime | None = None
    last: int | None = None
    cut: range = NONE
    bysetpos: Numbers | None = None
    bymonth: Numbers | None = None
    bymonthday: Numbers | None = None
    byyearday: Numbers | None = None
    byeaster: Numbers | None = None
    byweekno: Numbers | None = None
    byweekday: tuple[weekday, ...] | None = None
    byhour: Numbers | None = None
    byminute: Numbers | None = None
    bysecond: Numbers | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether all occurrences are exactly one interval apart."""
        return self.freq >= WEEKLY and all(getattr(self, part) is None for part in BY_PARTS)

    @property
    def max_weekday_number(self) -> int:
        """The highest number that a weekday can have: 53 if it counts in the year, 5 in the month."""
        return 53 if self.freq == YEARLY and self.bymonth is None else 5

    @property
    def most_per_day(self) -> int:
        """At most how many occurrences a pinned rule has on one day."""
        parts = ((self.byhour, 24), (self.byminute, 60), (self.bysecond, 60))
        return prod(every if part is None else len(part) for part, every in parts)

    @cached_property
    def pinned(self) -> RecurrenceRule:
        """This rule with the parts that its start implies made explicit, so that it can be evaluated from elsewhere."""
        return replace(self, **self._day_of_start(), **self._time_of_start())

    def _day_of_start(self) -> dict[str, Any]:
        if any(getattr(self, part) is not None for part in _DAY_PARTS):
            return {}
        if self.freq == WEEKLY:
            return {"byweekday": (weekday(self.start.weekday()),)}
        if self.freq == MONTHLY:
            return {"bymonthday": (self.start.day,)}
        if self.freq == YEARLY:
            month = (self.start.month,) if self.bymonth is None else self.bymonth
            return {"bymonth": month, "bymonthday": (self.start.day,)}
        return {}

    def _time_of_start(self) -> dict[str, Any]:
        units = {"byhour": HOURLY, "byminute": MINUTELY, "bysecond": SECONDLY}
        return {
            part: (getattr(self.start, part.removeprefix("by")),)
            for part, unit in units.items()
            if self.freq < unit and getattr(self, part) is None
        }


def make_rule(
    clock: RuleClock, until: datetime | None, parts: Mapping[str, Any], label: Callable[[str], str] = str
) -> RecurrenceRule:
    """Return the rule of parts that are named as in dateutil and RedBeat.

    Arguments:
        clock: the clock of its local times, from its start on.
        until: an instant, aware UTC, or None.
        parts: values for the names in ``PARTS``: lists, single values or None.
        label: returns the name of a part for messages.

    Raises:
        ValueError: the value of a part is not valid; the message starts with its label.
    """
    checked: dict[str, Any] = {
        name: _numbers(label(name), parts.get(name), *values) for name, values in _VALUES.items()
    }
    last, cut = (None, NONE) if until is None else clock.passed(until)
    rule = RecurrenceRule(
        start=clock.local_start,
        until=until,
        last=last,
        cut=cut,
        freq=parts["freq"],
        interval=_above_zero(label("interval"), parts.get("interval", 1)),
        wkst=_week_start(label("wkst"), parts.get("wkst")),
        count=None if parts.get("count") is None else _above_zero(label("count"), parts["count"]),
        byweekday=_weekdays(label("byweekday"), parts.get("byweekday")),
        **checked,
    )
    _check_weekdays(rule, label("byweekday"))
    return rule


def _numbers(label: str, value: Any, counted: range, from_the_end: range) -> Numbers | None:
    if value is None:
        return None
    numbers = _listed(value)
    for number in numbers:
        if not _is_whole(number) or (number not in counted and number not in from_the_end):
            or_negative = f" or from {from_the_end[0]} to {from_the_end[-1]}" if from_the_end else ""
            raise ValueError(
                f"{label}: expected numbers from {counted[0]} to {counted[-1]}{or_negative}, got {quoted(value)}"
            )
    return tuple(sorted(set(numbers), key=lambda number: (number < 0, number)))


def _listed(value: Any) -> tuple[Any, ...]:
    is_list = isinstance(value, Collection) and not isinstance(value, (str, Mapping))
    return tuple(value) if is_list else (value,)


def _above_zero(label: str, value: Any) -> int:
    if not _is_whole(value) or value < 1:
        raise ValueError(f"{label}: expected a whole number above 0, got {quoted(value)}")
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _week_start(label: str, value: Any) -> int:
    """Return the number of the first day of the week; the default is Monday, as in RFC 5545."""
    [day] = _weekdays(label, (0 if value is None else value,)) or ()
    return day.weekday


def _weekdays(label: str, value: Any) -> tuple[weekday, ...] | None:
    if value is None:
        return None
    days = {_weekday(label, day) for day in _listed(value)}
    return tuple(sorted(days, key=lambda day: (day.n is not None, day.weekday, day.n)))


def _weekday(label: str, day: Any) -> weekday:
    number, nth = getattr(day, "weekday", day), getattr(day, "n", None)
    if not _is_whole(number) or not 0 <= number <= 6 or not (nth is None or _is_whole(nth)):
        raise ValueError(
            f"{label}: expected days of the week such as MO or FR(-1) of dateutil.rrule, or 0 (Monday) to 6, "
            f"got {quoted(day)}"
        )
    return weekday(number, nth or None)


def _check_weekdays(rule: RecurrenceRule, label: str) -> None:
    """Check the numbers of weekdays; for weeks and shorter periods dateutil ignores them, and so does RedBeat."""
    for day in rule.byweekday or ():
        if rule.freq <= MONTHLY and abs(day.n or 0) > rule.max_weekday_number:
            raise ValueError(
                f"{label}: expected a number from 1 to {rule.max_weekday_number} or negative, got {quoted(day)}"
            )
