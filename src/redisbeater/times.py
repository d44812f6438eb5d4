"""Instants of whole microseconds, and the words for times and durations.

Text, because a float that passes through Lua or JSON loses digits; six decimals, because that is the
resolution of :class:`datetime.datetime` and of the Redis server's clock.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, time, timedelta, timezone, tzinfo

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: The latest instant that is planned; a later one (a score of ``+inf``) is read as this.
FAR_FUTURE = datetime(9999, 1, 1, tzinfo=timezone.utc)

#: The earliest instant that is read; one before it has no date in some zones.
FAR_PAST = datetime(2, 1, 1, tzinfo=timezone.utc)

#: The longest duration that is accepted, 1000 years: a datetime cannot hold an instant much further from now.
MAX_SECONDS = 365_242 * 86_400

_MICROSECOND = timedelta(microseconds=1)
_FAR_FUTURE_SECONDS = (FAR_FUTURE - EPOCH).total_seconds()
_FAR_PAST_SECONDS = (FAR_PAST - EPOCH).total_seconds()


def is_seconds(value: object, least: float, most: float = MAX_SECONDS) -> bool:
    """Return whether a value is a number of seconds from ``least`` to ``most``, by default what fits a calendar."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


def to_unix(instant: datetime) -> str:
    """Return UNIX seconds with six decimals; an instant before 1970 becomes the first microsecond of 1970.

    As a score, a negative number means "dormant", and zero "now".
    """
    since = max(instant - EPOCH, _MICROSECOND)
    return f"{since.days * 86_400 + since.seconds}.{since.microseconds:06d}"


def from_unix(seconds: str | float) -> datetime:
    """Return the instant of that many UNIX seconds, exact to the microsecond.

    Raises:
        ValueError: they are no number.
    """
    value = float(seconds)
    if value >= _FAR_FUTURE_SECONDS:
        return FAR_FUTURE
    if value <= _FAR_PAST_SECONDS:
        return FAR_PAST
    whole = math.floor(value)  # separate: from 2106 on, microseconds in one product have more digits than a float
    return EPOCH + timedelta(seconds=whole, microseconds=round((value - whole) * 1_000_000))


def instant_of(stored: str | float | None) -> datetime | None:
    """Return the aware UTC datetime of UNIX seconds that are stored; None where there are none, or no such time."""
    try:
        return from_unix(stored) if stored else None
    except (ValueError, OverflowError, ArithmeticError):  # written by another program
        return None


def from_iso(text: object) -> datetime | None:
    """Return the instant of a text in ISO 8601 with an offset, or None if it is none."""
    try:
        moment = datetime.fromisoformat(str(text))
        instant = moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    return instant if moment.tzinfo is not None and FAR_PAST <= instant <= FAR_FUTURE else None


#: What a duration may look like, for errors.
DURATIONS = "a duration such as 90, 90s, 1h30m or 2d"

#: What a time may look like, for errors.
TIMES = "a time such as 2026-11-23T09:00, 09:00, tomorrow 09:00, fri 09:00, +2h or now"

#: What one may look like in a field that is about the past.
PAST_TIMES = "a time such as 2026-11-23T09:00, 09:00, yesterday 09:00, fri 09:00, 7d for 7 days ago, or now"

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LONG_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

