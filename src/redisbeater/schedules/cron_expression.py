"""Cron expressions beyond five fields: seconds, ``L``, ``W``, ``#`` and ``H``.

The number of a range is its first plus ``hash % size``, where ``hash`` is the first six bytes, as a big-endian number,
of the SHA-256 of ``<name>@<field>`` in UTF-8; the fields are ``second``, ``minute``, ``hour``, ``day_of_month``,
``month_of_year`` and ``day_of_week``. With a step, the first number is ``hash % step`` after that of the range.

The prefix of the schedule has no part in it. Of days of the month, ``H`` takes 1 to 28, which every month has.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from functools import partial
from typing import Any, NamedTuple

from celery.schedules import crontab

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules import crontab as engine
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.crontab import CrontabKind, Slots
from redisbeater.schedules.crontab_text import (
    LIMITS,
    NO_DATE,
    PATH,
    celery_field,
    check_part,
    make_crontab,
    pointed_at,
    read_numbers,
    split_text,
    weekday,
)
from redisbeater.schedules.english import (
    clock_text,
    consecutive,
    days_in_words,
    every,
    join_words,
    kind_in_words,
    ordinal,
    span_text,
    step_of,
    times_in_words,
    weekday_names,
    zone_text,
)
from redisbeater.schedules.kind import OwnSchedule, Reading, check_fields, checked_text
from redisbeater.schedules.zones import read_zone, zone_name

_HASHED = re.compile(r"H(\((?P<low>\d{1,2})-(?P<high>\d{1,2})\))?(/(?P<step>\d{1,2}))?", re.ASCII | re.IGNORECASE)

#: The last day that every month has.
_SHORTEST_MONTH = 28


class Hashed(NamedTuple):
    """A part with ``H``: a number from ``low`` to ``high`` or, with a step, every step-th of them."""

    low: int
    high: int
    step: int | None


def is_hashed(part: str) -> bool:
    """Tell whether a part of a field begins as one with ``H`` does."""
    return part[:1] in ("H", "h")


def read_hashed(name: str, part: str) -> Hashed:
    """Read a part with ``H``.

    Raises:
        InvalidEntry: it cannot be read, or is out of range; the path names the field.
    """
    path, match = f"{PATH}.{name}", _HASHED.fullmatch(part)
    if match is None:
        raise InvalidEntry(path, f"cannot read {quoted(part, 60)}; expected H, a range or a step: H, H(0-29) or H/15")
    lowest, highest = LIMITS[name]
    if match["low"] is None:
        low, high = lowest, min(highest, _SHORTEST_MONTH) if name == "day_of_month" else highest
    else:
        low, high = int(match["low"]), int(match["high"])
    if not lowest <= low <= high <= highest:
        raise InvalidEntry(path, f"the range of {quoted(part)} is not valid; expected one within {lowest}-{highest}")
    step = None if match["step"] is None else int(match["step"])
    if step is not None and not 1 <= step <= high - low + 1:
        raise InvalidEntry(path, f"the step of {quoted(part)} is not valid; expected 1 to {high - low + 1}")
    return Hashed(low, high, step)


def resolved(name: str, hashed: Hashed, entry_name: str) -> str:
    """Return the value of a part with ``H`` in an entry: a number or, with a step, a range with that step."""
    digest = hashlib.sha256(f"{entry_name}@{name}".encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:6], "big")
    if hashed.step is None:
        return str(hashed.low + number % (hashed.high - hashed.low + 1))
    return f"{hashed.low + number % hashed.step}-{hashed.high}/{hashed.step}"


_SUNDAY, _SATURDAY = 0, 6
_WEEK = 7

#: A month has at most this many of each weekday.
_MOST_WEEKS = 5

_FROM_END = re.compile(r"L(-(?P<days>\d{1,2}))?", re.ASCII | re.IGNORECASE)
_LAST_WORKDAY = re.compile(r"LW|WL", re.IGNORECASE)
_NEAREST_WORKDAY = re.compile(r"(?P<day>\d{1,2})W", re.ASCII | re.IGNORECASE)
_NTH = re.compile(r"(?P<day>\w+)#(?P<nth>\w+)", re.ASCII)
_LAST = re.compile(r"(?P<day>\w+)L", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class DateRule:
    """What a field of days of the month allows.

    Attributes:
        days: days by number.
        from_end: days by their distance to the last day of the month.
        nearest_to: the days to which the nearest workday (Monday to Friday) of the month is meant.
        last_workday: whether the last workday of the month is meant.
    """

    days: frozenset[int]
    from_end: frozenset[int] = frozenset()
    nearest_to: frozenset[int] = frozenset()
    last_workday: bool = False

    def days_of(self, length: int, first: int) -> set[int]:
        """Return the days of a month of that length that begins on that weekday (Sunday is 0)."""
        found = {day for day in self.days if day <= length}
        found |= {length - distance for distance in self.from_end if distance < length}
        found |= {_nearest_workday(day, length, first) for day in self.nearest_to if day <= length}
        return found | ({_nearest_workday(length, length, first)} if self.last_workday else set())


@dataclass(frozen=True, kw_only=True)
class WeekdayRule:
    """What a field of weekdays allows; Sunday is 0.

    Attributes:
        weekdays: weekdays of every week.
        nth: weekdays with their position in the month, from 1.
        last: weekdays whose last one in the month is meant.
    """

    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]] = frozenset()
    last: frozenset[int] = frozenset()

    def days_of(self, length: int, first: int) -> set[int]:
        """Return the days of a month of that length that begins on that weekday (Sunday is 0)."""
        return {
            day
            for day in range(1, length + 1)
            if (number := _weekday_of(day, first)) in self.weekdays
            or (number, (day - 1) // _WEEK + 1) in self.nth
            or (number in self.last and day + _WEEK > length)
        }


def read_dates(text: str) -> DateRule:
    """Read a field of days of the month whose ``H`` is resolved.

    Raises:
        InvalidEntry: a part cannot be read, or is out of range.
    """
    plain: list[str] = []
    from_end: set[int] = set()
    nearest_to: set[int] = set()
    last_workday = False
    for part in text.split(","):
        if match := _FROM_END.fullmatch(part):
            from_end.add(_distance(part, int(match["days"] or 0)))
        elif match := _NEAREST_WORKDAY.fullmatch(part):
            nearest_to |= read_numbers("day_of_month", [match["day"]])
        elif _LAST_WORKDAY.fullmatch(part):
            last_workday = True
        elif {"L", "W"} & set(part.upper()):
            problem = f"cannot read {quoted(part, 60)}; expected L, L-2, LW or 15W, one by one"
            raise InvalidEntry(f"{PATH}.day_of_month", problem)
        else:
            plain.append(part)
    return DateRule(
        days=read_numbers("day_of_month", plain),
        from_end=frozenset(from_end),
        nearest_to=frozenset(nearest_to),
        last_workday=last_workday,
    )


def read_weekdays(text: str) -> WeekdayRule:
    """Read a field of weekdays whose ``H`` is resolved.

    Raises:
        InvalidEntry: a part cannot be read, or is out of range.
    """
    plain: list[str] = []
    nth: set[tuple[int, int]] = set()
    last: set[int] = set()
    for part in text.split(","):
        if match := _NTH.fullmatch(part):
            nth.add((_known_weekday(part, match["day"]), _position(part, match["nth"])))
        elif match := _LAST.fullmatch(part):
            last.add(_known_weekday(part, match["day"]))
        elif part.upper() == "L":
            raise InvalidEntry(f"{PATH}.day_of_week", f"cannot read {quoted(part)}; for Saturday write 'sat'")
        elif part.upper().startswith("L"):
            problem = f"cannot read {quoted(part, 60)}; for the last Friday of the month write 'friL'"
            raise InvalidEntry(f"{PATH}.day_of_week", problem)
        else:
            plain.append(part)
    weekdays = read_numbers("day_of_week", plain)
    return WeekdayRule(weekdays=weekdays, nth=frozenset(nth), last=frozenset(last))


def _weekday_of(day: int, first: int) -> int:
    return (first + day - 1) % _WEEK


def _nearest_workday(day: int, length: int, first: int) -> int:
    """Return the workday nearest to a day, within its month."""
    number = _weekday_of(day, first)
    if number == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if number == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _distance(part: str, distance: int) -> int:
    longest = LIMITS["day_of_month"][1] - 1
    if distance > longest:
        raise InvalidEntry(f"{PATH}.day_of_month", f"{quoted(part)} is out of range; expected L-0 to L-{longest}")
    return distance


def _known_weekday(part: str, text: str) -> int:
    number = weekday(text)
    if number is None:
        problem = f"cannot read {quoted(part, 60)}; expected a weekday such as 'fri' or 5 in front of L or #"
        raise InvalidEntry(f"{PATH}.day_of_week", problem)
    return number


def _position(part: str, text: str) -> int:
    if text.upper() == "L":
        last = part.partition("#")[0]
        raise InvalidEntry(f"{PATH}.day_of_week", f"cannot read {quoted(part, 60)}; for the last one write '{last}L'")
    if text not in tuple("12345"):
        problem = f"cannot read {quoted(part, 60)}; a month has at most {_MOST_WEEKS} of each weekday, so #1 to #5"
        raise InvalidEntry(f"{PATH}.day_of_week", problem)
    return int(text)


#: The days of each month; February has 29 in leap years.
_LENGTHS = ((31,), (28, 29), (31,), (30,), (31,), (30,), (31,), (31,), (30,), (31,), (30,), (31,))

#: A five-field text fires at the start of the minute.
_AT_THE_MINUTE = "0"


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The fields of a cron expression; numbers are in order.

    Attributes:
        is_repeating: whether a field of the time has ``*`` or a step, or the hours are all 24.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    dates: DateRule
    months: tuple[int, ...]
    weekdays: WeekdayRule
    is_repeating: bool

    def days_of(self, length: int, first: int) -> list[int]:
        """Return the days that both day fields allow in a month of that length and first weekday (Sunday is 0)."""
        return sorted(self.dates.days_of(length, first) & self.weekdays.days_of(length, first))


def check_hashed(texts: Mapping[str, str]) -> bool:
    """Tell whether a part of a field has ``H``, and check each one that has.

    Raises:
        InvalidEntry: one cannot be read; the path names the field.
    """
    hashed = [(name, part) for name, text in texts.items() for part in text.split(",") if is_hashed(part)]
    for name, part in hashed:
        read_hashed(name, part)
    return bool(hashed)


def resolve(texts: Mapping[str, str], entry_name: str) -> dict[str, str]:
    """Return the fields with what each ``H`` stands for in the entry of that name.

    Raises:
        InvalidEntry: a part with ``H`` cannot be read; the path names the field.
    """
    return {
        name: ",".join(
            resolved(name, read_hashed(name, part), entry_name) if is_hashed(part) else part for part in text.split(",")
        )
        for name, text in texts.items()
    }


def read_fields(texts: Mapping[str, str]) -> Fields:
    """Read fields without ``H``, by Celery's names; ``second`` may be missing.

    Raises:
        InvalidEntry: a field cannot be read; the path names it.
    """
    time = {"second": _AT_THE_MINUTE, **{name: texts[name] for name in ("second", "minute", "hour") if name in texts}}
    hours = _in_order("hour", time["hour"])
    return Fields(
        seconds=_in_order("second", time["second"]),
        minutes=_in_order("minute", time["minute"]),
        hours=hours,
        dates=read_dates(texts["day_of_month"]),
        months=_in_order("month_of_year", texts["month_of_year"]),
        weekdays=read_weekdays(texts["day_of_week"]),
        is_repeating=len(hours) == 24 or any(mark in text for mark in "*/" for text in time.values()),
    )


def refuse_never(fields: Fields) -> None:
    """Refuse fields that no date matches: each month begins on each weekday in some year.

    Raises:
        InvalidEntry: no date matches; the path names the field.
    """
    months = [(length, first) for month in fields.months for length in _LENGTHS[month - 1] for first in range(7)]
    if any(fields.days_of(*month) for month in months):
        return
    if not any(fields.dates.days_of(*month) for month in months):
        raise InvalidEntry(f"{PATH}.day_of_month", NO_DATE)
    problem = "no date matches both day_of_month and day_of_week; change one of them"
    raise InvalidEntry(f"{PATH}.day_of_week", problem)


def _in_order(name: str, text: str) -> tuple[int, ...]:
    return tuple(sorted(read_numbers(name, text.split(","))))


class ExpressionSlots(Slots):
    """The slots of a cron expression, to the second.

    Attributes:
        fields: its fields as numbers and rules.
    """

    __slots__ = ("_days", "fields")

    unit = timedelta(seconds=1)

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        #: The matching days of a month by its length and first weekday; there are at most 28.
        self._days: dict[tuple[int, int], list[int]] = {}

    @property
    def is_repeating(self) -> bool:
        """Whether a field of the time has ``*`` or a step, or the hours are all 24."""
        return self.fields.is_repeating

    def is_matching_day(self, day: date) -> bool:
        """Tell whether the day fields allow a date."""
        return day.month in self.fields.months and day.day in self._days_of(day.year, day.month)

    def matching_days(self, first: date, last: date) -> Iterator[date]:
        """Yield the dates from ``first`` to ``last``, both included, that the day fields allow."""
        for year, month in self._months(first, last):
            for number in self._days_of(year, month):
                day = date(year, month, number)
                if first <= day <= last:
                    yield day

    def count_days(self, first: date, last: date) -> int:
        """Count the dates from ``first`` to ``last``, both included, that the day fields allow, by months."""
        if last < first:
            return 0
        return sum(self._count_in_month(month, first, last) for month in self._months(first, last))

    def time_from(self, least: int, day: date) -> int | None:
        """Return the first second of a day, ``least`` or later, that the fields of the time allow."""
        fields = self.fields
        minute, second = divmod(least, 60)
        hour, minute = divmod(minute, 60)
        if hour in fields.hours:
            if minute in fields.minutes and (later := _at_least(fields.seconds, second)) is not None:
                return _time(hour, minute, later)
            if (later := _at_least(fields.minutes, minute + 1)) is not None:
                return _time(hour, later, fields.seconds[0])
        later = _at_least(fields.hours, hour + 1)
        return None if later is None else _time(later, fields.minutes[0], fields.seconds[0])

    def count_times(self, before: int, day: date) -> int:
        """Count the seconds of a day that the fields of the time allow, before one of them."""
        fields = self.fields
        minute, second = divmod(before, 60)
        hour, minute = divmod(minute, 60)
        counted = bisect_left(fields.hours, hour) * len(fields.minutes) * len(fields.seconds)
        if hour in fields.hours:
            counted += bisect_left(fields.minutes, minute) * len(fields.seconds)
            counted += bisect_left(fields.seconds, second) if minute in fields.minutes else 0
        return counted

    def _months(self, first: date, last: date) -> Iterator[tuple[int, int]]:
        """Yield the months that the expression allows, from that of one date to that of another."""
        for year in range(first.year, last.year + 1):
            for month in self.fields.months:
                if (first.year, first.month) <= (year, month) <= (last.year, last.month):
                    yield year, month

    def _count_in_month(self, month: tuple[int, int], first: date, last: date) -> int:
        days = self._days_of(*month)
        low = first.day if month == (first.year, first.month) else 1
        high = last.day if month == (last.year, last.month) else 31
        return bisect_left(days, high + 1) - bisect_left(days, low)

    def _days_of(self, year: int, month: int) -> list[int]:
        begin = date(year, month, 1)
        length = 31 if month == 12 else (date(year, month + 1, 1) - begin).days
        key = (length, begin.isoweekday() % 7)
        if key not in self._days:
            self._days[key] = self.fields.days_of(*key)
        return self._days[key]


def _at_least(numbers: tuple[int, ...], least: int) -> int | None:
    index = bisect_left(numbers, least)
    return numbers[index] if index < len(numbers) else None


def _time(hour: int, minute: int, second: int) -> int:
    return (hour * 60 + minute) * 60 + second


#: What it takes to look at a month without success.
_MONTH_STEPS = 4

#: The least days that a month has.
_MONTH = timedelta(days=28)


class cron_expression(OwnSchedule):
    """Fire at the times of a cron text, to the second: with ``L``, ``W``, ``#`` and ``H``; ``cron()`` creates it.

    ``H`` stands for a number that the name of the entry decides. An entry binds its schedule to its own name; until
    then the schedule has no fire times.

    Arguments:
        text: five fields (minute, hour, day of month, month, day of week), or six with the second in front.
        timezone: the zone of its local times, a name or an object; default: the entry's, else the app's.
        entry_name: the name that decides ``H``.

    Raises:
        InvalidEntry: a field cannot be read (the path names it), or there is no such zone.
    """

    def __init__(
        self, text: str, timezone: str | tzinfo | None = None, entry_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        texts = split_text(text)
        self.text = " ".join(texts.values())
        zone = None if timezone is None else read_zone(timezone, "$.timezone")
        self.timezone = zone_name(zone)
        if zone is not None:
            self.tz = zone
        with pointed_at(texts):
            self._has_hash = check_hashed(texts)
            #: The name that decides ``H``; None without ``H``, and as long as it is not known.
            self.entry_name = entry_name if self._has_hash else None
            resolved = resolve(texts, self.entry_name or "")
            fields = read_fields(resolved)
            if self.is_bound:
                refuse_never(fields)
        #: The text with a number for each ``H``; None as long as the name is not known.
        self.resolved_text = " ".join(resolved.values()) if self.is_bound else None
        self._slots = ExpressionSlots(fields)

    @property
    def is_bound(self) -> bool:
        """Whether its fire times are known: it has no ``H``, or the name of its entry."""
        return not self._has_hash or self.entry_name is not None

    @property
    def slots(self) -> ExpressionSlots:
        """The local times that its fields allow, and the fields as numbers and rules.

        Raises:
            InvalidEntry: it has ``H``, and the name of its entry is not known.
        """
        if not self.is_bound:
            problem = f'H in "{self.text}" is decided by the name of an entry; give the schedule to an entry'
            raise InvalidEntry(PATH, f'{problem}, or use .for_entry("the name")')
        return self._slots

    def for_entry(self, name: str) -> cron_expression:
        """Return the schedule as the entry of that name has it; itself if it has no ``H``.

        Raises:
            InvalidEntry: with the numbers that the name decides, no date matches.
        """
        if not self._has_hash or name == self.entry_name:
            return self
        return type(self)(self.text, self.timezone, name, nowfun=self.nowfun, app=self._app)

    def next_fire_time(self, zone: tzinfo, after: datetime, steps: Steps | None = None) -> datetime | None:
        """Return the first fire time after an instant, both aware UTC; None when there is none within 41 years.

        Raises:
            InvalidEntry: the name of its entry is not known.
        """
        following = engine.next_fire_time(self, zone, after)
        if steps is not None and following is not None:
            steps.take((following - after) // _MONTH * _MONTH_STEPS)
        return following

    def _following(self, after: datetime) -> datetime | None:
        return self.next_fire_time(self.tz, after)

    def __repr__(self) -> str:
        return f"<cron: {self.text}{'' if self.entry_name is None else f' of {self.entry_name}'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, cron_expression) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[type, tuple[str, str | None, str | None]]:
        return type(self), (self.text, self.timezone, self.entry_name)

    @property
    def _key(self) -> tuple[str, str | None]:
        return self.text, self.entry_name


def cron(text: str, timezone: str | tzinfo | None = None) -> crontab | cron_expression:
    """Return the schedule of a text such as ``"0 9 * * mon-fri"``, ``"0 18 * * friL"`` or ``"@daily"``.

    Both day fields must match, as always in Celery, while in crontab(5) one of them is enough: ``"0 9 1-7 * mon"`` is
    the first Monday. Fields may be names, lists, ranges, also around the end (``fri-mon``, ``22-2``), and steps. 7 is
    Sunday, and ``?`` in a day field is ``*``.

    What Celery's crontab lacks: a field of seconds in front; ``L`` (the last day of the month), ``L-2``, ``LW`` (the
    last weekday), ``15W`` (the weekday nearest to day 15); ``fri#1`` (the first Friday), ``friL`` (the last); and
    ``H``, ``H(0-29)``, ``H/15``, which a hash of the entry's name decides.

    Arguments:
        text: second (optional), minute, hour, day of month, month, day of week; or @yearly, @annually, @monthly,
            @weekly, @daily, @midnight, @hourly.
        timezone: zone of its local times, by its IANA name or as a ``ZoneInfo``; the name is stored in the ``timezone``
            of the result, the zone in its ``tz`` for Celery's own beat, which uses it from 5.7 on. Copies keep both.

    Returns:
        Celery's crontab if that can hold it; else a ``cron_expression``, a schedule of this package.

    Raises:
        InvalidEntry: a field cannot be read (the path names it), or there is no such zone.
    """
    fields, zone = split_text(text), None if timezone is None else read_zone(timezone, "$.timezone")
    if _is_extended(fields):
        return cron_expression(text, zone_name(zone))
    with pointed_at(fields):
        for name, value in fields.items():
            check_part(name, value)
        schedule = make_crontab({name: celery_field(name, value) for name, value in fields.items()}, PATH)
    schedule.timezone = zone_name(zone)
    if zone is not None:
        schedule.tz = zone
    # Celery's crontab is copied and pickled as its fields alone; an object's own method comes before its class's.
    vars(schedule)["__reduce__"] = partial(_as_call, text, schedule.timezone)
    return schedule


def _as_call(text: str, zone: str | None) -> tuple[Callable[..., Any], tuple[str, str | None]]:
    return cron, (text, zone)


def _is_extended(fields: Mapping[str, str]) -> bool:
    """Tell whether a text has what Celery's crontab lacks, or what is misspelt for it."""
    dates, weekdays = fields["day_of_month"].upper(), fields["day_of_week"].upper()
    return (
        "second" in fields
        or "L" in dates
        or "W" in dates
        or "#" in weekdays
        or any(part.endswith("L") or part.startswith("L") for part in weekdays.split(","))
        or any(is_hashed(part) for value in fields.values() for part in value.split(","))
    )


