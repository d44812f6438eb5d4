"""The next runs of an entry for people: in UTC, in local time, with the effect of clock changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice

from redisbeater.display import json_fields, text_of
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.passed_values import check_number
from redisbeater.model.plan import plan
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.budget import SEARCHING_STEPS, StepsExhausted
from redisbeater.schedules.timetable import clock_change_note, part_note, roll_note

#: More runs than a person reads.
MOST_RUNS = 1000

#: What finding them may take: about a second of processor time.
_STEPS = 30 * SEARCHING_STEPS


@dataclass(frozen=True, kw_only=True)
class UpcomingRun:
    """One planned run.

    Attributes:
        name: the entry that it is of.
        task: what that runs.
        fire_time: aware UTC.
        local: the fire time in the entry's zone.
        due_at: when beat sends it, aware UTC; later than the fire time when the entry has jitter.
        note: whether it is overdue, and why it cannot be sent if the entry is failing; of several crons, by which it
            runs; the effect that a change of the clocks has on it; empty: none of these.
    """

    name: str
    task: str
    fire_time: datetime
    local: datetime
    due_at: datetime
    note: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the fields as texts, for printing and JSON."""
        return json_fields(self)


def upcoming_runs(stored: StoredEntry, defaults: Defaults, limit: int) -> list[UpcomingRun]:
    """Return the next ``limit`` runs of an entry; none when it is dormant.

    There are fewer when it ends before, or when finding more would take about a second.

    Raises:
        ValueError: ``limit`` is not from 1 to 1000.
        InvalidEntry: finding the first one takes too many engine steps, or a custom schedule raises something.
    """
    check_number("limit", limit, MOST_RUNS)
    return list(islice(runs_from(stored, defaults), limit))


def runs_from(stored: StoredEntry, defaults: Defaults, start: datetime | None = None) -> Iterator[UpcomingRun]:
    """Yield the next runs of an entry, each found only when it is asked for.

    Arguments:
        stored: the entry.
        defaults: what it inherits from the settings.
        start: leave out the runs before this instant; those in between count as runs of ``max_runs``.

    Raises:
        InvalidEntry: finding the first one takes too many engine steps, or a custom schedule raises something.
    """
    policy = ResolvedPolicy.of(stored.definition, defaults).afresh(_STEPS)
    limit = None if policy.max_runs is None else max(policy.max_runs - stored.meta.total_run_count, 0)
    try:
        for fire_time in islice(_fire_times(stored, policy, start if limit is None else None), limit):
            if start is None or fire_time >= start:
                yield _run(fire_time, policy, stored)
    except OverflowError as exc:
        raise InvalidEntry("$.schedule", f"{type(exc).__name__}: {text_of(exc)}") from exc


def first_runs(definition: Definition, defaults: Defaults, now: datetime, n: int) -> list[UpcomingRun]:
    """Return the first ``n`` runs of an entry that would be created now, as far as the steps of one plan take.

    Raises:
        StepsExhausted: finding the first one takes more.
    """
    policy = ResolvedPolicy.of(definition, defaults).afresh()
    first = policy.kept(policy.timetable.first(now)) if definition.enabled else None
    found: list[UpcomingRun] = []
    with suppress(OverflowError, StepsExhausted):  # those that were found are shown
        for fire_time in islice(policy.kept_from(first), min(n, policy.max_runs or n)):
            found.append(_planned(fire_time, policy, definition))
    return found


def _fire_times(stored: StoredEntry, policy: ResolvedPolicy, start: datetime | None) -> Iterator[datetime]:
    """Yield the fire times that will be run; of those that have passed, the ones that the policies let through."""
    fire_time = stored.fire_time(policy)
    if fire_time is not None and start is not None and max(fire_time, stored.now) < start:
        fire_time = policy.timetable.newest(fire_time, start)
    if fire_time is not None and fire_time <= stored.now:
        planned = plan(policy, fire_time, stored.now, run_count=stored.meta.total_run_count)
        yield from planned.runs
        fire_time = policy.kept(planned.next.fire_time)
    with suppress(OverflowError, StepsExhausted):  # the end of the calendar, or of the steps
        yield from policy.kept_from(fire_time)


def _run(fire_time: datetime, policy: ResolvedPolicy, stored: StoredEntry) -> UpcomingRun:
    note = _lateness(stored) if policy.due_at(fire_time) <= stored.now else ""
    return _planned(fire_time, policy, stored.definition, note)


def _planned(fire_time: datetime, policy: ResolvedPolicy, definition: Definition, note: str = "") -> UpcomingRun:
    timetable = policy.timetable
    notes = [
        note,
        *(of(timetable.schedule, timetable.local_zone, fire_time) for of in (part_note, roll_note, clock_change_note)),
    ]
    return UpcomingRun(
        name=definition.name,
        task=definition.task,
        fire_time=fire_time.astimezone(timezone.utc),
        local=fire_time.astimezone(timetable.local_zone),
        due_at=policy.due_at(fire_time),
        note="; ".join(filter(None, notes)),
    )


def _lateness(stored: StoredEntry) -> str:
    return f"overdue, cannot be sent: {stored.failing.error}" if stored.failing else "overdue"
