"""Recurrence rules as a kind of schedule: stored, found and in words, or as text if words would not be exact."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, time, timedelta, timezone, tzinfo
from itertools import product
from typing import Any, NamedTuple

from dateutil.rrule import DAILY, MONTHLY, WEEKLY, YEARLY, weekday

from redisbeater.display import quoted, text_of
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.budget import Steps, StepsExhausted
from redisbeater.schedules.crontab_text import PATH
from redisbeater.schedules.english import (
    clock_text,
    consecutive,
    date_text,
    every,
    join_words,
    month_names,
    ordinal,
    span_text,
    unbracketed,
    weekday_names,
    zone_text,
)
from redisbeater.schedules.kind import Between, Reading, ScheduleKind, check_fields, checked_text
from redisbeater.schedules.rrule.recurrence import count_fire_times, listed, reach_back
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.rrule.rule import PARTS
from redisbeater.schedules.rrule.text import is_text, local_text, read_time
from redisbeater.schedules.zones import read_zone, zone_name
from redisbeater.times import from_unix

#: The parts whose values may be weekdays.
_WEEKDAY_PARTS = ("byweekday", "wkst")

_FIELDS = (*PARTS, "dtstart", "dtstart_tz", "dtstart_local", "until", "until_tz", "timezone")

_FIELDS_OF_TEXT = ("text", "timezone")

_MICROSECOND = timedelta(microseconds=1)


class RruleKind(ScheduleKind[rrule]):
    """Rules of RFC 5545, from text or from parts."""

    __slots__ = ()

    schedule_class = rrule
    name = "rrule"
    word = "rrule"
    title = "RRULE"
    sentence = 'Run by a recurrence rule: "FREQ=MONTHLY;BYDAY=1MO".'
    expected = "a rule of RFC 5545: FREQ=MONTHLY;BYDAY=1MO"
    stores_subclasses = True
    foreign = _FIELDS_OF_TEXT

    def encode(self, schedule: rrule) -> dict[str, Any]:
        """Return the stored form; that of parts is RedBeat's (UNIX seconds, an offset in minutes) and the zone's name.

        UNIX seconds cannot express a start that the clock skips, so its local time is stored as well. A text whose
        start stands in UTC, because it is in the second pass of a repeated hour, has its zone beside it.

        RedBeat refuses the name. Without it, RedBeat would use one offset all year, so it cannot run such a rule
        correctly.
        """
        name = zone_name(schedule.zone)
        if schedule.text is not None:
            return {"text": schedule.text, **({"timezone": name} if schedule.text_needs_zone else {})}
        dtstart = schedule.dtstart
        stored = {part: _encode_part(getattr(schedule, part)) for part in PARTS}
        stored.update(_encode_date("dtstart", dtstart))
        if schedule.until is not None:
            stored.update(_encode_date("until", schedule.until))
        if from_unix(stored["dtstart"]).astimezone(schedule.zone).replace(tzinfo=None) != dtstart.replace(tzinfo=None):
            stored["dtstart_local"] = local_text(dtstart.replace(tzinfo=None))
        return stored if name in (None, "UTC") else {**stored, "timezone": name}

    def decode(self, data: dict[str, Any]) -> rrule:
        """Return the rule of a text, or of parts."""
        if "text" not in data:
            check_fields(data, _FIELDS)
            return _from_parts(data, PATH)
        check_fields(data, _FIELDS_OF_TEXT)
        if data.get("timezone") is not None:
            read_zone(data["timezone"], f"{PATH}.timezone")
        return _from_text(data["text"], data.get("timezone"), f"{PATH}.text")

    def next(self, schedule: rrule, zone: tzinfo, after: datetime, steps: Steps) -> datetime | None:
        """Return the next occurrence."""
        return schedule.next_fire_time(after, steps)

    def first(self, schedule: rrule, zone: tzinfo, steps: Steps) -> datetime | None:
        """Return the first occurrence."""
        return schedule.first_occurrence(steps)

    def newest_of(
        self, schedule: rrule, limit: int, fire_time: datetime, until: datetime, steps: Steps, between: Between
    ) -> list[datetime]:
        """Find them from an instant on that is found backwards; near a shift, it may be too late."""
        rules, reach = schedule.recurrence, limit
        while True:
            since = reach_back(rules, reach, until, fire_time, steps)
            newest = deque([fire_time] if since == fire_time else [], maxlen=limit)
            after = since if since == fire_time else since - _MICROSECOND
            found = listed(rules, after, until, steps)
            newest.extend(between(after, until) if found is None else found)
            if since == fire_time or len(newest) == limit:
                return list(newest)
            reach *= 2

    def counted(self, schedule: rrule, zone: tzinfo, after: datetime, until: datetime, steps: Steps) -> Iterable[int]:
        """Return the numbers of occurrences between, period by period."""
        return count_fire_times(schedule.recurrence, after + _MICROSECOND, until, steps)

    def local_zone(self, schedule: rrule, zone: tzinfo) -> tzinfo:
        """Return the zone of its start."""
        return schedule.zone

    def has_local_times(self, schedule: rrule) -> bool:
        """Return False: it has its own zone."""
        return False

    def zones(self, schedule: rrule, zone: tzinfo) -> tuple[tzinfo, ...]:
        """Return the zone of its start."""
        return (schedule.zone,)

    def nominal_times(self, schedule: rrule, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
        """Return the local time of the occurrence."""
        nominal = schedule.nominal_time(fire_time)
        return () if nominal is None else (nominal,)

    def starts_over(self, schedule: rrule) -> bool:
        """Tell whether it has no DTSTART."""
        return not schedule.has_explicit_start

    def describe(self, schedule: rrule, zone: str | tzinfo | None) -> str:
        """Describe when it fires, from when, until when, and in which zone; its text if words would not be exact."""
        try:
            return _sentence(schedule)
        except _Unwordable:
            return _by_text(schedule)

    def text(self, schedule: rrule) -> str | None:
        """Return its text; None if it was made of parts."""
        return schedule.text

    def read(self, text: Any, reading: Reading) -> rrule:
        """Return the rule of a text."""
        text = checked_text(text, "lines of DTSTART and RRULE")
        start = None if "DTSTART" in text.upper() else reading.start
        rule = rrule(text, dtstart=start, timezone=None if "TZID" in text else reading.zone)
        if self.starts_over(rule):
            raise InvalidEntry(PATH, "has no DTSTART: without it the rule starts over whenever the file is applied")
        return rule


def _from_text(text: Any, zone: str | None, path: str) -> rrule:
    if not is_text(text):
        raise InvalidEntry(
            path, f"expected RFC 5545 text such as 'DTSTART:20260101T090000Z\\nRRULE:FREQ=DAILY', got {quoted(text)}"
        )
    try:
        rule = rrule(text, timezone=zone)
    except StepsExhausted:
        raise
    except (TypeError, ValueError, OverflowError) as exc:
        raise InvalidEntry(path, text_of(exc)) from exc
    if not rule.has_explicit_start:
        raise InvalidEntry(
            path, "DTSTART is missing; expected a line such as DTSTART;TZID=Europe/Vienna:20260101T090000"
        )
    return rule


def _from_parts(data: dict[str, Any], path: str) -> rrule:
    zone = read_zone(data.pop("timezone"), f"{path}.timezone") if "timezone" in data else None
    try:
        dates = {name: _decode_date(data, name) for name in ("dtstart", "until")}
        if zone is not None:
            dates = {name: moment and _in_zone_of_now(moment, zone) for name, moment in dates.items()}
        if data.get("dtstart_local") is not None:
            dates["dtstart"] = _skipped_start(dates["dtstart"], data["dtstart_local"], f"{path}.dtstart_local")
        data.pop("dtstart_local", None)
        if dates["dtstart"] is None:
            raise InvalidEntry(f"{path}.dtstart", "is missing; expected UNIX seconds")
        parts: dict[str, Any] = {name: _decode_part(name, part, path) for name, part in data.items()}
    except InvalidEntry:
        raise
    except (TypeError, ValueError, OverflowError, KeyError) as exc:
        raise InvalidEntry(path, f"rrule: {text_of(exc)}") from exc
    try:
        return rrule(dtstart=dates["dtstart"], until=dates["until"], **parts)
    except (TypeError, ValueError, OverflowError) as exc:
        raise InvalidEntry(path, f"rrule: {text_of(exc)}") from exc


def _encode_date(name: str, moment: datetime) -> dict[str, Any]:
    offset = moment.utcoffset()
    return {name: int(moment.timestamp()), f"{name}_tz": offset.total_seconds() / 60 if offset else 0}


def _decode_date(data: dict[str, Any], name: str) -> datetime | None:
    seconds, minutes = data.pop(name, None), data.pop(f"{name}_tz", 0)
    if seconds is None:
        return None
    return from_unix(seconds).astimezone(timezone(timedelta(minutes=minutes)) if minutes else timezone.utc)


def _in_zone_of_now(moment: datetime, zone: tzinfo) -> datetime:
    """Return a stored time in a zone; if the zone has another offset then, its rules have changed since it was stored.

    An offset of 0 may also be that of a program which gives none. Otherwise the local time counts, not the instant.
    """
    local = moment.astimezone(zone)
    return local if moment.utcoffset() in (timedelta(), local.utcoffset()) else moment.replace(tzinfo=zone)


def _skipped_start(dtstart: datetime | None, text: Any, path: str) -> datetime | None:
    """Return the start as the local time that the clock skips, if that is the same instant.

    Raises:
        InvalidEntry: it is not.
    """
    try:
        local = read_time("local time", str(text), None if dtstart is None else dtstart.tzinfo)
    except ValueError as exc:
        raise InvalidEntry(path, text_of(exc)) from exc
    if dtstart is None or not isinstance(local, datetime) or local.timestamp() != dtstart.timestamp():
        raise InvalidEntry(path, f"is not the instant of dtstart, got {quoted(text)}; leave it out")
    return local


def _encode_part(part: Any) -> Any:
    if isinstance(part, (list, tuple, set, frozenset, range)):
        return [_encode_part(item) for item in part]
    if hasattr(part, "weekday"):  # of dateutil.rrule, or of dateutil.relativedelta
        return {"__type__": "weekday", "wkday": part.weekday, **({"n": part.n} if part.n else {})}
    return part


def _decode_part(name: str, part: Any, path: str) -> Any:
    if isinstance(part, list):
        return [_decode_part(name, item, path) for item in part]
    return _decode_weekday(part, f"{path}.{name}", name) if isinstance(part, dict) else part


def _decode_weekday(data: dict[str, Any], path: str, name: str) -> weekday:
    """Return a stored weekday. dateutil makes one of any number, and then cannot even show it."""
    if name not in _WEEKDAY_PARTS:
        raise InvalidEntry(path, f"a weekday is no value of this part; only of {' and '.join(_WEEKDAY_PARTS)}")
    number, nth = data["wkday"], data.get("n")
    if type(number) is not int or not 0 <= number <= 6:
        raise InvalidEntry(f"{path}.wkday", f"expected 0 (Monday) to 6, got {quoted(number)}")
    if nth is not None and type(nth) is not int:
        raise InvalidEntry(f"{path}.n", f"expected a whole number, got {quoted(nth)}")
    return weekday(number, nth)


#: Indexed by dateutil's number of the frequency.
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")

_PARTS_WITHOUT_WORDS = ("byeaster", "byweekno", "byyearday")

#: The valid numbers of a part; dateutil accepts others, and ignores them.
_NUMBERS = {
    "bymonth": range(1, 13),
    "bymonthday": {*range(-31, 0), *range(1, 32)},
    "bysetpos": {*range(-366, 0), *range(1, 367)},
    "byhour": range(24),
    "byminute": range(60),
    "bysecond": range(60),
}

#: A list of more times of the day would not help the reader.
_MAX_TIMES = 8

#: Every month has at least this many days and this many of each weekday; every year, this many of each weekday.
_SURE_DAYS, _SURE_WEEKDAYS, _SURE_WEEKDAYS_OF_YEAR = 28, 4, 52

_IF_IT_EXISTS = " (where there is one)"


class _Unwordable(Exception):
    """The rule has parts that no sentence here describes exactly."""


def _sentence(rule: rrule) -> str:
    freq = getattr(rule, "freq", None)
    if freq not in range(len(_UNITS)) or any(_items(rule, name) for name in _PARTS_WITHOUT_WORDS):
        raise _Unwordable
    if rule.count == 1:
        return _once(rule)
    times = _times(rule)
    phrases = (every(rule.interval, _UNITS[rule.freq]), _on(rule, times), _at(times))
    bounds = (_start(rule, times), _end(rule, times), _count(rule))
    clauses = (_when(rule), *bounds, _in_repeated_hours(rule), zone_text(rule.zone))
    return ", ".join(filter(None, (" ".join(filter(None, phrases)), *clauses)))


def _once(rule: rrule) -> str:
    """Describe a rule with a count of 1 by the time at which it fires."""
    try:
        first = rule.first_occurrence()
    except InvalidEntry as exc:
        raise _Unwordable from exc
    if first is None:
        raise _Unwordable
    local = _local(rule, first)
    return ", ".join(filter(None, (f"once, on {date_text(local)} at {clock_text(local.time())}", zone_text(rule.zone))))


def _in_repeated_hours(rule: rrule) -> str:
    """Describe what becomes of the second pass of a repeated hour, which a rule of days hardly ever meets."""
    return "" if rule.freq <= DAILY or rule.recurrence.clock.never_shifts else "not again in a repeated hour"


def _items(rule: rrule, name: str) -> tuple[Any, ...]:
    """Return the values of a part; an empty list has no words, since dateutil reads it in several ways."""
    part = getattr(rule, name, None)
    items = () if part is None else tuple(part) if isinstance(part, Collection) else (part,)
    if part is not None and not items:
        raise _Unwordable
    return items


def _numbers(rule: rrule, name: str) -> list[int]:
    numbers = set(_items(rule, name))
    if not numbers <= set(_NUMBERS[name]):
        raise _Unwordable
    return sorted(numbers)


def _times(rule: rrule) -> list[time]:
    """Return the times of the day; none for a rule that counts hours, minutes or seconds."""
    given = [_numbers(rule, name) for name in ("byhour", "byminute", "bysecond")]
    if rule.freq > DAILY:
        if any(given):
            raise _Unwordable
        return []
    start = _local(rule, rule.dtstart)
    hours, minutes, seconds = (part or [own] for part, own in zip(given, (start.hour, start.minute, start.second)))
    times = sorted({time(*parts) for parts in product(hours, minutes, seconds)})
    if len(times) > _MAX_TIMES:
        raise _Unwordable
    return times


def _at(times: Sequence[time]) -> str:
    return f"at {join_words([clock_text(moment) for moment in times])}" if times else ""


def _on(rule: rrule, times: Sequence[time]) -> str:
    """Describe the days on which it fires."""
    if _numbers(rule, "bysetpos") and not (rule.freq == MONTHLY and len(times) == 1):
        raise _Unwordable
    if rule.freq == YEARLY:
        return _on_days_of_the_year(rule)
    if rule.freq == MONTHLY:
        return f"{_on_days_of_the_month(rule)}{_within(rule)}"
    if rule.freq == WEEKLY:
        days = _plain(_weekdays(rule)) or [_local(rule, rule.dtstart).isoweekday()]
        return f"on {weekday_names(days)}{_within(rule)}"
    return _within(rule).strip()


def _on_days_of_the_year(rule: rrule) -> str:
    numbers, dates, days = _numbers(rule, "bymonth"), _numbers(rule, "bymonthday"), _weekdays(rule)
    if not dates and not days:
        start = _local(rule, rule.dtstart)
        dates, numbers = [start.day], numbers or [start.month]
    if dates and not days and len(numbers) == 1 and dates[0] > 0:
        return f"on {span_text(consecutive(dates))} {month_names(numbers)}{_if_it_exists(dates)}"
    if days and not numbers and not dates:
        return f"{_on_weekdays(days, _SURE_WEEKDAYS_OF_YEAR)}{' of the year' if days[0].position else ''}"
    scope = "" if days and not days[0].position else " of the month" if numbers else " of every month"
    return f"{_on_days_of_the_month(rule)}{scope}{_within(rule)}"


def _on_days_of_the_month(rule: rrule) -> str:
    dates, days, setpos = _numbers(rule, "bymonthday"), _weekdays(rule), _numbers(rule, "bysetpos")
    if setpos:
        if dates or not days:
            raise _Unwordable
        return f"on {_positioned(setpos)} day that is {weekday_names(_plain(days))}"
    if dates and days:
        return f"on {weekday_names(_plain(days))}"  # _when describes the dates
    if days:
        return _on_weekdays(days, _SURE_WEEKDAYS)
    dates = dates or [_local(rule, rule.dtstart).day]
    return f"on {_dates(dates)}{_if_it_exists(dates)}"


def _positioned(positions: Sequence[int]) -> str:
    return join_words([f"the {ordinal(position)}" for position in positions])


def _on_weekdays(days: Sequence[_Weekday], sure: int) -> str:
    """Describe weekdays: every one, or by their position (the first, the last ...)."""
    if not days[0].position:
        return f"on every {weekday_names(_plain(days))}"
    texts = [f"the {ordinal(position)} {weekday_names([day])}" for day, position in days]
    return f"on {join_words(texts)}{_IF_IT_EXISTS if any(abs(position) > sure for _, position in days) else ''}"


class _Weekday(NamedTuple):
    """A weekday: its ISO number and its position in the period, negative from the end, 0 for every one."""

    day: int
    position: int


def _weekdays(rule: rrule) -> list[_Weekday]:
    """Return the weekdays, all with a position or all without: dateutil gives a mixture a third meaning."""
    found = {_weekday(item) for item in _items(rule, "byweekday")}
    if len({bool(weekday.position) for weekday in found}) > 1:
        raise _Unwordable
    return sorted(found)


def _weekday(item: Any) -> _Weekday:
    number = getattr(item, "weekday", item)
    if number not in range(7):
        raise _Unwordable
    return _Weekday(number + 1, getattr(item, "n", None) or 0)


def _plain(days: Sequence[_Weekday]) -> list[int]:
    if any(weekday.position for weekday in days):
        raise _Unwordable
    return [weekday.day for weekday in days]


def _dates(dates: Sequence[int]) -> str:
    """Describe days of the month; negative ones count from its end."""
    texts = [f"the {ordinal(date)} day" for date in dates if date < 0]
    counted = [date for date in dates if date > 0]
    word = "day" if len(counted) == 1 else "days"
    return join_words([*([f"{word} {span_text(consecutive(counted))}"] if counted else []), *texts])


def _if_it_exists(dates: Sequence[int]) -> str:
    return _IF_IT_EXISTS if any(abs(date) > _SURE_DAYS for date in dates) else ""


def _within(rule: rrule) -> str:
    numbers = _numbers(rule, "bymonth")
    return f" in {month_names(numbers)}" if numbers else ""


def _when(rule: rrule) -> str:
    """Describe the second condition that the days must meet, if there is one."""
    days, dates = _weekdays(rule), _numbers(rule, "bymonthday")
    if rule.freq == WEEKLY:
        if dates:
            raise _Unwordable
        return _first_day_of_the_week(rule)
    if rule.freq < WEEKLY:
        return _when_dates(dates) if days else ""
    if days and dates:
        raise _Unwordable
    return f"when it is {weekday_names(_plain(days))}" if days else _when_dates(dates)


def _when_dates(dates: Sequence[int]) -> str:
    return f"when it is {_dates(dates)} of the month" if dates else ""


def _first_day_of_the_week(rule: rrule) -> str:
    """Name the first day of the week if it matters: it decides which days belong to a week that is skipped."""
    first = getattr(rule, "wkst", None) or 0
    day = _weekday(first).day
    return f"weeks beginning on {weekday_names([day])}" if day > 1 and rule.interval > 1 else ""


def _start(rule: rrule, times: Sequence[time]) -> str:
    """Describe the start; with its time if the day alone does not determine the first fire time."""
    first = _local(rule, rule.dtstart)
    return f"from {date_text(first)}{'' if times and first.time() <= times[0] else f' at {clock_text(first.time())}'}"


def _end(rule: rrule, times: Sequence[time]) -> str:
    """Describe the end; with its time if the rule ends during that day."""
    if rule.until is None:
        return ""
    last = _local(rule, rule.until)
    return f"until {date_text(last)}{'' if times and last.time() >= times[-1] else f' at {clock_text(last.time())}'}"


def _local(rule: rrule, moment: datetime) -> datetime:
    return moment.astimezone(rule.zone) if moment.tzinfo else moment


def _count(rule: rrule) -> str:
    return "" if rule.count is None else f"{rule.count} times"


def _by_text(rule: rrule) -> str:
    """Describe a rule by its RRULE text if its repr has only that one rule, else by its repr."""
    text = unbracketed(repr(rule)).removeprefix("rrule: ")
    found = re.findall(r"\bRRULE:(\S+)", text)
    start = getattr(rule, "dtstart", None)
    if len(found) != 1 or re.search(r"\b(EXRULE|EXDATE|RDATE)\b", text) or not isinstance(start, datetime):
        return f"by the recurrence rule {text}"
    first = _local(rule, start)
    start_text = f"{date_text(first)} at {clock_text(first.time())}"
    return f"by the recurrence rule {found[0]} from {start_text}, {zone_text(rule.zone)}"