#: Up to this many times of the day are named one by one.
_MOST_TIMES = 8

_MINUTES_FOLLOW = "in these minutes: "


class CronKind(CrontabKind):
    """Cron expressions, and the word of both: a text is Celery's crontab if that can hold it."""

    __slots__ = ()

    schedule_class = cron_expression
    name = "cron"
    passed_as = "cron()"
    presets = (
        ("0 * * * *", "every hour"),
        ("0 7 * * *", "every day at 07:00"),
        ("0 7 * * mon-fri", "weekdays at 07:00"),
        ("0 7 1 * *", "the first of the month at 07:00"),
    )
    foreign = None
    is_plain = False

    def encode(self, schedule: cron_expression) -> dict[str, Any]:
        """Return the text."""
        return {"text": schedule.text}

    def decode(self, data: dict[str, Any]) -> cron_expression:
        """Return the schedule of a text."""
        check_fields(data, ("text",))
        try:
            return cron_expression(data.get("text", ""))
        except InvalidEntry as exc:
            raise InvalidEntry(f"{PATH}.text", exc.problem) from exc

    def comparable(self, data: Mapping[str, Any]) -> Any:
        """Return the text as it is."""
        return dict(data)

    def next(
        self, schedule: cron_expression, zone: tzinfo, after: datetime, steps: Steps | None = None
    ) -> datetime | None:
        """Return the next fire time."""
        return schedule.next_fire_time(zone, after, steps)

    def for_entry(self, schedule: cron_expression, name: str) -> cron_expression:
        """Return it with the numbers that the name decides."""
        return schedule.for_entry(name)

    def depends_on_entry(self, schedule: cron_expression) -> bool:
        """Tell whether it has ``H``."""
        return schedule.entry_name is not None

    def describe(self, schedule: cron_expression, zone: str | tzinfo | None) -> str:
        """Describe the times and days, in which zone if it is known."""
        named = zone_text(zone) or schedule.timezone
        if not schedule.is_bound:
            return ", ".join(filter(None, (f'"{schedule.text}", where the name of the entry decides H', named)))
        fields = schedule.slots.fields
        times = _times_of_fields(fields)
        days = days_in_words(
            _weekdays(fields.weekdays),
            _dates(fields.dates),
            fields.months,
            is_listed=times.rpartition(_MINUTES_FOLLOW)[-1].startswith("at ") and len(fields.hours) < 24,
        )
        return ", ".join(filter(None, (f"{times}{days}", named)))

    def describe_clock_changes(self, schedule: cron_expression) -> str:
        """Describe whether it is repeating, if its fire times are known."""
        if not schedule.is_bound:
            return ""
        fields = schedule.slots.fields
        return kind_in_words(fields.is_repeating, len(fields.hours))

    def cron_text(self, schedule: cron_expression) -> str:
        """Return the text, and that with the numbers that the name decides."""
        text, resolved = schedule.text, schedule.resolved_text
        return text if resolved == text else f"{text}: {resolved}"

    def cron_fields(self, schedule: cron_expression) -> dict[str, str]:
        """Return the fields of the text."""
        return split_text(schedule.text)

    def text(self, schedule: cron_expression) -> str:
        """Return the text."""
        return schedule.text

    def read(self, text: Any, reading: Reading) -> crontab | cron_expression:
        """Return the schedule of a text."""
        return cron(checked_text(text, 'a cron text such as "0 9 * * mon-fri"'))


