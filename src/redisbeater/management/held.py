"""What a pause of the schedule holds back: the fire times that have come and have not run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from redisbeater.context import Context
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.management.entry_filter import EVERY
from redisbeater.management.search import each_found
from redisbeater.model.policies import Anchor
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.schedules.budget import Count

__all__ = ("Held", "read_held")

#: How many entries are read to count their fire times.
MOST_READ = 1_000


@dataclass(frozen=True, kw_only=True)
class Held:
    """The fire times that have come and have not run.

    Attributes:
        entries: how many entries have some.
        fire_times: how many there are. ``misfire_grace_time`` and ``coalesce`` decide which of them run.
        is_at_least: whether there may be more of both: counting all of them would take too long.
    """

    entries: int
    fire_times: int
    is_at_least: bool = False


def read_held(context: Context) -> Held:
    """Return how many fire times have come and have not run, of 1,000 entries at most."""
    found = each_found(context, EVERY, MOST_READ + 1, states={"late"}, sort="late")
    late = [entry.stored for entry in islice(found, MOST_READ + 1) if entry.stored is not None]
    counts = [_count(context, stored) for stored in late[:MOST_READ]]
    return Held(
        entries=len(counts),
        fire_times=sum(count.number for count in counts),
        is_at_least=len(late) > MOST_READ or any(count.is_at_least for count in counts),
    )


def _count(context: Context, stored: StoredEntry) -> Count:
    """Count the fire times of an entry that is late, without those that operators have left out."""
    try:
        policy = ResolvedPolicy.of(stored.definition, context.in_zone(stored.zone).defaults).afresh()
        first = stored.fire_time(policy)
        if first is None or first > stored.now or policy.anchor is Anchor.EXECUTION:
            return Count(1)
        newest = policy.timetable.newest(first, stored.now)
        count = policy.timetable.count(first, newest)
    except Exception:  # a custom schedule is the application's code; or its fire times take too many steps
        return Count(1, is_at_least=True)
    number = count.number - sum(first < moment <= newest for moment in policy.skip)
    if policy.max_runs is not None:
        number = min(number, policy.max_runs - stored.meta.total_run_count)
    return Count(max(number, 1), count.is_at_least)