#: The units of a duration and their seconds, the longest first.
_UNITS = {"w": 604_800.0, "d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

_SPELLINGS = {
    **{unit: unit for unit in _UNITS},
    **dict.fromkeys(("week", "weeks"), "w"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "h"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    "msec": "ms",
}

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*")
#: As Python shows a timedelta.
_TIMEDELTA = re.compile(r"(?:([0-9]+) days?, )?([0-9]+):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)")
#: ``1M``: minutes to some, months to others, also in ISO 8601.
_MONTHS_OR_MINUTES = re.compile(r"[0-9]\s*M(?![A-Za-z])")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
#: ``31 February 2027``, which is no distance.
_DATE = re.compile(r"[0-9]+\.?\s*(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[t ][0-9:.]+\s*(?:z|[+-][0-9]{2}:?[0-9]{2})?)?")

_DAY, _WEEK = timedelta(days=1), timedelta(days=7)


# Read


def read_duration(text: str) -> timedelta:
    """Return the duration that a text means; a number alone means seconds. A timedelta as Python shows it is one.

    Raises:
        ValueError: it is none; the message names what is accepted.
    """
    words = text.strip().lower()
    _refuse_months(text, DURATIONS)
    if _NUMBER.fullmatch(words):
        return _seconds(float(words), text)
    if found := _TIMEDELTA.fullmatch(words):
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return _seconds(((days * 24 + hours) * 60 + minutes) * 60 + seconds, text)
    parts = _PART.findall(words)
    if not parts or _PART.sub("", words):
        raise ValueError(_refusal(text, DURATIONS))
    units = [_SPELLINGS.get(unit, unit) for _, unit in parts]
    if unknown := [unit for unit in units if unit not in _UNITS]:
        raise ValueError(f"{_refusal(text, DURATIONS)}; {unknown[0]!r} is no unit, use {', '.join(_UNITS)}")
    places = [list(_UNITS).index(unit) for unit in units]
    if places != sorted(set(places)):
        raise ValueError(f"{_refusal(text, DURATIONS)}; write each unit once, the longest first")
    return _seconds(sum(float(number) * _UNITS[unit] for (number, _), unit in zip(parts, units)), text)


def read_time(text: str, *, now: datetime, zone: tzinfo, is_past: bool = False, may_come: bool = True) -> datetime:
    """Return the instant that a text means, aware UTC.

    Arguments:
        text: ISO 8601; ``now``; ``+2h``, ``2h`` or ``in 2h``, ``-2h`` or ``2h ago``; a time of the day, which may come
            after ``today``, ``tomorrow``, ``yesterday`` or a weekday.
        now: the present, aware.
        zone: where local times are read: those in a gap of the clocks are moved forward, of a repeated one the first.
        is_past: whether a time or a weekday that may mean several instants means the newest that has passed, and ``2h``
            two hours ago; default: the next one to come, and in two hours.
        may_come: whether an instant that is still to come is accepted.

    Raises:
        ValueError: it means no instant; the message names what is accepted.
    """
    return read_moment(text, now=now, zone=zone, is_past=is_past, may_come=may_come).astimezone(timezone.utc)


def read_moment(text: str, *, now: datetime, zone: tzinfo, is_past: bool = False, may_come: bool = True) -> datetime:
    """Return the aware time that a text means, as :func:`read_time`; one in a gap of the clocks as it was written.

    Raises:
        ValueError: it means no instant; the message names what is accepted.
    """
    words, accepted = " ".join(text.lower().split()), PAST_TIMES if is_past else TIMES
    _refuse_months(text, accepted)
    try:
        found = _read_moment(words, now, zone, is_past)
        instant = None if found is None else found.astimezone(timezone.utc)
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"{_refusal(text, accepted)}; {exc}") from exc
    if found is None or instant is None:
        raise ValueError(_refusal(text, accepted))
    if instant > now and not may_come:
        raise ValueError(f"{_refusal(text, accepted)}; that is {relative_words(instant, now)}")
    return found


def _read_moment(words: str, now: datetime, zone: tzinfo, is_past: bool) -> datetime | None:
    """Return the aware time that words mean, or None if they mean none."""
    if words == "now":
        return now.astimezone(timezone.utc)
    if (offset := _read_offset(words, is_past)) is not None:
        return now.astimezone(timezone.utc) + offset
    local = _read_iso(words) or _read_day(words, now.astimezone(zone).replace(tzinfo=None), is_past)
    if local is None:
        return None
    return local if local.tzinfo else local.replace(tzinfo=zone)


def _refuse_months(text: str, accepted: str) -> None:
    if _MONTHS_OR_MINUTES.search(text):
        raise ValueError(f"{_refusal(text, accepted)}; M could mean months: write m for minutes")


def _refusal(text: str, accepted: str) -> str:
    return f"{text!r}: expected {accepted}"


def _seconds(number: float, text: str) -> timedelta:
    try:
        return timedelta(seconds=number)
    except OverflowError:
        raise ValueError(f"{_refusal(text, DURATIONS)}; it is too long") from None


def _read_offset(words: str, is_past: bool) -> timedelta | None:
    """Return the distance from now; None for what is none. A number without a unit might be anything."""
    distance = words.removeprefix("in ").removesuffix(" ago").lstrip("+-").strip()
    if not _PART.match(distance) or _DATE.match(distance):
        return None
    is_negative = words.startswith("-") or words.endswith(" ago") or (is_past and distance == words)
    return -read_duration(distance) if is_negative else read_duration(distance)


def _read_iso(words: str) -> datetime | None:
    if not _ISO.fullmatch(words):
        return None
    text = re.sub(r"\s*z$", "+00:00", words)
    return datetime.fromisoformat(re.sub(r"\s*([+-][0-9]{2}):?([0-9]{2})$", r"\1:\2", text) if "t" in text else text)


def _read_day(words: str, now: datetime, is_past: bool) -> datetime | None:
    """Return the naive local time of a day and a time of the day; None where the words are no such thing."""
    head, _, rest = words.partition(" ")
    clock = _read_clock(rest or head)
    day = {"today": 0, "tomorrow": 1, "yesterday": -1}.get(head)
    if day is not None and (clock or not rest):
        return datetime.combine(now.date() + day * _DAY, clock or time())
    weekday = _weekday(head)
    if weekday is not None and (clock or not rest):
        local = datetime.combine(now.date() + (weekday - now.weekday()) * _DAY, clock or time())
        return _nearest(local, _WEEK, now, is_past)
    if clock and not rest:
        return _nearest(datetime.combine(now.date(), clock), _DAY, now, is_past)
    return None


def _nearest(local: datetime, period: timedelta, now: datetime, is_past: bool) -> datetime:
    """Return the first of the times a period apart that is to come, or the last one that has passed."""
    periods = (now - local) // period
    return local + (periods if is_past else periods + 1) * period


def _read_clock(words: str) -> time | None:
    found = _CLOCK.fullmatch(words)
    return time(int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def _weekday(word: str) -> int | None:
    return next((number for number, name in enumerate(_LONG_WEEKDAYS) if word in (name, name[:3])), None)


# Write

#: A duration that one unit would round by a larger part is written in the next smaller unit: ``90 min``, not ``2 h``.
MOST_ROUNDED = 0.05

#: The most of those.
MOST_OF_SMALLER = 99


def duration_words(length: timedelta, *, units: int = 1) -> str:
    """Return a duration that is not negative as ``3 s``, ``33 min`` or ``1 d``; with two units as ``1 d 9 h``."""
    seconds = round(length.total_seconds())
    for name, size, most in (("s", 1, 60), ("min", 60, 60), ("h", 3600, 24), ("d", 86_400, None)):
        whole = seconds // size if units > 1 else (seconds + size // 2) // size
        if most is None or whole < most:
            break
        smaller, smaller_size = name, size
    if units == 1 and size > 1 and abs(whole * size - seconds) > seconds * MOST_ROUNDED:
        count = round(seconds / smaller_size)
        whole, name = (count, smaller) if count <= MOST_OF_SMALLER else (whole, name)
    rest = seconds % size // smaller_size if units > 1 and size > 1 else 0
    return f"{whole:,} {name}" + (f" {rest} {smaller}" if rest else "")


def span_words(length: timedelta, *, units: int = 1) -> str:
    """Return how long something took: ``3 ms``, ``1.2 s``, and from a minute on as :func:`duration_words` does."""
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 59.95 else duration_words(length, units=units)


def relative_words(moment: datetime, now: datetime, *, units: int = 1) -> str:
    """Return how far an instant is from now: ``in 3 s``, or ``7 s ago``."""
    distance = moment - now
    words = duration_words(abs(distance), units=units)
    return f"in {words}" if distance >= timedelta() else f"{words} ago"


def age_words(moment: datetime, now: datetime) -> str:
    """Return when something was, briefly: ``7 s ago``, ``Fri 09:00``, ``3 Nov``; both times in the same zone."""
    if now - moment < _DAY:
        return relative_words(moment, now)
    if now - moment < _WEEK:
        return f"{_WEEKDAYS[moment.weekday()]} {moment:%H:%M}"
    return date_words(moment, now)


def clock_words(moment: datetime, now: datetime) -> str:
    """Return when something is, briefly: ``Sat 23:31:10`` in this week, else ``3 Nov 09:00:00``; in the same zone."""
    day = _WEEKDAYS[moment.weekday()] if abs(moment - now) < _WEEK else date_words(moment, now)
    return f"{day} {moment:%H:%M:%S}"


def date_words(day: date, now: date | None = None) -> str:
    """Return a date as ``3 Nov``, with the year if it is not that of ``now``; without ``now`` as ``Tue 3 Nov 2026``."""
    text = f"{day.day} {_MONTHS[day.month - 1]}"
    if now is None:
        return f"{_WEEKDAYS[day.weekday()]} {text} {day.year}"
    return text if day.year == now.year else f"{text} {day.year}"
