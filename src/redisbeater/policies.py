"""What beat does with an entry that is due: which fire times it runs, and when it looks again. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from redisbeater.definition import Definition
from redisbeater.schedules import latest_fire_time, next_fire_time
from redisbeater.score import Score

__all__ = ("Plan", "plan")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The fire times to run, oldest first, and the entry's next score."""

    runs: tuple[datetime, ...]
    next: Score


def plan(definition: Definition, fire_time: datetime, now: datetime, zone: tzinfo) -> Plan:
    """Plan an entry whose fire time has come.

    A disabled entry becomes dormant. Of several fire times that have passed, the newest runs, once, and the next
    one is computed from it, so that a late run moves nothing.

    Arguments:
        fire_time: the one that is due, aware UTC, not after now.
        now: the Redis server's time.
        zone: the app's; the entry's own goes before it.
    """
    if not definition.enabled:
        return Plan(runs=(), next=Score.planned(fire_time, enabled=False))
    zone = definition.zone(zone)
    run = latest_fire_time(definition.schedule, zone, fire_time, now)
    return Plan(runs=(run,), next=Score.planned(next_fire_time(definition.schedule, zone, run)))
