"""Compare the fire times of two engines for one schedule, and explain the differences."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from celery.schedules import BaseSchedule

from redisbeater.display import shown
from redisbeater.management.migration.candidate import Candidate
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.schedules.english import join_words, zone_text
from redisbeater.schedules.kinds import ScheduleCodec, kind_of
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.timetable import Timetable
from redisbeater.schedules.zones import Shift, shifts_between
from redisbeater.times import date_words

#: Fire times that are nearer to each other than this are one, which an engine has truncated.
_SECOND = timedelta(seconds=1)

#: So many days are named of one reason.
MOST_DAYS = 5

#: How far around a change of the clocks it is the cause: rules for days err by a day at most.
_AROUND = timedelta(hours=25)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Fire times that differ for one reason.

    Attributes:
        more: how many only our engine has.
        fewer: how many only the old engine has.
        reason: why.
        first: the first of them.
    """

    more: int
    fewer: int
    reason: str
    first: datetime

    def __str__(self) -> str:
        if self.more == self.fewer:
            return f"{self.more:,} at another time: {self.reason}"
        numbers = [f"{self.more:,} more"] * bool(self.more) + [f"{self.fewer:,} fewer"] * bool(self.fewer)
        return f"{', '.join(numbers)}: {self.reason}"


def explained(old: Sequence[datetime], ours: Sequence[datetime], zone: tzinfo, rules: str) -> tuple[Difference, ...]:
    """Return the differences between two ordered sequences of fire times, the earliest first.

    Arguments:
        old: those of the old engine.
        ours: those of our engine.
        zone: the zone of the schedule's local times.
        rules: the rules of the old engine, for what nothing else explains.
    """
    more, fewer = sorted(set(ours) - set(old)), sorted((Counter(old) - Counter(ours)).elements())
    if not more and not fewer:
        return ()
    found = _Differences()
    truncated = [(late, early) for late in more if (early := _near(late, fewer)) is not None]
    for late, early in truncated:
        more.remove(late)
        fewer.remove(early)
        found.add("the old engine truncates fractions of a second", "", [late], [early])
    every = [*more, *fewer]
    for (shift, kept), (_, lost) in zip(_by_shift(more, zone, every), _by_shift(fewer, zone, every)):
        if kept or lost:
            found.add(*_reason(shift, kept, lost, zone, rules), kept, lost)
    return found.differences()


class _Differences:
    """The differences found so far: by their reasons, each with its days, more and fewer fire times."""

    def __init__(self) -> None:
        self._reasons: dict[str, tuple[list[str], list[datetime], list[datetime]]] = {}

    def add(self, reason: str, day: str, more: list[datetime], fewer: list[datetime]) -> None:
        """Add fire times that differ for a reason, on a day; without a day it is no matter which."""
        days, kept, lost = self._reasons.setdefault(reason, ([], [], []))
        days += [day] if day and day not in days else []
        kept += more
        lost += fewer

    def differences(self) -> tuple[Difference, ...]:
        """Return one difference for each reason, the earliest first."""
        found = [
            Difference(more=len(kept), fewer=len(lost), reason=_on_days(reason, days), first=min([*kept, *lost]))
            for reason, (days, kept, lost) in self._reasons.items()
        ]
        return tuple(sorted(found, key=lambda difference: difference.first))


def _on_days(reason: str, days: list[str]) -> str:
    more = f"{len(days) - MOST_DAYS} more days"
    named = [*days[:MOST_DAYS], more] if len(days) > MOST_DAYS else days
    return f"{reason} on {join_words(named)}" if days else reason


def _near(moment: datetime, others: Sequence[datetime]) -> datetime | None:
    """Return the one of ordered instants that differs by less than a second; None if there is none."""
    at = bisect_left(others, moment)
    return next((other for other in others[max(at - 1, 0) : at + 1] if abs(other - moment) < _SECOND), None)


def _by_shift(
    moments: Sequence[datetime], zone: tzinfo, every: Sequence[datetime]
) -> list[tuple[Shift | None, list[datetime]]]:
    """Return the instants around each change of the clocks, and at the end those around none."""
    shifts: list[Shift] = []
    if every:
        shifts = list(shifts_between(min(every) - _AROUND, max(every) + _AROUND, zone))
    groups: list[tuple[Shift | None, list[datetime]]] = [(shift, []) for shift in shifts]
    others: list[datetime] = []
    for moment in moments:
        near = min(groups, key=lambda group: abs(group[0].at - moment) if group[0] else _AROUND, default=None)
        is_near = near is not None and near[0] is not None and abs(near[0].at - moment) <= _AROUND
        (near[1] if is_near and near is not None else others).append(moment)
    return [*groups, (None, others)]


def _reason(
    shift: Shift | None, more: list[datetime], fewer: list[datetime], zone: tzinfo, rules: str
) -> tuple[str, str]:
    """Return why fire times differ, and on which day; empty where the reason names it."""
    if shift is None:
        return f"a bug of the old engine, {rules}, first at {_first(more, fewer, zone)}", ""
    day = date_words(shift.to_local).partition(" ")[2]
    is_back = shift.after < shift.before
    change = "repeated hour" if is_back else "skipped hour"
    if is_back and more and not fewer and all(_is_within(moment, shift) for moment in more):
        return f"the old engine skips the {change}", day
    if is_back and fewer and not more and all(_is_within(moment, shift) for moment in fewer):
        return f"the old engine runs again in the {change}", day
    if more and not fewer:
        return f"the old engine leaves them out around the {change}", day
    if fewer and not more:
        return f"the old engine runs them besides around the {change}", day
    return f"the old engine moves them around the {change}", day


