"""A naive oracle of cron expressions, which shares no code with the package: it looks at every second or minute.

A field is drawn together with the numbers that it means, so that the oracle parses nothing.
"""

from __future__ import annotations

import calendar
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

SECOND = timedelta(seconds=1)

#: Zones of all kinds of shifts: half an hour, two hours, at midnight, of Ramadan, with "negative" summer time, none.
ZONES = (
    "Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Chicago", "America/Halifax", "America/Havana",
    "America/Los_Angeles", "America/Mexico_City", "America/New_York", "America/Nuuk", "America/Santiago",
    "America/Sao_Paulo", "America/St_Johns", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza",
    "Asia/Jerusalem", "Asia/Kathmandu", "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Australia/Sydney",
    "Europe/Berlin", "Europe/Chisinau", "Europe/Dublin", "Europe/London", "Pacific/Apia", "Pacific/Auckland",
    "Pacific/Chatham",
)  # fmt: skip

#: Tells which days of a month a field means: year, month -> days.
Days = Callable[[int, int], set[int]]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A text, and what it means."""

    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    dates: Days
    weekdays: Days
    is_repeating: bool

    def fires_on(self, day: date) -> bool:
        return _fires_on(self, day)

    def shows(self, local: datetime) -> bool:
        return (
            local.second in self.seconds
            and local.minute in self.minutes
            and local.hour in self.hours
            and self.fires_on(local.date())
        )


@lru_cache(100_000)
def _fires_on(drawn: Drawn, day: date) -> bool:
    return (
        day.month in drawn.months
        and day.day in drawn.dates(day.year, day.month)
        and day.day in drawn.weekdays(day.year, day.month)
    )


# -- what fires


def fire_times(drawn: Drawn, zone: ZoneInfo, start: datetime, end: datetime, step: timedelta) -> list[datetime]:
    """Return the fire times from ``start`` on and before ``end`` (aware UTC), by looking at each step."""
    found = set()
    before = None
    for instant, local, fold in _clock(zone, start, end, step):
        if drawn.shows(local) and (drawn.is_repeating or not fold):
            found.add(instant)
        if before is not None and local - before > step and _owes(drawn, before, local, step):
            found.add(instant)
        before = local
    return sorted(found)


@lru_cache(64)
def _clock(zone: ZoneInfo, start: datetime, end: datetime, step: timedelta) -> list[tuple[datetime, datetime, int]]:
    shown, instant = [], start
    while instant < end:
        local = instant.astimezone(zone)
        shown.append((instant, local.replace(tzinfo=None, fold=0), local.fold))
        instant += step
    return shown


def _owes(drawn: Drawn, before: datetime, local: datetime, step: timedelta) -> bool:
    """Tell whether a gap, after which the clock shows ``local``, moves a slot to its end."""
    gap = list(_steps(before + step, local, step))
    for day in {before.date(), local.date()}:
        slots = [moment for moment in gap if moment.date() == day and drawn.shows(moment)]
        if not drawn.is_repeating and slots:
            return True
        midnight = datetime(day.year, day.month, day.day)
        all_day = len(drawn.seconds) * len(drawn.minutes) * len(drawn.hours) if drawn.fires_on(midnight.date()) else 0
        if drawn.is_repeating and slots and len(slots) == all_day:
            return True
    return False


def _steps(start: datetime, end: datetime, step: timedelta) -> Iterator[datetime]:
    while start < end:
        yield start
        start += step


def shifts(zone: ZoneInfo, year: int) -> list[datetime]:
    """Return the instants of a year at which the offset changes, to the second."""
    found, instant = [], datetime(year, 1, 1, tzinfo=timezone.utc)
    while instant.year == year:
        low, high = instant, instant + timedelta(hours=6)
        if low.astimezone(zone).utcoffset() != high.astimezone(zone).utcoffset():
            while high - low > SECOND:
                middle = low + (high - low) // 2 // SECOND * SECOND
                same = low.astimezone(zone).utcoffset() == middle.astimezone(zone).utcoffset()
                low, high = (middle, high) if same else (low, middle)
            found.append(high)
        instant += timedelta(hours=6)
    return found


# -- what is drawn


def draw(rng: random.Random, *, with_seconds: bool, hours: tuple[int, ...] = ()) -> Drawn:
    """Draw an expression; ``hours`` are likely to be drawn, because something happens then."""
    second, seconds = _numbers(rng, 0, 59) if with_seconds else ("", {0})
    minute, minutes = _numbers(rng, 0, 59)
    hour, some_hours = _numbers(rng, 0, 23)
    if hours and rng.random() < 0.6:
        some_hours = {rng.choice(hours)}
        hour = str(*some_hours)
    date_text, dates = _dates(rng)
    month, months = _numbers(rng, 1, 12) if rng.random() < 0.2 else ("*", set(range(1, 13)))
    weekday_text, weekdays = _weekdays(rng)
    return Drawn(
        text=f"{second} {minute} {hour} {date_text} {month} {weekday_text}".strip(),
        seconds=frozenset(seconds),
        minutes=frozenset(minutes),
        hours=frozenset(some_hours),
        months=frozenset(months),
        dates=dates,
        weekdays=weekdays,
        is_repeating=any(mark in f"{second}{minute}{hour}" for mark in "*/") or len(some_hours) == 24,
    )


def _numbers(rng: random.Random, low: int, high: int) -> tuple[str, set[int]]:
    first, last = sorted(rng.sample(range(low, high + 1), 2))
    step = rng.randint(1, max(2, (high - low) // 3))
    several = rng.sample(range(low, high + 1), 3)
    return rng.choice(
        [
            ("*", set(range(low, high + 1))),
            (f"*/{step}", set(range(low, high + 1, step))),
            (str(first), {first}),
            (str(last), {last}),
            (f"{first}-{last}", set(range(first, last + 1))),
            (f"{first}-{last}/{step}", set(range(first, last + 1, step))),
            (f"{last}-{first}", {*range(last, high + 1), *range(low, first + 1)}),
            (",".join(map(str, several)), set(several)),
        ]
    )


def _dates(rng: random.Random) -> tuple[str, Days]:
    text, numbers = _numbers(rng, 1, 31)
    day, distance = rng.randint(1, 31), rng.randint(0, 9)
    kinds: list[tuple[str, Days]] = [
        ("*", lambda year, month: set(range(1, 32))),
        (text, lambda year, month: numbers),
        ("L", lambda year, month: {_length(year, month)}),
        (f"L-{distance}", lambda year, month: {_length(year, month) - distance}),
        ("LW", lambda year, month: {max(_workdays(year, month))}),
        (f"{day}W", lambda year, month: _nearest(year, month, day)),
    ]
    kind = rng.choices(kinds, weights=[6, 2, 1, 1, 1, 2])[0]
    if kind[0] == "*" or rng.random() < 0.7:
        return kind
    other = rng.choice(kinds[1:])
    return f"{kind[0]},{other[0]}", lambda year, month: kind[1](year, month) | other[1](year, month)


def _weekdays(rng: random.Random) -> tuple[str, Days]:
    number, nth = rng.randint(0, 7), rng.randint(1, 4)
    name = rng.choice([str(number), calendar.day_abbr[(number - 1) % 7].lower()])
    some = set(rng.sample(range(7), 3))
    kinds: list[tuple[str, Days]] = [
        ("*", lambda year, month: set(range(1, 32))),
        (",".join(map(str, some)), lambda year, month: {day for each in some for day in _all(year, month, each)}),
        (f"{name}#{nth}", lambda year, month: {_all(year, month, number)[nth - 1]}),
        (f"{name}L", lambda year, month: {_all(year, month, number)[-1]}),
    ]
    kind = rng.choices(kinds, weights=[6, 1, 2, 2])[0]
    if kind[0] == "*" or rng.random() < 0.7:
        return kind
    other = rng.choice(kinds[1:])
    return f"{kind[0]},{other[0]}", lambda year, month: kind[1](year, month) | other[1](year, month)


@lru_cache(10_000)
def _length(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


def _all(year: int, month: int, weekday: int) -> list[int]:
    """Return the days of a month that are on a weekday; Sunday is 0 and 7."""
    return [day for day in range(1, _length(year, month) + 1) if date(year, month, day).isoweekday() % 7 == weekday % 7]


def _workdays(year: int, month: int) -> list[int]:
    return [day for day in range(1, _length(year, month) + 1) if date(year, month, day).weekday() < 5]


def _nearest(year: int, month: int, wanted: int) -> set[int]:
    if wanted > _length(year, month):
        return set()
    return {min(_workdays(year, month), key=lambda day: abs(day - wanted))}
