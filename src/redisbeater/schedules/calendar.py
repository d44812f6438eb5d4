"""``Calendar``: which days count; and ``Days``, those that the field ``calendar`` of an entry chooses among several.

Outside of what a calendar covers, no day counts and none rolls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from redisbeater.display import did_you_mean, quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.english import join_words

#: What can be the name of a calendar: it is a part of a key, and of a text with commas.
NAME = re.compile(r"[a-z0-9._-]{1,64}", re.ASCII)

#: How many calendars an entry may name.
MOST_OF_ENTRY = 5

#: How many days one covers at most: a hundred years.
MOST_DAYS = 36_525

#: How far a day rolls.
ROLL_DAYS = 31

#: The words of the field ``roll``, and what each does to a day that does not count.
ROLLS: Mapping[str, str] = {
    "next": "else on the next day that counts",
    "previous": "else on the day before that counts",
    "modified": "else on the next day of the month that counts, or on the one before",
}

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Days:
    """Some days that count, of those from ``first`` on that are covered; bit 0 stands for the first one.

    ``of``: the calendar that ends first, of those by which they were chosen.
    """

    first: date
    length: int
    bits: int
    of: str = field(default="", compare=False)

    @property
    def last(self) -> date:
        """The last day that is covered; the day before the first if none is."""
        return self.first + (self.length - 1) * _DAY

    @property
    def count(self) -> int:
        """How many days count."""
        return self.bits.bit_count()

    def covers(self, day: date) -> bool:
        """Tell whether it is known if a day counts."""
        return 0 <= (day - self.first).days < self.length

    def counts(self, day: date) -> bool:
        """Tell whether a day counts."""
        place = (day - self.first).days
        return place >= 0 and self.bits >> place & 1 == 1

    def following(self, day: date) -> date | None:
        """Return the first day that counts, that day or a later one; None if there is none."""
        place = max((day - self.first).days, 0)
        rest = self.bits >> place
        return self.first + (place + (rest & -rest).bit_length() - 1) * _DAY if rest else None

    def preceding(self, day: date) -> date | None:
        """Return the last day that counts, that day or an earlier one; None if there is none."""
        place = (day - self.first).days
        rest = self.bits & ((1 << place + 1) - 1) if place >= 0 else 0
        return self.first + (rest.bit_length() - 1) * _DAY if rest else None

    def rolled(self, day: date, roll: str) -> date | None:
        """Return the day to which one is moved, itself if it counts; None if it is left out."""
        if not self.covers(day) or self.counts(day):
            return day if self.covers(day) else None
        after, before = _near(self.following(day), day), _near(self.preceding(day), day)
        if roll == "modified":
            return after if after and after.month == day.month else before
        return after if roll == "next" else before

    def between(self, first: date, last: date) -> Iterator[date]:
        """Yield the days from one to another, both included, that count."""
        following = self.following(first)
        while following is not None and following <= last:
            yield following
            following = self.following(following + _DAY)


def _near(found: date | None, day: date) -> date | None:
    return found if found is not None and abs(found - day) <= ROLL_DAYS * _DAY else None


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """A name and, for each day from its first to its last, whether it counts.

    Attributes:
        names: what some days are called, by their dates in the form of ISO 8601.
        version: rises with each change.
        source: of what it was made.
    """

    name: str
    days: Days
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    version: int = 0
    source: str = ""

    def __hash__(self) -> int:
        return hash((self.name, self.version))

    def as_dict(self) -> dict[str, Any]:
        """Return its span, its number of counting days and its source, as JSON values."""
        return {
            "name": self.name,
            "first": self.days.first.isoformat(),
            "last": self.days.last.isoformat(),
            "counting": self.days.count,
            "source": self.source,
        }

    def words_of(self, day: date) -> str:
        """Say whether a day counts: ``does not count in at (National Day)``."""
        if not self.days.covers(day):
            return f"is not covered by {self.name}"
        named = f" ({self.names[day.isoformat()]})" if day.isoformat() in self.names else ""
        return f"{'counts' if self.days.counts(day) else 'does not count'} in {self.name}{named}"

    def is_chosen(self, day: date, *, inverted: bool) -> bool:
        """Tell whether an entry that names it, or with ``!``, may fire on a day."""
        return self.days.covers(day) and self.days.counts(day) is not inverted


#: The calendars of a schedule, by name.
Calendars = Mapping[str, Calendar]

#: Those of a schedule that has none.
NO_CALENDARS: Calendars = MappingProxyType({})


def checked_calendar(value: Any, path: str) -> str:
    """Return a text of calendars in its one form: ``at,!xnys``.

    Raises:
        InvalidEntry: it cannot be read.
    """
    if not isinstance(value, str):
        raise InvalidEntry(path, f"expected names of calendars as a text, such as 'at' or '!at', got {quoted(value)}")
    names = [name.strip() for name in value.split(",")]
    for name in names:
        check_calendar_name(name.removeprefix("!"), path)
    if len(names) > MOST_OF_ENTRY or len({name.removeprefix("!") for name in names}) < len(names):
        raise InvalidEntry(path, f"expected at most {MOST_OF_ENTRY} different calendars, got {quoted(value)}")
    return ",".join(names)


def check_calendar_name(name: Any, path: str) -> None:
    """Refuse what cannot be the name of a calendar.

    Raises:
        InvalidEntry: it cannot.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidEntry(path, f"expected a name of a calendar: 1 to 64 of a-z 0-9 . _ -, got {quoted(name)}")