def _is_within(moment: datetime, shift: Shift) -> bool:
    """Return whether the clock shows its local time twice."""
    return abs(moment - shift.at) <= shift.before - shift.after


def _first(more: list[datetime], fewer: list[datetime], zone: tzinfo) -> str:
    local = min([*more, *fewer]).astimezone(zone)
    return f"{date_words(local)} {local:%H:%M:%S} {zone_text(zone) or local.tzname()}"


#: How many fire times of an entry are compared, unless five years end before.
MOST_FIRE_TIMES = 1000

#: Seconds for one entry and engine: RedBeat's rrules step through all dates since their start, again and again.
MOST_SECONDS = 5.0

_FIVE_YEARS = timedelta(days=5 * 365.25)

#: Engine steps for so many fire times of any schedule.
_STEPS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What comparing an entry has found.

    Attributes:
        compared: the number of our fire times that were compared.
        until: the last instant that was looked at.
        differences: what is different; empty: nothing.
        problem: why nothing could be compared.
    """

    compared: int = 0
    until: datetime | None = None
    differences: tuple[Difference, ...] = ()
    problem: str = ""


class Comparisons:
    """Compares entries as :func:`compared` does; those with the same schedule and the same anchor once.

    Arguments:
        codec: tells schedules apart.
    """

    def __init__(self, now: datetime, zone: tzinfo, codec: ScheduleCodec, limit: int = MOST_FIRE_TIMES) -> None:
        self._now = now
        self._zone = zone
        self._codec = codec
        self._limit = limit
        self._known: dict[object, Comparison] = {}

    def __call__(self, candidate: Candidate) -> Comparison:
        """Return the comparison of an entry."""
        key = self._key(candidate)
        if key is None:
            return compared(candidate, self._now, self._zone, self._limit)
        if key not in self._known:
            self._known[key] = compared(candidate, self._now, self._zone, self._limit)
        return self._known[key]

    def _key(self, candidate: Candidate) -> object:
        """Return a key of all that a comparison depends on, or None if that is unknown."""
        definition = candidate.definition
        if definition is None or not candidate.engine_key:
            return None
        if kind_of(definition.schedule).depends_on_entry(definition.schedule):
            return None
        ours = json_text.canonical(self._codec.encode(definition.schedule))
        bounds = definition.timezone, repr(definition.start_at), repr(definition.end_at)
        since = _anchor(definition.timetable(self._zone), candidate.meta.last_run_at, self._now)
        return candidate.engine_key, ours, bounds, since, _most(definition, candidate, self._limit)


def compared(candidate: Candidate, now: datetime, zone: tzinfo, limit: int = MOST_FIRE_TIMES) -> Comparison:
    """Compare the next fire times of an entry, at most five years of them.

    Both engines count from the last run as if beat had never been down: what is overdue now runs once with either.

    Arguments:
        candidate: the entry; it has a definition.
        now: where to begin.
        zone: the zone of entries without their own.
        limit: the number of fire times.
    """
    if candidate.definition is None or candidate.engine is None:
        return Comparison(problem="its class or its fields are not known to the old engine")
    definition = candidate.definition
    timetable = definition.timetable(zone).afresh(_STEPS)
    since, until = _anchor(timetable, candidate.meta.last_run_at, now), now + _FIVE_YEARS
    try:
        old = _taken(candidate.engine(since), until, limit)
    except Exception as exc:  # the code of another package, on data that it may have never run
        return Comparison(problem=shown(f"the old engine fails: {type(exc).__name__}: {exc}"))
    ours = _taken(timetable.between(since, until), until, _most(definition, candidate, limit))
    horizon = min(old.horizon, ours.horizon if definition.max_runs is None else until)
    kept, lost = ([moment for moment in times if moment <= horizon] for times in (ours.moments, old.moments))
    found = explained(lost, kept, timetable.local_zone, _rules(definition.schedule))
    return Comparison(compared=len(kept), until=horizon, differences=found)


def _anchor(timetable: Timetable, last_run_at: datetime | None, now: datetime) -> datetime:
    """Return the instant that both engines count from: that of an interval lies on the grid of its last run."""
    if timetable.period is None:
        return now
    begin = last_run_at or timetable.start_at or now
    return begin + (now - begin) // timetable.period * timetable.period if begin < now else now


def _most(definition: Definition, candidate: Candidate, limit: int) -> int:
    if definition.max_runs is None:
        return limit
    return min(limit, max(definition.max_runs - candidate.meta.total_run_count, 0))


class _Taken(NamedTuple):
    """Fire times, and the instant up to which these are all."""

    moments: list[datetime]
    horizon: datetime


def _taken(moments: Iterable[datetime], until: datetime, limit: int) -> _Taken:
    found: list[datetime] = []
    deadline = time.monotonic() + MOST_SECONDS
    for moment in moments:
        if moment > until:
            break
        found.append(moment)
        if len(found) >= limit or time.monotonic() > deadline:
            return _Taken(found, moment)
    return _Taken(found, until)


def _rules(rules: BaseSchedule) -> str:
    """Return the name of the rules by which a schedule fires."""
    return "dateutil's rule" if isinstance(rules, rrule) else f"Celery's {type(rules).__name__}"
