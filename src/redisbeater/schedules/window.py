"""``Window``: the times of the day, and the days, within which an entry fires, read from its ``between`` and ``days``.

Times are those of the local clock; the start is in, the end is out. A window over midnight, ``22:00-04:00``, belongs to
the day on which it opens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.crontab_text import read_numbers
from redisbeater.schedules.english import join_words, weekday_names

#: The minutes of a day.
DAY_MINUTES = 24 * 60

_MINUTE = timedelta(minutes=1)

_EXAMPLE = "'09:30-16:00', or several with commas"

_SPAN = re.compile(r"\s*(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)\s*", re.ASCII)

#: Longer texts are refused unread: no two of a day's minutes could open a window each.
_MOST_CHARACTERS = 1_000

#: The fields of an entry that are stored with its schedule: a beat that ignored them would run outside of them.
FIELDS = ("between", "days", "calendar", "roll")

#: From which minute, or slot, of a day to which.
Span = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """The times within which an entry fires.

    Attributes:
        spans: from which minute of the day to which, in order; an end of the day after is above 24 hours.
        days: the weekdays on which it opens, Sunday is 0.
    """

    spans: tuple[Span, ...]
    days: frozenset[int]

    @property
    def shortest(self) -> timedelta:
        """How long the shortest of them is open."""
        return min(end - start for start, end in self.spans) * _MINUTE

    @property
    def crosses_midnight(self) -> bool:
        """Whether one ends on the day after."""
        return any(end > DAY_MINUTES for _, end in self.spans)

    def of_day_before(self, weekday: int) -> tuple[Span, ...]:
        """Return the parts of a weekday that lie within windows of the day before."""
        spans = ((0, end - DAY_MINUTES) for _, end in self.spans if end > DAY_MINUTES)
        return tuple(spans) if (weekday - 1) % 7 in self.days else ()

    def of_day(self, weekday: int) -> tuple[Span, ...]:
        """Return the parts of a weekday that lie within windows that open on it, in order."""
        spans = ((start, min(end, DAY_MINUTES)) for start, end in self.spans)
        return tuple(spans) if weekday in self.days else ()

    def opened_on(self, day: date) -> Iterator[tuple[datetime, datetime]]:
        """Yield the local times from which and to which the windows last that open on a date."""
        midnight = datetime(day.year, day.month, day.day)
        for opens, closes in self.times_of(day):
            yield midnight + opens, midnight + closes

    def times_of(self, day: date) -> tuple[tuple[timedelta, timedelta], ...]:
        """Return the same as times since midnight."""
        return _times(self.spans) if day.isoweekday() % 7 in self.days else ()

    @property
    def words(self) -> str:
        """The window in words: ``between 09:30 and 16:00 on Monday to Friday``."""
        is_whole_day = self.spans == ((0, DAY_MINUTES),)
        times = [_text(span).replace("-", " and ") for span in self.spans]
        opening = "opening on" if self.crosses_midnight else "on"
        on_days = "" if len(self.days) == 7 else f"{opening} {weekday_names([day or 7 for day in self.days])}"
        between = "" if is_whole_day and on_days else f"between {join_words(times)}"
        return " ".join(filter(None, (between, on_days)))


@lru_cache(1000)
def _times(spans: tuple[Span, ...]) -> tuple[tuple[timedelta, timedelta], ...]:
    return tuple((start * _MINUTE, end * _MINUTE) for start, end in spans)


@lru_cache(1000)
def window_of(between: str | None, days: str | None) -> Window:
    """Return the window of the two fields, of which one may be missing: every day, or the whole day.

    Raises:
        InvalidEntry: one cannot be read; the path names it.
    """
    spans = ((0, DAY_MINUTES),) if between is None else _spans(between)
    return Window(spans, frozenset(range(7)) if days is None else _weekdays(days))


def checked_between(value: Any, path: str) -> str:
    """Return a text of windows in its one form: ``09:30-16:00,18:00-20:00``.

    Raises:
        InvalidEntry: it cannot be read, or windows overlap.
    """
    if not isinstance(value, str):
        raise InvalidEntry(path, f"expected a text such as {_EXAMPLE}, got {quoted(value)}")
    return ",".join(map(_text, _spans(value)))


def checked_days(value: Any, path: str) -> str:
    """Return a text of weekdays without blanks.

    Raises:
        InvalidEntry: it cannot be read.
    """
    if not isinstance(value, str):
        raise InvalidEntry(path, f"expected weekdays as a text, such as 'mon-fri', got {quoted(value)}")
    text = "".join(value.split())
    _weekdays(text)
    return text


def _weekdays(text: str) -> frozenset[int]:
    try:
        return read_numbers("day_of_week", text.split(","))
    except InvalidEntry as exc:
        raise InvalidEntry("$.days", exc.problem) from exc


def _spans(text: str) -> tuple[Span, ...]:
    """Read windows; one that ends on the day after ends above 24 hours."""
    if len(text) > _MOST_CHARACTERS:
        raise InvalidEntry("$.between", f"expected at most {_MOST_CHARACTERS:,} characters, got {len(text):,}")
    spans = sorted(map(_span, text.split(",")))
    around = [*spans, (spans[0][0] + DAY_MINUTES, spans[0][1] + DAY_MINUTES)]
    for (start, end), (following, last) in pairwise(around):
        if following < end and len(spans) > 1:
            both = f"{_text((start, end))} and {_text((following % DAY_MINUTES, last))}"
            raise InvalidEntry("$.between", f"{both} overlap; make one window of them")
    return tuple(spans)


def _span(text: str) -> Span:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise InvalidEntry("$.between", f"cannot read {quoted(text, 60)}; expected a time to another, {_EXAMPLE}")
    hour, minute, last_hour, last_minute = map(int, match.groups())
    start, end = hour * 60 + minute, last_hour * 60 + last_minute
    if start >= DAY_MINUTES or end > DAY_MINUTES or minute > 59 or last_minute > 59:
        problem = f"{quoted(text, 60)} is out of range; expected 00:00 to 23:59, and 24:00 as an end"
        raise InvalidEntry("$.between", problem)
    if start == end:
        raise InvalidEntry("$.between", f"{quoted(text, 60)} starts when it ends; for the whole day write 00:00-24:00")
    return start, end if end > start else end + DAY_MINUTES


def _text(span: Span) -> str:
    start, end = span[0], (span[1] - 1) % DAY_MINUTES + 1  # 24:00 stays
    return f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
