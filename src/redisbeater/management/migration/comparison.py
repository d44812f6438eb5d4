"""The fire times of one entry, by the engine of another scheduler and by ours."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from celery.schedules import BaseSchedule, crontab, schedule, solar

from redisbeater.display import shown
from redisbeater.management.migration.candidate import Candidate
from redisbeater.management.migration.differences import Difference, explained
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.schedules import ScheduleCodec, Timetable, clocked
from redisbeater.schedules.interval import counts_from_last, latest
from redisbeater.schedules.rrule.rrule import rrule

__all__ = ("MOST_FIRE_TIMES", "Comparison", "Comparisons", "compared")

#: The schedules whose fire times do not depend on the name of their entry.
_NAMELESS = (schedule, crontab, rrule, solar, clocked)

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
        """Return all that a comparison depends on; None: that is not known."""
        definition = candidate.definition
        if definition is None or not candidate.engine_key or type(definition.schedule) not in _NAMELESS:
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
    if not counts_from_last(timetable.schedule):
        return now
    begin = last_run_at or timetable.start_at or now
    return latest(timetable.schedule, begin, now) if begin < now else now


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
