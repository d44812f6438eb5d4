"""A naive reference of windows, which shares no code with the package: it looks at every minute of some days.

A cron is drawn as the numbers that it means, and a window as minutes, so that the reference reads no text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from shifts import SHIFTS, span

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Windows:
    """From which minute of the day to which; an end below its start is on the day after. Weekdays: Sunday is 0.

    With ``dates``, windows open only on these.
    """

    spans: tuple[tuple[int, int], ...] = ((0, 1440),)
    days: frozenset[int] = frozenset(range(7))
    dates: frozenset[date] | None = None

    def of(self, day: date) -> list[tuple[datetime, datetime]]:
        midnight = datetime(day.year, day.month, day.day)
        ends = [(start, end if end > start else end + 1440) for start, end in self.spans]
        opens = day.isoweekday() % 7 in self.days and (self.dates is None or day in self.dates)
        return [(midnight + start * MINUTE, midnight + end * MINUTE) for start, end in ends if opens]

    def around(self, local: datetime) -> tuple[datetime, datetime] | None:
        """The window that a local time is within."""
        day = local.date()
        found = [*self._known(day), *self._known(day - DAY)]
        return next(((start, end) for start, end in found if start <= local < end), None)

    @cached_property
    def _known(self) -> Callable[[date], list[tuple[datetime, datetime]]]:
        return cache(self.of)


@dataclass(frozen=True)
class Cron:
    """The hours, minutes and weekdays that a cron text means, and its class."""

    hours: frozenset[int]
    minutes: frozenset[int]
    is_repeating: bool
    days: frozenset[int] = frozenset(range(7))

    def on(self, day: date) -> set[datetime]:
        """Its slots of a date."""
        if day.isoweekday() % 7 not in self.days:
            return set()
        return {datetime(day.year, day.month, day.day, hour, minute) for hour in self.hours for minute in self.minutes}


@dataclass
class Clock:
    """What a clock shows at each minute between two instants."""

    zone: ZoneInfo
    start: datetime
    end: datetime
    shown: list[tuple[datetime, datetime]] = field(init=False)

    def __post_init__(self) -> None:
        minutes = range((self.end - self.start) // MINUTE + 1)
        instants = [self.start + number * MINUTE for number in minutes]
        self.shown = [(at, at.astimezone(self.zone).replace(tzinfo=None, fold=0)) for at in instants]
        self.locals = {local for _, local in self.shown}
        self.dates = {local.date() for local in self.locals}
        self.first = dict(reversed([(local, at) for at, local in self.shown]))
        steps = pairwise(self.shown)
        self.gaps = [(before, at, after) for (_, before), (at, after) in steps if after - before > MINUTE]

    def after_gap(self, local: datetime) -> set[datetime]:
        """The instant at which the clock has jumped over a local time that it does not show."""
        return {at for before, at, after in self.gaps if before < local < after}

    def cron(self, cron: Cron, windows: Windows) -> set[datetime]:
        """The fire times of a cron."""
        days = {day + step * DAY for day in self.dates for step in (-1, 0, 1)}
        slots = {slot for day in days for slot in cron.on(day) if windows.around(slot)}
        alive = {slot.date() for slot in slots & self.locals}
        found = {at for at, local in self.shown if local in slots and (cron.is_repeating or self.first[local] == at)}
        for slot in slots - self.locals:
            if slot.date() in self.dates and not (cron.is_repeating and slot.date() in alive):
                found |= self.after_gap(slot)
        return found

    def interval(self, length: int, windows: Windows) -> set[datetime]:
        """The fire times of an interval of so many minutes."""
        found: set[datetime] = set()
        opened, last = self.start, None
        for at, local in self.shown:
            window = windows.around(local)
            opened = at if window != last else opened
            found |= {at} if window and (at - opened) // MINUTE % length == 0 else set()
            last = window
        for start, end in (window for day in self.dates for window in windows.of(day)):
            if not any(start + number * MINUTE in self.locals for number in range((end - start) // MINUTE)):
                found |= self.after_gap(start)
        return found


@lru_cache(len(SHIFTS))
def clock_around(zone: str, day: str) -> Clock:
    """The clock of a zone around one of its shifts."""
    start, end = span(day)
    return Clock(ZoneInfo(zone), start - 2 * DAY, end + 2 * DAY)
