"""The fire times of a rule without the engine: dateutil steps through local times, and a clock is read each minute.

The oracle knows no offsets. It looks at what the clock of a zone shows, minute by minute, and finds there when a local
time comes the first time, and how long after its last local time a gap is reached.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

from dateutil.rrule import rrule as dateutil_rrule

MINUTE = timedelta(minutes=1)

#: A zone and a day near one of its shifts: gaps and repeated times of half an hour, an hour, two hours and a day.
SHIFTS = (
    ("America/New_York", "2026-03-08"), ("America/New_York", "2026-11-01"), ("Europe/Dublin", "2026-03-29"),
    ("Europe/Dublin", "2026-10-25"), ("America/Santiago", "2026-09-06"), ("America/Santiago", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"), ("Australia/Lord_Howe", "2026-04-05"), ("Antarctica/Troll", "2026-03-29"),
    ("Antarctica/Troll", "2026-10-25"), ("Africa/Casablanca", "2026-02-15"), ("Africa/Casablanca", "2026-03-22"),
    ("Pacific/Chatham", "2026-09-27"), ("Pacific/Kwajalein", "1993-08-21"), ("Pacific/Kiritimati", "1994-12-31"),
    ("Pacific/Apia", "2011-12-30"), ("Antarctica/Vostok", "1994-02-01"), ("America/St_Johns", "2010-11-07"),
    ("Asia/Kathmandu", "2026-01-01"),
)  # fmt: skip

#: How far before and after the day the clock is read.
AROUND = timedelta(days=4)


@dataclass(frozen=True)
class WallClock:
    """What the clock of a zone shows in the minutes around a day, by the naive local time."""

    first: Mapping[datetime, datetime]
    second: Mapping[datetime, datetime]
    #: The instant of each gap, what the clock would show then if it had not been put forward, and what it shows.
    gaps: list[tuple[datetime, datetime, datetime]]

    @classmethod
    def around(cls, zone: str, day: str) -> WallClock:
        begin = datetime.fromisoformat(day).replace(tzinfo=timezone.utc) - AROUND
        instants = [begin + number * MINUTE for number in range(2 * AROUND // MINUTE)]
        shown = [(instant, instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)) for instant in instants]
        first: dict[datetime, datetime] = {}
        second: dict[datetime, datetime] = {}
        for instant, local in shown:
            (second if local in first else first)[local] = instant
        gaps = [(at, was + MINUTE, is_) for (_, was), (at, is_) in pairwise(shown) if is_ > was + MINUTE]
        return cls(first, second, gaps)

    def instant(self, local: datetime, start: datetime) -> datetime | None:
        """Return when a local time fires in a rule that begins at an instant; None: the clock was not read then."""
        for at, from_local, to_local in self.gaps:
            if from_local <= local < to_local:
                return at + (local - from_local)
        found = self.first.get(local)
        return self.second.get(local) if found is not None and found < start else found

    def start(self, local: datetime, fold: int) -> datetime | None:
        """Return the instant of a start."""
        return (self.second if fold and local in self.second else {}).get(local) or self.instant(local, EARLIEST)


EARLIEST = datetime.min.replace(tzinfo=timezone.utc)


def expected(
    wall: WallClock,
    start: datetime,
    rules: Iterable[tuple[dict[str, Any], datetime | None]],
    rdates: Iterable[datetime] = (),
    exdates: Iterable[datetime] = (),
) -> list[datetime]:
    """Return the fire times while the clock was read: of rules by dateutil's parts and their ends, and of dates."""
    begins, last = wall.start(start, start.fold), max(wall.first)
    assert begins is not None
    found = set(rdates)
    for parts, until in rules:
        for local in takewhile(last.__ge__, of_dateutil(dtstart=start.replace(fold=0), **parts)):
            instant = wall.instant(local, begins)
            if instant is not None and (until is None or instant <= until):
                found.add(instant)
    return sorted(instant for instant in found - set(exdates) if instant >= begins)


def of_dateutil(**parts: Any) -> Iterable[datetime]:
    """Return the local times of a rule; none if dateutil refuses it, because it can never match."""
    try:
        return dateutil_rrule(**parts)
    except ValueError:
        return ()


def from_any(fire_times: list[datetime], after: datetime) -> datetime | None:
    """Return the first fire time after an instant."""
    index = bisect_left(fire_times, after + timedelta(microseconds=1))
    return fire_times[index] if index < len(fire_times) else None