def _times_of_fields(fields: Fields) -> str:
    if fields.seconds == (0,):
        return times_in_words(fields.minutes, fields.hours)
    if len(fields.minutes) == 60 and len(fields.hours) == 24:
        seconds = _seconds(fields.seconds)
        return f"{seconds} past every minute" if seconds.startswith("at ") else seconds
    times = [
        time(hour, minute, second) for hour in fields.hours for minute in fields.minutes for second in fields.seconds
    ]
    if len(times) <= _MOST_TIMES:
        return f"at {join_words([clock_text(moment) for moment in times])}"
    return f"{_seconds(fields.seconds)} {_MINUTES_FOLLOW}{times_in_words(fields.minutes, fields.hours)}"


def _seconds(seconds: Sequence[int]) -> str:
    step = step_of(seconds)
    if step and len(seconds) > 2 and seconds[0] == 0 and seconds[-1] + step == 60:
        return every(step, "second")
    return f"at {span_text(consecutive(seconds))} seconds"


def _dates(rule: DateRule) -> str:
    """Describe the days of the month; return "" when all match."""
    if len(rule.days) == 31:
        return ""
    texts = [f"day {span_text(consecutive(rule.days))}"] if rule.days else []
    texts += [f"the workday nearest to day {day}" for day in sorted(rule.nearest_to)]
    texts += [f"the {ordinal(-1 - distance)} day" for distance in sorted(rule.from_end, reverse=True)]
    texts += ["the last workday"] if rule.last_workday else []
    return f"{join_words(texts)} of the month"


def _weekdays(rule: WeekdayRule) -> str:
    """Describe the weekdays; return "" when all match."""
    if len(rule.weekdays) == 7:
        return ""
    texts = [weekday_names([day or 7 for day in rule.weekdays])] if rule.weekdays else []
    texts += [f"the {ordinal(nth)} {_name(day)}" for nth, day in sorted((nth, day) for day, nth in rule.nth)]
    texts += [f"the last {_name(day)}" for day in sorted(rule.last)]
    return f"{join_words(texts)}{' of the month' if rule.nth or rule.last else ''}"


def _name(day: int) -> str:
    return weekday_names([day or 7])
