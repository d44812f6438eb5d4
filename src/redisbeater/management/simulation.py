"""``Simulation``: how many runs a schedule will have, minute by minute, and which entries meet at the peak."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

from redisbeater.management.course import Course
from redisbeater.times import EPOCH

__all__ = ("Band", "Peak", "Simulation", "number_of_runs", "simulate")

#: Fire times that one simulation finds, and then the first one of each entry that is left. Entries of one schedule
#: share theirs.
MOST_FIRE_TIMES = 5_000_000

#: How many of the entries with the most runs a simulation keeps apart, and the steps in which it counts them.
MOST_BANDS, BAND_SECONDS = 30, 900

_MICROSECOND = timedelta(microseconds=1)

#: What tells one entry of a family from another: digits at the end of its name.
_NUMBER = re.compile(r"[\W_]*\d+$")


class Peak(NamedTuple):
    """A moment and how many runs it has."""

    at: datetime
    runs: int


class Band(NamedTuple):
    """The runs of one entry: UNIX seconds at which a quarter of an hour begins -> runs in it."""

    name: str
    runs: int
    quarters: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The runs between two instants, ``end`` not included.

    Attributes:
        entries: how many entries run at all.
        per_second: UNIX seconds -> runs.
        zone: whose hours and days are counted.
        peak: the entries that run in the busiest minute: name -> runs. Those whose names differ only in a number at the
            end are one, ``report*``.
        is_at_least: whether there are more runs, which were not counted because that takes too long; of some entries
            the first run alone is counted then.
        bands: the entries with the most runs, at most 30, those with the most first.
    """

    start: datetime
    end: datetime
    zone: tzinfo
    entries: int
    per_second: Mapping[int, int]
    peak: Mapping[str, int] = field(default_factory=dict)
    is_at_least: bool = False
    bands: Sequence[Band] = ()

    @property
    def runs(self) -> int:
        """The number of all runs."""
        return sum(self.per_second.values())

    @property
    def busiest_second(self) -> Peak | None:
        """The second with the most runs, the first of several; None: there is no run."""
        return _busiest(self.per_second)

    @property
    def busiest_minute(self) -> Peak | None:
        """The minute with the most runs, the first of several; None: there is no run."""
        return _busiest(_by(60, self.per_second))

    def counts(self, per: str) -> list[Peak]:
        """Return the runs of each minute, hour or day, in order, those without runs included.

        Raises:
            ValueError: ``per`` is no such word.
        """
        if per not in ("minute", "hour", "day"):
            raise ValueError(f"per: expected minute, hour or day, got {per!r}")
        counted: Counter[datetime] = Counter()
        for second, runs in self.per_second.items():
            counted[_floor(_instant(second).astimezone(self.zone), per)] += runs
        return [Peak(at, counted[at]) for at in self._buckets(per)]

    def _buckets(self, per: str) -> Iterator[datetime]:
        """Yield where minutes, hours or days begin; those of a day are not always 24."""
        step = {"minute": timedelta(minutes=1), "hour": timedelta(minutes=30), "day": timedelta(hours=6)}[per]
        last = None
        moments = int((self.end - self.start) / step) + 1
        for moment in (*(self.start + number * step for number in range(moments)), self.end - _MICROSECOND):
            bucket = _floor(moment.astimezone(self.zone), per)
            if moment < self.end and bucket != last:
                yield bucket
                last = bucket


def simulate(
    courses: Iterable[Course],
    start: datetime,
    end: datetime,
    zone: tzinfo,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Return the runs of entries from one instant up to another, with their jitter, without those that are overdue.

    ``progress`` is called with the number of entries that are done.

    Raises:
        ValueError: ``end`` is not after ``start``.
    """
    if end <= start:
        raise ValueError(f"end: expected a time after {start.isoformat()}, got {end.isoformat()}")
    groups: defaultdict[tuple[object, ...], list[Course]] = defaultdict(list)
    for course in courses:
        groups[course.group].append(course)
    per_second: Counter[int] = Counter()
    bands: list[Band] = []
    found = entries = done = 0
    for members in groups.values():
        seconds = Counter(members[0].seconds(start, end, max(MOST_FIRE_TIMES - found, 1)))
        for second, runs in seconds.items():
            per_second[second] += runs * len(members)
        _keep_busiest(bands, members, seconds)
        found, done = found + sum(seconds.values()), done + len(members)
        entries += len(members) if seconds else 0
        if progress is not None:
            progress(done)
    busiest = _busiest(_by(60, per_second))
    return Simulation(
        start=start,
        end=end,
        zone=zone,
        entries=entries,
        per_second=per_second,
        peak=_peak(groups.values(), busiest, start, end) if busiest else {},
        is_at_least=found >= MOST_FIRE_TIMES,
        bands=bands,
    )


def number_of_runs(course: Course, start: datetime, end: datetime, known: dict[tuple[object, ...], int]) -> int:
    """Return how many runs an entry has between two instants; ``known`` remembers those of entries like it."""
    group = course.group
    if group not in known:
        known[group] = sum(1 for _ in course.seconds(start, end, MOST_FIRE_TIMES))
    return known[group]


def _keep_busiest(bands: list[Band], members: Sequence[Course], seconds: Counter[int]) -> None:
    """Add entries that run at the same seconds to those with the most runs, as far as they are among them."""
    runs = sum(seconds.values())
    if runs and (len(bands) < MOST_BANDS or runs > bands[-1].runs):
        quarters = _by(BAND_SECONDS, seconds)
        bands += [Band(member.name, runs, quarters) for member in members[:MOST_BANDS]]
        bands.sort(key=lambda band: (-band.runs, band.name))
        del bands[MOST_BANDS:]


def _peak(groups: Iterable[list[Course]], busiest: Peak, start: datetime, end: datetime) -> dict[str, int]:
    """Return the entries that run in the busiest minute by families, those with the most runs first."""
    families: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    begin = (busiest.at - EPOCH) // timedelta(seconds=1)
    since = max(start, busiest.at - timedelta(minutes=1))
    until = min(end, busiest.at + timedelta(minutes=1))
    for members in groups:
        runs = sum(1 for second in members[0].seconds(since, until, MOST_FIRE_TIMES) if 0 <= second - begin < 60)
        for member in members if runs else ():
            families[_NUMBER.sub("", member.name) or member.name].append((member.name, runs))
    counted = {
        f"{stem}*" if len(found) > 1 else found[0][0]: sum(runs for _, runs in found)
        for stem, found in families.items()
    }
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _by(seconds: int, per_second: Mapping[int, int]) -> Counter[int]:
    counted: Counter[int] = Counter()
    for second, runs in per_second.items():
        counted[second - second % seconds] += runs
    return counted


def _busiest(counted: Mapping[int, int]) -> Peak | None:
    if not counted:
        return None
    second, runs = min(counted.items(), key=lambda item: (-item[1], item[0]))
    return Peak(_instant(second), runs)


def _instant(second: int) -> datetime:
    return datetime.fromtimestamp(second, timezone.utc)


def _floor(moment: datetime, per: str) -> datetime:
    if per == "day":
        return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return moment.replace(minute=moment.minute if per == "minute" else 0, second=0, microsecond=0)
