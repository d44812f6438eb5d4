"""The next runs of an entry, as its owner wants to see them: in UTC, in local time, with what clock changes do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice

from redisbeater.editing.edit import StoredEntry
from redisbeater.model.plan import plan
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.description.clock_change import clock_change_note

__all__ = ("MOST_RUNS", "UpcomingRun", "upcoming_runs")

#: More runs than anybody reads.
MOST_RUNS = 1000


@dataclass(frozen=True, kw_only=True)
class UpcomingRun:
    """One planned run: its fire time (aware UTC), the same in the entry's zone, and when it is due, which is later
    when the entry has jitter. ``note`` says what a change of the clocks does to it; empty: nothing.
    """

    fire_time: datetime
    local: datetime
    due_at: datetime
    note: str = ""

    def as_dict(self) -> dict[str, str]:
        """The same as texts, for printing and JSON."""
        return {
            "fire_time": self.fire_time.isoformat(),
            "local": self.local.isoformat(),
            "due_at": "" if self.due_at == self.fire_time else self.due_at.isoformat(),
            "note": self.note,
        }


def upcoming_runs(stored: StoredEntry, defaults: Defaults, n: int) -> list[UpcomingRun]:
    """The next ``n`` runs of an entry; fewer when it ends before, none when it is dormant.

    Raises:
        ValueError: ``n`` is not from 1 to 1000.
    """
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_RUNS:
        raise ValueError(f"n: expected a whole number from 1 to {MOST_RUNS}, got {n!r}")
    terms = ResolvedPolicy.of(stored.definition, defaults)
    if terms.max_runs is not None:
        n = min(n, terms.max_runs - stored.meta.total_run_count)
    fire_times = islice(_fire_times(stored, terms), max(n, 0))
    return [_run(fire_time, terms) for fire_time in fire_times]


def _fire_times(stored: StoredEntry, terms: ResolvedPolicy) -> Iterator[datetime]:
    """What will be run: of fire times that have passed, those that the policies let through."""
    fire_time = None if stored.score.dormant else stored.score.fire_time
    if fire_time is not None and fire_time <= stored.now:
        planned = plan(terms, fire_time, stored.now, run_count=stored.meta.total_run_count)
        yield from planned.runs
        fire_time = planned.next.fire_time
    with suppress(OverflowError):  # the end of the calendar
        while fire_time is not None:
            yield fire_time
            fire_time = terms.timetable.next(fire_time)


def _run(fire_time: datetime, terms: ResolvedPolicy) -> UpcomingRun:
    timetable = terms.timetable
    return UpcomingRun(
        fire_time=fire_time.astimezone(timezone.utc),
        local=fire_time.astimezone(timetable.local_zone),
        due_at=terms.due_at(fire_time),
        note=clock_change_note(timetable.schedule, timetable.local_zone, fire_time),
    )