def checked_roll(value: Any, path: str) -> str:
    """Return a word of ``roll``.

    Raises:
        InvalidEntry: it is none.
    """
    if value in ROLLS:
        return str(value)
    raise InvalidEntry(path, f"expected one of {', '.join(map(repr, ROLLS))}, got {quoted(value)}")


def chosen(text: str) -> list[tuple[str, bool]]:
    """Return the names in a checked field, and whether each has ``!``."""
    return [(name.removeprefix("!"), name.startswith("!")) for name in text.split(",")]


def calendar_names(text: str | None) -> list[str]:
    """Return the names in a checked field, without ``!``."""
    return [name for name, _ in chosen(text)] if text else []


def unknown(name: str, known: Iterable[str] = ()) -> InvalidEntry:
    """Return why an entry does not fire whose calendar is missing, with the nearest of those that are known."""
    command = f"celery -A proj redisbeater calendar import {name} --country AT"
    fix = did_you_mean(name, known) or f"; import it, for example: {command}"
    return InvalidEntry("$.calendar", f"there is no calendar {name!r}{fix}")


def days_of(text: str, calendars: Calendars) -> Days:
    """Return the days on which all calendars of a field agree.

    Raises:
        InvalidEntry: there is no calendar of that name.
    """
    found = []
    for name, inverted in chosen(text):
        if name not in calendars:
            raise unknown(name, calendars)
        found.append((calendars[name], inverted))
    return _agreed(tuple(found))


@lru_cache(100)
def _agreed(calendars: tuple[tuple[Calendar, bool], ...]) -> Days:
    first = max(calendar.days.first for calendar, _ in calendars)
    last = min(calendar.days.last for calendar, _ in calendars)
    length = max((last - first).days + 1, 0)
    bits = covered = (1 << length) - 1
    for calendar, inverted in calendars:
        own = calendar.days.bits >> (first - calendar.days.first).days
        bits &= ~own if inverted else own
    ends_first = min((calendar for calendar, _ in calendars), key=lambda calendar: calendar.days.last)
    return Days(first, length, bits & covered, ends_first.name)


def versions_text(names: Iterable[str], calendars: Calendars) -> str:
    """Return calendars with their versions, as an entry keeps those by which it was planned: ``at=3 xnys=7``."""
    return " ".join(f"{name}={calendars[name].version}" for name in sorted(names) if name in calendars)


def in_words(text: str, roll: str | None) -> str:
    """Return which days a field chooses: ``on days that count in at, else on the next day that counts``."""
    names = chosen(text)
    own, others = [name for name, inverted in names if not inverted], [name for name, inverted in names if inverted]
    parts = [f"count in {join_words(own)}"] if own else []
    parts += [f"do not count in {join_words(others)}"] if others else []
    return ", ".join([f"on days that {' and '.join(parts)}", *([ROLLS[roll]] if roll else [])])
